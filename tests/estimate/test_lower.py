"""The fused loss of any measurements is the sum over their rows: in all, by order, and its slopes."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from fastdp.domain import Domain
from fastdp.estimate import lower as lowering
from fastdp.estimate.linear_rows import check, direct, usage
from fastdp.estimate.lower import lower
from fastdp.measurement import Measurement
from fastdp.model.junction_tree import junction_tree
from fastdp.model.layout import make_plan
from fastdp.queries import AdaGrid, Binned, Block

from ..test_queries import family

KINDS = ("whole", "own sigmas", "inner", "merged", "some rows", "grid", "grid")


class Inner:
    """A query of a clique that asks for the marginal of some of its columns, cell by cell: rows of one set
    in several orders. `blocks`: other blocks than it has."""

    def __init__(self, domain, clique, part, blocks=None):
        self.shape, self.part, self.given = domain.shape(clique), part, blocks
        self.cells, self.rows = domain.cells(clique), domain.cells(part)
        self.out = tuple(i for i, a in enumerate(clique) if a not in part)

    def product(self, x):
        return x.reshape(self.shape).sum(axis=self.out).reshape(-1)

    transpose = coef2 = column_norm2 = product  # which no fit asks for

    def blocks(self, clique):
        return self.given or [Block(("cells", frozenset(self.part), None), self.part)]


def marginal(domain, joint, clique):
    kept = [a for a in domain if a in clique]
    summed = joint.sum(axis=tuple(i for i, a in enumerate(domain) if a not in clique))
    return summed.transpose([kept.index(a) for a in clique]).reshape(-1)


def problem(seed):
    """Measurements of every kind over random sets of columns, some twice; of grids also the grids below."""
    rng = np.random.default_rng(seed)
    domain = Domain({a: int(rng.integers(2, 11)) for a in "abcde"[: 3 + seed % 3]})
    sets = [c for k in (1, 2, 3) for c in combinations(domain, k)]
    seen = []
    for _ in range(int(rng.integers(1, 7))):
        clique = tuple(rng.permutation(sets[rng.integers(len(sets))]))
        kind, cells = rng.choice(KINDS), domain.cells(clique)
        query, rows, sigma = None, cells, float(rng.uniform(1, 9))
        if kind == "merged":
            maps = [rng.integers(0, max(1, n - 1), n).tolist() for n in domain.shape(clique)]
            query = Binned(domain.shape(clique), maps)
        elif kind == "some rows":
            query = rng.integers(-1, 3, (4, cells)).astype(float)
        elif kind == "grid":
            query = AdaGrid(family({a: domain[a] for a in clique}, 0.5, rng))
        elif kind == "inner":
            query = Inner(domain, clique, clique[:1])
        if query is not None:
            rows = query.shape[0] if isinstance(query, np.ndarray) else query.rows
        if kind in ("own sigmas", "grid"):
            sigma = rng.uniform(1, 9, rows)
        for _ in range(2 if rng.random() < 0.4 else 1):
            seen.append(Measurement(clique, rng.normal(40, 20, rows), sigma, query))
        for below in query.grid.children[: seed % 3] if kind == "grid" else ():  # its rows in another order
            part = AdaGrid(below)
            seen.append(Measurement(below.clique, rng.normal(40, 20, part.rows), 3.0, part))
    return rng, domain, seen


def loss_of(domain, joint, seen):
    """Of each measurement."""
    out = []
    for m in seen:
        x = marginal(domain, joint, m.clique)
        if m.query is None:
            answers = x
        else:
            answers = m.query @ x if isinstance(m.query, np.ndarray) else m.query.product(x)
        out.append(0.5 * float(np.sum(((answers - m.values) / m.sigma) ** 2)))
    return out


def vector_of(plan, joint):
    m = np.zeros(max(plan.size, 1))
    for place in plan.places.values():
        x = marginal(plan.domain, joint, place.axes)
        m[place.at : place.at + place.size] = x if place.cells is None else x[place.cells]
    return m


def tables_of(plan, joint):
    return np.concatenate([marginal(plan.domain, joint, node.axes) for node in plan.nodes])


@pytest.mark.parametrize("mostly", [0.75, 2.0])
@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("seed", range(30))
def test_the_fused_loss_is_that_of_the_rows_in_all_and_by_order(seed, apart, mostly, monkeypatch):
    """For nodes that are measured cell by cell alone (`apart`) and others, whether all of the vector is
    active or only what was measured."""
    monkeypatch.setattr(lowering, "MOSTLY", mostly)
    rng, domain, seen = problem(seed)
    parts = check(domain, seen)
    tree = junction_tree(domain, [m.clique for m in seen])
    plan = make_plan(domain, tree, usage(parts), direct(parts) if apart else ())
    quadratic = lower(plan, parts)
    assert quadratic.rows == sum(m.values.size for m in seen)
    for _ in range(2):
        joint = rng.gamma(0.5, 5.0, domain.shape(tuple(domain)))
        losses = loss_of(domain, joint, seen)
        at = quadratic.residual(vector_of(plan, joint)[quadratic.active])
        at.direct[:] = quadratic.look(tables_of(plan, joint))[0]
        assert quadratic.loss(at) == pytest.approx(sum(losses), rel=1e-10)
        wanted = {}
        for m, loss in zip(seen, losses):
            so_far = wanted.get(len(m.clique), (0.0, 0))
            wanted[len(m.clique)] = so_far[0] + loss, so_far[1] + m.values.size
        assert [(k, pytest.approx(loss, rel=1e-10), n) for k, (loss, n) in sorted(wanted.items())] == (
            quadratic.by_order(at)
        )


@pytest.mark.parametrize("seed", range(10))
def test_the_slopes_are_those_of_the_loss(seed):
    """A quadratic's difference over a step is its slope in the middle times the step."""
    rng, domain, seen = problem(seed)
    parts = check(domain, seen)
    plan = make_plan(domain, junction_tree(domain, [m.clique for m in seen]), usage(parts))
    quadratic = lower(plan, parts)
    m, step = rng.gamma(0.5, 5.0, quadratic.active.size), rng.normal(size=quadratic.active.size)
    low, middle, high = (quadratic.residual(m + t * step) for t in (-1, 0, 1))
    fall = quadratic.gradient(middle) @ step
    assert (quadratic.loss(high) - quadratic.loss(low)) / 2 == pytest.approx(fall, rel=1e-8)
    moved = np.zeros(m.size)
    quadratic.step(low, high, 0.25, 3.0, moved, 1)
    there = quadratic.residual(m - 0.5 * step)
    np.testing.assert_allclose(moved, -3.0 * quadratic.gradient(there), rtol=1e-8, atol=1e-8)
