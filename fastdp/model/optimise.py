"""The optimisers: the quadratic of `lower.py` minimised over the marginals of the tree.

The iterate is a vector of potentials; one oracle call (belief propagation) turns it into marginals. Both methods are
mirror descent with the entropy as the distance, D(a, b) = total * KL(a || b), whose proximal step is a plain
subtraction of gradients from potentials.

`accelerated` is Bregman proximal gradient with Nesterov's averaging (Auslender and Teboulle 2006; Hanzely, Richtarik
and Xiao 2021). With z the mirror point, x the averaged point and t the weight of the newest:

    y = (1 - t) x + t z;   z' = prox of gradient(y) at z with step 1 / (t L);   x' = (1 - t) x + t z'.

The loss is quadratic, so the upper bound that L must give is exactly

    1/2 |Q (z' - z) / sigma|^2  <=  L * D(z', z)        (D symmetrised),

whatever t is: the failed side of the inequality says which L would have done, so L follows the curvature instead of
being guessed by doubling. Everything but the oracle happens in residuals (marginals minus targets), which are affine, so
that x's residuals are averages of z's and a step costs three passes over them. x's tables are averaged inside the oracle's
next call, which has them in cache anyway.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .._core.infer import Engine, average
from ..errors import MeasurementError
from .lower import Quadratic, Residual

Callback = Callable[[int, float, float], object]
GROW, SHRINK, MARGIN = 1.2, 0.7, 1.3


@dataclass
class Fitted:
    """What an optimiser hands back: node tables, the potentials of its last point, the loss, and how it ended."""

    tables: np.ndarray
    theta: np.ndarray
    loss: float
    iterations: int
    ended: str
    trace: list[tuple[int, float, float]]


class Clock:
    """Keeps (oracle calls, loss, seconds) and tells the caller."""

    def __init__(self, callback: Callback | None):
        self.trace: list[tuple[int, float, float]] = []
        self._started, self._callback = time.perf_counter(), callback

    def tick(self, calls: int, loss: float) -> None:
        elapsed = time.perf_counter() - self._started
        self.trace.append((calls, loss, elapsed))
        if self._callback is not None:
            self._callback(calls, loss, elapsed)


class Oracle:
    """Belief propagation at given active potentials, with its calls counted. Inactive potentials stay as they began."""

    def __init__(
        self, engine: Engine, start: np.ndarray, active: np.ndarray, total: float, threads: int, calls=0
    ):
        self.engine, self.total, self.threads, self.calls = engine, total, threads, calls
        self._whole = active.size == start.size
        self._active, self._theta, self._m = active, start.copy(), np.empty(start.size)

    def __call__(
        self, theta: np.ndarray, tables: np.ndarray, m: np.ndarray, weight=0.0, average=None
    ) -> None:
        """Fills `tables` and the active marginals `m`; see `Engine.infer` for the running average."""
        if self._whole:
            log_z = self.engine.infer(theta, self.total, tables, m, weight, average)
        else:
            self._theta[self._active] = theta
            log_z = self.engine.infer(self._theta, self.total, tables, self._m, weight, average)
            np.take(self._m, self._active, out=m)
        self.calls += 1
        if log_z is None:
            raise MeasurementError(
                "structural zeros leave no possible row: check `zeros` for a contradiction"
            )
        if not math.isfinite(log_z):
            raise MeasurementError(
                "the fit diverged: potentials are no longer finite; check values and sigma"
            )


class Stop:
    """Decides when a fit is done, and says why.

    "noise": the discrepancy principle. The loss of the truth itself is about half the number of measured rows; a fit that
    is below fits noise. It ends when the loss is down to rows / 2 in all, and for every order k of marginals to
    rows_k / 2 + 3 sqrt(rows_k / 2), so that many noise cells of high order cannot hide a wrong low-order
    marginal; where that is not reachable, by tolerance. `slack`: the first bound is this many standard deviations of the
    truth's loss, sqrt(rows / 2), higher; for starts that are good priors, which must not be bent to noise in half of all runs.
    "tol": the loss fell by less than `tol`, relatively, over the last 10 iterations and stands at its best. "iters": after
    `iters` oracle calls.
    """

    WINDOW = 10

    def __init__(self, rule: str, quadratic: Quadratic, tol: float, iters: int | None, slack: float = 0.0):
        self.rule, self.quadratic, self.tol, self.iters = rule, quadratic, tol, iters
        self.noise = quadratic.rows / 2 + slack * math.sqrt(quadratic.rows / 2)
        self.seen: list[float] = []
        self._look_again = 0

    def spent(self, calls: int) -> str:
        return "iterations" if self.iters is not None and calls >= self.iters else ""

    def __call__(self, loss: float, at: Residual, calls: int) -> str:
        self.seen.append(loss)
        if self.spent(calls):
            return "iterations"
        if self.rule == "iters":
            return ""
        if self.rule == "noise" and loss <= self.noise and calls >= self._look_again:
            if self._orders_fit(at):
                return "noise level"
            self._look_again = calls + self.WINDOW // 2  # the look costs as much as a step
        return "tolerance" if self._stalled(loss) else ""

    def _stalled(self, loss: float) -> bool:
        """No progress over the window, and not on the way down from a momentum overshoot: there the loss stands above
        its best for a while before it falls below. Where it never does, the patience ends with half the iterations."""
        if len(self.seen) <= self.WINDOW:
            return False
        small = self.tol * max(abs(loss), 1e-300)
        before = min(self.seen[: -self.WINDOW])
        if before - min(self.seen[-self.WINDOW :]) > small:
            return False
        best = min(self.seen)
        since = len(self.seen) - self.seen.index(best)
        return loss <= best + small or since > max(10 * self.WINDOW, len(self.seen) // 2)

    def _orders_fit(self, at: Residual) -> bool:
        return all(loss <= n / 2 + 3 * math.sqrt(n / 2) for _, loss, n in self.quadratic.by_order(at))


def accelerated(
    oracle: Oracle, quadratic: Quadratic, theta: np.ndarray, dtype, stop: Stop, callback: Callback | None
) -> Fitted:
    threads = oracle.threads
    clock = Clock(callback)
    tables, m, theta_next = np.empty(oracle.engine.cells, dtype), np.empty(theta.size), np.empty(theta.size)
    oracle(theta, tables, m)
    averaged = tables.copy()
    z = quadratic.residual(m)
    x, z_next = z.copy(), z.copy()
    loss = quadratic.loss(x, threads)
    smooth = max(float(np.abs(quadratic.gradient(x)).max(initial=0.0)), 1e-300)
    t = 1.0
    pending = 0.0  # weight with which the tables still have to enter the average
    while True:
        clock.tick(oracle.calls, loss)
        ended = stop(loss, x, oracle.calls)
        if ended:
            break
        while True:
            quadratic.step(theta, x, z, t, 1 / (t * smooth), theta_next, threads)
            oracle(theta_next, tables, m, pending, averaged)
            pending = 0.0
            distance, curvature = quadratic.arrive(m, z, theta_next, theta, z_next, threads)
            need = curvature / distance if distance > 0 else 0.0
            if need <= smooth * (1 + 1e-9):
                break
            ended = stop.spent(oracle.calls)
            if ended:
                break
            smooth = GROW * max(smooth, need)
        if ended:
            break
        theta, theta_next, z, z_next = theta_next, theta, z_next, z
        pending = t
        previous, loss = loss, quadratic.blend(x, z, t, threads)
        smooth = max(SHRINK * smooth, MARGIN * need)
        if distance <= 0 and loss >= previous:
            ended = "tolerance"
            break
        t = (math.sqrt(t**4 + 4 * t * t) - t * t) / 2 if loss <= previous else min(1.0, 2 * t)
    if pending:
        average(pending, tables, averaged, threads)
    return Fitted(averaged, theta, loss, oracle.calls, ended, clock.trace)


def mirror_descent(
    oracle: Oracle, quadratic: Quadratic, theta: np.ndarray, dtype, stop: Stop, callback: Callback | None
) -> Fitted:
    """Plain mirror descent: the step doubles after a success and halves until the loss falls enough. Monotone."""
    threads = oracle.threads
    clock = Clock(callback)
    tables, m, theta_next = np.empty(oracle.engine.cells, dtype), np.empty(theta.size), np.empty(theta.size)
    oracle(theta, tables, m)
    x = quadratic.residual(m)
    x_next = x.copy()
    loss = quadratic.loss(x, threads)
    step = 1 / max(float(np.abs(quadratic.gradient(x)).max(initial=0.0)), 1e-300)
    while True:
        clock.tick(oracle.calls, loss)
        ended = stop(loss, x, oracle.calls)
        if ended:
            break
        for _ in range(60):
            quadratic.step(theta, x, x, 1.0, step, theta_next, threads)
            oracle(theta_next, tables, m)
            distance, _ = quadratic.arrive(m, x, theta_next, theta, x_next, threads)
            loss_next = quadratic.loss(x_next, threads)
            # <gradient, x - x_next> = 2 distance / step: the fall a linear loss would bring
            if distance >= 0 and loss - loss_next >= distance / step:
                break
            step /= 2
        else:
            ended = "tolerance"
            break
        theta, theta_next, x, x_next, loss = theta_next, theta, x_next, x, loss_next
        step *= 2
    calls = oracle.calls
    oracle(theta, tables, m)
    return Fitted(tables, theta, loss, calls, ended, clock.trace)
