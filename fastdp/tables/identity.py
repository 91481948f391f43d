"""Whether two sources share rows: the same files (by device and inode), or frames that share memory."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from .._util.lazy import pa, pl
from ..errors import DataError
from . import sources


def overlap(one: Any, other: Any) -> bool:
    """Whether both sources contain the same file (also through a folder, a glob or a link) or the same rows
    in memory.

    Compares files and memory addresses, never values: it does not recognise a copy, nor the rows that a query
    (a LazyFrame, a relation) will read.
    """
    if one is other:
        return True
    if _files(one) & _files(other):
        return True
    return _meet(sorted(_rows(one)), sorted(_rows(other)))


def _files(source: Any) -> set[tuple[int, int]]:
    """(device, inode) of every file of a source."""
    if isinstance(source, list | tuple):
        return set().union(*map(_files, source))
    names: list[str] = []
    if isinstance(source, str | os.PathLike):
        try:
            names = [path for path, _ in sources.files(os.fspath(source))]
        except DataError:  # there is no such file: opening the source will raise this error again
            return set()
    elif type(source).__module__.startswith("pyarrow") and isinstance(getattr(source, "files", None), list):
        names = source.files
    places = set()
    for name in names:
        try:
            status = os.stat(name)
        except OSError:
            continue
        places.add((status.st_dev, status.st_ino))
    return places


def _rows(source: Any) -> Iterator[tuple[int, int]]:
    """Address ranges [start, end) in memory of the values of a frame's rows, column by column."""

    module = type(source).__module__.split(".")[0]
    if isinstance(source, list | tuple):
        for item in source:
            yield from _rows(item)
    elif isinstance(source, Mapping):
        for column in source.values():
            yield from _column(column)
    elif isinstance(source, pa.Table | pa.RecordBatch):
        for column in source.columns:
            yield from _column(column)
    elif module == "polars" and hasattr(source, "get_columns"):
        for column in source.get_columns():
            yield from _column(column)
    elif module == "pandas" and hasattr(source, "columns"):
        for position in range(source.shape[1]):
            yield from _column(source.iloc[:, position])
    elif module in ("polars", "pandas"):
        yield from _column(source)


def _column(column: Any) -> Iterator[tuple[int, int]]:
    """Address ranges of one column: an Arrow array, a series of Polars or pandas, or a numpy array; none for
    any other object."""

    module = type(column).__module__.split(".")[0]
    if isinstance(column, pa.ChunkedArray):
        for chunk in column.chunks:
            yield from _column(chunk)
    elif isinstance(column, pa.Array):
        yield from _array(column)
    elif module == "polars" and hasattr(column, "to_arrow"):
        if hasattr(column, "get_chunks"):
            for chunk in column.get_chunks():
                yield from _column(chunk.to_arrow(compat_level=pl.CompatLevel.newest()))
    elif module == "pandas":
        held = column.array
        yield from _column(getattr(held, "_pa_array", None) if hasattr(held, "_pa_array") else _plain(held))
    elif isinstance(column, np.ndarray) and column.size:
        yield np.lib.array_utils.byte_bounds(column)


def _plain(held: Any) -> np.ndarray | None:
    """The numpy array that stores a pandas column, or None."""
    inner = getattr(held, "_ndarray", getattr(held, "_data", None))
    return inner if isinstance(inner, np.ndarray) else None


def _array(array: Any) -> Iterator[tuple[int, int]]:

    if isinstance(array, pa.ExtensionArray):
        yield from _array(array.storage)
        return
    if isinstance(array, pa.DictionaryArray):
        array = array.indices
    buffers = array.buffers()
    values = buffers[1] if len(buffers) > 1 else None
    if values is None or not len(array):
        return
    kind, t = array.type, pa.types
    if t.is_string(kind) or t.is_binary(kind):
        bits = 32
    elif t.is_large_string(kind) or t.is_large_binary(kind):
        bits = 64
    elif t.is_string_view(kind) or t.is_binary_view(kind):
        bits = 128
    else:
        try:
            bits = kind.bit_width
        except ValueError:
            return
    start = values.address + array.offset * bits // 8
    yield start, start + max(1, len(array) * bits // 8)


def _meet(one: list[tuple[int, int]], other: list[tuple[int, int]]) -> bool:
    """Whether two sorted lists of intervals have a byte in common."""
    i = j = 0
    while i < len(one) and j < len(other):
        if one[i][1] <= other[j][0]:
            i += 1
        elif other[j][1] <= one[i][0]:
            j += 1
        else:
            return True
    return False
