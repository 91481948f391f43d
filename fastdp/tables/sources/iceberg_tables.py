"""Tables of Apache Iceberg as sources: one snapshot of the table, with its deletions.

The package pyiceberg (`fastdp[iceberg]`) follows the metadata and applies position deletes. A
snapshot never changes; it is fixed before anything is charged. Deletions by equality, deletion
vectors and files of other formats than Parquet are refused.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ..._util.files import local_path, scheme_of
from ..._util.lazy import pa
from ...errors import DataError
from ...schema.dialect import Dialect
from ..lakehouse import ICEBERG, iceberg_metadata
from ..parts import Part
from .file_paths import Listing
from .foreign_batches import foreign_part
from .source import SOURCES, Source, module_of

FORMATS = (1, 2)
"""Versions of the table format that the tests read with fastdp."""


@SOURCES.add("iceberg")
class IcebergSource(Source):
    """A table of Apache Iceberg: a `pyiceberg` table, the path of a metadata file, or that path at
    a snapshot (`lake/metadata/00003-x.metadata.json@SNAPSHOT`)."""

    def __init__(self, given: Any):
        super().__init__(given)
        self._opened: Any = None
        self._snapshot: int | None = None
        self._listing: Listing | None = None

    @classmethod
    def takes(cls, given: Any) -> bool:
        if isinstance(given, str | os.PathLike):
            return iceberg_metadata(given) is not None
        return module_of(given) == "pyiceberg" and hasattr(given, "metadata_location")

    @property
    def table(self) -> Any:
        """The table; its snapshot that is read is `_snapshot`, None if the table is empty."""
        if self._opened is None:
            self._opened = self._open()
            self._snapshot = self._asked
            if self._snapshot is None and (current := self._opened.current_snapshot()):
                self._snapshot = current.snapshot_id
        return self._opened

    @property
    def _asked(self) -> int | None:
        """The snapshot that a path names."""
        if not isinstance(self.given, str | os.PathLike):
            return None
        found = iceberg_metadata(self.given)
        return None if found is None else found[1]

    def _open(self) -> Any:
        if not isinstance(self.given, str | os.PathLike):
            return self.given
        path = (iceberg_metadata(self.given) or ("", None))[0]
        try:
            from pyiceberg.table import StaticTable
        except ImportError:
            raise DataError(
                f"{path!r} is a table of Apache Iceberg: install pyiceberg to read it (pip install"
                f" 'fastdp[iceberg]'), or {ICEBERG.advice} in Python"
            ) from None
        try:
            return StaticTable.from_metadata(path)
        except Exception as error:  # its errors have many classes, and name files only
            raise DataError(
                f"{path!r} is metadata of Apache Iceberg that cannot be opened"
                f" ({type(error).__name__})"
            ) from None

    @property
    def label(self) -> str:
        """The name of the table's folder."""
        return os.path.basename(os.path.normpath(self.table.location()))

    @property
    def title(self) -> str | None:
        return self.label

    def pin(self, before: Mapping[str, Any] | None = None) -> Mapping[str, Any] | None:
        self._opened = None
        table = self.table
        if before is not None:
            began = before.get("snapshot")
            if self._asked not in (None, began):
                raise DataError(
                    f"{self.label}: the interrupted run read snapshot {began}, and snapshot"
                    f" {self._asked} is given"
                )
            self._snapshot = began
        if self._snapshot is not None and table.snapshot_by_id(self._snapshot) is None:
            raise DataError(
                f"{self.label}: the table no longer has snapshot {self._snapshot}; load it where"
                " its metadata still names the snapshot"
            )
        if before is not None and before != self.version:
            raise DataError(f"{self.label}: it is not the table that the interrupted run read")
        self._listing = self._listed(self._checked_tasks())
        return self.version

    def _checked_tasks(self) -> list[Any]:
        """The files of the snapshot with the deletions that apply to each. DataError if one cannot
        be honoured."""
        if self.table.format_version not in FORMATS:
            raise DataError(
                f"{self.label}: it has version {self.table.format_version} of the Iceberg format,"
                " and fastdp reads 1 and 2; write its rows to plain Parquet files first"
            )
        try:
            tasks = list(self._scan().plan_files())
        except Exception as error:  # equality deletes, files that are gone: texts name files only
            raise DataError(
                f"{self.label}: its files or deletions cannot be read ({type(error).__name__}:"
                f" {_first_line(error)}); write its rows to plain Parquet files first"
            ) from None
        for task in tasks:
            for file in (task.file, *task.delete_files):
                if file.file_format.name != "PARQUET":
                    raise DataError(
                        f"{self.label}: {file.file_path!r} is of format {file.file_format.name},"
                        " and fastdp reads Parquet; write its rows to plain Parquet files first"
                    )
        return tasks

    def _listed(self, tasks: list[Any]) -> Listing:
        """The local files of the snapshot. DataError if one is gone, or has another size than the
        metadata says."""
        sizes = dict(_local_sizes(tasks))
        listing = Listing.of([(path, {}) for path in sizes])
        for path, size in sizes.items():
            if listing.stamps[path][0] != size:
                raise DataError(f"file {path!r}: its size is not that in the table's metadata")
        return listing

    def changes(self) -> str:
        """Files of a snapshot never change; whoever changes one breaks the table."""
        if self._listing is None:
            return ""
        return self._listing.changed(f"snapshot {self._snapshot} of {self.label}")

    @property
    def version(self) -> Mapping[str, Any] | None:
        uuid = str(self.table.metadata.table_uuid)
        return {"format": ICEBERG.name, "table": uuid, "snapshot": self._snapshot}

    def paths(self) -> Iterable[str]:
        return [path for path, _ in _local_sizes(self._checked_tasks())]

    def parts(self, dialect: Dialect) -> list[Part]:
        self._checked_tasks()
        where = f"{self.label} (snapshot {self._snapshot})"

        def batches(columns: list[str]) -> Iterator[pa.RecordBatch]:
            if self._snapshot is None:
                return iter(())
            return self._scan(tuple(columns)).to_arrow_batch_reader()

        from pyiceberg.io.pyarrow import schema_to_pyarrow

        schema = schema_to_pyarrow(self._scan().projection(), include_field_ids=False)
        return [foreign_part(where, schema, batches)]

    def _scan(self, columns: tuple[str, ...] = ("*",)) -> Any:
        return self.table.scan(snapshot_id=self._snapshot, selected_fields=columns)


def _local_sizes(tasks: list[Any]) -> Iterator[tuple[str, int]]:
    """(path, size) of the files on this machine, each once."""
    seen = set()
    for task in tasks:
        for file in (task.file, *task.delete_files):
            path = local_path(file.file_path)
            if scheme_of(path) is None and path not in seen:
                seen.add(path)
                yield path, file.file_size_in_bytes


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [""])[0][:120]
