"""The fused loss: of nodes measured cell by cell, and of whole fits."""

import numpy as np
import pytest

import fastdp
from fastdp.domain import Domain
from fastdp.estimate import quadratic as loss
from fastdp.measurement import Measurement


class Node:
    def __init__(self, table: int):
        self.table = table


def quadratic(targets) -> loss.Quadratic:
    empty = np.empty(0)
    return loss.Quadratic(np.empty(0, int), empty, empty, 0.0, 0, None, empty, empty, [], targets)


@pytest.mark.parametrize("look", [1, 2, 5, 7, 1 << 18])
@pytest.mark.parametrize("own", [False, True])
def test_the_loss_of_direct_nodes_is_over_all_their_cells(monkeypatch, look, own):
    """1/2 sum of precision (cell - target)^2, every cell once, wherever the stretches looked at begin
    and end; and the steepest slope wherever it is."""
    monkeypatch.setattr(loss, "LOOK", look)
    rng = np.random.default_rng(look)
    tables = rng.random(40) * 10
    for steepest in range(7):
        targets, wanted, slopes = [], [], []
        for start, size in ((3, 7), (10, 1), (20, 12)):
            target = rng.random(size) * 10
            if size == 7:
                target[steepest] += 1000
            precision = rng.random(size) + 0.5 if own else 0.7
            targets.append(loss.DirectTarget(Node(start), target, precision))
            gap = tables[start : start + size] - target
            wanted.append(0.5 * np.sum(precision * gap**2))
            slopes.append(np.abs(precision * gap).max())
        losses, steep = quadratic(targets).look(tables)
        assert losses == pytest.approx(wanted, rel=1e-12) and steep == pytest.approx(max(slopes))


@pytest.mark.parametrize("method", ["accelerated", "mirror-descent"])
def test_the_stated_loss_is_that_of_the_models_marginals(method):
    """Over all measurements and all their cells, the first and the last too."""
    rng = np.random.default_rng(3)
    domain = Domain({"a": 3, "b": 4, "c": 2})
    cliques = [("a", "b"), ("b", "c"), ("a",)]
    seen = [Measurement(c, rng.random(domain.cells(c)) * 90 + 5, 2.0 + i) for i, c in enumerate(cliques)]
    model = fastdp.fit(domain, seen, total=500.0, stop="iters", iters=60, method=method)
    loss = sum(0.5 * np.sum(((model.marginal(m.clique).reshape(-1) - m.values) / m.sigma) ** 2) for m in seen)
    assert model.loss == pytest.approx(loss, rel=1e-9)
