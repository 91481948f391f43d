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
being guessed by doubling. Only x's answers are needed for the loss, and they are averages of z's; its tables are
averaged beside.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from .._core.infer import Engine, axpby, combine, diff_dot
from ..errors import MeasurementError
from .lower import Quadratic

Callback = Callable[[int, float, float], object]
GROW, SHRINK, MARGIN = 1.2, 0.7, 1.3


@dataclass
class Fitted:
    """What an optimiser hands back: node tables, the loss, and how it ended."""

    tables: np.ndarray
    loss: float
    iterations: int = 0
    ended: str = ""
    trace: list[tuple[int, float, float]] = field(default_factory=list)


class Oracle:
    """Belief propagation at given active potentials, with its calls counted. Inactive potentials stay as they began."""

    def __init__(self, engine: Engine, start: np.ndarray, active: np.ndarray, total: float, threads: int):
        self.engine, self.total, self.threads, self.calls = engine, total, threads, 0
        self._whole = active.size == start.size
        self._active, self._theta, self._m = active, start.copy(), np.empty(start.size)

    def __call__(self, theta: np.ndarray, tables: np.ndarray, m: np.ndarray, weight=0.0, average=None) -> None:
        """Fills `tables` and the active marginals `m`; see `Engine.infer` for the running average."""
        if self._whole:
            log_z = self.engine.infer(theta, self.total, tables, m, weight, average)
        else:
            self._theta[self._active] = theta
            log_z = self.engine.infer(self._theta, self.total, tables, self._m, weight, average)
            np.take(self._m, self._active, out=m)
        self.calls += 1
        if log_z is None:
            raise MeasurementError("structural zeros leave no possible row: check `zeros` for a contradiction")
        if not math.isfinite(log_z):
            raise MeasurementError("the fit diverged: potentials are no longer finite; check values and sigma")


class Stop:
    """Decides when a fit is done, and says why.

    "noise": the discrepancy principle. The loss of the truth itself is about half the number of measured rows; a fit that
    is below fits noise. It ends when the loss is down to rows / 2 in all, and for every order k of marginals to
    rows_k / 2 + 3 sqrt(rows_k / 2), so that many noise cells of high order cannot hide a wrong low-order
    marginal; where that is not reachable, by tolerance.
    "tol": the loss fell by less than `tol`, relatively, over the last 10 iterations. "iters": after `iters` oracle calls.
    """

    WINDOW = 10

    def __init__(self, rule: str, quadratic: Quadratic, tol: float, iters: int | None):
        self.rule, self.quadratic, self.tol, self.iters = rule, quadratic, tol, iters
        self.seen: list[float] = []

    def __call__(self, loss: float, m: np.ndarray, calls: int) -> str:
        self.seen.append(loss)
        if self.iters is not None and calls >= self.iters:
            return "iterations"
        if self.rule == "iters":
            return ""
        if self.rule == "noise" and loss <= self.quadratic.rows / 2 and self._orders_fit(m):
            return "noise level"
        if len(self.seen) > self.WINDOW:
            before = min(self.seen[: -self.WINDOW])
            if before - min(self.seen[-self.WINDOW :]) <= self.tol * max(abs(loss), 1e-300):
                return "tolerance"
        return ""

    def _orders_fit(self, m: np.ndarray) -> bool:
        return all(loss <= n / 2 + 3 * math.sqrt(n / 2) for _, loss, n in self.quadratic.by_order(m))


def accelerated(
    oracle: Oracle, quadratic: Quadratic, theta: np.ndarray, dtype, stop: Stop, callback: Callback | None
) -> Fitted:
    threads, size, cells = oracle.threads, theta.size, oracle.engine.cells
    started = time.perf_counter()
    tables, averaged = np.empty(cells, dtype), np.empty(cells, dtype)
    z, z_next, x, y, g = (np.empty(size) for _ in range(5))
    theta_next = np.empty(size)
    oracle(theta, tables, z)
    averaged[:] = tables
    x[:] = z
    loss = quadratic.gradient(x, g, threads)
    smooth = max(float(np.abs(g).max(initial=0.0)), 1e-300)
    t = 1.0
    out = Fitted(averaged, loss)
    pending = 0.0  # weight with which the tables still have to enter the average
    while True:
        elapsed = time.perf_counter() - started
        out.trace.append((oracle.calls, loss, elapsed))
        if callback is not None:
            callback(oracle.calls, loss, elapsed)
        out.ended = stop(loss, x, oracle.calls)
        if out.ended:
            break
        combine(1 - t, x, t, z, y, threads)
        quadratic.gradient(y, g, threads)
        stuck = False
        while True:
            combine(1.0, theta, -1 / (t * smooth), g, theta_next, threads)
            oracle(theta_next, tables, z_next, pending, averaged)
            pending = 0.0
            ahead, _ = diff_dot(theta_next, theta, z_next, threads)
            back, _ = diff_dot(theta_next, theta, z, threads)
            distance = 0.5 * (ahead - back)  # symmetrised: log Z cancels
            need = quadratic.curvature(z_next, z, y, threads) / distance if distance > 0 else 0.0
            if need <= smooth * (1 + 1e-9):
                break
            if stop.iters is not None and oracle.calls >= stop.iters:
                stuck = True
                break
            smooth = max(GROW * smooth, GROW * need)
        if stuck:
            out.ended = "iterations"
            break
        theta, theta_next, z, z_next = theta_next, theta, z_next, z
        axpby(t, z, 1 - t, x, threads)
        pending = t
        smooth = max(SHRINK * smooth, MARGIN * need)
        previous, loss = loss, quadratic.gradient(x, g, threads)
        if distance <= 0 and loss >= previous:
            out.ended = "tolerance"
            out.trace.append((oracle.calls, loss, time.perf_counter() - started))
            break
        if loss <= previous:
            t = (math.sqrt(t**4 + 4 * t * t) - t * t) / 2
        else:
            t = min(1.0, 2 * t)
    if pending:
        axpby(pending, tables, 1 - pending, averaged, threads)
    out.loss, out.iterations = loss, oracle.calls
    return out


def mirror_descent(
    oracle: Oracle, quadratic: Quadratic, theta: np.ndarray, dtype, stop: Stop, callback: Callback | None
) -> Fitted:
    """Plain mirror descent: the step doubles after a success and halves until the loss falls enough. Monotone."""
    threads, size, cells = oracle.threads, theta.size, oracle.engine.cells
    started = time.perf_counter()
    tables = np.empty(cells, dtype)
    x, x_next, g, scratch = (np.empty(size) for _ in range(4))
    theta_next = np.empty(size)
    oracle(theta, tables, x)
    loss = quadratic.gradient(x, g, threads)
    step = 1 / max(float(np.abs(g).max(initial=0.0)), 1e-300)
    out = Fitted(tables, loss)
    while True:
        elapsed = time.perf_counter() - started
        out.trace.append((oracle.calls, loss, elapsed))
        if callback is not None:
            callback(oracle.calls, loss, elapsed)
        out.ended = stop(loss, x, oracle.calls)
        if out.ended:
            break
        for _ in range(60):
            combine(1.0, theta, -step, g, theta_next, threads)
            oracle(theta_next, tables, x_next)
            fall, _ = diff_dot(x, x_next, g, threads)
            loss_next = quadratic.gradient(x_next, scratch, threads)
            if loss - loss_next >= 0.5 * fall and fall >= 0:
                break
            step /= 2
        else:
            out.ended = "tolerance"
            break
        theta, theta_next, x, x_next, g, scratch = theta_next, theta, x_next, x, scratch, g
        loss = loss_next
        step *= 2
    out.loss, out.iterations = loss, oracle.calls
    oracle(theta, tables, x)
    return out
