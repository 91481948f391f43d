"""Parquet files of unknown origin, opened so that reading a batch takes a bounded amount of memory.

A few hundred bytes of Parquet can stand for gigabytes. A page can be compressed a thousandfold. One
long text can be repeated by its number in a dictionary, and a text can repeat the beginning of the
one before it. What the footer says of sizes proves nothing. So `bounded_file` reads the header of
every page, which is what the decoder goes by, before it decodes any. Texts are read as
dictionaries, where each text is held once.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from .._util.lazy import pa, pc, pq
from ..errors import RunError

MOST_FOOTER = 1 << 24
"""Bytes of the footer; a run writes some 200 for each column of a row group."""
MOST_PAGE = 1 << 24
"""Bytes of one page, packed or unpacked; a run writes pages of about 2^20."""
MOST_PAGES = 1 << 28
"""Bytes of the largest pages of all columns together: about what is unpacked at one time."""
MOST_BATCH = 1 << 28
"""Bytes of the texts of one batch if each is written out."""
BATCH_ROWS = 1 << 16
MOST_HEADER = 1 << 16
"""Bytes of a page's header; statistics in it have at most 2 x 4096."""

ENCODINGS = {0, 2, 3, 5, 8}
"""PLAIN, PLAIN_DICTIONARY, RLE, DELTA_BINARY_PACKED, RLE_DICTIONARY: those that a run writes. In
them no text is longer than its bytes in the page."""
DICTIONARY_PAGE = 2
PAGES = {0: (5, 2), DICTIONARY_PAGE: (7, 2), 3: (8, 4)}
"""By the type of a page: the field of its header that describes it, and in that the field of the
encoding. Field 1 is always the number of values."""


@contextlib.contextmanager
def bounded_file(path: Path, columns: Sequence[str]) -> Iterator[pq.ParquetFile]:
    """The file, opened to read these columns. RunError if it is not a plain file, or if reading a
    batch could take more memory than the limits above."""

    if path.is_symlink() or path.parent.is_symlink() or not path.is_file():
        raise RunError(f"{path.name} is not a plain file")
    with open(path, "rb") as stream:
        _check_footer(stream, path.name)
        about = pq.read_metadata(path)
        chunks = [
            i
            for i in range(about.num_columns)
            if about.schema.column(i).path.split(".")[0] in columns
        ]
        _check_pages(stream, about, chunks, path.name)
    kinds = {about.schema.column(i).path: about.schema.column(i).physical_type for i in chunks}
    texts = [name for name, kind in kinds.items() if kind == "BYTE_ARRAY"]
    with pq.ParquetFile(path, metadata=about, read_dictionary=texts, buffer_size=1 << 20) as file:
        yield file


def batches(file: pq.ParquetFile, columns: Sequence[str], name: str) -> Iterator[pa.RecordBatch]:
    """The rows of a `bounded_file` in batches. RunError if the texts of one have too many bytes."""
    for batch in file.iter_batches(BATCH_ROWS, columns=list(columns)):
        if sum(_written_out(column) for column in batch.columns) > MOST_BATCH:
            raise RunError(
                f"{name} unpacks to more than a run writes: a batch of over {MOST_BATCH:,} bytes"
            )
        yield batch


def _written_out(column: pa.Array) -> int:

    kind = column.type
    if not pa.types.is_dictionary(kind):
        return column.nbytes
    if pa.types.is_primitive(kind.value_type):
        return 8 * len(column)
    lengths = pc.take(pc.binary_length(column.dictionary), column.indices)
    return pc.sum(pc.cast(lengths, pa.int64())).as_py() or 0


def _check_footer(stream: BinaryIO, name: str) -> None:
    size = os.fstat(stream.fileno()).st_size
    stream.seek(max(0, size - 8))
    end = stream.read(8)
    if size < 12 or end[4:] != b"PAR1":
        raise RunError(f"{name} is not Parquet")
    if int.from_bytes(end[:4], "little") > MOST_FOOTER:
        raise RunError(
            f"{name} unpacks to more than a run writes: its footer has over {MOST_FOOTER:,} bytes"
        )


def _check_pages(stream: BinaryIO, about: Any, chunks: Sequence[int], name: str) -> None:
    """Raise RunError if a page of the columns to be read is too large or in another encoding than a
    run's."""
    together = 0
    for number in chunks:
        column = about.schema.column(number)
        wide = column.physical_type == "FIXED_LEN_BYTE_ARRAY" and column.length > 32
        if wide or column.max_repetition_level or column.path != column.name:
            raise RunError(f"{name}: column {column.path!r} has a type that a run does not write")
        groups = (about.row_group(g).column(number) for g in range(about.num_row_groups))
        together += max(
            (page for chunk in groups for page in _pages(stream, chunk, name)), default=0
        )
    if together > MOST_PAGES:
        raise RunError(f"{name} unpacks to more than a run writes: {together:,} bytes of pages")


def _pages(stream: BinaryIO, column: Any, name: str) -> Iterator[int]:
    """The unpacked size of each page of a column chunk, in order."""
    at = column.data_page_offset
    if (dictionary := column.dictionary_page_offset or 0) > 0:  # None: there is none
        # A file of no rows may have a dictionary alone.
        without_rows = column.num_values == 0 and at == 0
        at = dictionary if without_rows else min(at, dictionary)
    end = at + column.total_compressed_size
    while at < end:
        stream.seek(at)
        header = _Thrift(stream.read(MOST_HEADER))
        try:
            page = header.struct()
            unpacked = int(page[2])
            packed = int(page[3])
            about, encoding = PAGES[page[1]]
            entries = int(page[about][1])
            encoded = page[about][encoding]
        except (IndexError, KeyError, TypeError):
            raise RunError(f"{name}: a run does not write pages with such a header") from None
        if page[1] == DICTIONARY_PAGE and entries > unpacked:
            raise RunError(f"{name}: a dictionary has more entries than bytes")
        if not (0 <= unpacked <= MOST_PAGE and 0 <= packed <= MOST_PAGE):
            raise RunError(
                f"{name} unpacks to more than a run writes: a page of {unpacked:,} bytes"
            )
        if encoded not in ENCODINGS:
            raise RunError(f"{name}: a page is in encoding {encoded}, which a run does not write")
        yield unpacked
        at += header.at + packed


class _Thrift:
    """Reads a struct in Thrift's compact protocol, in which Parquet writes the headers of pages: a
    dictionary from field numbers to values. Only numbers of 32 bits have values here: a decoder
    takes sizes and encodings from no others. IndexError if the struct is malformed or has a field
    twice."""

    def __init__(self, data: bytes):
        self._data = data
        self.at = 0

    def _byte(self) -> int:
        self.at += 1
        return self._data[self.at - 1]

    def _number(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def struct(self, depth: int = 0) -> dict[int, Any]:
        fields: dict[int, Any] = {}
        number = 0
        while (head := self._byte()) != 0:
            kind = head & 0x0F
            step = head >> 4
            number = number + step if step else self._signed()
            if number in fields:
                raise IndexError("a field occurs twice")
            fields[number] = self._value(kind, depth)
        return fields

    def _signed(self) -> int:
        raw = self._number()
        return (raw >> 1) ^ -(raw & 1)

    def _value(self, kind: int, depth: int) -> Any:
        """A value of Thrift's compact protocol; None for those that no limit needs."""
        if depth > 4:
            raise IndexError("nested too deeply")
        if kind in (1, 2):
            return kind == 1
        if kind == 3:
            return self._byte()
        if kind == 5:
            return self._signed()
        if kind in (4, 6):
            self._signed()
        elif kind == 7:
            self.at += 8
        elif kind == 8:
            length = self._number()
            self.at += length
        elif kind == 12:
            return self.struct(depth + 1)
        else:
            raise IndexError("a page's header has no field of this type")
        return None
