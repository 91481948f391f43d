"""A sign of life on a terminal: the line `fastdp plan: working, 2.4 s`, from a second thread, while
a command is silent. What the command prints takes its place.

It begins before a command imports what it needs, which alone takes a second on a busy machine. Logs
and pipes get nothing.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

SILENT = 0.3
"""Seconds of silence after which the line appears. A command that answers at once shows none."""
BEAT = 0.4
"""Seconds between two times that the line is written."""
ERASE = "\r\x1b[K"
"""Moves to the beginning of the line and clears it."""


class Waiting:
    """The line of one command, called `name`. Threads may call its methods at the same time."""

    def __init__(self, name: str):
        self._name = name
        self._begun = self._last = time.monotonic()
        self._shown = False
        self._over = threading.Event()
        self._lock = threading.Lock()

    def tick(self) -> None:
        """Write the line, if the command has been silent for long enough."""
        with self._lock:
            now = time.monotonic()
            if not self._over.is_set() and now - self._last >= SILENT:
                line = f"fastdp {self._name}: working, {now - self._begun:.1f} s"
                print(f"{ERASE}{line}", end="", file=sys.stderr, flush=True)
                self._shown = True

    def clear(self) -> None:
        """The command is about to print something."""
        with self._lock:
            if self._shown:
                print(ERASE, end="", file=sys.stderr, flush=True)
            self._shown = False
            self._last = time.monotonic()

    def stop(self) -> None:
        """The command shows what it does by itself from now on, or it is over."""
        self._over.set()
        self.clear()

    def beat(self) -> None:
        while not self._over.wait(BEAT):
            self.tick()


CURRENT: Waiting | None = None
"""The line of the command that runs; None where there is no terminal."""


@contextmanager
def waiting(name: str, silent: bool) -> Iterator[None]:
    """A context in which a command that is silent shows its line. `silent`: it does not."""
    global CURRENT
    if silent or not sys.stderr.isatty():
        yield
        return
    CURRENT = Waiting(name)
    threading.Thread(target=CURRENT.beat, name="fastdp-waiting", daemon=True).start()
    try:
        yield
    finally:
        stop()
        CURRENT = None


def clear() -> None:
    """Make room for what is printed next."""
    if CURRENT is not None:
        CURRENT.clear()


def stop() -> None:
    """End the line for good."""
    if CURRENT is not None:
        CURRENT.stop()
