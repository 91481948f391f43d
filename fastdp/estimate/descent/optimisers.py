"""The optimisers, which minimise the loss of `quadratic.py` over the marginals of the tree.

The iterate is a vector of potentials; one oracle call (belief propagation) turns it into marginals.
Both methods are mirror descent with the entropy as the distance, D(a, b) = total * KL(a || b),
whose proximal step is a plain subtraction of gradients from potentials.

`accelerated` is Bregman proximal gradient with Nesterov's averaging (Auslender and Teboulle 2006;
Hanzely, Richtarik and Xiao 2021). With z the mirror point, x the averaged point and t the weight of
the newest:

    y = (1 - t) x + t z;   z' = prox of gradient(y) at z with step 1 / (t L);   x' = (1 - t) x + t z'.

The loss is quadratic, so the upper bound that L must give is exactly

    1/2 |Q (z' - z) / sigma|^2  <=  L * D(z', z)        (D symmetrised),

whatever t is: the failed side of the inequality says which L would have done, so L follows the
curvature instead of being guessed by doubling. A step is taken from the tables themselves
(`Engine.move`): multiplied by the exp of what the potentials change by, they are the next ones. In
a node measured cell by cell, that one pass makes the gradient, the step, the average, and the sums
that the inequality and the loss need. Everything else happens in the vector's residuals (marginals
minus targets). These are affine, so x's residuals are averages of z's.
"""

import math

import numpy as np

from ..._core.infer import Engine, State, average
from ..._core.team import Team
from ...errors import MeasurementError
from ..quadratic import Quadratic, Residual
from ..solver import Clock

GROW = 1.2
"""Factor of the smoothness bound beyond what a step needed, after that step went too far."""
SHRINK = 0.7
"""The most by which the smoothness bound falls from one step to the next, as a factor."""
MARGIN = 1.3
"""The smoothness bound stays this factor above what the last step needed."""
FAR = 8.0
"""Factor of the smoothness bound where a step went so far that its need cannot be measured."""

STEADY = 0.1
"""The least weight t of the newest point in a fit that stops by what the noise explains. Full
momentum runs ahead in the directions that are measured worst, which is where the noise is. With
this little of it, an early stop is as good as plain mirror descent's, at a fifth of the calls
(bench/stopping.py)."""


AGAIN = 10
"""A stop by tolerance is final if the loss fell by less than this many tolerances since momentum
was last reset to 0. Otherwise momentum is reset and the fit continues."""


class DescentState:
    """The state of a descent: the mirror point z, the average x, and the vector's residuals at
    both.

    `attempt` tries a step from z, and may be called again with another size; `accept` moves there.
    `tables` holds the tables at the start (not their logarithms) and becomes those of z. Calls of
    the engine are counted. `time` is how long the mirror flow has run at x, in rows. Step sizes add
    up at z, and x averages them like everything else.
    """

    def __init__(
        self,
        engine: Engine,
        quadratic: Quadratic,
        tables: np.ndarray,
        total: float,
        threads: int | Team,
        calls: int = 0,
    ):
        self.time = self._z_time = self._size = 0.0
        self.engine = engine
        self.quadratic = quadratic
        self.total = total
        self.threads = threads
        self._active = quadratic.active
        self._whole = self._active.size == max(engine.size, 1)
        self._z = engine.state(tables)
        self._z_next = engine.state()
        self._x = tables.copy()
        self._pending = 0.0
        self._delta = np.zeros(max(engine.size, 1))
        self._sums = np.zeros((len(quadratic.targets), 3))
        self._slopes = self._sums[:, 1]
        self._bends = self._sums[:, 2]
        self._parts = np.full(3, 0.5)
        engine.adopt(self._z, total)
        self.calls = calls + 1
        self.z = quadratic.residual(self._marginals(self._z))
        self.z.direct, steepest = quadratic.look(tables)
        self.x, self.z_next = self.z.copy(), self.z.copy()
        self.loss = quadratic.loss(self.x, threads)
        steepest = max(steepest, float(np.abs(quadratic.gradient(self.x)).max(initial=0.0)))
        self.steepest = max(steepest, 1e-300)

    def _marginals(self, state: State) -> np.ndarray:
        """The marginals that are measured."""
        return state.m if self._whole else state.m[self._active]

    def attempt(self, mix: float, size: float) -> tuple[float, float]:
        """A step of this size against the gradient at (1 - mix) x + mix z. Returns its symmetrised
        Bregman distance and 1/2 |Q (z' - z) / sigma|^2; (0, inf) where it is too long for the
        number format."""
        self._size = size
        delta = self._delta
        if not self.quadratic.all_direct:
            delta = self._delta if self._whole else np.empty(self._active.size)
            self.quadratic.step(self.x, self.z, mix, size, delta, self.threads)
            if not self._whole:
                self._delta[self._active] = delta
        # By position, as in `Quadratic`: the stable ABI makes a dictionary of names at every call.
        log_z, far = self.engine.move(
            self._z,
            self._x,
            self._pending,
            self._delta,
            size,
            mix,
            self.total,
            self._z_next,
            self._sums,
        )
        self._pending = 0.0
        self.calls += 1
        if far and size > 1e-300:
            return 0.0, math.inf
        if far or not math.isfinite(log_z):
            raise MeasurementError(
                "the fit diverged: potentials are not finite; check values and sigma"
            )
        distance = curvature = 0.0
        if not self.quadratic.all_direct:
            m = self._marginals(self._z_next)
            distance, curvature = self.quadratic.arrive(m, self.z, delta, self.z_next, self.threads)
        # ufuncs' own `reduce`, and numbers written into one array: a small model's call is mostly
        # this
        distance -= 0.5 * size * float(np.add.reduce(self._slopes))
        curvature += 0.5 * float(np.add.reduce(self._bends))
        self._parts[1] = mix
        self._parts[2] = 0.5 * mix * mix
        self.z_next.direct = direct = self._sums @ self._parts  # of x', were it accepted
        least = np.minimum.reduce(direct, initial=0.0)
        if least < 0 and least < -1e-9 * self._sums[:, 0].max(initial=0.0):
            return 0.0, math.inf  # a loss below 0: the step is too long for these sums
        return distance, curvature

    def accept(self, mix: float) -> float:
        """x = (1 - mix) x + mix z', z = z'; returns the loss of x."""
        self._z, self._z_next = self._z_next, self._z
        self.z, self.z_next = self.z_next, self.z
        self._pending = mix  # x's tables follow in the next attempt, which has them in cache
        self.x.direct = self.z.direct
        self.loss = self.quadratic.blend(self.x, self.z, mix, self.threads)
        self._z_time += self._size
        self.time += mix * (self._z_time - self.time)
        return self.loss

    def restart(self) -> float:
        """Take back an `accept` that was not followed by an attempt, and go on from z = x. Its
        residual is computed again from its tables. Returns the loss there."""
        self._pending = 0.0
        np.copyto(self._z.cells, self._x)
        self.engine.adopt(self._z, self.total)
        self.calls += 1
        self.z = self.quadratic.residual(self._marginals(self._z))
        self.z.direct, _ = self.quadratic.look(self._x)
        self.x = self.z.copy()
        self.loss = self.quadratic.loss(self.x, self.threads)
        return self.loss

    def tables(self) -> np.ndarray:
        """The tables of x; ends the descent."""
        if self._pending:
            self.engine.normalise(self._z, self.total)
            average(self._pending, self._z.cells, self._x, self.threads)
            self._pending = 0.0
        return self._x

    def recomputed_loss(self) -> float:
        """The loss of `tables()`, computed again from them: sums over steps lose it where a step
        went very far. Writes over the point that was tried last."""
        tables = self.tables()
        state = self._z_next
        np.copyto(state.cells, tables)
        self.engine.adopt(state, self.total)
        here = self.quadratic.residual(self._marginals(state))
        here.direct, _ = self.quadratic.look(tables)
        return self.quadratic.loss(here, self.threads)


class Stop:
    """Decides when a fit is done, and says why.

    "noise": the discrepancy principle. The loss of the truth itself is about half the number of
    measured rows; a fit that is below fits noise. It ends when the loss is at most rows / 2 in all,
    and at most rows_k / 2 + 3 sqrt(rows_k / 2) for every order k of marginals. So many noisy cells
    of high order cannot hide a wrong low-order marginal. Where that is not reachable, it ends by
    tolerance. `slack`: the first bound is higher by this many standard deviations of the truth's
    loss, sqrt(rows / 2). It is for starts that are good priors: these must not be bent to noise in
    half of all runs. "tol": the loss fell by less than `tol`, relatively, over the last 10
    iterations and stands at its best. "iters": after `iters` oracle calls, or a time of the flow
    (`flow`, in rows).
    """

    WINDOW = 10

    def __init__(
        self,
        rule: str,
        quadratic: Quadratic,
        tol: float,
        iters: int | None,
        slack: float = 0.0,
        flow: float | None = None,
    ):
        self.rule = rule
        self.quadratic = quadratic
        self.tol = tol
        self.iters = iters
        self.flow = math.inf if flow is None else flow
        self.noise = quadratic.rows / 2 + slack * math.sqrt(quadratic.rows / 2)
        self.seen: list[float] = []
        self._look_again = 0

    def out_of_calls(self, calls: int) -> str:
        """ "iterations" if no oracle calls are left, else ""."""
        return "iterations" if self.iters is not None and calls >= self.iters else ""

    def __call__(self, loss: float, at: Residual, calls: int, time: float = 0.0) -> str:
        """Why the fit is done at this loss and residual; "" while it goes on."""
        self.seen.append(loss)
        if self.out_of_calls(calls):
            return "iterations"
        if self.rule == "iters":
            return "time" if time >= self.flow else ""
        if self.rule == "noise" and loss <= self.noise and calls >= self._look_again:
            if self.quadratic.orders_fit(at):
                return "noise level"
            self._look_again = calls + self.WINDOW // 2  # the look costs as much as a step
        return "tolerance" if self._stalled(loss) else ""

    def forget(self, loss: float) -> None:
        """Forget the losses so far: tolerance is judged from here on."""
        self.seen = [loss]

    def _stalled(self, loss: float) -> bool:
        """No progress over the window, and not on the way down from a momentum overshoot. There the
        loss stands above its best for a while before it falls below. Where it never does, the
        patience ends with half the iterations."""
        if len(self.seen) <= self.WINDOW:
            return False
        small = self.tol * max(abs(loss), 1e-300)
        before = min(self.seen[: -self.WINDOW])
        if before - min(self.seen[-self.WINDOW :]) > small:
            return False
        best = min(self.seen)
        since = len(self.seen) - self.seen.index(best)
        return loss <= best + small or since > max(10 * self.WINDOW, len(self.seen) // 2)


def accelerated(descent: DescentState, stop: Stop, clock: Clock) -> tuple[float, str]:
    """(the loss, how it ended)."""
    smooth = descent.steepest
    loss = descent.loss
    t = 1.0
    steady = smooth
    restarted = math.inf
    least = STEADY if stop.rule == "noise" else 0.0
    while True:
        clock.tick(descent.calls, loss)
        ended = stop(loss, descent.x, descent.calls, descent.time)
        if (
            ended == "tolerance"
            and stop.rule == "tol"
            and loss < restarted * (1 - AGAIN * stop.tol)
        ):
            # The loss may only stall because momentum overshot: go on without momentum, unless the
            # last such restart gained nothing.
            loss = restarted = descent.restart()
            t = 1.0
            smooth = max(smooth, steady)
            ended = ""
            stop.forget(loss)
        if ended:
            break
        while True:
            distance, curvature = descent.attempt(t, 1 / (t * smooth))
            if distance > 0:
                need = curvature / distance
            elif curvature == math.inf:
                need = FAR * smooth
            else:
                need = 0.0
            if need <= smooth * (1 + 1e-9):
                break
            ended = stop.out_of_calls(descent.calls)
            if ended:
                break
            smooth = GROW * max(smooth, need)
        if ended:
            break
        previous = loss
        loss = descent.accept(t)
        if distance <= 0 and not loss < previous:  # the step is smaller than rounding errors
            loss = descent.restart()
            t = 1.0
            smooth = GROW * max(smooth, steady)
            if not loss < restarted * (1 - stop.tol):  # nothing was gained since the last restart
                ended = "tolerance"
                break
            restarted = loss
            continue
        steady = smooth if distance > 0 else steady
        smooth = max(SHRINK * smooth, MARGIN * need)
        if loss <= previous:
            t = max(least, (math.sqrt(t**4 + 4 * t * t) - t * t) / 2)
        else:
            t = min(1.0, 2 * t)
    return descent.recomputed_loss(), ended


def mirror_descent(descent: DescentState, stop: Stop, clock: Clock) -> tuple[float, str]:
    """Plain mirror descent: the step doubles after a success and halves until the loss falls
    enough. Monotone."""
    loss = descent.loss
    step = 1 / descent.steepest
    while True:
        clock.tick(descent.calls, loss)
        ended = stop(loss, descent.x, descent.calls, descent.time)
        if ended:
            break
        for _ in range(60):
            distance, curvature = descent.attempt(1.0, step)
            finite = curvature < math.inf
            if finite:
                loss_next = descent.quadratic.loss(descent.z_next, descent.threads)
            else:
                loss_next = math.inf
            # <gradient, x - x_next> = 2 distance / step: the fall a linear loss would bring
            if distance >= 0 and loss - loss_next >= distance / step:
                break
            step /= 2
        else:
            ended = "tolerance"
            break
        loss = descent.accept(1.0)
        step *= 2
    return loss, ended
