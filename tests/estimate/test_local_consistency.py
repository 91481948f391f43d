"""Fits of whole marginals on trees with loops: by which models tables are drawn together."""

import numpy as np

from fastdp import Measurement
from fastdp.domain import Domain
from fastdp.estimate.dual import local_consistency
from fastdp.estimate.estimator import fit

DOMAIN = Domain({"a": 3, "b": 4, "c": 3, "d": 5})
PAIRS = [("a", "b"), ("b", "c"), ("c", "d"), ("a", "d"), ("a", "c")]


def measured():
    rng = np.random.default_rng(0)
    joint = rng.gamma(0.5, 200.0, DOMAIN.shape(tuple(DOMAIN)))
    out = []
    for clique in [*((a,) for a in DOMAIN), *PAIRS]:
        table = joint.sum(axis=tuple(i for i, a in enumerate(DOMAIN) if a not in clique))
        out.append(Measurement(clique, table.reshape(-1) + 20 * rng.normal(size=table.size), 20.0))
    return out


def test_a_table_is_drawn_to_the_model_of_the_others(monkeypatch):
    """Every table of several attributes gets its centre from a model that was not made from that table."""
    made: dict[int, set] = {}  # model -> the cliques of its tables
    kept, drawn = [], []
    solver = local_consistency._Solver
    model, around = solver.model, solver.around

    def watched_model(self, start, tables, tours, **more):
        out = model(self, start, tables, tours, **more)
        kept.append(out)
        made[id(out)] = {frozenset(self.problem.regions[i].clique) for i in tables}
        return out

    def watched_around(self, centre, numbers=None):
        if numbers is not None and id(centre) in made:
            drawn.append(([frozenset(self.problem.regions[i].clique) for i in numbers], made[id(centre)]))
        return around(self, centre, numbers)

    monkeypatch.setattr(solver, "model", watched_model)
    monkeypatch.setattr(solver, "around", watched_around)
    fit(DOMAIN, measured(), stop="risk")
    assert drawn
    for group, others in drawn:
        assert not others & set(group), "a table is no witness for itself"
        assert any(len(clique) > 1 for clique in others)
    assert {clique for group, _ in drawn for clique in group} == set(map(frozenset, PAIRS))
