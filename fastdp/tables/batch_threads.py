"""Calls a function on every batch of a source, on several threads, and gives results in order."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain, repeat
from typing import Any, Generic, TypeVar

from msgspec import Struct

from .._util.lazy import pa
from . import reading
from .parts import Part, Unit
from .userids import POSITION

Made = TypeVar("Made")


class _PlacedUnit(Struct, frozen=True):
    """A unit of a part; `position` of its first row is larger than those of all units before."""

    part: Part
    unit: Unit
    position: int

    def batches(self, *shared: Any) -> Iterator[tuple[pa.RecordBatch, Part, int]]:
        """(batch, part, position of its first row). `shared`: as a `Unit` takes it."""
        position = self.position
        for batch in reading.guarded(self.part.where, self.unit(*shared)):
            yield batch, self.part, position
            position += batch.num_rows


def map_batches(
    parts: Sequence[Part],
    columns: Sequence[str],
    user: str | None,
    function: Callable[..., Made],
    threads: int,
) -> Iterator[Made]:
    """What `function(batch, part, position)` makes of every batch of the parts, in their order. The
    positions of rows are in their order, too."""
    found = ((p, unit) for p in parts for unit in reading.guarded(p.where, p.units(columns, user)))
    units = (_PlacedUnit(*one, number * POSITION) for number, one in enumerate(found, 1))
    if threads == 1:
        return (function(*batch) for unit in units for batch in unit.batches())
    count = sum(part.count for part in parts) if all(part.count for part in parts) else 0
    return _Readers(function, threads, threads // count if count else 1).results(units)


class _Readers(Generic[Made]):
    """Threads that read units and call the function on their batches.

    `ahead`: that many units more than threads are started and not yet consumed, at most. `sets`:
    where there are twice as many threads as units, several share the columns of each. `spare`:
    batches of a unit that is decoded faster than they are used (a row group of Parquet) go to other
    threads, too, and no more than this many at a time.
    """

    def __init__(self, function: Callable[..., Made], threads: int, sets: int):
        self.function = function
        self.threads = threads
        self.sets = sets
        self.ahead = max(2, threads // 2)
        self.spare = threading.Semaphore(threads // 2)

    def results(self, units: Iterable[_PlacedUnit]) -> Iterator[Made]:
        """The results in the order of the batches."""
        started = deque[Future]()
        limit = self.threads + self.ahead
        with ThreadPoolExecutor(self.threads, thread_name_prefix="fastdp-read") as self.pool:
            try:
                for unit in chain(units, repeat(None, limit)):
                    if unit is not None:
                        started.append(self.pool.submit(self._read, unit))
                    if started and (unit is None or len(started) >= limit):
                        for made in started.popleft().result():
                            yield made.result() if isinstance(made, Future) else made
            finally:
                for future in started:
                    future.cancel()

    def _read(self, unit: _PlacedUnit) -> list[Made | Future[Made]]:
        """The results of one unit's batches, some of which other threads may still be making."""
        results: list[Made | Future[Made]] = []
        for batch in unit.batches(*((self.sets, self._share) if self.sets > 1 else ())):
            if not unit.part.text and self.spare.acquire(blocking=False):
                future = self.pool.submit(self.function, *batch)
                future.add_done_callback(lambda _: self.spare.release())
                results.append(future)
            else:
                results.append(self.function(*batch))
        return results

    def _share(self, calls: Sequence[Callable[[], Any]]) -> list[Any]:
        """The results of calls; other threads take those that they start before this one does."""
        futures = [self.pool.submit(call) for call in calls[1:]]
        first = calls[0]()
        rest = zip(futures, calls[1:])
        return [first, *(call() if f.cancel() else f.result() for f, call in rest)]
