"""What mechanisms make of released numbers is what is kept: limits of size, empty columns, merged and
expanded codes, looks and batches, workloads, public starts, groupings, halvings, constraints; also exactly at
their limits."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

import fastdp
from fastdp.domain import Domain
from fastdp.measurement import Measurement
from fastdp.mechanisms.base import Ids
from fastdp.mechanisms.parts import (
    common,
    compress,
    emptiness,
    grouping,
    halving,
    limits,
    looks,
    merged,
    portions,
    publicstart,
    publictree,
    regions,
    sizes,
    tree,
    workload,
    zeros,
)
from fastdp.mechanisms.parts.looks import Candidate

from . import test_fits
from .figures import check, given, plain

DOMAIN = Domain({"a": 6, "b": 9, "c": 4, "d": 3, "e": 1, "f": 12})
PAIRS = list(combinations(DOMAIN, 2))


def ones(seed: int, sigma: Any = 8.0, rows: float = 900.0, domain: Domain = DOMAIN) -> list[Measurement]:
    rng = np.random.default_rng(seed)
    out = []
    for a, n in domain.items():
        counts = np.sort(rng.dirichlet(np.full(n, 0.3)) * rows)[::-1]
        spread = sigma if n % 2 else np.full(n, sigma)
        out.append(Measurement((a,), counts + sigma * rng.normal(size=n), spread))
    return out


def limited() -> Any:
    out = []
    for memory in (None, 1 << 24, 3_999_999, 4_000_000, 10**9, 10**9 + 399, 10**9 + 400):
        for deadline in (None, 0.001, 0.02, 30, 1e4):
            out.append(limits.model_cells(None, memory, deadline))
            out.append(limits.model_cells(None, memory, deadline, 77))
        out.append(limits.model_cells(5, memory, 1.0))
        for public in (False, True):
            out.append([limits.pair_cells(memory, most, public) for most in (7, 10_000, 10**6, 10**12)])
    for memory, deadline in (((1 << 24) - 1, None), (1 << 24, None), (None, 0), (None, -1), (None, 1e-9)):
        out.append(given(limits.check, memory, deadline))
    out += [given(limits.check, None, float(x)) for x in ("inf", "nan")]
    texts = ("4G", "512M", "2000000000", "1k", " 3 KiB ", "1.5T", "7B", "2gb", "", "G", "x", "inf", "-1M")
    out += [given(limits.parse_bytes, text) for text in texts]
    domain = test_fits.DOMAIN
    for size in (0, 59, 60, 61):
        out.append(given(sizes.fixed_size, domain, [("a", "b")], [("c", "d")], size))
    out.append(given(sizes.fixed_size, domain, [("a", "b")], [], 0))
    largest = sizes.LargestModel(100, True, (("a", "b"), ("c", "d")), 80)
    for most in (None, 79, 80, 99, 100):
        out.append(given(sizes.check_size, largest, domain, most))
        out.append(given(sizes.check_size, sizes.LargestModel(100, False), domain, most))
    out += [sizes.LargestModel(100).within(n) for n in (99, 100)]
    fixed = (("a", "b"), ("b", "c"))
    out += [sizes.largest_forest(domain, most, f) for most in (8, 12, 10**6) for f in ((), fixed, fixed[:1])]
    return plain(out)


def emptied() -> Any:
    """Columns on both sides of every limit, also just at it."""
    columns = {
        "x": {"kind": "categorical", "values": ["u", "v"], "null": "code", "overflow": "code"},
        "y": {"kind": "categorical", "values": ["u", "v"], "null": "code", "overflow": "drop"},
        "z": {"kind": "categorical", "values": ["u", "v"], "null": "drop", "overflow": "drop"},
    }
    schema = fastdp.Schema.from_dict({"fastdp": 1, "name": "t", "columns": columns})
    out: list[Any] = [[[n, c.size, c.null_code, c.overflow_code] for n, c in schema.columns.items()]]
    rest = [np.array([1000.0, 0, 0][: schema.columns[n].size]) for n in ("y", "z")]
    for values in (
        [0, 0, 1000, 0],
        [0, 0, 0, 1000],
        [3, 2, 995, 0],
        [3, 3, 994, 0],
        [3, 2, 300, 695],
        [500, 0, 500, 0],
        [-3, 0, 1003, 0],
        [0, 0, 500, 500],
        [0, 0, -100, 1100],
    ):
        for sigma in (0.01, 1.0, 5.0, 9.0, 40.0, 60.0, 90.0):
            seen = [Measurement(("x",), np.array(values, float), sigma)]
            seen += [Measurement((n,), v, 0.5) for n, v in zip("yz", rest)]
            found = emptiness.empty_columns(schema, seen)
            twice = emptiness.empty_columns(schema, [*seen, Measurement(("x",), np.ones(4), sigma * 2)])
            out.append([found, [str(e) for e in found], len(twice)])
    out.append(emptiness.empty_columns(schema, seen, ["x"]))
    half = [Measurement(("x",), np.array([0.0, 0, 0.5, 0]), 1e-6)]
    others = [Measurement(("w",), np.full(4, 250.0), 1.0), Measurement(("x",), np.array([900.0, 100.0]), 1.0)]
    full = [Measurement(("x",), np.array([0.0, 0, 1000, 0]), 1.0), *others]
    out += [emptiness.empty_columns(schema, half), emptiness.empty_columns(schema, full)]
    none = [Measurement(("x",), np.array([0.0, 0, -5, 0]), 1.0)]
    out += [emptiness.empty_columns(schema, none), str(emptiness.EmptyColumn("x", 0.005, 0.0049))]
    return plain(out)


def impossible(seed: int) -> dict:
    rng = np.random.default_rng(seed)
    masks = {c: rng.random(DOMAIN.shape(c)) < 0.4 for c in (("a", "b"), ("b", "c", "d"))}
    masks["a", "b"][3:5] = masks["a", "b"][2]
    return masks


def merging() -> Any:
    out = []
    for seed in range(6):
        seen = ones(seed, 4.0 + 5 * seed)
        for rare, most, masks in (
            (3.0, 1 << 24, {}),
            (1.0, 150, {}),
            (2.0, 60, impossible(seed)),
            (0.0, 9, {}),
        ):
            m = merged.merge(DOMAIN, seen, rare, most, masks)
            out.append([m.codes, m.total, m.given_up, m.notes, m.domain, m.zeros, m.spoilt])
            out.append([[x.values, x.sigma] for x in m.ones])
            out.append([m.shape["f"], m.independent([("a", "b"), ("b", "c", "d")])["a", "b"].sum(axis=0)])
        out.append([merged.crowding(seen, t, s) for t in (-1.0, 0.0, 900.0) for s in (0.1, 3.0)])
        again = [merged.averaged(seen, ones(seed + 9, s)) for s in (2.0, 30.0)]
        out.append([[float(np.abs(x.values).sum()), x.sigma] for pair in again for x in pair])
    out.append([merged.largest_within({"a": 5, "b": 9, "c": 3}, n) for n in range(0, 100, 3)])
    out.append([merged.largest_within({}, 5), merged.largest_within({"a": 9}, 0)])
    for most, largest in ((100, 10**6), (3, 10**6), (2, 36), (1, 35), (0, 9)):
        out.append(merged.all_pairs(DOMAIN, most, largest))
    one = Measurement(("f",), np.array([60.0, 50, 9, 5, 3, 2, 1, 0, 0, -3, -4, -6]), 2.0)
    for total in (219.9, 220.0, 220.1, 500.0):
        out.append(merged.shape_of(one, np.arange(12) >= 2, total))
    out.append([merged.shape_of(one, np.arange(12) >= n, 500.0) for n in (8, 9, 10, 12)])
    close = Measurement(("f",), 3 + np.arange(12) / 40, 0.01)  # squares that add up to less than 1
    out.append(merged.shape_of(close, np.ones(12, bool), 500.0))
    flat = Measurement(("f",), np.full(12, 5.0), 2.0)
    out.append([merged.shape_of(flat, np.ones(12, bool), 500.0), merged.effective_cells(one.values, 0.0)])
    return plain(out)


def expanded() -> Any:
    out = []
    for seed in range(2):
        rng = np.random.default_rng(seed)
        codes = {a: compress.merge_rare(m, 3.0) for a, m in zip(DOMAIN, ones(seed, 20.0))}
        made = compress.Compression(DOMAIN, codes)
        out.append([made.codes, made.domain, made.table(), made.code_map("f"), made.zeros(impossible(seed))])
        rows = {a: rng.integers(0, n, 40) for a, n in made.domain.items()}
        weights = {"f": rng.integers(0, 3, 12).astype(float), "b": np.zeros(9)}
        spread = {"f": ("a", "b"), "b": ("f",)}
        for masks, even in (({}, {}), ({}, spread), (impossible(seed), spread)):
            expansion = compress.Expansion(made, weights, masks, seed, even)
            out += [expansion(rows), expansion.reseeded(9)({a: c[:9] for a, c in rows.items()}, 3)]
        out.append([compress.alike(impossible(seed), a) for a in DOMAIN])
        keep = rng.random(9) < 0.5
        out.append([compress.merge_outside(keep, c) for c in (None, rng.integers(0, 3, 9))])
        out.append(compress.merge_outside(np.ones(4, bool), np.arange(4)))
    with patch.object(compress, "MAX_TUPLES", 7):  # a random part of the combinations
        out.append(compress.Expansion(made, weights, impossible(1), 3)({a: c[:12] for a, c in rows.items()}))
    tight = {("a", "b"): np.ones(DOMAIN.shape(("a", "b")), bool)}
    plainly = compress.Compression(DOMAIN, {})
    rows = {a: np.zeros(5, int) for a in DOMAIN}
    out.append(given(compress.Expansion(plainly, None, tight), rows))
    loop = {("a", "d"): np.zeros((6, 3), bool), ("c", "d"): np.zeros((4, 3), bool)}
    loop["a", "d"][0, :2], loop["c", "d"][0, 2] = True, True  # a = 0 and c = 0 never meet
    rows = {a: np.arange(8) % DOMAIN[a] * (np.arange(8) % 3 > 0) for a in DOMAIN}
    out.append(compress.Expansion(plainly, None, loop, 5)(rows))
    out.append(compress.Expansion(plainly, None, loop, 5)({a: c[:1] for a, c in rows.items()}))
    for wrong in (np.ones(11), np.full(12, -1.0), np.full(12, np.nan), np.full(12, np.inf)):
        out.append(given(lambda wrong=wrong: compress.Expansion(plainly, {"f": wrong})(rows)["f"]))
    key = compress._sorted([np.array([2, 0, 2, 1]), np.array([1, 0, 1, 0])], (1 << 40, 1 << 40))
    out += [key, compress._sorted([np.zeros(0, int)], (3,)), compress._components(DOMAIN, impossible(1))]
    chained = {("a", "b"): None, ("c", "d"): None, ("b", "e"): None, ("e", "f"): None}
    out.append(compress._components(DOMAIN, chained))
    return plain(out)


def looked() -> Any:
    out = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        estimates = {p: rng.gamma(0.3, 30.0, DOMAIN.shape(p)) for p in PAIRS}
        far = [float(x) for x in rng.gamma(1.0, 150.0, len(PAIRS))]
        weight = {p: float(rng.choice([0.1, 0.5, 1.0])) for p in PAIRS}
        scored = looks.candidates(PAIRS, estimates, far, 9.0, 900.0, weight)
        scored += [Candidate(("a", "b", "c"), 300.0, 40.0, 0.5, 200.0, rests) for rests in (False, True)]
        out.append([[c, c.removed, c.gain(2.0), c.worth(2.0), c.portion] for c in scored])
        out.append(looks.forest([c for c in scored if len(c.clique) == 2], DOMAIN))
        for least, sigma in ((0.0, 3.0), (90.0, 1.0)):
            worth = looks.worthwhile(scored, sigma, least)
            out.append([c.clique for c in worth])
            for limit in (0, 120, 400, 10**6):
                chosen = looks.fitting(worth, looks.Structure(DOMAIN, [("d", "e")]), limit)
                out.append([c.clique for c in chosen])
            for held, before in (([], 0.0), (worth[:2], 0.4)):
                batch = looks.affordable_batch(worth[2:], held, before, 0.2)
                out.append([c.clique for c in batch])
                out.append(
                    looks.divide([*held, *batch], dict.fromkeys((c.clique for c in held), before / 2), 0.2)
                )
        spoilt = {a: float(rng.random() * 0.05) for a in DOMAIN}
        for size in (0.5, 60.0):
            noise = dict.fromkeys(PAIRS, size)
            out.append(looks.accounted(dict(zip(PAIRS, far)), noise, spoilt, 900.0))
    out.append(
        [looks.accounted({}, {}, {}, 5.0), looks.accounted({("a", "b"): 1.0}, {("a", "b"): 0.0}, spoilt, 0.0)]
    )
    lone = {("a", "b"): 100.0}, {("a", "b"): 70.0}, dict.fromkeys("ab", 0.0)
    out += [looks.accounted(*lone, 500.0), looks.accounted(lone[0], {("a", "b"): 90.0}, lone[2], 500.0)]
    equal = Candidate(("a", "b"), 10.0, 5.0)
    step = looks.NOISE * 5.0
    out.append([len(looks.worthwhile([equal], 1.0, least)) for least in (10.0 - step, 10.0 - 1.01 * step)])
    out.append([len(looks.fitting([equal], looks.Structure(DOMAIN), n)) for n in (72, 73, 74, 75, 1000)])
    seen = looks.Seen([("a",), ("b",)], {}, [1.0, 2.0], [3.0, 4.0], [5.0, 6.0])
    out.append(
        [seen.over({("b",): np.ones(9)}), portions.divided_by({"x": 1.0, "y": 8.0}), portions.portion(27.0)]
    )
    two = [Candidate(("a", "b"), 9.0, 8.0), Candidate(("c", "d"), 9.0, 1.0)]
    for had in (0.0, 0.1, 0.25, 1.0, 4.0):
        out.append(looks.divide(two, {("c", "d"): had}, 1.0))
    return plain(out)


def worked() -> Any:
    out = []
    items = [
        ["a", "b"],
        workload.WorkloadItem(columns=("b", "c", "d", "f"), weight=3.0),
        ["f", "b"],
        ["a", "b"],
    ]
    for chosen, target in ((items, None), ([], "c"), (items[:1], "d"), ([], None)):
        made = workload.Workload(DOMAIN, chosen, target)
        out.append([made.items, [made.weight(p) for p in PAIRS], made.spread(), made.larger(DOMAIN)])
        half = made.halving(DOMAIN)
        out.append(None if half is None else [half.columns, half._items, half._size, half._weight])
        fit = test_fits.DOMAIN
        some = [c for c in (["a", "b"], ["c", "d"], ["b", "c", "e"]) if chosen]
        model = fastdp.fit(fit, test_fits.measured("tree"), stop="risk", threads=1)
        small = workload.Workload(fit, some, "a" if target else None)
        for total in (0.0, 4000.0, 1.0):
            out.append(small.fared(model, total, {("a", "b"): (900.0, 30.0), ("c", "d"): (-5.0, 3.0)}))
        out.append(small.fared(model, 4000.0))
    wide = Domain({f"c{i}": 2 for i in range(9)})
    long = workload.Workload(wide, [list(wide)[:7], list(wide)[3:9]])
    out.append([len(long.larger(wide)), long.larger(wide)[::9]])
    for fields in ({"columns": ()}, {"columns": ("a", "a")}, {"columns": ("a",), "weight": 0.0}):
        out.append(given(lambda fields=fields: workload.WorkloadItem(**fields)))
    out += [given(lambda w=w: workload.WorkloadItem(columns=("a",), weight=float(w))) for w in ("inf", "nan")]
    out.append(given(workload.Workload, DOMAIN, [["a", "x"]]))
    return plain(out)


class Tables:
    """Public marginals of random rows."""

    schema = SimpleNamespace(domain=DOMAIN)

    def __init__(self, seed: int, rows: int):
        rng = np.random.default_rng(seed)
        self.codes = {a: np.minimum(rng.geometric(0.3, rows), n) - 1 for a, n in DOMAIN.items()}
        self.asked: list[int] = []

    def marginals(self, cliques: list, recode: Any = None) -> dict:
        self.asked.append(len(cliques))
        out = {}
        for c in cliques:
            columns = [self.codes[a] if a not in (recode or {}) else recode[a][self.codes[a]] for a in c]
            shape = [DOMAIN[a] if a not in (recode or {}) else int(recode[a].max()) + 1 for a in c]
            table = np.zeros(shape, np.int64)
            np.add.at(table, tuple(columns), 1)
            out[c] = table
        return out


class Asked:
    """A session that answers distances from itself, and remembers what it was asked."""

    mu = 1.5

    def __init__(self, seed: int):
        self.rng, self.asked = np.random.default_rng(seed), []

    def distances(
        self, cliques: list, estimates: Any, *, mu: float, label: str, weights: Any = None, **_: Any
    ):
        self.asked.append([list(cliques), mu, label, weights])
        values = [float(np.sum(estimates[c])) * self.rng.choice([0.02, 0.2, 0.9]) for c in cliques]
        return SimpleNamespace(values=np.array(values), sigma=np.full(len(cliques), 20.0))


def started() -> Any:
    few: Any = Tables(1, 0)
    out: list[Any] = [publicstart.PublicStart.of(None), publicstart.PublicStart.of(few)]
    for seed in range(4):
        public, session = Tables(seed, 200 + 500 * seed), Asked(seed)
        start = publicstart.PublicStart.of(public)  # type: ignore[arg-type]
        assert start is not None
        seen = ones(seed, 30.0)
        out.append([[m.values, m.sigma] for m in start.ones(seen)])
        out.append(len(start.ones([Measurement(("a",), -np.ones(6), 1.0)])))
        m = merged.merge(DOMAIN, seen, 2.0)
        estimates = m.independent([*PAIRS, ("a", "b", "c")])
        starts = publicstart.Starts(start, session, m.codes)  # type: ignore[arg-type]
        weight = dict.fromkeys(estimates, 1.0) | {("a", "b"): 0.3}
        for label in ("first", "second"):
            out.append(starts.look(estimates, weight, 20.0, 0.3, label))
            scored = looks.candidates(
                list(estimates), estimates, [400.0] * len(estimates), 9.0, m.total, weight
            )
            out.append(starts.improved(scored, estimates, 20.0, 9.0, m.total))
            out.append([c in starts._believed for c in estimates])
            starts.take(list(estimates))
        answers = [Measurement(c, estimates[c].reshape(-1) + 3.0, 9.0) for c in list(starts.taken)[:4]]
        made = starts.measurements(answers)
        out.append([[x.clique, float(np.square(x.values).sum()), float(np.sum(x.sigma))] for x in made])
        out += [starts.describe(answers), starts.notes(answers), session.asked, sorted(starts.refused)]
        rng = np.random.default_rng(seed)
        table, estimate = rng.gamma(0.5, 9.0, (4, 5)), rng.gamma(0.5, 20.0, (4, 5))
        table[1] = 0
        raked = publicstart.raked_to(table, estimate)
        out += [raked, [publicstart.shrunk(table, estimate, rows) for rows in (1, 30, 10**6)]]
        out.append(publicstart.shrunk(estimate, estimate, 40))
        far, near = rng.gamma(2.0, 50.0, 7), rng.gamma(2.0, 30.0, 7)
        for which in (
            near.tolist(),
            [None, *near[1:].tolist()],
            [None] * 7,
            [*near[:1].tolist(), *[None] * 6],
        ):
            out.append(publicstart.judged(far.tolist(), which, (near + 20).tolist(), [9.0] * 7))
        out.append(publicstart.judged([90.0], [20.0], [80.0], [5.0]))
        for size in (3, 9):
            answer = Measurement(("b",), rng.normal(20, 9, size), 3.0)
            for other in (answer.values + 1, np.abs(answer.values) * 9, np.full(size, 20.0)):
                given_start = publicstart.beside(answer, np.abs(other), 0.4)
                out.append(None if given_start is None else [given_start.values, given_start.sigma])
        pairs = publictree.look_at_pairs(Asked(seed), m, start, 0.2, 12.0)  # type: ignore[arg-type]
        out += [pairs.spent, pairs.tree(m.domain), [pairs.strength(c) for c in pairs.pairs]]
        held = zeros.Zeros(impossible(seed), (("a", "f"),))
        for ways, most in ((2, 10**6), (3, 10**6), (3, 60)):
            out.append([pairs.outer(m.domain, ways, most), pairs.outer(m.domain, ways, most, held)])
        out.append(pairs.tree(m.domain, held))
    lone = Domain({"a": 1, "b": 5})
    few = merged.merge(lone, ones(1, 3.0, domain=lone), 1.0)
    out.append(publictree.look_at_pairs(Asked(1), few, start, 0.2, 12.0).spent)  # type: ignore[arg-type]
    return plain(out)


def grouped() -> Any:
    out = [[grouping.level(n, size) for n in range(size + 1)] for size in (1, 2, 3, 7, 20)]
    for seed in range(5):
        rng = np.random.default_rng(seed)
        clique = ("a", "b", "c")
        children = {c: np.round(rng.gamma(0.4, 40.0, DOMAIN.shape(c))) for c in combinations(clique, 2)}
        bounds = grouping.row_bounds(clique, DOMAIN, children)
        singles = {a: rng.gamma(0.5, 90.0, DOMAIN[a]) for a in clique}
        out.append(bounds)
        for sigma in (0.01, 3.0, 9.0, 50.0):
            made = grouping.grouped(clique, DOMAIN, bounds, singles, sigma)
            out.append(None if made is None else [made.bins, made.maps])
        at = np.sort(bounds[1])[3] / grouping.STANDS_OUT
        out.append(
            [
                getattr(grouping.grouped(clique, DOMAIN, bounds, singles, s), "bins", 0)
                for s in (at, at * 1.01)
            ]
        )
    return plain(out)


def halved() -> Any:
    out = []
    items = {("a", "b"): 3.0, ("b", "f"): 1.0, ("c", "d", "f"): 2.0}
    for order in (list(DOMAIN), list(DOMAIN)[::-1]):
        half = halving.Halving(DOMAIN, items, order)
        for number in (0, 8, 400):
            rng = np.random.default_rng(number)
            rows = {a: rng.integers(0, n, number).astype(np.uint8) for a, n in DOMAIN.items()}
            out.append([half(rows, np.random.default_rng(2)), half._sorted(rows)])
    wide = Domain({f"c{i}": 1 << 20 for i in range(6)})
    big = halving.Halving(wide, {tuple(wide): 1.0, ("c0", "c1"): 0.5}, list(wide))
    rows = {a: np.random.default_rng(3).integers(0, 3, 40).astype(np.uint32) for a in wide}
    out.append([big._items, big._size, big._weight, big._sorted(rows), big(rows, np.random.default_rng(1))])
    edge = Domain({"x": 1 << 31, "y": 1 << 30, "z": 2})
    for shape in (("x", "y"), ("x", "z", "y"), ("y", "z", "x")):
        made = halving.Halving(edge, {shape: 1.0}, shape)
        some = {a: np.array([1, 0, 1, 0, 1, 1, 0, 0]) * (i + 1) for i, a in enumerate(shape)}
        some[shape[-1]] = np.array([3, 1, 2, 0, 1, 0, 3, 2]) % edge[shape[-1]]
        out.append([made._sorted(some), made._size])
    return plain(out)


def shared() -> Any:
    """What ids and clips cost, stand-ins for pairs, and rounds of joining under constraints."""
    out = []
    for source in ("auto", "private", "public", "none"):
        for public in (False, True):
            for user in (False, True):
                out.append(
                    given(
                        lambda s=source, p=public, u=user: common.ids_share(Ids(source=s), public=p, user=u)
                    )
                )
                for clip, share in ((8, None), ("private", None), ("private", 0.5)):
                    config = SimpleNamespace(ids=Ids(), clip=clip, clip_share=share)
                    out.append(common.users_share(config, public=public, user=user))  # type: ignore[arg-type]
    out += [common.divided(0.8, (1, 3, 4)), [p.cells for p in common.any_pair(DOMAIN, 0.1)]]
    out += [[p.cells for p in common.any_pair(DOMAIN, 0.1, n)] for n in (1, 3, 40)]
    out += [common.any_pair(Domain({"a": 4}), 0.1), tree.pair_shares(0.3), tree.ones_shares(DOMAIN, 0.4)]
    out.append(tree.ones_shares(DOMAIN, 0.4, lambda c: 0.5 if c == ("a",) else 2.0))
    out += [given(tree.part_mu, SimpleNamespace(mu=mu), 0.25) for mu in (None, 2.0)]
    out.append([tree.estimate_total(ones(seed, 9.0)) for seed in range(3)])
    out.append(tree.estimate_total([Measurement(("a",), -np.ones(6), 1.0)]))
    for held in (
        None,
        zeros.Zeros(),
        zeros.Zeros(impossible(1)),
        zeros.Zeros(impossible(1), (("a", "b"), ("e", "f"))),
    ):
        joining = tree.Joining(DOMAIN, held)
        rounds = joining.rounds(PAIRS)
        took = [joining.take(p) for p in PAIRS]
        out.append([rounds, sum(took), took, [joining.alone(a) for a in DOMAIN]])
        out.append([tree.Joining(DOMAIN, held).rounds(PAIRS[k:]) for k in (3, 9, 14)])
    return plain(out)


def constrained() -> Any:
    out = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        share = 0.5 + 0.045 * seed
        cliques = [tuple(rng.permutation(list(DOMAIN))[:k]) for k in (2, 2, 3, 2)]
        masks = {c: rng.random(DOMAIN.shape(c)) < share for c in cliques}
        out.append(zeros.some_row(DOMAIN, masks))
    out.append([zeros.some_row(Domain({}), {}), zeros.some_row(DOMAIN, {("a",): np.ones(6, bool)})])
    base = fastdp.Schema.from_domain({"a": 4, "b": 5, "c": 3}).to_dict()
    for rules in (
        [],
        [{"require": "a < 2"}, {"require": "a > 2 or b == 1"}],
        [{"require": "a < 2"}, {"require": "b < 4"}, {"require": "a > 1"}],
        [{"require": "a < b"}, {"require": "b < c"}, {"require": "c < a"}, {"require": "a != 3"}],
        [{"order": ["a", "b"]}, {"require": "c == 0 or a == 1"}],
    ):
        schema = given(lambda rules=rules: fastdp.Schema.from_dict(base | {"constraints": rules}).name)
        if not isinstance(schema, str) or "Error" in schema:
            out.append(schema)
            continue
        made = fastdp.Schema.from_dict(base | {"constraints": rules})
        out.append(given(zeros.check_possible, made))
        held = given(lambda made=made: zeros.Zeros.of(made).cliques)
        out += [held, given(zeros.check_kept, "m", "it cannot", made), given(zeros.check_kept, "m", "", made)]
    return plain(out)


def regional() -> Any:
    columns = {"x": {"kind": "categorical", "values": list("abcdef"), "null": "code", "overflow": "code"}}
    schema = fastdp.Schema.from_dict({"fastdp": 1, "name": "t", "columns": columns})
    region = regions.Region(column="x", groups={"one": ("a", "b"), "two": ("c", "d", "e")}, always=("f",))
    out = []
    for values in ([9, 9, 3, 3, 3, 1, 0, 0], [3, 3, 9, 9, 9, 1, 0, 0], [5, 4, 4, 4, 4, 0, 0, 0]):
        for sigma in (1.0, np.array([9.0, 9, 1, 1, 1, 1, 1, 1])):
            out.append(region.infer(schema, Measurement(("x",), np.array(values, float), sigma)))
    out.append(given(regions.column_of, schema, "y", "regions"))
    for groups in ({}, {"one": ()}):
        out.append(given(lambda groups=groups: regions.Region(column="x", groups=groups)))
    return plain(out)


CASES: dict[str, Callable[[], Any]] = {
    "limited": limited,
    "emptied": emptied,
    "merging": merging,
    "expanded": expanded,
    "looked": looked,
    "worked": worked,
    "started": started,
    "grouped": grouped,
    "halved": halved,
    "shared": shared,
    "constrained": constrained,
    "regional": regional,
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_made_of_released_numbers_is_what_is_kept(name):
    check("chosen", name, CASES[name]())
