"""The contract that every solver meets, what a solver returns, and the clock through which all of them
report."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np

from ..domain import Clique
from ..model.graphical_model import Model, Node
from ..model.layout import Plan
from .fit_options import Options
from .task import Task

Callback = Callable[[int, float, float], object]
P = TypeVar("P")


class Clock:
    """Records (oracle calls, loss, seconds) of a fit through all its stages, and calls the caller's callback,
    which may cancel the fit by raising."""

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


@dataclass(frozen=True)
class Solution:
    """Node tables, the loss, the oracle calls, what ended the fit, and the errors of measured cells."""

    nodes: Sequence[Node]
    loss: float
    iterations: int
    ended: str
    errors: Mapping[Clique, np.ndarray]

    def report(self, task: Task, clock: Clock) -> Model:
        """The model that the caller of `fit` gets."""
        about: dict[str, Any] = {"loss": self.loss, "iterations": self.iterations, "ended": self.ended}
        total, measured = task.total, self.errors
        return Model(task.domain, self.nodes, total=total, trace=clock.trace, measured=measured, **about)


class Solver(Protocol[P]):
    """One way to solve a task."""

    methods: Sequence[str]
    """Values of `fit(method=)` that allow this solver."""
    takes: str
    """What it can solve, for the error where a caller insists on it."""

    def applies(self, task: Task, options: Options) -> bool:
        """Whether it suits the measurements and the stopping rule; cheap."""
        ...

    def plan(self, task: Task, options: Options) -> P | None:
        """Everything that `run` needs; None where the task is too large for this solver."""
        ...

    def run(self, plan: P, clock: Clock) -> Solution:
        """The fit; reports each oracle call to the clock."""
        ...


def nodes_of(layout: Plan, tables: np.ndarray) -> list[Node]:
    """The nodes of a model laid out so; they share memory with `tables`."""
    spans = [(n, tables[n.table : n.table + n.rows * n.cells]) for n in layout.nodes]
    return [Node(n.sep, n.res, span.reshape(n.rows, n.cells)) for n, span in spans]
