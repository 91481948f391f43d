"""A process that works for the driver of `processes`: tasks in on standard input, results out on standard
output.

Apart from results it writes only into the spool, and of errors that are not fastdp's own it returns no text.
It ends at the message STOP; where the driver died without sending it, it removes the spool before it ends.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ..errors import DataError, FastdpError, redact_errors
from ..schema import Schema
from ..tables import ingest, split, spool
from . import messages
from .partitioned import answer

STOP = "stop"


def encode(schema: Schema, streams: Sequence[Sequence], folder: str) -> dict[str, Any]:
    """Encodes the rows of one partition into its spool, then removes the files of rows. streams: (path, names
    of the columns that are text) of each file. Returns PRIVATE facts of the partition."""
    files = [split.Stream(path, frozenset(text)) for path, text in streams]
    table = ingest.guarded(lambda: ingest.read_parts(split.parts_of(files), schema, threads=1))
    digest = spool.save(table, folder)
    for stream in files:
        Path(stream.path).unlink(missing_ok=True)
    return {"digest": digest, "rows": table.rows, "users": table.users, "dropped": table._dropped}


def count(schema: Schema, folder: str, partition: int, request: dict, threads: int) -> dict[str, Any]:
    """The partition's answer, from its spool."""
    table = spool.load(folder, schema)
    return messages.of_answer(answer(table, partition, messages.to_request(request), threads))


TASKS: dict[str, Callable[..., Any]] = {"encode": encode, "count": count}


def perform(schema: Schema, task: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Performs a task of the driver; its outcome as `attempt` gives it."""
    return attempt(lambda: TASKS[task](schema, **arguments))


def attempt(work: Callable[[], Any]) -> dict[str, Any]:
    """{"done": result}, or {"failed": (class, text)} of an error of fastdp's own; of other errors only the
    name of the class is given."""

    def readable() -> Any:
        try:
            return work()
        except OSError as error:
            what = os.strerror(error.errno or 0)
            raise DataError(f"a partition cannot be read or written ({what})") from None

    try:
        return {"done": redact_errors(readable, "", lambda name: DataError(f"a partition failed ({name})"))}
    except FastdpError as error:
        return {"failed": (type(error).__name__, str(error))}
    except MemoryError:
        return {"memory": True}


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the driver too, which decides
    tasks = sys.stdin.buffer
    results = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # standard output goes to standard error: what a library prints is not taken for a result
    first = messages.receive(tasks)
    schema = Schema.from_dict(json.loads(first["schema"]))
    try:
        while (message := messages.receive(tasks)) != STOP:
            messages.send(results, perform(schema, **message))
    except (EOFError, OSError):  # the driver has died
        shutil.rmtree(first["root"], ignore_errors=True)
