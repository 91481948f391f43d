"""Partitions on this machine's disk, counted by a pool of processes.

The driver deals rows to partitions (`tables.split`); a process encodes each partition once, by the code that
`read` uses, into a spool of code columns; every later pass maps the spool. All of it is in one folder of mode
0700 under the temporary folder (TMPDIR), removed at the end; rows as they were in the source stay in it only
until they are encoded. A process that dies is replaced and its task repeated. A spool that is lost is made
again from the source; it is an error if its content differs.

Processes are started as new commands, not by fork: a script needs no `if __name__ == "__main__"` guard.
"""

from __future__ import annotations

import json
import os
import queue
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from .._util import threads as _threads
from ..errors import DataError
from ..schema import Schema
from ..tables import split, spool
from ..tables.table import MAX_ROWS, Table
from . import messages, worker
from .partitioned import Answer, PartitionedCounter, Request

ATTEMPTS = 3
"""How many processes may die of the same task before the run fails."""

BOOT = "from fastdp.engines.worker import main; main()"


class _Died(Exception):
    """The process ended before it answered."""


class _Process:
    """One worker and the pipes to it."""

    def __init__(self, root: str, schema: Schema):
        home = str(Path(__file__).parents[2])
        paths = [home, *filter(None, [os.environ.get("PYTHONPATH")])]
        self._child = subprocess.Popen(
            [sys.executable, "-P", "-c", BOOT],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        )
        self._send({"root": root, "schema": json.dumps(schema.to_dict())})

    @property
    def pid(self) -> int:
        return self._child.pid

    def _send(self, message: Any) -> None:
        assert self._child.stdin is not None
        try:
            messages.send(self._child.stdin, message)
        except OSError:
            raise _Died from None

    def call(self, task: str, arguments: dict[str, Any]) -> Any:
        assert self._child.stdout is not None
        self._send({"task": task, "arguments": arguments})
        try:
            reply = messages.receive(self._child.stdout)
        except (EOFError, OSError, ValueError):
            raise _Died from None
        if "memory" in reply:
            raise MemoryError("not enough memory for a partition; more partitions need less each")
        if "failed" in reply:
            raise messages.to_error(*reply["failed"])
        return reply["done"]

    def stop(self) -> None:
        try:
            self._send(worker.STOP)
        except _Died:
            pass
        self._end()

    def kill(self) -> None:
        self._child.kill()
        self._end()

    def _end(self) -> None:
        for pipe in (self._child.stdin, self._child.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except OSError:
                    pass
        try:
            self._child.wait(5)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()


class Workers:
    """A pool of processes, each busy with one task at a time; those that die are replaced."""

    def __init__(self, size: int, root: str, schema: Schema):
        self._root, self._schema, self._size = root, schema, size
        self._idle: queue.LifoQueue[_Process | None] = queue.LifoQueue()
        self._all: set[_Process] = set()
        self._lock = threading.Lock()
        self._closed = False
        for _ in range(size):
            self._idle.put(self._first())
        self._threads = ThreadPoolExecutor(size, thread_name_prefix="fastdp-partition")

    def pids(self) -> list[int]:
        with self._lock:
            return [process.pid for process in self._all]

    def submit(self, task: str, **arguments: Any) -> Future:
        return self._threads.submit(self._run, task, arguments)

    def _run(self, task: str, arguments: dict[str, Any]) -> Any:
        process = self._idle.get()
        try:
            for _ in range(ATTEMPTS):
                try:
                    if process is None:
                        process = self._start()
                    return process.call(task, arguments)
                except _Died:
                    if process is not None:
                        self._forget(process)
                        process = None
                    if self._closed:
                        raise DataError("the run ended while partitions were counted") from None
            raise DataError(
                f"a partition's process died {ATTEMPTS} times; it may lack memory: more partitions need less"
            )
        finally:
            self._idle.put(process)

    def _first(self) -> _Process | None:
        """Starts one process before there is work, so that its imports are done in time and the spool is
        removed if the driver dies."""
        try:
            return self._start()
        except _Died:
            return None

    def _start(self) -> _Process:
        with self._lock:
            if self._closed:
                raise _Died
            process = _Process(self._root, self._schema)
            self._all.add(process)
            return process

    def _forget(self, process: _Process) -> None:
        with self._lock:
            self._all.discard(process)
        process.kill()

    def close(self) -> None:
        """Ends all processes; one that is still busy is killed, since nobody waits for it."""
        with self._lock:
            self._closed = True
            processes, self._all = self._all, set()
        self._threads.shutdown(wait=False, cancel_futures=True)
        idle = set()
        while not self._idle.empty():
            idle.add(self._idle.get())
        for process in processes:
            process.stop() if process in idle else process.kill()
        for _ in range(self._size):
            self._idle.put(None)
        self._threads.shutdown(wait=True)


class ProcessPartitions:
    """`Partitions` of a source (or of a `Table`) on this machine; to be closed.

    partitions: None means two per thread, so that processes are idle only shortly at the end of a pass.
    rows, users, dropped, malformed: PRIVATE numbers of what was read, for the data's owner.
    """

    def __init__(
        self, source: Any, schema: Schema, partitions: int | None = None, threads: int | None = None
    ):
        self._threads = _threads.resolve(threads)
        self.count = split.check_partitions(2 * self._threads if partitions is None else partitions)
        self.schema, self._source = schema, source
        self.has_users = source.user is not None if isinstance(source, Table) else schema.user is not None
        self._root = tempfile.mkdtemp(prefix="fastdp-partitions-")  # mode 0700
        size = min(self._threads, self.count)
        self._each = max(1, self._threads // self.count)
        self._digests: dict[int, str] = {}
        self.rows = self.users = self.dropped = self.malformed = 0
        self.workers = Workers(size, self._root, schema)
        try:
            for number, facts in self._encoded(range(self.count)):
                self._digests[number] = facts["digest"]
                self.rows += facts["rows"]
                self.users += facts["users"]
                self.dropped += facts["dropped"]
            if self.rows > MAX_ROWS:
                raise DataError(f"a table may have at most {MAX_ROWS} rows (exact int64 sums)")
        except BaseException:
            self.close()
            raise

    def _spool(self, number: int) -> str:
        return os.path.join(self._root, f"codes-{number}")

    def _encoded(self, numbers: Iterable[int]) -> Iterator[tuple[int, dict[str, Any]]]:
        """Makes the spools of these partitions; (number, facts) of each."""
        numbers = list(numbers)
        if isinstance(self._source, Table):
            for number in numbers:
                table = split.part_of_table(self._source, number, self.count)
                digest = spool.save(table, self._spool(number))
                yield number, {"digest": digest, "rows": table.rows, "users": table.users, "dropped": 0}
            return
        folder = tempfile.mkdtemp(prefix="rows-", dir=self._root)
        try:
            dealt = split.deal(
                self._source, self.schema, folder, self.count, threads=self._threads, only=set(numbers)
            )
            self.malformed = dealt.malformed

            def begin(number: int) -> Future:
                return self.workers.submit(
                    "encode",
                    streams=[(s.path, sorted(s.text)) for s in dealt.streams[number]],
                    folder=self._spool(number),
                )

            yield from _finished(numbers, begin)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def answers(self, request: Request) -> Iterator[Answer]:
        lost, message = [], messages.of_request(request)

        def begin(number: int) -> Future:
            return self.workers.submit(
                "count",
                folder=self._spool(number),
                partition=number,
                request=message,
                threads=self._each,
            )

        for number, result in _finished(range(self.count), begin, spool.SpoolLost):
            if isinstance(result, spool.SpoolLost):
                lost.append(number)
            else:
                yield messages.to_answer(result)
        if lost:
            self._rebuild(lost)
            for _, result in _finished(lost, begin):
                yield messages.to_answer(result)

    def _rebuild(self, lost: list[int]) -> None:
        """Makes lost spools again; DataError unless they hold the same rows as before."""
        for number, facts in self._encoded(lost):
            if facts["digest"] != self._digests[number]:
                raise DataError(
                    "a partition's spool was lost, and the source does not give the same rows again; nothing "
                    "was counted"
                )

    def close(self) -> None:
        self.workers.close()
        shutil.rmtree(self._root, ignore_errors=True)


def _finished(
    numbers: Iterable[int], begin: Callable[[int], Future], kept: type[Exception] | tuple = ()
) -> Iterator[tuple[int, Any]]:
    """(number, result) of each task as it ends. An error of the class `kept` is given as the result; others
    are raised."""
    futures = {begin(number): number for number in numbers}
    try:
        for future in as_completed(futures):
            try:
                result = future.result()
            except kept as error:
                result = error
            yield futures.pop(future), result
    finally:
        for future in futures:
            future.cancel()


def partitioned(
    source: Any, schema: Schema, partitions: int | None = None, threads: int | None = None
) -> PartitionedCounter:
    """The engine over a source, in partitions on this machine's disk (None: two per thread). The caller
    closes it."""
    return PartitionedCounter(schema, ProcessPartitions(source, schema, partitions, threads))
