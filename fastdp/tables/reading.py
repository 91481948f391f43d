"""Errors while rows are read: they name the source and no row."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator

from .._util.lazy import pa
from ..errors import DataError


def broken(where: str, error: BaseException) -> DataError | MemoryError:
    """The error to raise in place of one that can quote rows."""
    if isinstance(error, MemoryError) or "worker thread" in str(error):
        return MemoryError(f"not enough memory, or no thread, to read {where!r}")
    if isinstance(error, OSError) and error.strerror:
        return DataError(f"file {where!r} cannot be read: {error.strerror}")
    return DataError(
        f"{where!r} is damaged, truncated or not what its name says ({type(error).__name__})"
    )


def guarded(where: str, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yields the batches. An error while reading them becomes a DataError that names the source but
    no row. A lack of memory becomes a MemoryError, after which a run can be resumed."""

    try:
        yield from batches
    except (pa.ArrowException, OSError, EOFError, zlib.error) as error:
        raise broken(where, error) from None
