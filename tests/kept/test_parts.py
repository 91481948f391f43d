"""What the parts of models and mechanisms make of small random inputs is what is kept: trees, plans, totals,
samples, conditionals, answers; ids that are dealt; estimates of user counts; refusals."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cache, partial
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from fastdp.domain import Domain
from fastdp.measurement import Measurement
from fastdp.mechanisms.parts import sizes as tree_sizes
from fastdp.mechanisms.parts.choose import affordable, strongest
from fastdp.mechanisms.usercounts import fit as counts_of
from fastdp.model import Model, fit
from fastdp.model.adjust import onto_simplex, rake
from fastdp.model.grow import grow
from fastdp.model.layout import make_plan
from fastdp.model.lower import lower
from fastdp.model.marginals import marginals
from fastdp.model.parts import check as checked
from fastdp.model.parts import usage
from fastdp.model.sample import Sampler
from fastdp.model.total import estimate_total
from fastdp.model.tree import junction_tree
from fastdp.public import ids
from fastdp.public.archetypes import mixture
from fastdp.public.archetypes.users import cross_table, systematic_round
from fastdp.public.choice import mutual_information

from . import test_fits
from .figures import check, given, plain

NAMES = "abcdefgh"


def graph(seed: int) -> tuple[Domain, list[tuple[str, ...]]]:
    """Random columns and sets of them."""
    rng = np.random.default_rng(seed)
    domain = Domain({a: int(n) for a, n in zip(NAMES, rng.integers(1, 9, 4 + seed % 5))})
    names = list(domain)
    cliques = [
        tuple(names[i] for i in rng.permutation(len(names))[: rng.integers(1, 4)])
        for _ in range(rng.integers(2, 8))
    ]
    return domain, cliques


def tree_and_plan(seed: int) -> Any:
    domain, cliques = graph(seed)
    tree = junction_tree(domain, cliques)
    rng = np.random.default_rng(seed + 50)
    seen = [Measurement(c, rng.normal(50, 20, domain.cells(c)), 3.0 + i) for i, c in enumerate(cliques)]
    parts = checked(domain, seen)
    plan = make_plan(domain, tree, usage(parts))
    form = lower(plan, parts)
    x = np.abs(rng.normal(20, 9, form.active.size))
    places = [[sorted(k), p.axes, p.at, p.size] for k, p in plan.places.items()]
    nodes = [[n.sep, n.res] for n in plan.nodes]
    loss = form.loss(form.residual(x)) if form.active.size == plan.size else None
    facts = [form.rows, form.active, form.w, form.t, loss]
    return plain([tree.cliques, tree.edges, tree.cells, plan.cells, plan.size, nodes, places, facts])


AT_LIMITS: list[tuple[dict[str, int], list[str]]] = [
    ({"a": 64, "b": 64}, ["ab"]),
    ({"a": 64, "b": 65}, ["ab"]),
    ({"a": 5000}, ["a"]),
    ({"a": 5000, "b": 2}, ["ab", "b"]),
    ({"a": 3, "b": 4096, "c": 2}, ["abc", "ab"]),
    ({"a": 3, "b": 4097, "c": 2}, ["abc", "ab"]),
    ({"a": 2, "b": 3, "c": 5000}, ["abc", "bc"]),
    ({"a": 9, "b": 8, "c": 64, "d": 64}, ["abcd", "ab", "ac", "cd"]),
    ({"a": 3000, "b": 1500}, ["ab", "a", "b"]),
    ({"a": 3000, "b": 1500, "c": 4}, ["ab", "a", "b", "bc"]),
    ({"a": 7, "b": 400, "c": 900, "d": 3}, ["abc", "cb", "ab", "cd"]),
    ({"a": 8, "b": 400, "c": 900, "d": 3}, ["abc", "bc", "ca", "cd"]),
    ({"a": 600, "b": 500, "c": 40}, ["abc", "bc", "ab", "ac"]),
    ({"a": 40, "b": 500, "c": 600}, ["abc", "bc", "cb"]),
    ({"a": 40, "b": 9, "c": 9, "d": 9}, ["ab", "ac", "ad"]),
    ({"a": 9, "b": 9, "c": 9, "d": 9}, ["ab", "bc", "cd", "a"]),
    ({"a": 9}, []),
]


def laid_out(seed: int) -> Any:
    """Plans of large domains, of which no table is made: where tables, links, lanes and folds lie."""
    rng = np.random.default_rng(seed + 700)
    sizes = rng.choice([1, 2, 3, 7, 8, 20, 65, 90, 400], 4 + seed % 4)
    domain = Domain({a: int(n) for a, n in zip(NAMES, sizes)})
    sets = [c for k in (1, 2, 3) for c in combinations(domain, k) if domain.cells(c) < 2_000_000]
    cliques = [tuple(rng.permutation(sets[i])) for i in rng.permutation(len(sets))[: 3 + seed % 6]]
    tree = junction_tree(domain, cliques, 10**9)
    measured: dict = {frozenset(c): None for c in cliques}
    for c in cliques[::2]:
        few = int(rng.choice([1, domain.cells(c) // 4, domain.cells(c) // 4 + 1]))
        measured[frozenset(c)] = (c, np.unique(rng.integers(0, domain.cells(c), max(1, few))))
    return _layout(make_plan(domain, tree, measured, {frozenset(c) for c in cliques[1::2]}))


def laid_out_at_limits() -> Any:
    out = []
    for sizes, cliques in AT_LIMITS:
        domain = Domain(sizes)
        tree = junction_tree(domain, [tuple(c) for c in cliques], 10**9)
        for apart in ((), {frozenset(c) for c in cliques}):
            out.append(_layout(make_plan(domain, tree, {frozenset(c): None for c in cliques}, apart)))
    return out


def _layout(made: Any) -> Any:
    def laid(link: Any) -> Any:
        base = (
            None if link.base is None else [link.base.size, link.base.astype(np.int64).sum(), link.base[-1]]
        )
        return [link.at, link.size, base, link.n, link.ts, int(link.shared)]

    def local(node: Any) -> Any:
        return [None if x is None else [x.size, int(x.sum())] for x in (node.local_row, node.local_cell)]

    nodes = [
        [
            *(n.sep, n.res, n.rows, n.cells, n.table, n.row_at, n.separator, n.local, n.local_at, n.direct),
            *(local(n), n.lane_at, [laid(link) for link in n.links], n.hosted),
        ]
        for n in made.nodes
    ]
    places = [[sorted(k), p.axes, p.at, p.size, p.cells is None] for k, p in made.places.items()]
    folds = [[at, laid(link)] for at, link in made.folds]
    stages = [[made.nodes.index(n) for n in stage] for stage in made.stages]
    direct = [made.nodes.index(n) for n in made.direct]
    return plain([nodes, places, folds, stages, direct, made.size, made.shared, made.cells, made.rows])


@cache
def model(shape: str = "tree") -> Model:
    return fit(test_fits.DOMAIN, test_fits.measured(shape), stop="risk", threads=1)


def rows_of(drawn: dict[str, np.ndarray]) -> Any:
    digest = hashlib.sha256(b"".join(np.asarray(v, np.int64).tobytes() for v in drawn.values())).hexdigest()
    kinds = [str(v.dtype) for v in drawn.values()]
    return [digest[:16], kinds, [[k, np.bincount(v).tolist()] for k, v in drawn.items()]]


def samples() -> Any:
    out = []
    for shape in ("single", "tree", "loop", "triples"):
        m = model(shape)
        for method in ("round", "independent"):
            for n in (0, 1, 7, 1000, 4500):
                out.append(given(lambda n=n, m=m, k=method: rows_of(m.sample(n, 3, method=k, threads=1))))
        out.append(given(lambda m=m: rows_of(m.sample(50, 4, where={"b": 2}, threads=1))))
        out.append(given(lambda m=m: rows_of(m.sample(900, 4, shard=1, shard_rows=400, threads=2))))
    return out


def stream() -> Any:
    m = model()
    sampler = Sampler(m.domain, [(n.sep, n.res, n.table) for n in m.nodes])
    shards = [rows_of(part) for part in sampler.stream(1000, seed=5, shard_rows=300)]
    return plain([sampler.shards(1000, 300), sampler.shards(900, 300), sampler.shards(0, 300), shards])


def asked() -> Any:
    """Marginals, answers with errors, conditionals and likelihoods of models."""
    rng, out = np.random.default_rng(8), []
    for shape in ("single", "tree", "loop", "triples"):
        m = model(shape)
        for clique in (("a",), ("d", "a"), ("c", "e", "b"), ("e", "d"), ("a", "b", "c")):
            table = m.marginal(clique)
            query = (rng.random((3, table.size)) < 0.5).astype(float)
            values, errors = m.answer(query, clique)
            out.append([table.shape, float(np.square(table).sum()), values, errors])
        out.append(np.sort(np.concatenate([t.reshape(-1) for t in _marginals(m).values()]))[-9:])
        part = m.conditioned({"b": 1, "d": 3})
        out.append([part.total, part.ended, part.marginal(("a", "c"))])
        codes = {a: rng.integers(0, n, 20) for a, n in m.domain.items()}
        out.append(m.log_likelihood(codes))
        out.append([m.cells, m.cliques])
    return plain(out)


def _marginals(m: Model) -> dict:
    return marginals(m, [c for k in (1, 2) for c in combinations(m.domain, k)])


def model_refusals() -> Any:
    m = model()
    return [
        given(m.marginal, ("a", "x")),
        given(m.marginal, ("a", "b", "c"), max_cells=59),
        given(lambda: m.marginal(("a", "b", "c"), max_cells=60).shape),
        given(m.answer, np.ones((1, 4)), ("a",)),
        given(m.conditioned, {"a": 5}),
        given(m.conditioned, {"a": -1}),
        given(m.conditioned, {"a": 1.5}),
        given(m.sample, -1),
        given(m.sample, 2.5),
        given(m.sample, 5, method="other"),
        given(m.sample, 5, seed=-1),
        given(m.sample, 5, seed=2**64),
        given(m.sample, 5, shard=1),
        given(m.sample, 5, shard_rows=0),
    ]


def grown() -> Any:
    out = []
    for seed in range(8):
        domain, _ = graph(seed)
        rng = np.random.default_rng(seed)
        strength = {p: float(rng.gamma(1.0)) for p in combinations(domain, 2)}
        for ways, most in ((1, 10**6), (2, 10**6), (3, 10**6), (3, 60), (4, 200), (2, 12)):
            out.append(plain(grow(domain, strength, ways, most)))
        out.append(given(grow, domain, strength, 0, 10))
    return out


def chosen() -> Any:
    out = []
    for seed in range(8):
        domain, cliques = graph(seed)
        rng = np.random.default_rng(seed + 9)
        weights = {c: float(rng.gamma(2.0)) for c in cliques}
        out.append(plain(tree_sizes.tree_size(domain, cliques)))
        for most in (10, 60, 400, 10**6):
            out.append(plain(affordable(domain, list(weights), 5 * most, most)))
            out.append(plain(affordable(domain, list(weights)[1:], most, 3 * most, cliques[:1], weights)))
            out.append(given(tree_sizes.largest_forest, domain, most))
            out.append(given(tree_sizes.check_size, tree_sizes.tree_size(domain, cliques), domain, most))
        information = {p: float(rng.gamma(1.0)) for p in combinations(domain, 2)}
        out.append(given(strongest, domain, information, 2, 300))
    return out


def totals() -> Any:
    shapes = [test_fits.measured(s) for s in test_fits.SHAPES] + [
        test_fits.uneven("pairs"),
        test_fits.grids(),
    ]
    odd = [Measurement(("a",), np.arange(4.0), 2.0, np.eye(5)[:4])]
    few = [Measurement(("a",), -np.ones(5), 2.0)]
    # a row that counts each cell once, but for a hundred-thousandth, says what the total is
    nearly = [
        [Measurement(("e",), np.array([50.0]), 2.0, np.array([[1.0, 1 + 2 * off]]))]
        for off in (0.9e-5, 1.08e-5, 1.12e-5, 1.3e-5)
    ]
    return [plain(estimate_total(test_fits.DOMAIN, seen)) for seen in (*shapes, odd, few, *nearly)]


def adjusted() -> Any:
    out = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        x = rng.normal(2, 3, 7)
        out.append([onto_simplex(x, t) for t in (0.0, 1.0, 30.0)])
        at, other = rng.integers(0, 3, 12), rng.integers(0, 4, 12)
        margins = [(at, rng.gamma(1.0, 5.0, 3)), (other, rng.gamma(1.0, 5.0, 4))]
        start = rng.gamma(1.0, size=12) * (rng.random(12) < 0.9)
        out.append(
            [rake(start, margins[:n], k, t) for n, k, t in ((1, 9, None), (2, 3, None), (2, 50, 1e-3))]
        )
    return plain(out)


def dealt() -> Any:
    out = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        rows, shape = 120 + 40 * seed, (4, 3, 5)[: 1 + seed % 3]
        names = [f"c{i}" for i in range(len(shape))]
        public = {a: rng.integers(0, n, rows).astype(np.uint8) for a, n in zip(names, shape)}
        user = np.sort(rng.integers(0, 25, rows)).astype(np.uint32)
        habits = ids.Habits.from_rows(names, shape, user, public)
        codes = {a: rng.integers(0, n, 300).astype(np.uint8) for a, n in zip(names, shape)}
        out.append([habits.users, habits.rows, habits.rows_per_user()])
        for bound in (None, 4, 9):
            owner, users = ids.deal(codes, 300, habits, bound=bound, seed=seed, threads=1)
            out.append([owner.tolist(), users])
        owner, users = ids.deal_by_size(200, np.array([1, 2, 5, 9]), rng.normal(20, 15, 4), seed=seed)
        out.append([owner.tolist(), users])
    none = np.empty(0, np.uint32)
    out.append(given(ids.deal_by_size, 10, np.array([1, 2]), np.array([-1.0, 0.0]), seed=1))
    out.append(given(ids.deal_by_size, 0, np.array([1, 2]), np.array([1.0, 1.0]), seed=1))
    empty = ids.Habits.from_rows(["a"], [3], none, {"a": none})
    out.append(given(ids.deal, {"a": np.zeros(2, np.uint8)}, 2, empty, bound=None, seed=1))
    out.append(given(ids.cell_numbers, {}, ["a", "b"], [2**16, 2**16], 1))
    out.append(given(ids.cell_numbers, {"a": np.ones(1, int)}, ["a"], [2**32 - 1], 1))
    return plain(out)


def user_counts(seed: int) -> Any:
    out: list[Any] = []
    rng = np.random.default_rng(seed)
    for noise in (counts_of.Noise(True, 3, 1.5), counts_of.Noise(False, 3, 1.5)):
        shares = (0.05, 0.3, 1.0)
        out.append([[noise.scale(s), noise.std(s)] for s in shares])
        out.append([noise.threshold(s, r) for s in shares for r in (0.6, 0.05, 1e-6)])
        at = np.sort(rng.integers(0, 9, 30))
        out.append(counts_of.above(rng.normal(3, 6, 30), at, noise, 0.5, 0.1))
    fine = rng.normal(8, 9, 24)
    codes = np.unravel_index(np.arange(24), (4, 6))
    first = counts_of.Level(("p",), np.arange(4), codes[0], (np.arange(4),))
    second = counts_of.Level(("q",), np.arange(6), codes[1], (np.arange(6),))
    pair = (np.repeat(np.arange(2), 6), np.tile(np.arange(6), 2))
    third = counts_of.Level(("p", "q"), np.arange(12), codes[0] // 2 * 6 + codes[1], pair)
    levels = [first.measured(rng.normal(50, 9, 4), 20.0), third.measured(rng.normal(20, 4, 12), 9.0), second]
    public = rng.poisson(9.0, 24).astype(float)
    for seen in (None, public):
        out.append(counts_of.hierarchy(fine, 30.0, levels, seen))
    out.append([level.estimate(fine, 30.0) for level in levels])
    out.append(third.expected(public))
    counts = rng.gamma(1.0, 6.0, 24)
    for share, rate in ((0.05, 0.4), (0.3, 0.1)):
        out.append(counts_of.hold_back(counts, counts, codes[0], share, rate))
    out.append([counts_of.round_to_total(counts, codes[0]), counts_of.to_total(counts, 77)])
    out.append([counts_of.nearest(fine), counts_of.rates(public, np.full(24, 8.0))])
    out.append(counts_of.collapse(fine, codes[0], 1 + codes[1], 5))
    out.append([counts_of.to_total(np.zeros(3), 5), counts_of.nearest(-np.ones(3))])
    return plain(out)


def mixtures() -> Any:
    out = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        centres = rng.normal(0, 6, (3, 2))
        points = np.concatenate([rng.normal(c, 0.5 + i, (40, 2)) for i, c in enumerate(centres)])
        counts = rng.integers(1, 9, 120).astype(float)
        fitted = mixture.fit(points, counts, 3, seed=1)
        out.append([np.sort(fitted.weights), np.sort(np.bincount(fitted.labels(points)))])
        out.append([float(fitted.log_density(points).sum()), np.sort(fitted.means[:, 0])])
        table = rng.gamma(1.0, 4.0, (3, 5))
        out.append(cross_table(table, rng.gamma(1.0, 9.0, 3), rng.gamma(1.0, 9.0, 5)))
        out.append(systematic_round(rng.gamma(1.0, 3.0, 9), np.random.default_rng(2)))
        out.append(mutual_information(rng.poisson(2.0, (4, 6))))
    return plain(out)


CASES: dict[str, Callable[[], Any]] = {
    **{f"tree {n}": partial(tree_and_plan, n) for n in range(20)},
    **{f"layout {n}": partial(laid_out, n) for n in range(70)},
    "layouts at limits": laid_out_at_limits,
    **{f"user counts {n}": partial(user_counts, n) for n in range(5)},
    "samples": samples,
    "stream": stream,
    "asked": asked,
    "model refusals": model_refusals,
    "grown": grown,
    "chosen": chosen,
    "totals": totals,
    "adjusted": adjusted,
    "dealt": dealt,
    "mixtures": mixtures,
}


@pytest.mark.parametrize("name", CASES)
def test_a_part_makes_what_is_kept(name):
    check("parts", name, CASES[name]())
