"""`accelerated` on a descent that plays a script: which losses lead to a restart, and which to the end."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from fastdp.estimate.descent.optimisers import accelerated


class Script:
    """A descent whose steps are too small to move anything, and whose restarts have the losses given."""

    steepest, loss, time, x = 1.0, 100.0, 0.0, None

    def __init__(self, *restarts: float):
        self.calls, self.left, self.taken = 0, list(restarts), list[float]()

    def attempt(self, t: float, size: float) -> tuple[float, float]:
        self.calls += 1
        return 0.0, 0.0

    def accept(self, t: float) -> float:
        return self.taken[-1] if self.taken else self.loss

    def restart(self) -> float:
        self.taken.append(self.left.pop(0))
        return self.taken[-1]

    def tables(self) -> None: ...

    def restated(self) -> float:
        return self.taken[-1]


class Never:
    """A stop rule that leaves the end to the steps themselves."""

    rule, tol = "iters", 0.01

    def __call__(self, *about: Any) -> str:
        return ""

    def spent(self, calls: int) -> str:
        return ""

    def forget(self, loss: float) -> None: ...


def played(*restarts: float) -> tuple[int, str]:
    """(restarts made, why it ended)"""
    descent, stop, clock = Script(*restarts), Never(), SimpleNamespace(tick=lambda *about: None, calls=0)
    fitted = accelerated(descent, stop, clock)  # type: ignore[arg-type]
    return len(descent.taken), fitted.ended


@pytest.mark.parametrize(
    "restarts, made",
    [
        ((90.0, 90.0), 2),
        ((90.0, 89.2, 1.0), 2),  # gained less than the tolerance
        ((90.0, 89.0, 80.0, 79.5), 4),  # went on as long as each gained more
        ((500.0, 499.0), 2),  # the first is compared with nothing
        ((90.0, 95.0, 1.0), 2),
    ],
)
def test_steps_too_small_to_count_lead_to_a_restart_as_long_as_it_gains(restarts, made):
    assert played(*restarts) == (made, "tolerance")
