"""Tables of Delta Lake as sources: one version of the table, with its deletions.

The package deltalake (`fastdp[delta]`) follows the log and applies deletion vectors. What it reads
is one version, which never changes; a version is fixed before anything is charged.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any

from ..._util.files import scheme_of
from ..._util.lazy import pa
from ...errors import DataError
from ...schema.dialect import Dialect
from ..lakehouse import DELTA, delta_folder
from ..parts import Part
from .file_paths import Listing
from .foreign_batches import foreign_part
from .source import SOURCES, Source, module_of

FEATURES = ("columnMapping", "deletionVectors", "timestampNtz")
"""Reader features of a table that the tests read with fastdp. Tables with any other are refused:
whoever does not know a feature may read rows that it takes away."""
FEATURES_OF_WRITERS = ("vacuumProtocolCheck",)
"""Features that readers are asked to know although they concern writers alone."""
LATEST_READER = 3
"""The newest reader version of the protocol: since it, features are named one by one."""


@SOURCES.add("delta")
class DeltaSource(Source):
    """A table of Delta Lake: its folder, its folder at a version (`lake/trips@v12`), or a
    `deltalake.DeltaTable`."""

    def __init__(self, given: Any):
        super().__init__(given)
        self._table: Any = None
        self._listing: Listing | None = None

    @classmethod
    def takes(cls, given: Any) -> bool:
        if isinstance(given, str | os.PathLike):
            return delta_folder(given) is not None
        return module_of(given) == "deltalake" and hasattr(given, "load_as_version")

    @property
    def table(self) -> Any:
        """The table at the version that is read: the pinned one, else the one given, else the
        newest."""
        if self._table is None:
            self._table = self._opened(self._asked)
        return self._table

    @cached_property
    def _place(self) -> tuple[str, int | None, Any]:
        """(folder or address, version, options of the store) as they were given."""
        if isinstance(self.given, str | os.PathLike):
            folder, version = delta_folder(self.given) or ("", None)
            return folder, version, None
        return self.given.table_uri, self.given.version(), self.given._storage_options

    @property
    def _asked(self) -> int | None:
        return self._place[1]

    def _opened(self, version: int | None) -> Any:
        folder, _, options = self._place
        where = self.label if version is None else f"version {version} of {self.label}"
        try:
            import deltalake
        except ImportError:
            raise DataError(_needs_package(folder)) from None
        if not hasattr(deltalake.DeltaTable, "scan"):
            raise DataError(f"{where}: reading it needs deltalake 1.6 or newer")
        try:
            table = deltalake.DeltaTable(folder, version=version, storage_options=options)
        except Exception as error:  # its errors have many classes, and name files only
            raise DataError(
                f"{where} is a table of Delta Lake that cannot be opened ({type(error).__name__})"
            ) from None
        _check_protocol(table, where)
        return table

    @property
    def label(self) -> str:
        return os.path.basename(os.path.normpath(self._place[0]))

    @property
    def title(self) -> str | None:
        return self.label

    def pin(self, before: Mapping[str, Any] | None = None) -> Mapping[str, Any] | None:
        version = self._asked
        if before is not None:
            began = before.get("version")
            if version is not None and version != began:
                raise DataError(
                    f"{self.label}: the interrupted run read version {began}, and version"
                    f" {version} is given; give version {began}, or the folder alone"
                )
            version = began
        self._table = self._opened(version)
        found = self.version
        if before is not None and before != found:
            raise DataError(f"{self.label}: it is not the table that the interrupted run read")
        self._listing = self._listed()
        return found

    def _listed(self) -> Listing:
        """The local files of the version. DataError if one is missing or has another size than the
        log says: then the version can no longer be read."""
        sizes = dict(_sizes(self.table))
        local = {os.path.basename(path): path for path in self.paths()}
        listing = Listing.of([(path, {}) for path in local.values()])
        for name, size in sizes.items():
            path = local.get(name)
            if path is not None and listing.stamps[path][0] != size:
                raise DataError(f"file {path!r}: its size is not that in the log of the table")
        return listing

    def changes(self) -> str:
        """Files of a version never change; whoever changes one breaks the table."""
        if self._listing is None:
            return ""
        return self._listing.changed(f"version {self.table.version()} of {self.label}")

    @property
    def version(self) -> Mapping[str, Any] | None:
        table = self.table
        return {"format": DELTA.name, "table": table.metadata().id, "version": table.version()}

    def paths(self) -> Iterable[str]:
        return [uri for uri in self.table.file_uris() if scheme_of(uri) is None]

    def parts(self, dialect: Dialect) -> list[Part]:
        table = self.table
        where = f"{self.label} (version {table.version()})"
        schema = _reader(table, None).schema
        return [foreign_part(where, schema, lambda columns: _reader(table, columns))]


def _reader(table: Any, columns: list[str] | None) -> pa.RecordBatchReader:
    return pa.RecordBatchReader.from_stream(table.scan(columns=columns))


def _sizes(table: Any) -> Iterator[tuple[str, int]]:
    """(name, size in bytes) of every file of the version."""
    actions = pa.table(table.get_add_actions(flatten=True))
    for path, size in zip(actions["path"].to_pylist(), actions["size_bytes"].to_pylist()):
        yield os.path.basename(path), size


def _check_protocol(table: Any, where: str) -> None:
    """Raise DataError if reading the table needs something that fastdp was not tested with."""
    protocol = table.protocol()
    known = (*FEATURES, *FEATURES_OF_WRITERS)
    unknown = sorted(set(protocol.reader_features or ()) - set(known))
    if protocol.min_reader_version > LATEST_READER or unknown:
        what = ", ".join(unknown) or f"version {protocol.min_reader_version} of its protocol"
        raise DataError(
            f"{where}: reading this table of Delta Lake needs {what}, which fastdp does not know;"
            " write its rows to plain Parquet files first"
        )


def _needs_package(folder: str) -> str:
    return (
        f"{folder!r} is a table of Delta Lake: install deltalake to read it (pip install"
        f" 'fastdp[delta]'), or {DELTA.advice.format(path=repr(folder))} in Python"
    )
