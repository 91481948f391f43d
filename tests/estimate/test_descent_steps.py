"""Steps and momentum of the two optimisers, on a descent that only has a curvature."""

from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest

from fastdp.estimate.descent import optimisers
from fastdp.estimate.descent.optimisers import Stop

CLOCK = SimpleNamespace(tick=lambda calls, loss: None)
CALLS = 60


def curvature(step: int) -> float:
    """3 for twenty steps, then 500."""
    return 3.0 if step < 20 else 500.0


class Descent:
    """A descent on a scale: attempts of a size up to 1 / curvature lower the loss by a tenth."""

    def __init__(self, curvature, threads=1):
        self.loss = 100.0
        self.steepest = 64.0
        self.calls = 1
        self.time = 0.0
        self.threads = threads
        self.curvature = curvature
        self.tried = []
        self.kept = []
        self.x = None
        self.z_next = None
        self.quadratic = SimpleNamespace(rows=0, loss=lambda *_: self.loss - self.fall)

    def attempt(self, mix, size):
        """Bregman distance 1, and the curvature that the step is found to have."""
        self.calls += 1
        self.tried.append((mix, size))
        self.fall = 0.1 * self.loss if size * mix <= 1 / self.curvature(len(self.kept)) else -1.0
        return 1e-3, 1e-3 * self.curvature(len(self.kept))

    def accept(self, mix):
        self.kept.append(self.tried[-1])
        self.loss -= 0.1 * self.loss
        return self.loss

    def recomputed_loss(self):
        return self.loss


def accelerated(rule):
    """A descent by the accelerated optimiser: (the descent, weights t of its steps, their bounds
    1 / (t size) on the curvature)."""
    descent = Descent(curvature)
    stop = Stop(rule, descent.quadratic, 1e-9, CALLS)
    loss, ended = optimisers.accelerated(descent, stop, CLOCK)
    assert ended == "iterations"
    assert loss == descent.loss
    assert descent.calls == CALLS
    weights = np.array([t for t, _ in descent.kept])
    bounds = np.array([1 / (t * size) for t, size in descent.kept])
    return descent, weights, bounds


@pytest.mark.parametrize("rule", ["tol", "noise", "iters"])
def test_momentum_follows_nesterov_and_stays_at_steady_where_noise_ends_the_fit(rule):
    """The weights t of the newest point have (1 - t) / t^2 = 1 / t'^2 of the one before."""
    _, weights, _ = accelerated(rule)
    least = optimisers.STEADY if rule == "noise" else 0.0
    free = weights[1:] > least
    assert weights[0] == 1
    assert ((1 - weights[1:]) / weights[1:] ** 2)[free] == pytest.approx(
        (1 / weights[:-1] ** 2)[free]
    )
    assert (weights[1:][~free] == least).all()
    assert (weights[-1] == least) == (rule == "noise")


@pytest.mark.parametrize("rule", ["tol", "noise", "iters"])
def test_accelerated_steps_stay_within_the_curvature_that_is_found(rule):
    """The bound on the curvature falls by SHRINK a step at most, to MARGIN of what was needed."""
    descent, _, bounds = accelerated(rule)
    needed = np.array([curvature(k) for k in range(len(bounds))])
    shrunk = max(optimisers.MARGIN * 3, 64 * optimisers.SHRINK**19)
    assert bounds[0] == 64
    assert (bounds >= needed * (1 - 1e-9)).all()
    assert (bounds[1:] >= optimisers.SHRINK * bounds[:-1] * (1 - 1e-9)).all()
    assert bounds[19] == pytest.approx(shrunk)
    assert bounds[20] == pytest.approx(optimisers.GROW * 500)
    assert len(descent.tried) == len(bounds) + 1, "one step was too long, where the curvature rose"


@pytest.mark.parametrize("rule", ["tol", "noise", "iters"])
def test_plain_descent_halves_and_doubles_its_steps(rule):
    descent = Descent(curvature)
    stop = Stop(rule, descent.quadratic, 1e-9, CALLS)
    assert optimisers.mirror_descent(descent, stop, CLOCK)[1] == "iterations"
    sizes = [size for _, size in descent.tried]
    kept = {size for _, size in descent.kept}
    assert sizes[0] == 1 / 64
    assert {t for t, _ in descent.tried} == {1.0}, "no momentum"
    for size, following in pairwise(sizes[:10]):
        assert following == (2 * size if size <= 1 / 3 and size in kept else size / 2)
    assert descent.loss == pytest.approx(100 * 0.9 ** len(descent.kept))
