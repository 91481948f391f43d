"""A source consists of parts (a file, a frame or a stream), and a part of units. A unit is a
function that a thread calls to get record batches."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

from msgspec import Struct, field

from .._util.lazy import pa

BATCH_ROWS = 1 << 17
"""Rows of one record batch. In memory at once are at most (1.5 threads + 2) times this many rows.
To these comes one row group of Parquet, or one block of text, per thread."""

Unit = Callable[..., Iterable["pa.RecordBatch"]]
"""Of a part that knows its number of units: also with (sets, share), which reads its columns in so
many sets; `share` calls functions, on several threads if some are free, and returns their results.
"""


class Tally:
    """The number of malformed lines that were read: PRIVATE, for the data's owner only. Several
    threads may add at the same time."""

    def __init__(self) -> None:
        self.lines = 0
        self._lock = threading.Lock()

    def add(self, lines: int) -> None:
        with self._lock:
            self.lines += lines


class Part(Struct, frozen=True):
    """One file, or one frame or stream: where it is (for errors), its Arrow schema, and its rows.

    text: columns whose values are text from a file or from the name of a folder, to be parsed by
    the schema's types. any_name: a column of any name can be read, as text; it is null in rows that
    do not have it (JSON lines). hint: added to the error if columns are missing; says what may be
    the reason. unread: what else the source has that is not read, and what to do. arrow: the rows are Arrow
    data as their writer made them and can be read again, so `part_checks.check_structure` reads them ahead.
    count: the number of units, if known. either_mark: its
    numbers may have decimal commas or points, and nothing says which (`Dialect.decimal`).
    """

    where: str
    schema: pa.Schema
    units: Callable[[Sequence[str], str | None], Iterator[Unit]]
    text: frozenset[str] = frozenset()
    any_name: bool = False
    hint: str = ""
    unread: str = ""
    arrow: bool = False
    count: int = 0
    either_mark: bool = False
    tally: Tally = field(default_factory=Tally)

    def times(self, name: str) -> int:
        """How many columns have this name."""
        return self.schema.names.count(name) or int(self.any_name)

    def is_text(self, name: str) -> bool:
        """Whether the column of this name is read as text."""
        return name in self.text or (self.any_name and name not in self.schema.names)


def cut(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The rows of a batch, BATCH_ROWS at a time."""
    for start in range(0, batch.num_rows, BATCH_ROWS):
        yield batch.slice(start, BATCH_ROWS)


def checked(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """`cut` of a batch from an untrusted producer: ArrowInvalid if offsets or indices point outside
    its buffers. Values are not checked. Bad UTF-8, a decimal beyond its precision or a date64
    within a day is a value outside the domain of its row."""
    for column in batch.columns:
        _as_stored(column).validate(full=True)
    yield from cut(batch)


def each(batches: Iterable[Any], work: Callable[[Any], Any] = cut) -> Iterator[Unit]:
    """A unit for each batch."""
    for batch in batches:
        yield partial(work, batch)


def of_batches(
    where: str, schema: pa.Schema, batches: Callable[[list[str]], Any], arrow=False
) -> Part:
    """The part of an untrusted producer; batches(columns): its Arrow batches with these columns."""
    return Part(
        where, schema, lambda columns, user: each(batches(list(columns)), checked), arrow=arrow
    )


def _as_stored(array: pa.Array) -> pa.Array:
    """The array on the same buffers in a type of which any value is valid. Texts become bytes;
    decimals, dates and times become the numbers or bytes that are stored for them."""

    if isinstance(array, pa.ExtensionArray):
        return _as_stored(array.storage)
    kind = array.type
    t = pa.types
    if t.is_dictionary(kind):
        return pa.DictionaryArray.from_arrays(
            array.indices, _as_stored(array.dictionary), safe=False
        )
    if t.is_string(kind):
        return array.view(pa.binary())
    if t.is_large_string(kind):
        return array.view(pa.large_binary())
    if t.is_string_view(kind):
        return array.view(pa.binary_view())
    if t.is_decimal(kind) or t.is_date(kind) or t.is_time(kind):
        width = kind.bit_width
        return array.view({32: pa.int32(), 64: pa.int64()}.get(width) or pa.binary(width // 8))
    return array
