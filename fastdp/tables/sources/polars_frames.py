"""polars frames, series and lazy frames as sources."""

from __future__ import annotations

import contextlib
import os
import queue
import re
import threading
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any

from ..._util.files import local_path
from ..._util.lazy import pa, pl
from ..._util.muted import muted
from ...errors import DataError
from ...schema.dialect import Dialect
from .. import parts, sql
from ..lakehouse import DELTA, check_plain
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
        schema, objects = _schema(frame.clear())

        def units(columns: Sequence[str], user: str | None) -> Iterator[Unit]:
            batches = partial(_batches, objects=objects, user=user)
            return each(_named(frame, columns).iter_slices(parts.BATCH_ROWS), batches)

        return [Part(f"<polars.{self.kind}>", schema, units, objects)]

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
        where = f"<polars.{self.kind}>"
        part = of_lazy_frame(self.given, where)
        # Before 1.38, a Delta table that polars reads by its log is a scan of files like any other.
        told = tuple(map(int, pl.__version__.split(".")[:2])) >= (1, 38)
        check_plain(where, scanned_files(self.given), () if told else (DELTA,))
        return [part]


_SCAN = re.compile(
    r"^\s*(?!python)\w+ SCAN \[(.*?)(?:, \.\.\. \d+ other sources?)?\]$", re.I | re.M
)


def scanned_files(frame: Any) -> list[str]:
    """The first files of each scan in a query: polars shows no more of its plan. A lakehouse's table
    that polars reads by its log is a scan of a Python dataset, which names no file."""
    shown = _SCAN.findall(frame.explain(optimized=False))
    paths = (local_path(path) for names in shown for path in (names, *names.split(", ")))
    return [path for path in paths if os.path.exists(path)]


def _schema(empty: Any) -> tuple[pa.Schema, frozenset[str]]:
    """The Arrow schema of a frame, and the columns that are read as Python objects, as in pandas. These are
    columns of objects: their Arrow form is where they lie in memory, by which one id would be many users.
    So are columns of types that Arrow does not have, such as whole numbers of 128 bits."""
    kinds: dict[str, pa.DataType] = {}
    for name, dtype in empty.schema.items():
        with contextlib.suppress(pa.ArrowException):
            if not isinstance(dtype, pl.Object):
                kinds[name] = _named(empty, [name]).to_arrow().schema.field(0).type
    objects = frozenset(name for name in empty.schema if name not in kinds)
    return pa.schema([(name, kinds.get(name, pa.binary())) for name in empty.schema]), objects


def _named(frame: Any, names: Sequence[str]) -> Any:
    """The columns of these names: `select` takes `*` and `^...$` for patterns."""
    return pl.DataFrame([frame.get_column(name) for name in names])


def _batches(piece: Any, objects: frozenset[str], user: str | None) -> list[pa.RecordBatch]:
    """The rows of a piece of a frame; `objects`: columns that are read as Python objects."""
    with muted():
        own = [name for name in piece.columns if name in objects]
        if not own:
            return piece.to_arrow().to_batches(parts.BATCH_ROWS)
        plain = [name for name in piece.columns if name not in objects]
        table = _named(piece, plain).to_arrow()
        columns = {name: table.column(name) for name in plain}
        columns |= {
            name: sql.column_of_objects(piece.get_column(name).to_list(), name == user)
            for name in own
        }
        return pa.table([columns[n] for n in piece.columns], piece.columns).to_batches(
            parts.BATCH_ROWS
        )


def of_lazy_frame(frame: Any, where: str) -> Part:
    """The part of a polars LazyFrame, run by its streaming engine; only the needed columns are
    computed."""

    try:
        schema, objects = _schema(pl.DataFrame(schema=frame.collect_schema()))
    except (pl.exceptions.PolarsError, OSError) as error:
        raise DataError(f"{where} cannot be resolved ({type(error).__name__})") from None

    def units(columns: Sequence[str], user: str | None) -> Iterator[Unit]:
        chosen = frame.select([pl.nth(schema.names.index(name)) for name in columns])
        try:
            with muted():
                for piece in _stream(chosen):
                    yield from each(_batches(piece, objects, user))
        except pl.exceptions.PolarsError as error:
            raise pa.ArrowInvalid(type(error).__name__) from None

    return Part(where, schema, units, objects)


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
