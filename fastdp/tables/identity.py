"""Whether two sources share rows: the same files (by device and inode), or frames that share
memory."""

import os
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from .._util.lazy import pa, pl
from ..errors import DataError
from . import sources


def overlap(one: Any, other: Any) -> bool:
    """Whether both sources contain the same file (also through a folder, a glob or a link) or the
    same rows in memory.

    Compares files and memory addresses, never values: it does not recognise a copy, nor the rows
    that a query (a LazyFrame, a relation) will read.
    """
    same = one is other or bool(_files(one) & _files(other))
    return same or _meet(sorted(_rows(one)), sorted(_rows(other)))


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
    elif type(source).__module__.startswith("pyarrow") and isinstance(
        getattr(source, "files", None), list
    ):
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
    """Address ranges [start, end) in memory of the values of frames, series and arrays, by column;
    none for any other object."""
    module, parts = type(source).__module__.split(".")[0], list[Any]()
    if isinstance(source, pa.Array):
        yield from _array(source)
    elif isinstance(source, np.ndarray) and source.size:
        yield np.lib.array_utils.byte_bounds(source)
    elif isinstance(source, list | tuple):
        parts = [part for part in source if not isinstance(part, str | int | float)]
    elif isinstance(source, Mapping):
        parts = list(source.values())
    elif isinstance(source, pa.Table | pa.RecordBatch):
        parts = source.columns
    elif isinstance(source, pa.ChunkedArray):
        parts = source.chunks
    elif module == "polars" and hasattr(source, "get_columns"):
        parts = source.get_columns()
    elif module == "polars" and hasattr(source, "get_chunks"):
        parts = [
            chunk.to_arrow(compat_level=pl.CompatLevel.newest()) for chunk in source.get_chunks()
        ]
    elif module == "pandas" and hasattr(source, "columns"):
        parts = [source.iloc[:, position] for position in range(source.shape[1])]
    elif module == "pandas":
        held = source.array
        parts = [held._pa_array if hasattr(held, "_pa_array") else _plain(held)]
    for part in parts:
        yield from _rows(part)


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
