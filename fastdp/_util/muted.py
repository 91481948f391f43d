"""Keeps native libraries from writing to standard error while they work on private rows.

Rust code that panics (Polars) writes its message, which can quote a value, straight to file
descriptor 2 before Python sees an exception. There is no switch for it, so the descriptor itself
points to the null device meanwhile. If `sys.stderr` writes to that descriptor, a stream on a copy
of it replaces it. So what Python code prints there, such as progress, is still seen.
"""

import io
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_lock = threading.Lock()
_depth = 0
_saved: tuple[int, Any, Any] | None = None


@contextmanager
def muted() -> Iterator[None]:
    """Discards what is written to file descriptor 2 inside the block. May be nested, and used by
    several threads at once."""
    _enter()
    try:
        yield
    finally:
        _leave()


def _enter() -> None:
    """Mute standard error for the process. Only the first of those who do so at a time changes it."""
    global _depth, _saved
    with _lock:
        _depth += 1
        if _depth > 1:
            return
        try:
            copy = os.dup(2)
        except OSError:  # closed: nothing can be written to it
            return
        stream = spare = None
        try:
            if sys.stderr is not None and sys.stderr.fileno() == 2:
                stream = sys.stderr
                stream.flush()
                spare = io.TextIOWrapper(
                    io.FileIO(copy, "w", closefd=False),
                    stream.encoding,
                    stream.errors,
                    write_through=True,
                )
        except (OSError, ValueError, AttributeError):  # no file behind it
            stream = spare = None
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 2)
        os.close(null)
        if spare is not None:
            sys.stderr = spare
        _saved = (copy, stream, spare)


def _leave() -> None:
    global _depth, _saved
    with _lock:
        _depth -= 1
        if _depth or _saved is None:
            return
        copy, stream, spare = _saved
        _saved = None
        if spare is not None and sys.stderr is spare:
            sys.stderr = stream
        os.dup2(copy, 2)
        os.close(copy)
