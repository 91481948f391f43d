"""Reads sources: threads encode units of Arrow batches, which are joined in order into a `Table`.

At most 1.5 times as many units as threads, or two more, are in memory at once. Codes stay in memory
up to SPOOL_ROWS rows. Beyond that they are written to unnamed temporary files, which are mapped
into memory after reading. So the operating system decides which pages stay in memory.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from msgspec import Struct

from .._core.codes import joined
from .._core.team import Team
from .._util import threads as _threads
from .._util.arrow import flags
from .._util.lazy import pa
from ..codec import encode
from ..codec.exact_numbers import exact_numbers
from ..domain import code_dtype
from ..errors import DataError, redact_errors
from ..schema import Schema
from ..schema.dialect import Dialect
from . import idvalues, textvalues
from .batch_threads import map_batches
from .part_checks import check_decimal_mark, checked_columns, source_types
from .parts import Part
from .row_periods import row_periods, taking_part
from .sources.source import open_parts
from .table import Table, as_schema
from .userids import Found, Prepared, UserIndex

SPOOL_ROWS = 50_000_000
"""Tables of more rows than this are spooled to files."""

JOINED = 1 << 26
"""Bytes of columns that are joined at a time, at four a row, if they are more than one. A matter of
time."""


class Encoded(Struct, frozen=True, eq=False):
    """One encoded batch: codes, exact numbers and user ids of the rows that are kept. It also has
    the numbers of dropped rows and of rows without a user id (dropped or not)."""

    codes: dict[str, np.ndarray]
    user: Prepared | Found | None
    rows: int
    dropped: int
    null_ids: int = 0
    exact: dict[str, np.ndarray] = {}


class _Column:
    """A growing column of codes: a list of chunks in memory or, after `spill`, one file."""

    def __init__(self, dtype: np.dtype):
        self.dtype = dtype
        self.chunks: list[np.ndarray] = []
        self.file: Any = None
        self.rows = 0

    def append(self, chunk: np.ndarray) -> None:
        self.rows += len(chunk)
        self.chunks.append(chunk)

    def spill(self) -> None:
        """From now on in a file; nothing to do if it is in one already."""
        if self.file is None:
            self.file = tempfile.TemporaryFile(prefix="fastdp-")
        chunks = self.chunks
        self.chunks = []
        for chunk in chunks:
            self.file.write(np.ascontiguousarray(chunk).data)

    def mapped(self) -> np.ndarray:
        """The column in its file."""
        self.file.flush()
        mapped = np.memmap(self.file, self.dtype, mode="r", shape=(self.rows,))
        self.file.close()
        return mapped


def _finished(columns: Sequence[_Column], team: Team) -> list[np.ndarray]:
    """The columns as arrays. Chunks of a few columns are joined at a time, and then let go."""
    if any(column.file is not None for column in columns):
        return [column.mapped() for column in columns]
    few = max(1, JOINED // (4 * columns[0].rows + 1))
    out: list[np.ndarray] = []
    for k in range(0, len(columns), few):
        group = [column.chunks or [np.empty(0, column.dtype)] for column in columns[k : k + few]]
        for column in columns[k : k + few]:
            column.chunks = []
        out += joined(group, team) if len(group[0]) > 1 else [chunks[0] for chunks in group]
    return out


def read(
    source: Any,
    schema: Schema | str | os.PathLike[str],
    *,
    public: bool = False,
    columns: Sequence[str] | None = None,
    exact: Sequence[str] = (),
    dialect: Dialect | Mapping[str, Any] | None = None,
    threads: int | None = None,
) -> Table:
    """Reads and encodes any source under a public schema.

    Parameters
    ----------
    source : path, glob, list of paths, frame, table or stream
        A Hive folder or files (Parquet, Arrow IPC, CSV, TSV, JSON lines); a polars DataFrame or LazyFrame; a
        pyarrow Table, RecordBatch, reader or dataset; pandas; a DuckDB relation; `fastdp.sql`; anything with
        `__arrow_c_stream__`. Only the columns the schema needs are read.
    schema : Schema, path or built-in name
        What the codes mean; public.
    public : bool
        True if the rows are public: then error texts may quote them, and choices may be made from them.
    columns : sequence of str, optional
        Read only these columns of the schema.
    exact : sequence of str
        Fields of numbers, dates or times whose exact values are read too, for numbers that are asked of a
        table which was read before the run (docs/reference/numbers.md).
    dialect : Dialect or mapping, optional
        The dialect of text files, in place of the schema's. Every line of a text file is read independently;
        a line that cannot be parsed is malformed and does not affect other lines.
    threads : int, optional
        None: all cores the process may use.

    Returns
    -------
    Table
        One contiguous column of codes (u8, u16 or u32) per attribute, and a user number per row. Columns of
        more than `SPOOL_ROWS` rows are mapped files without a name in the temporary folder (TMPDIR).
    """
    schema = as_schema(schema).with_dialect(dialect)
    if columns is not None:
        schema = schema.select(columns)
    if exact:
        schema = schema.with_exact([*schema.exact, *exact])

    def work() -> Table:
        return read_parts(open_parts(source, schema.dialect), schema, public, threads)

    return work() if public else guarded(work)


def guarded(call: Callable[[], Any]) -> Any:
    """Call a function that reads private rows; texts of its errors are replaced if they could
    contain rows."""
    return redact_errors(
        call,
        "not enough memory for the private data",
        lambda failed: DataError(
            f"reading the private data failed ({failed}); if the data is public, read it with "
            "public=True to see why"
        ),
    )


def read_parts(
    parts: Sequence[Part],
    schema: Schema,
    public: bool = False,
    threads: int | None = None,
    users: UserIndex | None = None,
) -> Table:
    """`read` of opened parts. Error texts may contain private values, so the caller must use
    `guarded`."""
    wanted = checked_columns(parts, schema)
    check_decimal_mark(parts, schema)
    threads = _threads.resolve(threads)
    if users is None and schema.user is not None:
        users = UserIndex(schema.user, threads=threads)
    gathering = Gathering(schema, users, threads)
    one = partial(_encode, schema=schema, users=users, find=True)
    for piece in map_batches(parts, wanted, schema.user, one, threads):
        gathering.add(piece)
    return gathering.table(public, sum(part.tally.lines for part in parts))


class Gathering:
    """Joins encoded batches into a table; users are numbered in the order of their first row."""

    def __init__(self, schema: Schema, users: UserIndex | None, threads: int = 1):
        self.schema = schema
        self.users = users
        self.threads = threads
        self.rows = self.dropped = self.null_ids = 0
        self._columns = {name: _Column(code_dtype(size)) for name, size in schema.domain.items()}
        self._exact = {name: _Column(np.dtype(np.int64)) for name in schema.amounts}
        self._places = _Column(np.dtype(np.uint32))

    def add(self, piece: Encoded) -> None:
        self.rows += piece.rows
        self.dropped += piece.dropped
        self.null_ids += piece.null_ids
        for name, codes in piece.codes.items():
            self._columns[name].append(codes)
        for name, numbers in piece.exact.items():
            self._exact[name].append(numbers)
        if self.users is not None and piece.user is not None:
            found = piece.user if isinstance(piece.user, Found) else self.users.find(piece.user)
            self.users.settle(found)
            self._places.append(found.rows)
        if self.rows > SPOOL_ROWS:
            self._spill()

    def _spill(self) -> None:
        """Writes what is in memory to files, user numbers in place of places."""
        if self.users is not None:
            for places in self._places.chunks:
                self.users.number(places)
        try:
            for column in (*self._columns.values(), *self._exact.values(), self._places):
                column.spill()
        except OSError as error:
            where = tempfile.gettempdir()
            raise DataError(
                f"cannot write temporary codes to {where!r}: {error.strerror}"
            ) from None

    def table(self, public: bool = False, malformed: int = 0) -> Table:
        team = Team(self.threads)
        codes = dict(zip(self._columns, _finished(list(self._columns.values()), team)))
        exact = [_finished([column], team)[0] for column in self._exact.values()]
        about: dict[str, Any] = {
            "dropped": self.dropped,
            "null_ids": self.null_ids,
            "malformed": malformed,
            "exact": dict(zip(self._exact, exact)),
        }
        if (users := self.users) is not None:
            spilled = self._places.file is not None
            (numbers,) = _finished([self._places], team)
            about |= {"user": numbers if spilled else users.number(numbers, team)}
            about |= {"users": len(users), "user_hash": users.hashes(team)}
        return Table(self.schema, codes, rows=self.rows, public=public, **about)


def encoded(
    parts: Sequence[Part],
    schema: Schema,
    wanted: Sequence[str],
    users: UserIndex | None,
    threads: int,
) -> Iterator[Encoded]:
    """Encoded batches in the order of the source, for any number of threads; ids are not looked
    up."""
    one = partial(_encode, schema=schema, users=users, find=False)
    return map_batches(parts, wanted, schema.user, one, threads)


def _encode(
    batch: pa.RecordBatch,
    part: Part,
    position: int,
    schema: Schema,
    users: UserIndex | None,
    find: bool,
) -> Encoded:
    """Codes, exact numbers and ids of a batch, without the rows that the schema drops."""
    numbers = inside = None
    if (period := schema.period) is not None:
        numbers = row_periods(batch.column(period.of), period)
        inside = taking_part(numbers, period)
    if part.text or part.any_name:
        batch = pa.record_batch(parsed(batch, part, source_types(schema)))
    codes, keep = encode.encode_batch(schema, batch)
    amounts = schema.amounts
    exact = {name: exact_numbers(a, batch.column(a.source)) for name, a in amounts.items()}
    ids = None
    null_ids = 0
    if users is not None:
        ids = idvalues.normal(batch.column(schema.user), schema.user_dtype)
        null_ids = ids.null_count
        if schema.null_user == "drop" and (has_id := idvalues.has_id(ids)) is not None:
            keep = has_id if keep is None else keep & has_id
    if inside is not None:
        keep = inside if keep is None else keep & inside
    rows = batch.num_rows
    if keep is not None and not keep.all():
        codes = {name: column[keep] for name, column in codes.items()}
        exact = {name: column[keep] for name, column in exact.items()}
        ids = None if ids is None else ids.filter(flags(keep))
        numbers = None if numbers is None else numbers[keep]
        rows = int(np.count_nonzero(keep))
    user: Any = None if users is None else users.prepare(ids, numbers)
    if users is not None and find:
        user = users.find(user, position)
    return Encoded(codes, user, rows, batch.num_rows - rows, null_ids, exact)


def parsed(batch: pa.RecordBatch, part: Part, types: Mapping[str, str]) -> dict[str, pa.Array]:
    """The columns; text is parsed by the column's type in the schema (`types` is the result of
    `source_types`). User ids are returned unchanged, for `idvalues.normal`."""
    columns = dict(zip(batch.schema.names, batch.columns))
    texts = {name: array for name, array in columns.items() if part.is_text(name) and name in types}
    return columns | textvalues.parse_columns(texts, types)
