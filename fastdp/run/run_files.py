"""Files of a finished run: its folder read with care, its rows and its page written."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from .._util.files import as_path
from .._util.lazy import pa, pq
from ..errors import FastdpError, RunError, UsageError
from .folder import whole_file

DAMAGE = (OSError, ValueError, TypeError, LookupError, ArithmeticError, AttributeError)
"""What reading a file of unknown content may raise; Arrow's own errors are among them."""


@contextmanager
def reading_folder(out: Path | None) -> Iterator[None]:
    """A context in which a damaged or hostile run folder ends in a RunError. Without a folder
    (None), errors stay as they are."""
    try:
        yield
    except FastdpError:
        raise
    except DAMAGE as error:
        if out is None:
            raise
        raise RunError(
            f"{out}: the run folder cannot be used ({type(error).__name__}: {error}); "
            f"`fastdp verify {out}` says which file is damaged"
        ) from error


def write_page(out: Path | None, path: str | os.PathLike[str], about: Any) -> None:
    """Write the page of the run in the folder `out`; RunError if the run has no folder."""
    from ..report.page import write_public

    if out is None:
        raise RunError("this run was not written to a folder (out=), from which its page is made")
    with reading_folder(out):
        write_public(path, out, about)


def write_rows(reader: pa.RecordBatchReader, path: str | os.PathLike[str]) -> None:
    """Write a stream of rows to one file, whole or not at all: .parquet, .csv, .arrow or
    .feather."""
    target = as_path(path, "the file to write")
    suffix = target.suffix.lower()
    if suffix not in (".parquet", ".csv", ".arrow", ".feather"):
        raise UsageError(
            f"{target}: expected a name that ends in .parquet, .csv, .arrow or .feather"
        )
    import pyarrow.csv as csv

    kind = reader.schema
    opened = pa.ipc.new_file
    if suffix == ".parquet":
        opened = partial(pq.ParquetWriter, compression="zstd")
    elif suffix == ".csv":  # has no dictionaries
        kind = pa.schema([(f.name, getattr(f.type, "value_type", f.type)) for f in kind])
        opened = csv.CSVWriter
    with whole_file(target) as part, opened(part, kind) as writer:
        for batch in reader:
            writer.write_table(pa.Table.from_batches([batch]).cast(kind))
