"""Progress of a run: its stages are reported to a callback, their times are kept, and cancellation
is checked in one place."""

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from ..errors import Cancelled, UsageError

LOG = logging.getLogger("fastdp")
"""Stages of runs, as they begin; nothing in it depends on private data except the time that passes.
"""

STAGES = {"read": 0.20, "measure": 0.10, "fit": 0.35, "sample": 0.10, "ids": 0.10, "write": 0.15}
"""A run's stages in order, and the part of its time each usually takes (for the time left)."""


@dataclass(frozen=True)
class Progress:
    """What the callback receives. `fraction` is of the whole run, 0..1; `seconds` since its start;
    `text` for people.

    Nothing in it depends on private data except the time that passes.
    """

    stage: str
    fraction: float
    seconds: float
    text: str = ""
    run: str = ""

    @property
    def seconds_left(self) -> float | None:
        """An estimate, None if nothing can be said yet."""
        return None if self.fraction < 0.02 else self.seconds * (1 - self.fraction) / self.fraction


class Reporter:
    """Reports stages to `callback` and records their times; `check` raises Cancelled when `cancel`
    says so.

    `cancel` is a function without arguments that returns true to stop, or a `threading.Event`.
    `current` is the stage that is going on. Safe to share among threads.
    """

    def __init__(
        self,
        callback: Callable[[Progress], None] | None = None,
        cancel: Callable[[], bool] | threading.Event | None = None,
        runs: int = 1,
    ):
        if callback is not None and not callable(callback):
            raise UsageError(
                "progress must be a function of one argument (a fastdp.progress.Progress)"
            )
        if isinstance(cancel, threading.Event):
            cancel = cancel.is_set
        if cancel is not None and not callable(cancel):
            raise UsageError("cancel must be a function without arguments or a threading.Event")
        self._callback = callback
        self._cancel = cancel
        self.current = ""
        self._start = time.perf_counter()
        self._now = 0
        self._run = ""
        self._parts = [0.0] * runs
        self._lock = threading.Lock()
        self.timings: list[tuple[str, str, float]] = []

    def begin(self, number: int, run: str) -> None:
        """Reports from now on are about run `number` of several (one for each epsilon)."""
        self._now = number
        self._run = run

    def spent(self, run: str) -> dict[str, float]:
        """Seconds of each stage of one of the runs, with those before the first. Some stages happen
        inside others; each second is reported once."""
        seconds_of: dict[str, float] = {}
        for of, stage, seconds in self.timings:
            if of in ("", run):
                seconds_of[stage] = seconds_of.get(stage, 0.0) + seconds
        for outer, inner in (("measure", ("fit",)), ("write", ("sample", "ids"))):
            if outer in seconds_of:
                within = sum(seconds_of.get(name, 0.0) for name in inner)
                seconds_of[outer] = max(0.0, seconds_of[outer] - within)
        return {name: seconds_of[name] for name in STAGES if name in seconds_of}

    def check(self) -> None:
        if self._cancel is not None and self._cancel():
            raise Cancelled("cancelled by the caller; no partial files remain")

    @contextmanager
    def stage(self, name: str, text: str = "") -> Iterator[None]:
        """Times a stage, whether it succeeds or fails; reports its start to the callback if `text`
        is not empty."""
        self.check()
        if text:
            self.update(name, 0.0, text)
        LOG.info("%s%s", f"{self._run}: " if self._run else "", text or name)
        start = time.perf_counter()
        around = self.current
        self.current = name
        try:
            yield
        finally:
            self.current = around
            self.timings.append((self._run, name, time.perf_counter() - start))

    def update(self, stage: str, part: float, text: str = "") -> None:
        """`part` of this stage is done, 0..1."""
        if self._callback is None:
            return
        names = list(STAGES)
        done = sum(STAGES[name] for name in names[: names.index(stage)])
        done += STAGES[stage] * min(max(part, 0.0), 1.0)
        with self._lock:
            self._parts[self._now] = max(self._parts[self._now], done)
            fraction = sum(self._parts) / len(self._parts)
            self._callback(
                Progress(stage, fraction, time.perf_counter() - self._start, text, self._run)
            )
