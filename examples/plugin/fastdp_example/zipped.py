"""A source: the Parquet files of a zip archive."""

import os
import zipfile
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from fastdp.plugins import SOURCES, Dialect, Part, Source, of_batches

BATCH_ROWS = 1 << 17


@SOURCES.add("zipped")
class Zipped(Source):
    """The path of a zip archive of Parquet files."""

    @classmethod
    def takes(cls, given: Any) -> bool:
        return isinstance(given, str | os.PathLike)

    @property
    def label(self) -> str:
        return os.path.basename(self.given)

    def paths(self) -> Iterable[str]:
        return [os.fspath(self.given)]

    def parts(self, dialect: Dialect) -> list[Part]:
        with zipfile.ZipFile(self.given) as archive:
            names = sorted(archive.namelist())
        return [self._part(name) for name in names]

    def _part(self, name: str) -> Part:
        """One file. Types come from the file, never from its rows: how a row is read must not
        depend on other rows."""
        with zipfile.ZipFile(self.given) as archive, archive.open(name) as file:
            schema = pq.read_schema(file)

        def batches(columns: list[str]) -> Iterator[pa.RecordBatch]:
            with zipfile.ZipFile(self.given) as archive, archive.open(name) as file:
                yield from pq.ParquetFile(file).iter_batches(BATCH_ROWS, columns=columns)

        return of_batches(f"{self.label}/{name}", schema, batches)
