"""What is learnt from small public tables, and what is drawn from it, is what is kept: habits and ids, the
mixture and its number of components, conditionals, users and their rows, priors, clips, refusals."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import fastdp
from fastdp.domain import Domain
from fastdp.public import choice, ids
from fastdp.public.archetypes import conditional, mixture, prior, store, users
from fastdp.public.archetypes import fit as fitting
from fastdp.public.archetypes.model import PublicModel
from fastdp.public.archetypes.options import Options, Step
from fastdp.public.data import PublicTable, choose_clip
from fastdp.tables.table import Table

from .figures import check, given, plain

SIZES = {"when": 6, "where": 8, "firm": 4, "pay": 4}
SHAPES: list[tuple[int, ...]] = [(), (5,), (4, 3), (3, 4, 2), (2, 3, 2, 3), (2, 1, 3, 2, 2)]


def rows(seed: int, count: int = 300, most: int = 60) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Rows of three kinds of users, some with one row; numbers of users have gaps."""
    rng = np.random.default_rng(seed)
    user = np.sort(rng.integers(0, most, count)) * 2
    kind = (user // 2) % 3
    codes = {
        "when": np.clip(np.rint(rng.normal(1 + 2 * kind, 0.8)), 0, 5).astype(int),
        "where": np.clip(np.rint(rng.normal(6 - 2 * kind, 1.0)), 0, 7).astype(int),
        "firm": np.where(rng.random(count) < 0.9, (user // 6) % 2, 1),
        "pay": (kind + rng.integers(0, 2, count)) % 4,
    }
    codes["firm"][user == user.max()] = 2  # one user alone; the last value is nobody's
    return codes, user


def table(seed: int = 1, public: bool = True, ids_: bool = True, **more: Any) -> Table:
    codes, user = rows(seed, **more)
    schema = fastdp.Schema.from_domain(SIZES, user="user" if ids_ else None)
    return Table.from_codes(schema, codes, user=user if ids_ else None, public=public)


OPTIONS = {
    "trait": Options(features=("when", "where"), trait="firm", archetypes=3, chain=None, prior=(("when",),)),
    "no trait": Options(
        features=("where",), archetypes=2, habits=("where", "firm"), prior=(("when", "where", "firm"),)
    ),
    "many": Options(
        features=("when", "where"),
        archetypes=9,
        chain=(
            Step(target="pay", given=("where", "when"), fallback=(("where",),)),
            Step(target="firm", given=("pay",)),
        ),
        seed=3,
    ),
    "auto": Options(features=("when",), trait="firm", archetypes="auto"),
}


@cache
def model(name: str, seed: int = 1) -> PublicModel:
    return fitting.fit(table(seed), OPTIONS[name], threads=1)


def fitted(name: str) -> Any:
    """A model's arrays of whole numbers; of the mixture sums that do not depend on the order."""
    m, out = model(name), []
    for key, array in m.arrays().items():
        whole = array.dtype.kind in "iu"
        out.append([key, array if whole else [array.shape, np.sort(np.abs(array), axis=None).sum()]])
    out.append([m.members, m.users, m.mean_rows, m.sizes.arrays(), m.rows_per_user, m.describe()])
    out.append([m.expected("pay"), [m.clip_factor(k) for k in (1, 3, 50)], m.evidence, m.size])
    return plain(out)


def drawn(name: str) -> Any:
    m, out = model(name), []
    rng = np.random.default_rng(5)
    wanted = rng.gamma(1.0, 6.0, m.users.shape)
    for limit, bound, mean in ((10**6, None, False), (90, 4, False), (150, None, True), (0, None, False)):
        people = users.cast(m, wanted, limit, bound, mean, 7)
        out.append([people.archetype, people.trait, people.ends])
        for size in (1 << 20, 40):
            made = users.CastRows(m, people, 9, size)
            parts = [i for i in range(-(-made.total // size))]
            out.append([made.total, [made.owners(i) for i in parts], [made.shard(i) for i in parts]])
    out.append(users.cast(m, np.zeros(m.users.shape), 100, None, False, 7).ends)
    return plain(out)


class Drawn:
    """Rows of a model, as a sampler gives them."""

    def __init__(self, total: int, size: int):
        self.total, self.shard_rows = total, size
        self.codes, _ = rows(8, total)
        self.codes["firm"][2 * size :] = 1  # a shard without the first value
        self.codes["firm"][:3] = 3

    def shard(self, i: int) -> dict[str, np.ndarray]:
        return {k: v[i * self.shard_rows : (i + 1) * self.shard_rows] for k, v in self.codes.items()}


def dealt(name: str) -> Any:
    m, out = model(name), []
    wanted = np.random.default_rng(6).gamma(1.0, 6.0, m.users.shape)
    none, one = np.zeros(m.users.shape), wanted.copy()
    one[:, 0] = 0
    for asked in (wanted, none, one, wanted * 40):
        for habits in users.models(m, asked, np.random.default_rng(1)):
            out.append([habits.users, habits.rows, habits.indptr[-5:], habits.cells[-5:], habits.counts[:5]])
        for bound in (None, 3) if asked is wanted else (None,):
            made = users.DealtRows(Drawn(130, 50), m, asked, bound, 11)
            made.shard(1)
            out.append([made.owners(i) for i in (1, 0, 2, 0)])
    return plain(out)


def habits_of(shape: tuple[int, ...], seed: int = 3) -> tuple[list[str], dict, ids.Habits]:
    rng = np.random.default_rng(seed)
    names = [f"c{i}" for i in range(len(shape))]
    public = {a: rng.integers(0, n, 160).astype(np.uint8) for a, n in zip(names, shape)}
    codes = {a: rng.integers(0, n, 250).astype(np.uint8) for a, n in zip(names, shape)}
    return names, codes, ids.Habits.from_rows(names, shape, rng.integers(0, 30, 160) * 3, public)


def ids_dealt() -> Any:
    """For every number of columns; how many rows are public, fewer or more than are dealt, changes whom they
    are dealt to."""
    out = []
    for shape in SHAPES:
        _, codes, habits = habits_of(shape)
        out.append([habits.indptr, habits.cells, habits.counts, habits.rows_per_user()])
        for number in (1, 20, 161, 250):
            for bound in (None, 1, 4, 6):
                some = {a: c[:number] for a, c in codes.items()}
                owner, there = ids.deal(some, number, habits, bound=bound, seed=number, threads=1)
                out.append([there, owner])
    return plain(out)


def ids_by_size() -> Any:
    out, rng = [], np.random.default_rng(4)
    for number in (0, 1, 7, 200):
        for sizes, count in (
            ([1, 2, 3, 9], [5.0, 2.0, 1.0, 0.5]),
            ([1, 4], [-3.0, 0.0]),
            ([0, 2, 5], [9.0, -1.0, 2.0]),
            ([30], [1.0]),
            ([1, 2, 5, 8, 13], rng.normal(3, 4, 5)),
        ):
            out.append(ids.deal_by_size(number, np.array(sizes), np.array(count), seed=number))
    for seed in range(6):
        weight, size = rng.normal(1, 1, 8), rng.integers(0, 5, 8)
        size[0], weight[0] = 3, 2.5
        out.append(ids._take(np.maximum(weight, 0), size, 60, np.random.default_rng(seed)))
        out.append(ids._take(np.zeros(8), size, 9, np.random.default_rng(seed)))
    return plain([out, [ids._rounds(n) for n in range(6)]])


def ids_refused() -> Any:
    names, codes, habits = habits_of((4, 3))
    empty = ids.Habits.from_rows(names, (4, 3), np.zeros(0, int), {a: np.zeros(0, int) for a in names})
    wide = {"a": np.zeros(2, int), "b": np.ones(2, int)}
    return [
        given(ids.deal, codes, 2**32 - 1, habits, bound=None, seed=1),
        given(ids.deal, codes, 2**32 - 2, empty, bound=None, seed=1),
        given(ids.deal, codes, 0, habits, bound=None, seed=1),
        given(ids.deal, codes, 0, empty, bound=None, seed=1),
        given(ids.deal, codes, 1, empty, bound=None, seed=1),
        given(lambda: [empty.users, empty.rows, empty.rows_per_user()]),
        given(ids.cell_numbers, wide, ("a", "b"), (2**16, 2**16), 2),
        given(ids.cell_numbers, wide, ("a", "b"), (2**16 - 1, 2**16 + 1), 2),
        given(ids.cell_numbers, wide, ("a", "b"), (2**31, 3), 2),
    ]


def conditionals() -> Any:
    """Levels that are looked up in a table and, beyond its limit, by halving."""
    out, rng = [], np.random.default_rng(2)
    cells = np.unique(rng.integers(0, 40, 25))
    counts = rng.integers(0, 4, cells.size)
    some = conditional.Groups.of(cells, counts, 5)
    out += [some.arrays(), some.upto]
    for wide in ((6, 7), (5000, 6000), (1 << 12, 1 << 12), (1 << 12, (1 << 12) + 1)):
        keys = np.unique(rng.integers(0, wide[0] * wide[1], 12))
        near = conditional.Groups.of(keys * 3, rng.integers(1, 5, keys.size), 3)
        first = np.unique(np.concatenate([keys // wide[1] * 3 + k for k in (0, 2)]))
        less = conditional.Groups.of(first, rng.integers(1, 5, first.size), 3)
        always = conditional.Groups.of(np.arange(3), np.array([5, 0, 2]), 3)
        levels = (("x", "y"), ("x",), ())
        link = conditional.Link("z", levels, (wide, wide[:1], ()), (near, less, always))
        x, y = np.divmod(rng.choice(keys, 60), wide[1])
        y = np.where(rng.random(60) < 0.3, (y + 1) % wide[1], y)
        x = np.where(rng.random(60) < 0.3, (x + 1) % wide[0], x)
        out.append([link.joined.arrays(), [p is None for p in link.places]])
        out.append(link.draw({"x": x, "y": y}, 60, np.random.default_rng(1)))
        out.append(link.draw({"x": x[:0], "y": y[:0]}, 0, np.random.default_rng(1)))
    return plain(out)


def mixtures() -> Any:
    out = []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        points = np.unique(rng.integers(0, 12, (60, 1 + seed % 3)), axis=0)
        counts = rng.integers(0, 9, points.shape[0])
        counts[0] = 4
        for size, options in ((1, {}), (2, {}), (4, {"starts": 1}), (3, {"tol": 1e-8, "floor": 0.3})):
            m = mixture.fit(points, counts, size, seed=seed, **options)
            order = np.lexsort(m.means.T)
            out.append([m.centre, m.spread, m.weights[order], float(np.abs(m.covariances).sum())])
            out.append([float(m.log_density(points).sum()), np.bincount(m.labels(points))[order[0]]])
        x = rng.normal(size=(7, 2))
        out.append([np.abs(mixture.monomials(x)), np.exp(mixture.log_sum(x.copy() - 700))])
        out.append(mixture.kmeans(x, np.full(7, 1 / 7), 3, np.random.default_rng(seed)))
        out.append(
            mixture.kmeans(np.repeat(x[:2], 3, axis=0), np.full(6, 1 / 6), 4, np.random.default_rng(1))
        )
    empty = mixture.fit(np.array([[1.0], [2.0]]), np.array([3, 5]), 5, seed=1)
    out.append([np.sort(empty.weights), given(mixture.fit, np.ones((2, 1)), np.zeros(2), 1)])
    return plain(out)


def numbers() -> Any:
    """How many archetypes are chosen, and by which evidence."""
    out = []
    for seed in range(3):
        codes, user = rows(seed, 200, 30)
        cell = codes["when"] * 8 + codes["where"]
        points = np.stack(np.unravel_index(np.arange(48), (6, 8)), axis=1)
        user, count = fitting._dense(user)
        chosen, evidence = fitting.choose(points, cell, user, count, seed, candidates=(1, 2, 3, 5))
        out.append([chosen, [list(e.values()) for e in evidence]])
    one = fitting.choose(points, cell[:4], np.zeros(4, int), 1, 0, candidates=(1, 2))
    out.append([one[0], one[1][0]["log_likelihood"]])
    out.append(fitting.most_common(user, codes["pay"][: user.size], 4, count, np.random.default_rng(1)))
    labels = fitting.label_cells(model("trait").mixture, points, 7)
    out.append([np.bincount(labels[a:b], minlength=3) for a, b in ((0, 16), (16, 48))])
    return plain(out)


def priors() -> Any:
    out = []
    for seed, cliques in enumerate(
        ([("when", "where"), ("where", "pay")], [("when", "where", "firm")], [()])
    ):
        t = table(seed + 1)
        cliques = [c for c in cliques if c]
        counted = prior.tree_cliques(t.domain, cliques)
        made = fitting._prior(t, cliques or None, 1)
        m = prior.prior_model(t.domain, made, 500.0, 1)
        tables = [
            [n.sep, n.res, np.square(n.table).sum(), np.asarray(n.table).reshape(-1)[::5]] for n in m.nodes
        ]
        out.append([counted, list(made), m.total, m.ended, tables])
    rng = np.random.default_rng(3)
    domain = Domain({"a": 2, "b": 3, "c": 2, "d": 4})
    for sep in ((), ("a",), ("a", "b"), ("b", "a", "c")):
        joint = rng.poisson(1.5, domain.shape((*sep, "d")))
        out.append(prior.smoothed(domain, joint, sep, ("d",)))
    cells = {("a", "b"): (np.arange(6), np.arange(6))}
    out.append(given(prior._joint, domain, cells, ("a", "c")))
    out.append(given(prior._joint, domain, cells, ("b", "a")))
    return plain(out)


def associated() -> Any:
    out = []
    for seed in range(4):
        t = table(seed + 20, count=80 + 60 * seed)
        public = PublicTable(t)
        out.append(
            [public.associations(), choice.associations(t, max_cells=23), choice.associations(t, None, 24)]
        )
        out.append(choice.associations(t, {"where": np.array([0, 0, 1, 1, 2, 2, 3, 3])}))
        out.append(
            [
                public.choose_outer(),
                public.choose_outer(2),
                public.choose_outer(3, 47),
                public.choose_outer(3, 48),
            ]
        )
        out.append([public.prior_cliques(), public.habits(("pay", "when")).rows_per_user()])
        out.append(public.marginals([("pay",), ("firm", "pay")]))
    empty = Table.from_codes(t.schema, {k: v[:0] for k, v in t.codes.items()}, user=t.user[:0], public=True)
    out += [given(choice.associations, empty), given(choice.choose_outer, empty)]
    with np.errstate(all="raise"):  # no rows are no division by 0
        out.append(given(choice.mutual_information, np.zeros((2, 3))))
    out.append(
        [choice.mutual_information(np.array(x)) for x in ([[0, 0]], [[3, 0], [0, 3]], [[1, 2], [2, 4]])]
    )
    return plain(out)


def clips() -> Any:
    out = []
    for seed in range(4):
        sizes = np.random.default_rng(seed).geometric(0.15, 60)
        for noise, number, options in (
            ([5.0] * 4, None, {}),
            ([0.2] * 9, 10**6, {"bound": 12}),
            ([40.0], 7, {"displaced": 2.5, "also": (1, 3, 400)}),
            ([2.0] * 3, 0, {"bound": 1}),
        ):
            out.append(given(choose_clip, sizes, noise, number, **options))
        out.append(given(choose_clip, np.append(sizes, [0, 0]), [3.0]))
    out.append(given(choose_clip, np.zeros(3, int), [3.0]))
    return plain(out)


def _without_pay() -> Any:
    t = table()
    codes = {k: v for k, v in t.codes.items() if k != "pay"}
    return SimpleNamespace(public=True, user=t.user, rows=t.rows, domain=t.domain, codes=codes)


def refused() -> Any:
    codes, _ = rows(1, 20)
    schema = fastdp.Schema.from_domain(SIZES, user="user")
    options, private, nobody = OPTIONS["trait"], table(public=False), table(ids_=False)
    none = Table.from_codes(schema, {k: v[:0] for k, v in codes.items()}, user=np.zeros(0, int), public=True)
    public = PublicTable(nobody)
    out = [
        given(fitting.fit, private, options),
        given(fitting.fit, nobody, options),
        given(fitting.fit, none, options),
        given(PublicTable, private),
        given(public.check_habits),
        given(public.habits, ("when",)),
        given(public.check_archetypes, {"features": ["when"]}),
        given(PublicTable(table()).check_archetypes, {"features": ["x"]}),
        given(PublicTable(table()).check_archetypes, {"features": ["when"]}),
        given(fitting.fit, table(), Options(features=("when",), chain=())),
        given(fitting.fit, table(), Options(features=("when",), chain=(Step(target="x", given=()),))),
        given(fitting.fit, _without_pay(), OPTIONS["trait"]),
    ]
    for fields in (
        {"features": ()},
        {"features": ("when",), "archetypes": 0},
        {"features": ("when",), "archetypes": 1000},
        {"features": ("when",), "archetypes": 1001},
    ):
        out.append(given(lambda fields=fields: Options(**fields)))
    for sizes in ({"a": 1 << 13, "b": 1 << 13}, {"a": 1 << 13, "b": (1 << 13) + 1}):
        wide = Domain(sizes)
        out.append(given(lambda wide=wide: Options(features=("a", "b")).resolve(wide)))
    return out


def folder() -> Any:
    """A saved model: what its head says, and how each kind of damage and wrong use is refused."""
    out: list[Any] = []
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "deep" / "er" / "model"
        m, schema = model("trait"), table().schema
        store.save(m, schema, path)
        out.append(_said(path, store.save, m, schema, path))
        (Path(name) / "file").write_text("")
        out.append(_said(path, store.save, m, schema, Path(name) / "file" / "model"))
        out.append(store.save(m, schema, path.with_name("second")).name)  # beside the first
        head = json.loads((path / store.HEAD).read_text())
        out.append([list(head), sorted(p.name for p in path.iterdir())])
        again = store.load(path)
        out.append([k for k, v in m.arrays().items() if not np.array_equal(v, again.arrays()[k])])
        saved = store.Saved(path)
        for ask in (
            partial(saved.marginals, []),
            saved.associations,
            saved.check_habits,
            partial(saved.habits, ()),
            saved.choose_outer,
            saved.prior_cliques,
            partial(saved.check_archetypes, {"archetypes": 4, "trait": "firm"}),
            partial(saved.check_archetypes, {"archetypes": 4, "trait": "pay"}),
            partial(saved.check_archetypes, {"archetypes": 3}),
            lambda: saved.archetypes({"archetypes": 3}).size,
            lambda: [store.is_folder(x) for x in (path, str(path), name, 5, None)],
            lambda: [store.schema_of(name), store.schema_of(str(path)).digest() == schema.digest()],
            lambda: store.Saved(name),
            lambda: store.load(name),
        ):
            out.append(_said(path, ask))
        for change in (
            {"format": "x"},
            {"version": 2},
            {"arrays": {"../labels": "0"}},
            {"arrays": {".labels": "0"}},
            {"arrays": {"labels": "0"}},
            {"arrays": {"nothing": "0"}},
            {"arrays": {}},
            {"options": {"features": []}},
            {"domain": {"when": 0}},
            {"prior": None},
        ):
            (path / store.HEAD).write_text(json.dumps(head | change))
            out.append(_said(path, store.load, path))
        (path / store.HEAD).write_text(json.dumps([]))
        out.append(_said(path, store.load, path))
    return out


def _said(path: Path, call: Callable[..., Any], *arguments: Any) -> Any:
    said = given(call, *arguments)
    root = str(path.parents[2])
    return said.replace(root, "ROOT") if isinstance(said, str) else said


CASES: dict[str, Callable[[], Any]] = {
    **{f"fitted, {name}": partial(fitted, name) for name in OPTIONS},
    **{f"drawn, {name}": partial(drawn, name) for name in OPTIONS},
    **{f"dealt, {name}": partial(dealt, name) for name in OPTIONS},
    "ids dealt": ids_dealt,
    "ids by size": ids_by_size,
    "ids refused": ids_refused,
    "conditionals": conditionals,
    "mixtures": mixtures,
    "numbers": numbers,
    "priors": priors,
    "associated": associated,
    "clips": clips,
    "refused": refused,
    "folder": folder,
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_learnt_in_public_is_what_is_kept(name):
    check("public", name, CASES[name]())
