"""Stopping by estimated risk."""

import numpy as np
import pytest

from fastdp import Measurement
from fastdp.domain import Domain
from fastdp.estimate.descent.descent_solver import perturb
from fastdp.estimate.descent.optimisers import SPREAD
from fastdp.estimate.estimator import fit
from fastdp.estimate.linear_rows import check, usage
from fastdp.estimate.lower import lower
from fastdp.model.junction_tree import junction_tree
from fastdp.model.layout import make_plan

DOMAIN = Domain({"a": 12, "b": 10, "c": 14, "d": 9})
TRIPLES = [("a", "b", "c"), ("b", "c", "d")]
LOW = [("a",), ("b",), ("c",), ("d",), ("a", "b"), ("b", "c"), ("a", "c"), ("c", "d")]


def truth(seed):
    """A smooth joint distribution of 40,000 rows with clear pairs."""
    rng = np.random.default_rng(seed)
    codes = np.stack(np.meshgrid(*(np.linspace(-1, 1, n) for n in DOMAIN.values()), indexing="ij"))
    slope = rng.normal(size=(4, 4))
    joint = np.exp(np.einsum("iabcd,ij,jabcd->abcd", codes, slope, codes))
    return 40_000 * joint / joint.sum()


def marginal(joint, clique):
    kept = [a for a in DOMAIN if a in clique]
    table = joint.sum(axis=tuple(i for i, a in enumerate(DOMAIN) if a not in clique))
    return table.transpose([kept.index(a) for a in clique]).reshape(-1)


def measured(joint, seed, sigma=40.0):
    rng = np.random.default_rng(seed)
    out = []
    for clique in [*LOW, *TRIPLES]:
        values = marginal(joint, clique)
        out.append(Measurement(clique, values + rng.normal(size=values.size) * sigma, sigma))
    return out


def risk(model, joint, seen):
    return sum(
        np.sum(((model.marginal(m.clique).reshape(-1) - marginal(joint, m.clique)) / m.sigma) ** 2)
        for m in seen
    )


def test_sway_is_what_it_says():
    """Sum of (y' - y) (Q m' - Q m) / sigma^2, for cells, functionals and repeated measurements."""
    joint = truth(0)
    rng = np.random.default_rng(3)
    seen = measured(joint, 0)
    matrix = (rng.random((7, 120)) < 0.3).astype(float)
    seen.append(Measurement(("a", "b"), matrix @ marginal(joint, ("a", "b")), 3.0, matrix))
    seen.append(Measurement(("b", "a"), marginal(joint, ("b", "a")) + 5.0, rng.uniform(1, 2, 120)))
    perturbed = [perturb(m, i) for i, m in enumerate(seen)]
    parts = check(DOMAIN, seen)
    plan = make_plan(DOMAIN, junction_tree(DOMAIN, [m.clique for m in seen]), usage(parts))
    here, there = lower(plan, parts), lower(plan, check(DOMAIN, perturbed))
    tables = {}
    for seed in (1, 2):
        tables[seed] = np.random.default_rng(seed).gamma(1.0, 1.0, DOMAIN.shape(tuple(DOMAIN)))
    vectors = {}
    for seed, table in tables.items():
        m = np.zeros(plan.size)
        for place in plan.places.values():
            m[place.at : place.at + place.size] = marginal(table, place.axes)
        vectors[seed] = m[here.active]
    got = here.divergence(here.residual(vectors[1]), there.residual(vectors[2]), there)
    want = 0.0
    for before, after in zip(seen, perturbed, strict=True):
        gap = marginal(tables[2], before.clique) - marginal(tables[1], before.clique)
        gap = gap if before.query is None else before.query @ gap
        want += np.sum((after.values - before.values) * gap / np.square(before.sigma))
    assert got == pytest.approx(want, rel=1e-9)


def test_shaking_is_fixed_and_in_proportion():
    m = Measurement(("a",), np.zeros(12), np.arange(1.0, 13.0))
    one, two, other = perturb(m, 4), perturb(m, 4), perturb(m, 5)
    assert (one.values == two.values).all() and (one.values != other.values).any()
    assert np.allclose(np.abs(one.values), SPREAD * m.sigma)


def test_least_risk_is_near_the_best_stop():
    """Over 8 draws of the noise: never far from the best of a path, and in sum better than the noise level.
    Fixed seeds."""
    total = {"risk": 0.0, "noise": 0.0}
    for seed in range(8):
        joint = truth(seed)
        seen = measured(joint, seed)
        chosen = fit(DOMAIN, seen, stop="risk")
        assert chosen.ended in ("least risk", "tolerance")
        path = [fit(DOMAIN, seen, stop="iters", iters=n) for n in (3, 6, 10, 15, 25, 40, 70, 120)]
        best = min(risk(model, joint, seen) for model in path)
        assert risk(chosen, joint, seen) < 1.5 * best
        total["risk"] += risk(chosen, joint, seen)
        total["noise"] += risk(fit(DOMAIN, seen), joint, seen)
    assert total["risk"] < total["noise"]


def test_refined_without_anything_finer_is_least_risk():
    seen = [m for m in measured(truth(2), 2) if len(m.clique) <= 2]
    assert fit(DOMAIN, seen, stop="refined").ended in ("least risk", "tolerance")


def test_zeros_and_repeats_hold():
    joint = truth(3)
    mask = np.zeros((12, 10), bool)
    mask[2, 3] = True
    seen = measured(joint, 3)
    models = [
        fit(DOMAIN, seen, stop="risk", method="accelerated", zeros={("a", "b"): mask}) for _ in range(2)
    ]
    assert models[0].marginal(("a", "b"))[2, 3] == 0
    assert (models[0].marginal(("a", "b", "c")) == models[1].marginal(("a", "b", "c"))).all()
