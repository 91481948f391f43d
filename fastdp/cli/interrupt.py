"""Ctrl-C and SIGTERM end any stage within two seconds, with one line that says what state the run
is in.

Python runs signal handlers in the main thread between two instructions, so a long call into
compiled code can delay them. Therefore a second thread is notified of the signal too. It gives the
main thread `GRACE` seconds to unwind, then cleans up itself and ends the process. This is safe at
any point. Charges and answers are on disk before they are used, as they must be for a process that
can be killed.
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

from . import events, waiting
from .common import STAGES

if TYPE_CHECKING:
    from ..run.status import RunStatus

GRACE = 1.0
"""Seconds that the main thread has to unwind before the second thread ends the process."""

EXIT_CODES = {signal.SIGINT: 130, signal.SIGTERM: 143}
WORDS = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}


class Stopped(BaseException):
    """Raised in the main thread by the first signal; later signals are ignored."""


class Interruption:
    """Handles the signals of one program call: holds its command line, the signal received, and the
    state of the run that it interrupts."""

    def __init__(self, arguments: Sequence[str]):
        self.arguments = list(arguments)
        self.status: RunStatus | None = None
        self.received: signal.Signals | None = None
        self._unwound = threading.Event()
        self._lock = threading.Lock()
        self._ended = False
        self._stage = ""

    @contextmanager
    def heard(self) -> Iterator[None]:
        """Installs the signal handlers and starts the second thread while the block runs; call it
        in the main thread only."""
        waker, wakened = socket.socketpair()
        waker.setblocking(False)
        before = {kind: signal.signal(kind, self._handle) for kind in EXIT_CODES}
        descriptor = signal.set_wakeup_fd(waker.fileno(), warn_on_full_buffer=False)
        watcher = threading.Thread(
            target=self._watch, args=(wakened,), name="fastdp-signals", daemon=True
        )
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
            self._stage = "" if self.status is None else self.status.stage
            raise Stopped

    def _watch(self, wakened: socket.socket) -> None:
        while data := wakened.recv(16):
            kinds = [signal.Signals(n) for n in data if n in EXIT_CODES]
            if kinds and not self._unwound.wait(GRACE):
                self.received = self.received or kinds[0]
                if self.status is not None:
                    self.status.give_up()
                self.end()
        wakened.close()

    def end(self) -> None:
        """Prints the state of the run and ends the process at once. Both threads may call it; the
        first call wins."""
        with self._lock:
            if self.received is None or self._ended:
                return
            self._ended = True
            waiting.stop()
            for stream in (sys.stdout, sys.stderr):
                try:
                    stream.flush()
                except (OSError, ValueError):
                    pass
            text = self.line()
            code = EXIT_CODES[self.received]
            if events.asked_for(self.arguments):
                os.write(2, f"{events.stopped_line(text, code, self.status)}\n".encode())
            os.write(2, f"fastdp: {text}\n".encode())
            os._exit(code)

    def line(self) -> str:
        return self._where(WORDS[self.received or signal.SIGINT])

    def out_of_memory(self) -> str:
        """The line to print when memory ran out: the state of the run, and which options reduce
        memory."""
        return (
            f"{self._where('out of memory')} (--memory limits the model, --threads 1 needs least)"
        )

    def with_commands(self, text: str) -> str:
        """An error's text with the command lines that it speaks of as "the same call"."""
        resumed = "the same call and --resume"
        text = text.replace(resumed, self._command(resume=True))
        return text.replace("the same call", self._command(resume=False))

    def _where(self, word: str) -> str:
        if self.status is None:
            return f"{word}; nothing was charged, and nothing half-written was left behind"
        stage = self._stage or self.status.stage
        where = f" while {STAGES[stage]}" if stage in STAGES else ""
        return (
            f"{word}{where};"
            f" {self.status.text(self._command(resume=False), self._command(resume=True))}"
        )

    def _command(self, *, resume: bool) -> str:
        rest = [a for a in self.arguments if a != "--resume"]
        return shlex.join(["fastdp", *rest, *(["--resume"] if resume else [])])


CURRENT = Interruption([])
"""The `Interruption` of this process: `begin` replaces it, and `watch_run` sets the run that it
reports on."""


def begin(arguments: Sequence[str]) -> Interruption:
    global CURRENT
    CURRENT = Interruption(arguments)
    return CURRENT


def watch_run() -> RunStatus:
    """A new `RunStatus`, in which the run that is about to begin records its state."""
    from ..run.status import RunStatus

    CURRENT.status = RunStatus()
    return CURRENT.status
