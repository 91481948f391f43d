"""Whether two sources share rows: the same files (by device and inode), or frames that share
memory."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from .._util.lazy import pa, pl
from .sources.source import Source, module_of


def overlap(one: Source, other: Source) -> bool:
    """Whether both sources contain the same file (also through a folder, a glob or a link) or the
    same rows in memory.

    Compares files and memory addresses, never values: it does not recognise a copy, nor the rows
    that a query (a LazyFrame, a relation) will read.
    """
    same = one.given is other.given or bool(one.files() & other.files())
    return same or _share_a_byte(_addresses(one), _addresses(other))


def _addresses(source: Source) -> list[tuple[int, int]]:
    """The address ranges in memory of all columns of a source, sorted; none for files and queries."""
    return sorted(place for column in source.held() for place in _ranges_of(column))


def _ranges_of(column: Any) -> Iterator[tuple[int, int]]:
    """Address ranges [start, end) in memory of the values of a series or array; none for any other
    object."""
    module = module_of(column)
    pieces = list[Any]()
    if isinstance(column, pa.Array):
        yield from _ranges_of_array(column)
    elif isinstance(column, np.ndarray) and column.size:
        yield np.lib.array_utils.byte_bounds(column)
    elif isinstance(column, pa.ChunkedArray):
        pieces = column.chunks
    elif module == "polars" and hasattr(column, "get_chunks"):
        newest = pl.CompatLevel.newest()
        pieces = [chunk.to_arrow(compat_level=newest) for chunk in column.get_chunks()]
    elif module == "pandas":
        held = column.array
        pieces = [held._pa_array if hasattr(held, "_pa_array") else _numpy_storage(held)]
    for piece in pieces:
        yield from _ranges_of(piece)


def _numpy_storage(held: Any) -> np.ndarray | None:
    """The numpy array that stores a pandas column, or None."""
    inner = getattr(held, "_ndarray", getattr(held, "_data", None))
    return inner if isinstance(inner, np.ndarray) else None


def _ranges_of_array(array: Any) -> Iterator[tuple[int, int]]:
    """(start, end) of the memory that holds an array's values."""
    if isinstance(array, pa.ExtensionArray):
        yield from _ranges_of_array(array.storage)
        return
    if isinstance(array, pa.DictionaryArray):
        array = array.indices
    buffers = array.buffers()
    values = buffers[1] if len(buffers) > 1 else None
    if values is None or not len(array):
        return
    kind = array.type
    t = pa.types
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


def _share_a_byte(one: list[tuple[int, int]], other: list[tuple[int, int]]) -> bool:
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
