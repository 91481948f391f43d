"""Stopping by estimated risk."""

import numpy as np

from fastdp import Measurement
from fastdp.domain import Domain
from fastdp.estimate.estimator import fit

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
