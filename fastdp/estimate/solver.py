"""What a solver is, what it returns, and the clock through which all of them report."""

import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from msgspec import Struct

from ..model.graphical_model import Measured, Model, Node
from .fit_options import Options
from .task import Task

Callback = Callable[[int, float, float], object]
"""Called with the oracle calls so far, the loss and the seconds; it may raise to cancel."""


class Clock:
    """Records (oracle calls, loss, seconds) of a fit through all its stages, and calls the caller's
    callback, which may cancel the fit by raising."""

    def __init__(self, callback: Callback | None = None):
        self.trace: list[tuple[int, float, float]] = []
        self.calls = 0
        self._started = time.perf_counter()
        self._callback = callback

    def tick(self, calls: int, loss: float) -> None:
        elapsed = time.perf_counter() - self._started
        self.calls = calls
        self.trace.append((calls, loss, elapsed))
        if self._callback is not None:
            self._callback(calls, loss, elapsed)


class Solution(Struct, frozen=True):
    """Node tables, the loss, the oracle calls, what ended the fit, and the errors of measured
    cells."""

    nodes: Sequence[Node]
    loss: float
    iterations: int
    ended: str
    errors: Measured

    def report(self, task: Task, clock: Clock) -> Model:
        """The model that the caller of `fit` gets."""
        about: dict[str, Any] = {
            "loss": self.loss,
            "iterations": self.iterations,
            "ended": self.ended,
        }
        total = task.total
        measured = self.errors
        return Model(
            task.domain, self.nodes, total=total, trace=clock.trace, measured=measured, **about
        )


class Solver(Protocol):
    """One way to fit a model. `estimator.solve` asks its solvers in turn."""

    @property
    def methods(self) -> Sequence[str]:
        """The values of `fit(method=)` that allow this solver."""
        ...

    @property
    def takes(self) -> str:
        """What it can solve, for the error text where a caller insists on this solver."""
        ...

    def applies(self, task: Task, options: Options) -> bool:
        """Whether it suits the measurements and the stopping rule. Cheap."""
        ...

    def plan(self, task: Task, options: Options) -> Any | None:
        """Everything that `run` needs, or None if the task is too large for this solver."""
        ...

    def run(self, plan: Any, clock: Clock) -> Solution:
        """Fit the model. Report each oracle call to `clock`, which may cancel the fit."""
        ...
