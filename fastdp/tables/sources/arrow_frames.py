"""Arrow tables, batches and datasets as sources, and mappings from names to columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..._util.lazy import pa
from ...errors import DataError, UsageError
from ...schema.dialect import Dialect
from .. import parts
from ..lakehouse import check_plain
from ..parts import Part, of_batches
from .source import SOURCES, Source, module_of
from .streams import without_addresses


@SOURCES.add("arrow")
class ArrowFrame(Source):
    """A pyarrow Table or RecordBatch."""

    @classmethod
    def takes(cls, given: Any) -> bool:
        return module_of(given) == "pyarrow" and isinstance(given, pa.Table | pa.RecordBatch)

    def parts(self, dialect: Dialect) -> list[Part]:
        whole = isinstance(self.given, pa.Table)
        table = self.given if whole else pa.Table.from_batches([self.given])
        return [without_addresses(of_table(table))]

    def held(self) -> Iterable[Any]:
        return self.given.columns


@SOURCES.add("mapping")
class ColumnMapping(Source):
    """A mapping from names to columns."""

    @classmethod
    def takes(cls, given: Any) -> bool:
        return isinstance(given, Mapping)

    def parts(self, dialect: Dialect) -> list[Part]:
        columns = {name: _column(name, values) for name, values in self.given.items()}
        lengths = {name: len(column) for name, column in columns.items()}
        if len(set(lengths.values())) > 1:
            raise DataError(
                f"columns of different lengths: {', '.join(columns)}; a row needs all of them"
            )
        return [without_addresses(of_table(pa.table(columns)))]

    def held(self) -> Iterable[Any]:
        return self.given.values()


def _column(name: Any, values: Any) -> pa.ChunkedArray:
    """A column of a mapping. The errors do not repeat values."""
    if not isinstance(name, str):
        raise UsageError(
            f"a mapping's keys are names of columns, got a key of type {type(name).__name__}"
        )
    try:
        return pa.table({name: values}).column(0)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        raise DataError(
            f"column {name!r}: its values do not have one type that Arrow can hold; give them one, "
            "for example as a polars.Series"
        ) from None


@SOURCES.add("dataset")
class ArrowDataset(Source):
    """A pyarrow dataset of files that have types."""

    @classmethod
    def takes(cls, given: Any) -> bool:
        return module_of(given) == "pyarrow" and hasattr(given, "get_fragments")

    def parts(self, dialect: Dialect) -> list[Part]:
        kind = type(getattr(self.given, "format", None)).__name__
        if kind in ("CsvFileFormat", "JsonFileFormat"):
            raise UsageError(
                "an Arrow dataset of text files cannot be read: one damaged line can hide others;"
                " give the paths of the files, and a dialect if they need one"
            )
        if type(getattr(self.given, "filesystem", None)).__name__ == "LocalFileSystem":
            # A lakehouse's own dataset has another file system.
            check_plain(f"<pyarrow.{self.kind}>", self.paths())

        def batches(columns: list[str]) -> Any:
            return self.given.to_batches(
                columns=columns,
                batch_size=parts.BATCH_ROWS,
                batch_readahead=4,
                fragment_readahead=1,
            )

        return [of_batches(f"<pyarrow.{self.kind}>", self.given.schema, batches)]

    def paths(self) -> Iterable[str]:
        names = getattr(self.given, "files", None)
        return names if isinstance(names, list) else ()


def of_table(table: pa.Table) -> Part:
    """An Arrow table."""

    def batches(columns: list[str]) -> list[pa.RecordBatch]:
        return table.select(columns).to_batches(parts.BATCH_ROWS)

    return of_batches("<pyarrow.Table>", table.schema, batches, arrow=True)
