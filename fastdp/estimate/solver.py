"""What a solver returns, and the clock through which all of them report."""

import time
from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct

from ..model.graphical_model import Measured, Model, Node
from .task import Task

Callback = Callable[[int, float, float], object]


class Clock:
    """Records (oracle calls, loss, seconds) of a fit through all its stages, and calls the caller's
    callback, which may cancel the fit by raising."""

    def __init__(self, callback: Callback | None = None):
        self.trace: list[tuple[int, float, float]] = []
        self.calls = 0
        self._started, self._callback = time.perf_counter(), callback

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
        total, measured = task.total, self.errors
        return Model(
            task.domain, self.nodes, total=total, trace=clock.trace, measured=measured, **about
        )
