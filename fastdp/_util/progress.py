"""Progress of a run: its stages are reported to a callback, their times are kept, and cancellation
is checked in one place."""

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

from ..errors import Cancelled, UsageError

LOG = logging.getLogger("fastdp")
"""Stages of runs, as they begin; nothing in it depends on private data except the time that passes.
"""

STAGES = {
    "read": 0.20,
    "measure": 0.10,
    "fit": 0.30,
    "users": 0.10,
    "sample": 0.10,
    "ids": 0.10,
    "write": 0.10,
    "report": 0.0,
}
"""A run's stages in order, and the part of its time each usually takes (for the time left)."""
OTHER = "other"
"""What the times of a run call the seconds outside of all stages."""
BEAT = 0.4
"""Seconds between two reports at most: work that reports nothing itself is not silent for longer."""


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
    `current` is the stage that is going on. `stages`: their names in order, and the part of the time
    that each usually takes. Safe to share among threads.
    """

    def __init__(
        self,
        callback: Callable[[Progress], None] | None = None,
        cancel: Callable[[], bool] | threading.Event | None = None,
        runs: int = 1,
        clock: Callable[[], float] = time.perf_counter,
        stages: Mapping[str, float] = STAGES,
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
        self._clock = clock
        self._stages = stages
        self.current = ""
        self._start = clock()
        self._now = 0
        self._run = ""
        self._parts = [0.0] * runs
        self._lock = threading.Lock()
        self._last: Progress | None = None
        self._failed: BaseException | None = None
        self._inner = 0.0
        self._text = ""
        self.timings: list[tuple[str, str, float]] = []

    def begin(self, number: int, run: str) -> None:
        """Reports from now on are about run `number` of several (one for each epsilon)."""
        self._now = number
        self._run = run

    def spent(self, run: str, shared: bool = True) -> dict[str, float]:
        """Seconds of each stage of one of the runs; `shared`: with those of all runs together, which
        come before the first. Each second is counted once: that of a stage inside another one is
        the inner one's."""
        seconds_of: dict[str, float] = {}
        for of, stage, seconds in self.timings:
            if of == run or (shared and of == ""):
                seconds_of[stage] = seconds_of.get(stage, 0.0) + seconds
        return {name: seconds_of[name] for name in self._stages if name in seconds_of}

    def other(self) -> float:
        """Seconds since the start that no stage has."""
        return max(0.0, self._clock() - self._start - sum(s for _, _, s in self.timings))

    def check(self) -> None:
        if self._failed is not None:
            raise self._failed
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
        start = self._clock()
        around = self.current
        before = self._inner
        outer = self._text
        self.current = name
        self._inner = 0.0
        self._text = text
        try:
            yield
        finally:
            took = self._clock() - start
            self.timings.append((self._run, name, took - self._inner))
            self.current = around
            self._inner = before + took
            self._text = outer
            if text and outer:
                self.update(around, 0.0, outer)  # what goes on now

    def update(self, stage: str, part: float, text: str = "") -> None:
        """`part` of this stage is done, 0..1."""
        if self._callback is None:
            return
        names = list(self._stages)
        done = sum(self._stages[name] for name in names[: names.index(stage)])
        done += self._stages[stage] * min(max(part, 0.0), 1.0)
        with self._lock:
            self._parts[self._now] = max(self._parts[self._now], done)
            fraction = round(sum(self._parts) / len(self._parts), 9)
            self._last = Progress(stage, fraction, self._clock() - self._start, text, self._run)
            self._callback(self._last)

    def repeat(self) -> None:
        """Report the last progress again, with the seconds that passed. An error of the callback is
        raised by the next `check`: it must not get lost in another thread."""
        with self._lock:
            if self._callback is None or self._last is None or self._failed is not None:
                return
            try:
                self._callback(replace(self._last, seconds=self._clock() - self._start))
            except BaseException as error:
                self._failed = error

    def beat(self, ended: Callable[[float], bool]) -> None:
        """Repeat the last report until `ended`, which waits so many seconds, says that it is over."""
        while not ended(BEAT):
            self.repeat()

    @contextmanager
    def beating(self) -> Iterator[None]:
        """A context in which nothing is silent: a thread repeats the last report."""
        if self._callback is None:
            yield
            return
        over = threading.Event()
        thread = threading.Thread(target=self.beat, args=(over.wait,), daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    @contextmanager
    def watching(self) -> Iterator[None]:
        """A context for a whole call that is no run: nothing in it is silent, and at its end all stages
        are done."""
        with self.beating():
            yield
        self.check()
        self.update(list(self._stages)[-1], 1.0, "done")
