"""The steps inside of fits make what is kept: where they stop, how candidates are mixed and moved to a bound,
first centres and trees of regions, functionals and what contains them, totals, and trees of many columns."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import combinations
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from scipy.sparse import csr_array

from fastdp.domain import Domain
from fastdp.measurement import Measurement
from fastdp.model import (
    centres,
    consistent,
    dual,
    fit,
    flow,
    functionals,
    optimise,
    parts,
    regions,
    task,
    total,
)
from fastdp.model.estimate import Options
from fastdp.model.layout import make_plan
from fastdp.model.lower import lower
from fastdp.model.marginals import marginals
from fastdp.model.tree import junction_tree
from fastdp.queries import AdaGrid, Binned, Identity

from ..test_queries import family
from . import test_fits
from .figures import check, given, plain


class Bowl:
    """What `Stop` asks of a quadratic: rows, whether orders fit, and a divergence that grows."""

    def __init__(self, rows: int, fits_from: int = 0):
        self.rows, self.asked, self.fits_from, self.divergences = rows, 0, fits_from, 0

    def orders_fit(self, at: Any) -> bool:
        self.asked += 1
        return self.asked > self.fits_from

    def divergence(self, *_: Any) -> float:
        self.divergences += 1
        return 1e-4 * self.divergences


def _falls(kind: str, n: int = 260) -> list[float]:
    k = np.arange(n)
    return {
        "slow": 100 + 900 * 0.97**k,
        "fast": 40 + 900 * 0.5**k,
        "waves": 100 + 900 * 0.95**k * (1.2 + np.cos(k / 3)),
        "rises": 200 + np.minimum(k, 20) * 4.0,
        "flat": np.full(n, 77.0),
        "stairs": 1000.0 - 50 * (k // 12),
        "zero": np.maximum(0.0, 5.0 - k),
    }[kind].tolist()


def stops() -> Any:
    """After how many calls, and why, each rule ends each course of losses."""
    out = []
    for kind in ("slow", "fast", "waves", "rises", "flat", "stairs", "zero"):
        for rule, tol, iters, slack, late, flows in (
            ("noise", 1e-3, None, 0.0, 0, None),
            ("noise", 1e-3, None, 3.0, 2, None),
            ("noise", 1e-6, None, -2.0, 9, None),
            ("tol", 1e-2, None, 0.0, 0, None),
            ("tol", 1e-6, 150, 0.0, 0, None),
            ("iters", 1e-3, 33, 0.0, 0, None),
            ("iters", 1e-3, None, 0.0, 0, 12.5),
            ("risk", 1e-9, None, 0.0, 0, None),
        ):
            bowl: Any = Bowl(240, late)
            probe: Any = SimpleNamespace(x=None, quadratic=None) if rule == "risk" else None
            stop = optimise.Stop(rule, bowl, tol, iters, slack, probe, flows)
            said = ""
            for k, loss in enumerate(_falls(kind)):
                said = stop(loss, None, k + 1, 0.5 * k)  # type: ignore[arg-type]
                if said:
                    break
            out.append([said, k, bowl.asked, stop.noise, [stop.spent(c) for c in (32, 33, 34, 150)]])
            stop.forget(5.0)
            out[-1].append([stop(5.0, None, 1, 0.0) for _ in range(12)].count(""))  # type: ignore[arg-type]
    return plain(out)


def mixed() -> Any:
    """Mixtures of candidates of least risk; and their way to a bound, whether it can be reached or not."""
    out = []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        n, k = 1 + seed % 3, 2 + seed % 3
        gaps = rng.normal(size=(n, k, 6)) * rng.choice([0.1, 1.0, 5.0], (n, k, 1))
        gram = np.einsum("nid,njd->nij", gaps, gaps)
        gain = rng.normal(size=(n, k)) * 4
        weights = dual.mixture(gram, gain)
        out.append(weights)
        squares = float(np.einsum("ni,nij,nj->", weights, gram, weights))
        for share in (1e-6, 0.3, 0.9, 1.1, 3.0, 1e6):  # at 1 a rounding decides
            out += [dual._blend(scale * gram, weights, scale * squares * share) for scale in (1.0, 1e-4)]
        out.append(dual._blend(np.zeros_like(gram), weights, 1.0))
    same = np.ones((1, 2, 2))
    out += [dual._blend(same, np.array([[0.5, 0.5]]), b) for b in (0.5, 1.0, 2.0)]
    return plain(out)


def regions_of(seed: int) -> Any:
    shape = ("tree", "pairs", "triples", "loop")[seed % 4]
    seen = test_fits.uneven(shape, seed) if seed % 2 else test_fits.measured(shape, seed)
    return regions.make_regions(test_fits.DOMAIN, seen)


def centred() -> Any:
    out = []
    for seed in range(8):
        problem = regions_of(seed)
        if problem is None:
            out.append(None)
            continue
        shares = centres.first_shares(problem)
        out.append(sorted([a, s.tolist()] for a, s in shares.items()))
        tables = {i: centres.independent(problem, r, shares, 500.0) for i, r in enumerate(problem.regions)}
        out.append([float(np.square(t).sum()) for t in tables.values()])
        firsts = [centres.first_centre(problem, r) for r in problem.regions if r.order == 1]
        out.append([[float(x.sum()), float((x * (1 + np.arange(x.size))).sum())] for x in firsts])
        rng = np.random.default_rng(seed)
        skewed = {i: t * rng.gamma(0.5, size=t.shape) for i, t in tables.items()}
        strength = centres.strengths(problem.regions, skewed)
        out += [strength, centres.strongest_tree(problem.regions, strength)]
        out.append(centres.dealt(problem.regions, strength, list(strength)))
        out.append(centres.dealt(problem.regions, strength, list(strength)[1::2]))
        facts = [[r.clique, r.names, r.shape, r.order, r.cells, r.rows, r.constant] for r in problem.regions]
        sums = [[float(np.abs(r.y).sum()), float(np.sum(r.sigma))] for r in problem.regions]
        joins = [[c.left, c.right, sorted(map(str, c.names))] for c in problem.constraints]
        out += [facts, sums, joins]
    return plain(out)


def wholes() -> Any:
    """Single regions that no pair names, and regions that only a larger one names."""
    rng, out = np.random.default_rng(4), []
    domain = Domain({"a": 4, "b": 3, "c": 2})
    for cliques in (
        [("a", "b")],
        [("a", "b"), ("b", "c")],
        [("a", "b", "c")],
        [("c", "b"), ("c", "a"), ("a",)],
    ):
        for low in (1.0, 300.0):
            seen = [Measurement(c, rng.normal(30, 20, domain.cells(c)), low) for c in cliques]
            problem = regions.make_regions(domain, seen)
            assert problem is not None
            out.append([sorted([a, s.tolist()] for a, s in centres.first_shares(problem).items())])
            for stop in ("noise", "risk"):
                model = fit(domain, seen, stop=stop, threads=1)
                out.append([model.ended, model.loss, model.iterations, model.marginal(("a", "b"))])
    return plain(out)


def contained(columns: int, seed: int) -> Any:
    """The functionals of grids over up to six columns, and the shape of their approximate inverse."""
    if columns < 5:
        domain, seen = test_fits.STEEP, test_fits.steep(seed, 30.0)
    else:
        domain, seen = test_fits.BINARY, test_fits.steep(seed, 30.0, 1.0, columns, 2e4)
    checked = parts.check(domain, seen)
    plan = make_plan(domain, junction_tree(domain, [m.clique for m in seen]), parts.usage(checked))
    quadratic = lower(plan, checked)
    lines = functionals.Functionals(plan, quadratic)
    noted: list[Any] = []
    real = functionals.Ancestors

    def shape(*arrays: Any) -> Any:
        noted.extend(np.asarray(a).astype(np.int64) for a in arrays[:5])
        return real(*arrays)

    with patch.object(functionals, "Ancestors", shape):
        lines.ancestors(1)
    goals = [
        flow.goal_of(Options(stop=s, slack=k), quadratic, lines)
        for s in ("noise", "refined")
        for k in (-2.0, 0.0, 5.0)
    ]
    m = np.random.default_rng(1).gamma(1.0, 9.0, max(plan.size, 1))
    answers = lines.answers(m)
    spans = [[s.start, s.stop, numbers] for s, numbers in lines.singles()]
    return plain(
        [lines.size, lines.constant, lines.order, lines.at, noted, goals, spans, lines.loss(answers)]
        + [float(np.abs(x).sum()) for x in (lines.target, lines.variance, answers)]
    )


def smoothed() -> Any:
    x = np.array([-900.0, -3.0, -1e-9, 0.0, 1e-9, 0.5, 4.0, 90.0, 1e5])
    return plain([flow.denoised(x, c, t) for c in (0.1, 3.0) for t in (1e-9, 0.25, 1.0, 50.0)])


def summed() -> Any:
    """Totals from grids with weights of every kind, matrices and merged marginals."""
    rng, out = np.random.default_rng(2), []
    for seed in range(5):
        for m in (*test_fits.steep(seed, 20.0), *test_fits.grids(seed), *test_fits.uneven("pairs", seed)):
            domain = test_fits.STEEP if set(m.clique) <= set(test_fits.STEEP) else test_fits.DOMAIN
            out.append(total.estimate_total(domain, [m]))
    for rows in (np.eye(5), np.eye(5)[:4], np.ones((1, 5)), np.triu(np.ones((5, 5))), rng.random((3, 5))):
        seen = [Measurement(("a",), rows @ np.arange(1.0, 6.0), rng.uniform(1, 4, rows.shape[0]), rows)]
        out.append(total.estimate_total(test_fits.DOMAIN, seen))
    out.append([total.average([(3.0, 1.0), (9.0, 2.0)]), total.estimate_total(test_fits.DOMAIN, [])])
    huge = [Measurement(("a",), np.ones(5), 1e200)]
    with np.errstate(over="ignore"):
        out.append(given(total.estimate_total, test_fits.DOMAIN, huge))
    return plain(out)


def grown_trees() -> Any:
    """Trees of cyclic graphs whose columns differ in size, where the three ways of elimination differ."""
    out = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        names = "abcdefghij"[: 5 + seed % 6]
        domain = Domain({a: int(n) for a, n in zip(names, rng.choice([2, 3, 5, 9, 30, 100], len(names)))})
        pairs = [p for p in combinations(names, 2) if rng.random() < 0.4]
        tree = junction_tree(domain, pairs, 10**18)
        out.append([tree.cliques, tree.edges, tree.cells])
        out.append(given(lambda d=domain, p=pairs, n=tree.cells: junction_tree(d, p, n - 1).cells))
        out.append(junction_tree(domain, pairs, tree.cells).cells)
    return plain(out)


def far_apart() -> Any:
    """Marginals of columns far apart in chains and stars with separators of several columns."""
    out = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        names = "abcdefg"
        domain = Domain({a: int(n) for a, n in zip(names, rng.integers(1, 5, len(names)))})
        cliques = [("c", "a", "b"), ("b", "c", "d"), ("d", "e", "c"), ("f", "e", "d"), ("g", "f")][
            : 3 + seed % 3
        ]
        cliques = [tuple(rng.permutation(c)) for c in cliques]
        seen = [Measurement(c, rng.gamma(1.0, 20.0, domain.cells(c)), 3.0) for c in cliques]
        model = fit(domain, seen, stop="risk", threads=1)
        asked = [tuple(rng.permutation(c)) for k in (1, 2, 3) for c in combinations(names, k)]
        for clique, table in marginals(model, asked, 1).items():
            x = np.asarray(table).reshape(-1)
            out.append(
                [clique, x.size, float(np.square(x).sum()), float((x * (1 + np.arange(x.size) % 7)).sum())]
            )
    return plain(out)


def begun() -> Any:
    """Where fits begin: tables, and that they are positive where rows are possible."""
    out = []
    for shape in ("tree", "loop"):
        for zeros in (None, test_fits.impossible()):
            model = fit(
                test_fits.DOMAIN, test_fits.measured(shape), stop="iters", iters=1, zeros=zeros, threads=1
            )
            out.append([model.loss, [float(np.square(n.table).sum()) for n in model.nodes]])
    bad = [Measurement(("a",), np.full(5, 1e200), 1e-100)]
    with np.errstate(all="ignore"):
        out.append(
            given(lambda: fit(test_fits.DOMAIN, bad, stop="noise", method="accelerated", iters=5).ended)
        )
    out.append(task.single(np.array([0.0, 1e-50, 1.0, 1e30])).tolist())
    return plain(out)


class Weighted:
    """A query of other numbers than 0 and 1: three times the even cells less twice the odd ones."""

    rows = 1

    def __init__(self, cells: int):
        self.cells, self.row = cells, np.where(np.arange(cells) % 2, -2.0, 3.0)

    def product(self, x: np.ndarray) -> np.ndarray:
        return np.atleast_1d(self.row @ x)

    transpose = coef2 = column_norm2 = blocks = product  # which no answer asks for


def answered() -> Any:
    """Answers and errors of every kind of query; marginals that are too large."""
    out = []
    model = fit(test_fits.DOMAIN, test_fits.measured("triples"), stop="risk", threads=1)
    rng = np.random.default_rng(6)
    for clique in (("a", "b"), ("b", "c", "a")):
        shape = test_fits.DOMAIN.shape(clique)
        maps = [rng.integers(0, 2, n).tolist() for n in shape]
        grid = AdaGrid(family({a: test_fits.DOMAIN[a] for a in clique}, 0.6, rng))
        dense = rng.normal(size=(3, int(np.prod(shape))))
        for query in (Identity(dense.shape[1]), Binned(shape, maps), grid, dense, csr_array(dense)):
            out.append(model.answer(query, clique))
    out.append(model.answer(Weighted(test_fits.DOMAIN.cells(("a", "b"))), ("a", "b")))
    never = {("b",): np.array([False, True, False, False])}
    ruled = fit(test_fits.DOMAIN, test_fits.measured("tree"), stop="risk", zeros=never, threads=1)
    rows = {a: np.arange(8) % n for a, n in test_fits.DOMAIN.items()}
    out += [ruled.log_likelihood(rows), model.log_likelihood(rows)]
    wide = Domain({a: 60 for a in "abcdefgh"})
    alone = fit(wide, [Measurement((a,), np.arange(60.0), 1.0) for a in wide], stop="noise", threads=1)
    many = tuple(wide)[:6]
    out += [given(marginals, alone, [many], 1), given(alone.marginal, many)]
    out.append([list(marginals(alone, [many, ("a", "b")], 1, n)) for n in (10, 3599, 3600)])
    checked = parts.check(test_fits.DOMAIN, test_fits.measured("tree"))
    plan = make_plan(
        test_fits.DOMAIN, junction_tree(test_fits.DOMAIN, [("a", "b")]), parts.usage(checked[:4])
    )
    out.append(given(functionals.Functionals, plan, lower(plan, checked[:4])))
    maps = ([0, 0, 1, 1, 1], [0, 1, 1, 1, 0])
    crossed = [Measurement(("a",), np.array([40.0, 60.0]), 2.0, Binned((5,), [m])) for m in maps]
    problem = regions.make_regions(test_fits.DOMAIN, crossed)
    out.append(None if problem is None else given(consistent._product, None, problem, {}, None, 1.0))
    return plain(out)


class Walk:
    """A flow whose loss along its last stride is a function of the share of it that is gone."""

    _length = 0.7

    def __init__(self, loss: Callable[[float], float], most: int, ends: float = 2.0):
        self.lines, self.ends, self.most, self.calls = SimpleNamespace(loss=loss), ends, most, 0
        self._z, self._at, self._spare = "end", "begin", "spare"
        self._velocity, self.f, self.time, self.loss = 1.0, 1.0, 5.0, loss(1.0)

    def _try(self, share: float) -> float | None:
        self.calls += 1
        return share if share < self.ends else None


def gone_back() -> Any:
    out = []
    for loss in (
        lambda s: 100 - 60 * s,
        lambda s: 100 * (1 - s) ** 3 + 3,
        lambda s: 100 - 90 * s**4,
        lambda s: 100 - 90 * s**0.2,
        lambda s: 100 - 10 * (7 * s // 1),
    ):
        for wanted in (35.0, 50.0, 80.0, 99.0, 41.0):
            for most, ends in ((99, 2.0), (1, 2.0), (2, 2.0), (99, 0.3), (99, 0.01)):
                walk: Any = Walk(loss, most, ends)
                flow.Flow.back(walk, loss(0.0), wanted)
                out.append([walk.loss, walk.f, walk.time, walk.calls, walk._z, walk._at, walk._spare])
    return plain(out)


def capped() -> Any:
    """Flows that are cut off after every number of calls, in the middle of a step too."""
    out = []
    for seed, sigma, first in ((15, 1.0, 1), (3, 30.0, 2)):
        seen = test_fits.steep(seed, sigma)
        for iters in range(first, 41, 3):
            model = fit(test_fits.STEEP, seen, stop="noise", iters=iters, threads=1)
            out.append([model.iterations, model.loss, model.ended])
    return plain(out)


CASES: dict[str, Callable[[], Any]] = {
    "stops": stops,
    "mixed": mixed,
    "centred": centred,
    "wholes": wholes,
    **{f"contained, {n} columns, {s}": partial(contained, n, s) for n in (4, 5, 6) for s in range(3)},
    "smoothed": smoothed,
    "summed": summed,
    "grown trees": grown_trees,
    "far apart": far_apart,
    "begun": begun,
    "answered": answered,
    "gone back": gone_back,
    "capped": capped,
}


@pytest.mark.parametrize("name", CASES)
def test_a_step_of_a_fit_makes_what_is_kept(name):
    check("steps", name, CASES[name]())
