"""The fused loss: of nodes measured cell by cell, and of whole fits."""

import numpy as np
import pytest

import fastdp
from fastdp.domain import Domain
from fastdp.errors import UsageError
from fastdp.estimate import quadratic as loss
from fastdp.estimate.fit_options import Options
from fastdp.measurement import Measurement
from fastdp.model import sampler


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


@pytest.mark.parametrize(
    "wrong",
    [
        {"stop": "never"},
        {"tol": 0.0},
        {"tol": -1e-9},
        {"iters": 0},
        {"iters": 1.5},
        {"stop": "iters"},
        {"method": "guess"},
        {"tables": "float16"},
    ],
)
def test_options_out_of_range_are_refused(wrong):
    with pytest.raises(UsageError):
        Options(**wrong)


def test_options_at_the_ends_of_their_ranges():
    assert Options(iters=1).calls == 1 and Options(tol=1e-300).small == 1e-300
    assert Options().calls == 10_000
    assert Options(stop="noise").small == Options(stop="risk").small == 1e-4
    assert Options(stop="refined").small == Options(stop="tol").small == 1e-6


@pytest.mark.parametrize("n", [-1, 2**48 + 1, 1.0, True, "3", None])
def test_numbers_of_rows_out_of_range_are_refused(n):
    with pytest.raises(UsageError, match=str(2**48)):
        sampler._count(n)


@pytest.mark.parametrize("n", [0, -1, 2**31 + 1, 2.0, True])
def test_rows_of_a_shard_out_of_range_are_refused(n):
    with pytest.raises(UsageError, match=str(2**31)):
        sampler._count(n, least=1)


def test_numbers_of_rows_at_the_ends_of_their_ranges():
    assert [sampler._count(n) for n in (0, np.int64(5), 2**48)] == [0, 5, 2**48]
    assert [sampler._count(n, least=1) for n in (1, 2**31)] == [1, 2**31]
