"""The likelihood ratio of everything a session gave out, whichever questions the answers led to.

Law: a session's step answers question q with noise of a stated law around the counts of the data.
For two data sets the log likelihood ratio of a whole run is the sum over its steps of log p(answer
| with the user) - log p(answer | without), each at the question that was asked; questions follow
from earlier answers and cancel. It is what the best attack looks at, and it is computed from the
answers and the exact counts of both data sets, which only a test has.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import numpy as np

from fastdp.engines.local import local
from fastdp.privacy import noise, select
from fastdp.release.gateway import Session
from fastdp.release.views import viewed


@dataclass(frozen=True)
class Draw:
    """One draw of a step. `law`: "gaussian", "laplace", or "select" (the exponential mechanism).
    `scale`: of the noise, in the grid of the answers; `scores`, `epsilon`, `sensitivity`: of a
    selection."""

    law: str
    scale: np.ndarray | None = None
    scores: np.ndarray | None = None
    epsilon: float = 0.0
    sensitivity: int = 1

    def again(self, exact: np.ndarray, runs: int, seed: int | None) -> np.ndarray:
        """`runs` fresh answers [runs, answers], by the samplers that a session draws from."""
        if self.law == "select":
            seeds = [None] * runs if seed is None else range(seed, seed + runs)
            return np.array(
                [
                    [select.exponential(self.scores, self.epsilon, self.sensitivity, seed=k)]
                    for k in seeds
                ]
            )
        sampler = noise.gaussian if self.law == "gaussian" else noise.laplace
        return exact + sampler(self.scale, (runs, exact.size), seed=seed)

    def log_density(self, exact: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Of answers [..., answers], up to what does not depend on the data. Of a selection
        `values` are positions among its candidates."""
        if self.law == "select":
            exponents = self.scores.astype(np.float64) * (self.epsilon / (2 * self.sensitivity))
            exponents -= exponents.max()
            return (exponents - np.log(np.sum(np.exp(exponents))))[values[..., 0]]
        distance = np.abs(values - exact) / self.scale
        return (-(distance**2) / 2 if self.law == "gaussian" else -distance).sum(axis=-1)


@dataclass(frozen=True)
class Step:
    """One answered step: its draws and exact answers on both data sets."""

    draws: tuple[tuple[Draw, ...], tuple[Draw, ...]]
    exact: tuple[list[np.ndarray], list[np.ndarray]]

    def ratio(self, released: Sequence[np.ndarray]) -> np.ndarray:
        """log p(released | with the user) - log p(released | without), of each run where `released`
        has an axis of runs first."""
        return sum(
            there.log_density(b, values) - without.log_density(a, values)
            for without, there, a, b, values in zip(*self.draws, *self.exact, released, strict=True)
        )

    def again(self, side: int, runs: int, seed: int | None) -> list[np.ndarray]:
        """Fresh answers of `runs` runs to the same questions on one of the data sets."""
        pairs = enumerate(zip(self.draws[side], self.exact[side], strict=True))
        return [
            draw.again(e, runs, None if seed is None else seed + (i << 40))
            for i, (draw, e) in pairs
        ]

    def squares(self) -> float:
        """mu^2 of telling the Gaussian answers of the two data sets apart."""
        return sum(
            float(np.sum(((b - a) / d.scale) ** 2))
            for a, b, d in zip(*self.exact, self.draws[0], strict=True)
            if d.law == "gaussian"
        )


@dataclass
class Record:
    """What one run's session gave out, and the log likelihood ratio of all of it."""

    steps: list[Step] = field(default_factory=list)
    ratio: float = 0.0
    claim: float | None = None
    """The session's mu; None where it paid for pure releases only."""

    def exact_mu(self) -> float:
        return float(np.sqrt(sum(step.squares() for step in self.steps)))

    def gaussian(self) -> bool:
        return all(d.law == "gaussian" for step in self.steps for d in step.draws[0])


@contextmanager
def silent() -> Iterator[list[Draw]]:
    """Draws replaced by zeros and listed with their scales; a selection takes the first
    candidate."""
    draws: list[Draw] = []

    def nothing(law):
        def drawn(scale, size, **_):
            draws.append(Draw(law, np.broadcast_to(np.asarray(scale, np.float64), (size,))))
            return np.zeros(size, np.int64)

        return drawn

    def first(scores, epsilon, sensitivity, **_):
        draws.append(Draw("select", None, np.array(scores), epsilon, sensitivity))
        return 0

    with (
        patch.object(noise, "gaussian", nothing("gaussian")),
        patch.object(noise, "laplace", nothing("laplace")),
        patch.object(select, "exponential", first),
    ):
        yield draws


@contextmanager
def recording(sides: tuple[Any, Any]) -> Iterator[Record]:
    """Sessions within count the data they were opened on, and each step's ratio between the two
    tables is added up."""
    record = Record()
    engines = [local(table, 1) for table in sides]
    answer = Session._Session__answer

    def answered(self, label, question, events, draw, draws):
        exact = []
        laws = []
        opened_on = self._Session__engine
        try:
            for engine in engines:
                view = self._Session__view
                side = engine if view is None else viewed(engine, view)
                self._Session__engine = side
                self._Session__scores = None
                with silent() as listed:
                    exact.append(draw())
                laws.append(tuple(listed))
        finally:
            self._Session__engine = opened_on
            self._Session__scores = None
        released = answer(self, label, question, events, draw, draws)
        step = Step((laws[0], laws[1]), (exact[0], exact[1]))
        chosen = released
        if "allowed" in question:
            chosen = [np.array([question["allowed"].index(int(released[0][0]))])]
        record.steps.append(step)
        record.ratio += float(step.ratio(chosen))
        record.claim = self.cap.mu if self.mu is not None else None
        return released

    with patch.multiple(Session, _Session__answer=answered):
        yield record
