"""polars frames, series and lazy frames as sources."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ..._util.lazy import pa, pl
from ..._util.muted import muted
from ...errors import DataError
from ...schema.dialect import Dialect
from .. import parts
from ..parts import Part, Unit, each
from .source import SOURCES, Source, module_of


@SOURCES.add("polars")
class PolarsFrame(Source):
    """A polars DataFrame or Series."""

    @classmethod
    def takes(cls, given: Any) -> bool:
        return module_of(given) == "polars" and not hasattr(given, "sink_batches")

    def parts(self, dialect: Dialect) -> list[Part]:
        frame = self.given.to_frame() if hasattr(self.given, "to_frame") else self.given

        def units(columns: Sequence[str], user: str | None) -> Iterator[Unit]:
            return each(frame.select(columns).iter_slices(parts.BATCH_ROWS), _from_polars)

        return [Part(f"<polars.{self.kind}>", frame.clear().to_arrow().schema, units)]

    def held(self) -> Iterable[Any]:
        many = hasattr(self.given, "get_columns")
        return self.given.get_columns() if many else [self.given]


@SOURCES.add("lazy")
class LazyFrame(Source):
    """A polars LazyFrame: a query that polars runs each time it is read."""

    @classmethod
    def takes(cls, given: Any) -> bool:
        return module_of(given) == "polars" and hasattr(given, "sink_batches")

    def parts(self, dialect: Dialect) -> list[Part]:
        return [of_lazy_frame(self.given, f"<polars.{self.kind}>")]


def _from_polars(piece: Any) -> list[pa.RecordBatch]:
    with muted():
        return piece.to_arrow().to_batches(parts.BATCH_ROWS)


def of_lazy_frame(frame: Any, where: str) -> Part:
    """The part of a polars LazyFrame, run by its streaming engine; only the needed columns are
    computed."""

    try:
        schema = pl.DataFrame(schema=frame.collect_schema()).to_arrow().schema
    except (pl.exceptions.PolarsError, OSError) as error:
        raise DataError(f"{where} cannot be resolved ({type(error).__name__})") from None

    def units(columns: Sequence[str], user: str | None) -> Iterator[Unit]:
        chosen = frame.select([pl.col(name) for name in columns])
        try:
            with muted():
                for piece in _stream(chosen):
                    yield from each(piece.to_arrow().to_batches(parts.BATCH_ROWS))
        except pl.exceptions.PolarsError as error:
            raise pa.ArrowInvalid(type(error).__name__) from None

    return Part(where, schema, units)


def _stream(frame: Any) -> Iterator[Any]:
    """The rows of a LazyFrame in order; the engine runs a few batches ahead of the consumer.

    Uses `sink_batches`, which raises if a thread of the engine panics. `collect_batches` would end
    without an error, so that one bad row would remove other rows.
    """
    waiting: queue.Queue[Any] = queue.Queue(2)
    stopped = threading.Event()

    def put(item: Any) -> bool:
        while not stopped.is_set():
            try:
                waiting.put(item, timeout=0.1)
                return False
            except queue.Full:
                continue
        return True

    def run() -> None:
        try:
            frame.sink_batches(put, chunk_size=parts.BATCH_ROWS, maintain_order=True)
            put(None)
        except BaseException as error:  # panics of Polars too: the reader raises it
            put(error)

    worker = threading.Thread(target=run, name="fastdp-lazy", daemon=True)
    worker.start()
    try:
        while (item := waiting.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item
    finally:
        stopped.set()
        worker.join()
