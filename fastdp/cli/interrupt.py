"""Ctrl-C and SIGTERM end any stage within two seconds, with one line that says where the run stands.

Python runs signal handlers in the main thread between two instructions, which a long call into compiled
code can delay. So a second thread hears of the signal too: it gives the main thread `GRACE` seconds to
unwind, then tidies up in its place and ends the process. That is safe at any point: charges and answers are
on disk before anybody sees them, as they must be for a process that is killed.
"""

from __future__ import annotations

import os
import shlex
import signal
import socket
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..run.standing import Standing

GRACE = 1.0
"""Seconds that the main thread has to unwind by itself."""

EXIT_CODES = {signal.SIGINT: 130, signal.SIGTERM: 143}
STAGES = {
    "read": " while reading and encoding",
    "measure": " while measuring",
    "fit": " while fitting the model",
    "sample": " while drawing rows",
    "ids": " while dealing user ids",
    "write": " while decoding and writing",
}
WORDS = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}


class Stopped(BaseException):
    """Raised in the main thread by the first signal; later ones change nothing."""


class Interruption:
    """One program run: its command line, the signal that came, and where the run it interrupts stands."""

    def __init__(self, arguments: Sequence[str]):
        self.arguments = list(arguments)
        self.standing: Standing | None = None
        self.received: signal.Signals | None = None
        self._unwound = threading.Event()
        self._lock = threading.Lock()
        self._ended = False
        self._stage = ""

    @contextmanager
    def heard(self) -> Iterator[None]:
        """Handlers and the second thread, while the block runs; only in the main thread."""
        waker, wakened = socket.socketpair()
        waker.setblocking(False)
        before = {kind: signal.signal(kind, self._handle) for kind in EXIT_CODES}
        descriptor = signal.set_wakeup_fd(waker.fileno(), warn_on_full_buffer=False)
        watcher = threading.Thread(target=self._watch, args=(wakened,), name="fastdp-signals", daemon=True)
        watcher.start()
        try:
            yield
        finally:
            self._unwound.set()
            signal.set_wakeup_fd(descriptor)
            for kind, handler in before.items():
                signal.signal(kind, handler)
            waker.close()

    def _handle(self, number: int, frame: object) -> None:
        if self.received is None:
            self.received = signal.Signals(number)
            self._stage = "" if self.standing is None else self.standing.stage
            raise Stopped

    def _watch(self, wakened: socket.socket) -> None:
        while data := wakened.recv(16):
            kinds = [signal.Signals(n) for n in data if n in EXIT_CODES]
            if kinds and not self._unwound.wait(GRACE):
                self.received = self.received or kinds[0]
                if self.standing is not None:
                    self.standing.give_up()
                self.end()
        wakened.close()

    def end(self) -> None:
        """Says where the run stands and ends the process at once; from whichever thread comes first."""
        with self._lock:
            if self.received is None or self._ended:
                return
            self._ended = True
            for stream in (sys.stdout, sys.stderr):
                try:
                    stream.flush()
                except (OSError, ValueError):
                    pass
            os.write(2, f"fastdp: {self.line()}\n".encode())
            os._exit(EXIT_CODES[self.received])

    def line(self) -> str:
        return self._where(WORDS[self.received or signal.SIGINT])

    def out_of_memory(self) -> str:
        """What to say where the machine had no memory left: as after a signal, and what would help."""
        return f"{self._where('out of memory')} (--memory limits the model, --threads 1 needs least)"

    def _where(self, word: str) -> str:
        if self.standing is None:
            return f"{word}; nothing was charged, and nothing half-written was left behind"
        stage = STAGES.get(self._stage or self.standing.stage, "")
        return f"{word}{stage}; {self.standing.text(self._command(resume=False), self._command(resume=True))}"

    def _command(self, *, resume: bool) -> str:
        rest = [a for a in self.arguments if a != "--resume"]
        return shlex.join(["fastdp", *rest, *(["--resume"] if resume else [])])


CURRENT = Interruption([])
"""Of this process: `main` puts its own here, and a command tells it which run it has begun."""


def begin(arguments: Sequence[str]) -> Interruption:
    global CURRENT
    CURRENT = Interruption(arguments)
    return CURRENT


def watch_run() -> Standing:
    """Where the run that is about to begin will say how it stands."""
    from ..run.standing import Standing

    CURRENT.standing = Standing()
    return CURRENT.standing
