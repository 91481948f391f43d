"""Fits AdaGrid's measurements by the mirror flow, in long implicit strides.

Mirror descent is Euler's method for d theta / dt = - gradient of the loss. Where fine cells stand
far above their noise and remainders do not, the flow is stiff. A plain step is bounded by the
largest count / variance. Thousands of them are needed before small counts have moved at all.
Implicit strides are not bounded so. One of length h from the potentials theta, with the multipliers
p of the stride before, is the minimiser of

    h loss(mu) + KL(mu || model at theta - c B' p);

its dual has one multiplier per functional (see `functionals`), is smooth and strictly convex,

    g(l) = y - f(theta - B' l) + (s2 / h) (l - c p) = 0,        Hessian  B Cov B' + diag(s2 / h),

and one call of the oracle gives its gradient. It is solved by L-BFGS with the approximate inverse
of csrc/ancestors.h as its first guess of the inverse Hessian. As Cov changes slowly, pairs of one
stride serve the next. c and the factor of h are those of the backward difference formula of second
order (BDF2), so that few strides follow the flow closely. An early stop then leaves what was
measured badly where plain mirror descent leaves it. First-order strides (iterated KL penalties) do
not.

Time is counted in units of the noise of a cell: a count of x standard deviations has relaxed by
about exp(- x t).
"""

import math
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
from msgspec import Struct

from ..._core.ancestors import advance, slope_at
from ..._core.infer import Engine, State
from ...errors import MeasurementError
from ...model.graphical_model import nodes_of
from ...model.layout import Plan, make_plan
from ..fit_options import MOST_CALLS, NOISY, Options
from ..lower import lower
from ..quadratic import Quadratic
from ..solver import Clock, Solution
from ..task import Task, errors_of, single
from .functionals import Functionals, are_adagrid_rows

# The constants of this module were chosen on one seed of four problems: Chicago's coded trips and a
# million simulated ones, at epsilon 1 and 10. SETTLED, LAST and SMOOTH were also chosen on one seed
# of ten million trips at epsilon 1 and of a second million at epsilon 10. Further seeds of these
# tables were seen before the end rule was changed; adult was run under both rules and decided
# nothing (bench/adagrid_fits.py).
FIRST = 0.018
"""Length of the first stride. Each further one is twice the last, up to the larger of LONG and GROW
times the time so far."""
LONG = 0.07
"""Length that strides may always grow to."""
GROW = 0.35
"""Part of the time so far that strides may grow to."""

RAMP = 20
"""Iterations of the first stride, whose length grows to its own from a twelfth: the start is far
away."""

INNER = 12
"""Iterations of a stride, if nothing ends it earlier or later."""
MOST = 40
"""Iterations of a stride at most, if its residual is above NEAR or the loss has not fallen."""
CLOSE = 0.1
"""Residual (rms, in standard deviations) at which a stride ends early."""
NEAR = 1.5
"""Residual (rms, in standard deviations) above which a stride goes on after INNER iterations."""

MEMORY = 10
"""Pairs of L-BFGS. Five need a tenth more calls, thirty no fewer."""

REACH = 1.5
"""The largest change of a potential in one iteration."""

PATIENCE = 3
"""Strides below the noise level that may pass until every order of marginals is near its own."""

STEEP = 0.4
"""A step is taken if the slope at its end is at most this part of that at its beginning, with the
sign turned."""

SETTLED = 0.8
"""stop="refined" ends where the loss of the distinct functionals is this part of what their noise
explains. The error of the scores is least between 0.73 and 0.9 on the four problems: pairs would go
on, cells of higher order would rather end earlier. So pairs and single attributes alone make a last
stride. The loss of all rows stands at 0.90 to 0.98 of its own level there: most rows are repeated
questions, whose disagreement nothing can lower."""

PAIRS = 2
"""The highest order of the functionals that take part in the last stride."""
LAST = 0.04
"""Length of the last stride."""
HELD = 1e8
"""Factor on the variance of the other functionals during the last stride."""

TRIES = 4
"""Calls at most for going back along a stride."""
BELOW = 0.02
"""How far below the wanted loss they aim, as a fraction of the overshoot."""
WIDE = 0.1
"""How far below the wanted loss is near enough, as a fraction of the overshoot."""

SMOOTH = 0.25
"""Time for which single attributes follow the flow, in closed form, from uniform to the start of a
fit."""


class Goal(NamedTuple):
    """The loss at which a flow ends, and the name of this ending in the model."""

    loss: float
    name: str


def goal_of(options: Options, quadratic: Quadratic, lines: Functionals) -> Goal:
    """The loss at which a fit with stop="noise" or "refined" ends (see `Stop`, and SETTLED)."""
    level = quadratic.rows / 2 + options.slack * math.sqrt(quadratic.rows / 2)
    if options.stop == "refined":
        return Goal(min(level, lines.constant + SETTLED * lines.size / 2), "noise level, settled")
    return Goal(level, "noise level")


def denoise(x: np.ndarray, centre: float, time: float) -> np.ndarray:
    """Where the mirror flow of the loss (u - x)^2 / 2 from u = `centre` is after `time`: positive,
    monotone in x."""
    decay = np.exp(np.clip(-x * time, -700, 700))
    grown = -np.expm1(-np.clip(x * time, -700, 700)) / np.where(x == 0, 1, x)
    rate = np.where(np.abs(x) * time < 1e-8, time, grown)
    return 1 / (decay / centre + rate)


def adopted(engine: Engine, tables: np.ndarray, total: float) -> State:
    """The state with these tables, which become its own."""
    state = engine.state(tables)
    engine.adopt(state, total)
    return state


class Flow:
    """Where a flow stands: the state z, its functionals f, and what is known of the curvature."""

    def __init__(
        self, engine: Engine, lines: Functionals, z: State, total: float, most: int = MOST_CALLS
    ):
        self.engine = engine
        self.lines = lines
        self.total = total
        self.calls = 1
        self.most = most
        self._z = z
        self._at = engine.state()
        self._spare = engine.state()
        self._delta = np.zeros(max(engine.size, 1))
        self._none = np.zeros((0, 3))
        self.f = lines.answers(self._z.m, engine.team)
        self.loss = lines.loss(self.f)
        self._inverse = lines.ancestors(engine.team)
        self._pairs: list[tuple[np.ndarray, np.ndarray]] = []
        self.time = 0.0
        self._length = 0.0
        self._velocity = np.zeros(lines.size)
        self.unit = float(np.median(np.sqrt(lines.variance)))

    def _move(self, to: State) -> bool:
        """The state at z's potentials plus `_delta`; False if that is too far for the number
        format."""
        log_z, far = self.engine.move(
            self._z,
            x=self._z.cells,
            weight=0.0,
            delta=self._delta,
            size=1.0,
            mix=1.0,
            total=self.total,
            out=to,
            sums=self._none,
        )
        self.calls += 1
        return not far and math.isfinite(log_z)

    def _try(self) -> np.ndarray | None:
        """The functionals where potentials have changed from z by `_delta`; the state there is in
        `_spare`."""
        return (
            self.lines.answers(self._spare.m, self.engine.team) if self._move(self._spare) else None
        )

    def smooth_start(self) -> None:
        """Move the measured single attributes, in one call, to where the flow is after the time
        SMOOTH."""
        for span, numbers in self.lines.singles():
            sd = np.sqrt(self.lines.variance[numbers])
            wanted = sd * denoise(
                self.lines.target[numbers] / sd, self.total / (numbers.size * sd), SMOOTH
            )
            with np.errstate(divide="ignore"):
                change = np.log(wanted * self.total / wanted.sum() / self._z.m[span])
            self._delta[span] = np.where(self._z.m[span] > 0, change, 0.0)
        if self._move(self._spare):
            self._z, self._spare = self._spare, self._z
            self.f = self.lines.answers(self._z.m, self.engine.team)
            self.loss = self.lines.loss(self.f)

    def next_length(self) -> float:
        return FIRST if not self._length else min(2 * self._length, max(LONG, GROW * self.time))

    def stride(self, length: float, clock: Clock, only: np.ndarray | None = None) -> None:
        """One implicit stride. Afterwards z is its end; its beginning is kept for `back`. `only`: a
        step of first order that fits these functionals, while the others have no effect."""
        ratio = length / self._length if self._length and only is None else 0.0
        variance = (
            self.lines.variance if only is None else np.where(only, 1.0, HELD) * self.lines.variance
        )
        keep = ratio * ratio / (1 + 2 * ratio)
        share = (1 + ratio) / (1 + 2 * ratio)
        pull = keep * self._velocity
        steps = np.full(MOST, share * length)
        if not self._length:
            steps[:RAMP] = np.geomspace(length / 12, length, RAMP)
        enough = INNER if self._length else RAMP
        at = np.zeros(self.lines.size)
        f = self.f
        loss = self.loss
        soft = at
        known = None
        self._changed = np.zeros(self.lines.active.size)  # of potentials at these multipliers
        for i, step in enumerate(steps):
            time = step * self.unit
            if i == 0 or (not self._length and i in (RAMP // 4, RAMP // 2)):
                m = self._z.m if i == 0 else self._at.m
                self._inverse.fill(m, f, variance, time, self.total)
            if i == 0 or step != steps[i - 1]:
                soft = variance / time
                known = None
            if known is None or only is not None:
                slope, _, steep, _ = slope_at(
                    target=self.lines.target,
                    variance=variance,
                    f=f,
                    soft=soft,
                    at=at,
                    pull=pull,
                    way=at,
                )
            else:
                slope, steep = known
            if i > 2 and (self._length or i >= RAMP):
                rms = math.sqrt(steep / at.size)
                if rms < CLOSE or (i >= enough and rms < NEAR and loss < self.loss):
                    break
            at, f, loss, known = self._iterate(at, f, slope, soft, pull)
            clock.tick(self.calls, loss)
            if self.calls >= self.most:
                break
        self._velocity = at
        self._length = length
        self.time += length
        self._z, self._at = self._at, self._z
        self.f = f
        self.loss = loss

    def _iterate(self, at, f, slope, soft, pull):
        """One step of L-BFGS from the multipliers `at` with functionals f. Returns the new ones,
        the loss there, and the slope with the sum of its squares over the variance; the state is in
        `_at`. A pair is a change of multipliers and that of -f; the rest of the Hessian is the
        diagonal `soft`, which changes with the stride."""
        way, descent = self._inverse.direction(self._pairs, slope, soft)
        if not descent < 0:  # the pairs are inaccurate from rounding, so they are dropped
            self._pairs.clear()
            way, descent = self._inverse.direction([], slope, soft)
        change = self.lines.potential_change(way, self.engine.team)
        step = min(1.0, REACH / max(1e-300, float(change.max()), -float(change.min())))
        while True:
            moved, to, changed = advance(
                step,
                way,
                at,
                change=change,
                before=self._changed,
                active=self.lines.active,
                delta=self._delta,
            )
            there = self._try()
            if there is not None:
                slope, ahead, steep, left = slope_at(
                    self.lines.target,
                    self.lines.variance,
                    f=there,
                    soft=soft,
                    at=to,
                    pull=pull,
                    way=way,
                )
                if ahead <= STEEP * abs(descent) or step < 1e-4 or self.calls >= self.most:
                    break
                # The step at which the slope would be 0 if it were linear.
                step *= max(0.1, descent / (descent - ahead))
            elif step < 1e-12:
                raise MeasurementError(
                    "the fit diverged: potentials are not finite; check values and sigma"
                )
            else:
                step *= 0.4
        self._pairs = [*self._pairs, (moved, f - there)][-MEMORY:]
        self._at, self._spare, self._changed = self._spare, self._at, changed
        return to, there, self.lines.constant + 0.5 * left, (slope, steep)

    def back(self, before: float, wanted: float) -> None:
        """Go back along the last stride, from z to where the loss is just below `wanted`; before:
        the loss where it began. Potentials are linear in between; a few calls by the rule of false
        position."""
        search = crossing(before, self.loss, wanted)
        share = next(search, None)
        self._z, self._at = self._at, self._z  # z: where the stride began, at: where it leads
        while share is not None and self.calls < self.most:
            self._delta[self.lines.active] = self.lines.potential_change(
                share * self._velocity, self.engine.team
            )
            f = self._try()
            if f is None:
                break
            loss = self.lines.loss(f)
            if loss <= wanted:
                self._at, self._spare = self._spare, self._at
                self.f = f
                self.loss = loss
            try:
                share = search.send(loss)
            except StopIteration:
                break
        self._z, self._at = self._at, self._z

    def tables(self) -> np.ndarray:
        """The tables at the current point; ends the flow."""
        self.engine.normalise(self._z, self.total)
        return self._z.cells

    def fits(self, quadratic: Quadratic, stop: str) -> bool:
        """With stop="noise": every order of marginals is near its own noise level."""
        return stop != "noise" or quadratic.orders_fit(
            quadratic.residual(self._z.m[quadratic.active])
        )


def crossing(before: float, after: float, wanted: float) -> Generator[float, float, None]:
    """Shares of a stride to try, by the rule of false position, until the loss is just below
    `wanted`. The loss is `before` at the stride's start and `after` at its end. It is sent the loss
    at each share."""
    slow = (0.0, before)
    fast = (1.0, after)
    aim = wanted - BELOW * (wanted - after)
    width = WIDE * (wanted - after)
    for _ in range(TRIES):
        if fast[1] >= wanted - width:
            return
        share = slow[0] + (fast[0] - slow[0]) * (slow[1] - aim) / (slow[1] - fast[1])
        loss = yield share
        if loss > wanted:
            slow = (share, loss)
        else:
            fast = (share, loss)


class FlowPlan(Struct, frozen=True):
    """A flow that stands at its start, and where it shall end."""

    flow: Flow
    goal: Goal
    layout: Plan
    quadratic: Quadratic
    options: Options
    warm: bool


class FlowSolver:
    """The mirror flow from the task's start to the end that the options ask for."""

    methods = ("auto", "flow")
    takes = 'AdaGrid\'s rows with stop="noise" or "refined"'

    def applies(self, task: Task, options: Options) -> bool:
        return options.stop in ("noise", "refined") and are_adagrid_rows(task.parts)

    def plan(self, task: Task, options: Options) -> FlowPlan:
        layout = make_plan(task.domain, task.tree, task.used())
        dtype = np.dtype(options.tables)
        quadratic = lower(layout, task.parts, dtype)

        def start() -> tuple[Engine, State]:
            tables = task.start(layout, quadratic)
            engine = Engine(layout, task.team, dtype)
            return engine, adopted(
                engine, single(tables) if dtype == np.float32 else tables, task.total
            )

        with ThreadPoolExecutor(1) as beside:  # planning is one thread's, the start the team's
            started = beside.submit(start)
            lines = Functionals(layout, quadratic)
            lines.containing  # noqa: B018
            engine, z = started.result()
        flow = Flow(engine, lines, z, task.total, options.calls)
        goal = goal_of(options, quadratic, lines)
        return FlowPlan(flow, goal, layout, quadratic, options, task.warm_start is not None)

    def run(self, plan: FlowPlan, clock: Clock) -> Solution:
        flow = plan.flow
        flow.calls += clock.calls
        clock.tick(flow.calls, flow.loss)
        if not plan.warm:
            flow.smooth_start()
        ended = run(flow, plan.goal, plan.options, plan.quadratic, clock)
        nodes = nodes_of(plan.layout, flow.tables())
        return Solution(nodes, flow.loss, flow.calls, ended, errors_of(plan.layout, plan.quadratic))


def run(flow: Flow, goal: Goal, options: Options, quadratic: Quadratic, clock: Clock) -> str:
    """Strides until the goal; returns how it ended."""
    if flow.loss <= goal.loss and flow.fits(quadratic, options.stop):
        return goal.name
    patience = PATIENCE
    while flow.calls < options.calls:
        before = flow.loss
        flow.stride(flow.next_length(), clock)
        if flow.loss <= goal.loss:
            patience -= 1
            if flow.fits(quadratic, options.stop):
                if before > goal.loss:
                    flow.back(before, goal.loss)
                    clock.tick(flow.calls, flow.loss)
                low = flow.lines.order <= PAIRS
                if options.stop == "refined" and low.any() and not low.all():
                    flow.stride(LAST, clock, low)
                return goal.name
            if not patience:
                return "tolerance"
        elif flow.time > 1 and before - flow.loss < (options.tol or NOISY) * before:
            return "tolerance"
    return "iterations"
