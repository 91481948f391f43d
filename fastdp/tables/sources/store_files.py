"""Files in an object store as a source: an object, a prefix or a glob.

Objects are listed once, with sizes and tags, before anything is charged, and compared after
reading. Rows of Parquet objects are read straight from the store. Text and Arrow files are copied to
this machine first, to files without a name, and then read like any local file.
"""

from __future__ import annotations

import hashlib
import json
import os
import posixpath
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import IO, Any

from msgspec import Struct
from msgspec.structs import replace

from ..._util import stores
from ..._util.lazy import pa
from ...errors import DataError
from ...schema.dialect import Dialect
from .. import textlines
from ..lakehouse import ICEBERG_ENDINGS, LOGS
from ..parts import Part, Unit
from .file_paths import hive, open_file, parquet_part, with_partition
from .source import SOURCES, Source

PARQUET = (".parquet", ".pq", ".parq")
ARROW = (".arrow", ".ipc", ".feather", ".arrows")
ASKED_AT_ONCE = 16
"""Requests for tags of objects that wait for the store at the same time."""
_MAGIC = re.compile(r"[*?]")
_HIDDEN = re.compile(r"(?:^|/)[._]")
_LOG = re.compile(
    rf"/(?:{'|'.join(map(re.escape, LOGS))})/|/metadata/[^/]*(?:{'|'.join(map(re.escape, ICEBERG_ENDINGS))})$"
)
"""Names of objects that only a lakehouse table has."""


class Objects(Struct, frozen=True):
    """Objects in the order of their names: (size, tag) by path."""

    stamps: dict[str, tuple[int, str]]

    def digest(self) -> str:
        """SHA-256 of names, sizes and tags. It is private: sizes tell of rows."""
        return hashlib.sha256(json.dumps(sorted(self.stamps.items())).encode()).hexdigest()


@SOURCES.add("store")
class StoreFiles(Source):
    """Files in an object store: `s3://`, `gs://`, `abfs://`."""

    def __init__(self, given: Any):
        super().__init__(given)
        self._copies = Copies()
        self._objects: Objects | None = None
        self._differs = False

    @classmethod
    def takes(cls, given: Any) -> bool:
        return stores.is_store(given)

    @property
    def label(self) -> str:
        return posixpath.basename(stores.shown(self.given).rstrip("/"))

    @property
    def title(self) -> str | None:
        return posixpath.splitext(self.label)[0]

    def pin(self, before: Mapping[str, Any] | None = None) -> Mapping[str, Any] | None:
        self._objects = self._listed()
        found = self._objects.digest()
        self._differs = before is not None and before.get("objects") != found
        return {"objects": found}

    def changes(self) -> str:
        if self._objects is None:
            return ""
        try:
            now = self._listed().stamps
        except DataError:
            now = {}
        then = self._objects.stamps
        words = {
            "added": [name for name in now if name not in then],
            "removed": [name for name in then if name not in now],
            "written to": [name for name, stamp in then.items() if now.get(name, stamp) != stamp],
        }
        told = [f"{len(names)} {word}" for word, names in words.items() if names]
        if told:
            return f"{stores.shown(self.given)}: objects changed while they were read: " + (
                ", ".join(told)
            )
        if self._differs:
            return f"{stores.shown(self.given)}: its objects are not those of the interrupted run"
        return ""

    def files(self) -> set[tuple[Any, Any]]:
        """(address, tag) of every object, by which the source is recognised."""
        scheme = stores.shown(self.given).partition("://")[0]
        found = self._objects or self._listed()
        return {(f"{scheme}://{path}", tag) for path, (_, tag) in found.stamps.items()}

    def parts(self, dialect: Dialect) -> list[Part]:
        found = self._objects or self._listed()
        system, path = stores.opened(self.given)
        root = _root(path.rstrip("/"))
        return [self._part(system, name, root, dialect) for name in found.stamps]

    def _part(self, system: Any, path: str, root: str, dialect: Dialect) -> Part:
        where = f"{stores.shown(self.given).partition('://')[0]}://{path}"
        folders = posixpath.relpath(posixpath.dirname(path), root).split("/")
        if not path.lower().endswith(PARQUET):
            return self._copied(system, path, where, hive(folders), dialect)
        try:
            part = parquet_part(where, opened=partial(system.open_input_file, path))
        except pa.ArrowInvalid:
            raise DataError(f"{where!r} is damaged, truncated or not Parquet") from None
        except OSError as error:
            raise stores.refused(where, error) from None
        partition = hive(folders)
        return with_partition(part, partition) if partition else part

    def _copied(
        self, system: Any, path: str, where: str, partition: dict[str, str], dialect: Dialect
    ) -> Part:
        """The rows of a file that is read on this machine."""
        try:
            local = self._copies.of(system, path)
        except (OSError, pa.ArrowException) as error:
            raise stores.refused(where, error) from None
        try:
            part = open_file(local, partition, dialect)
            return replace(part, where=where, units=partial(_units, part, self._copies))
        except DataError as error:
            raise DataError(str(error).replace(local, where)) from None

    def _listed(self) -> Objects:
        """The objects that the address names. DataError if there are none, if they belong to a
        lakehouse table, or if the store refuses."""
        system, path = stores.opened(self.given)
        try:
            path = path.rstrip("/")
            root = _root(path)
            names = _below(system, root)
            _check_plain(system, self.given, root, names)
            found = _chosen(path, root, names)
            for name in found:
                known = name.lower().endswith((*PARQUET, *ARROW))
                if not known and textlines.kind_of(name) is None:
                    raise DataError(
                        f"{stores.shown(self.given)}: {posixpath.basename(name)!r} has no known"
                        " ending (.parquet, .arrow, .csv, .tsv, .jsonl; for text also .gz, .zst,"
                        " .bz2); name the objects to read, with a glob"
                    )
            with ThreadPoolExecutor(ASKED_AT_ONCE) as pool:
                stamps = list(pool.map(partial(_stamp, system), found))
        except (OSError, pa.ArrowException) as error:
            raise stores.refused(self.given, error) from None
        if not found:
            raise DataError(f"no object matches {stores.shown(self.given)!r}")
        return Objects(dict(zip(found, stamps)))


class Copies:
    """Copies of objects on this machine that have no name on its disk: they go with the process, even
    if it is killed. A folder of links gives them names for the readers."""

    def __init__(self) -> None:
        self._files: dict[str, IO[bytes]] = {}
        self._links: tempfile.TemporaryDirectory[str] | None = None

    def of(self, system: Any, path: str) -> str:
        """The path of a copy of an object, for this process."""
        if self._links is None:
            self._links = tempfile.TemporaryDirectory(prefix="fastdp-store-")
        folder = Path(self._links.name)
        if path not in self._files:
            copy = tempfile.TemporaryFile()
            with system.open_input_stream(path) as source:
                shutil.copyfileobj(source, copy, stores.BLOCK)
            copy.flush()
            self._files[path] = copy
            number = len(self._files)
            link = folder / f"{number}-{posixpath.basename(path)}"
            os.symlink(f"/proc/{os.getpid()}/fd/{copy.fileno()}", link)
        number = list(self._files).index(path) + 1
        return str(folder / f"{number}-{posixpath.basename(path)}")


def _units(part: Part, copies: Copies, columns: Sequence[str], user: str | None) -> Iterator[Unit]:
    """The units of a part whose file is among the copies, which live as long as it does."""
    yield from part.units(columns, user)


def _below(system: Any, root: str) -> list[str]:
    """All objects at or below a path, by name."""
    from pyarrow import fs

    if system.get_file_info(root).type == fs.FileType.File:
        return [root]
    infos = system.get_file_info(fs.FileSelector(root, allow_not_found=True, recursive=True))
    return sorted(info.path for info in infos if info.type == fs.FileType.File)


def _chosen(path: str, root: str, names: Iterable[str]) -> list[str]:
    """The objects that a path, prefix or glob names; hidden ones of a prefix are left out."""
    if root != path:
        pattern = _pattern(path)
        return [name for name in names if pattern.fullmatch(name)]
    return [name for name in names if not _HIDDEN.search(name[len(root) :].lstrip("/"))]


def _root(path: str) -> str:
    """The folders of a path before the first one with a wildcard."""
    found = _MAGIC.search(path)
    return path if found is None else path[: found.start()].rpartition("/")[0]


def _pattern(path: str) -> re.Pattern[str]:
    """A glob as a regular expression: `**/` any folders, `*` and `?` within one."""
    words = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    parts = re.split(r"(\*\*/|\*\*|\*|\?)", path)
    return re.compile("".join(words.get(part, re.escape(part)) for part in parts))


def _stamp(system: Any, path: str) -> tuple[int, str]:
    """(size, tag) of an object: the store's tag of its content, or the time it was written."""
    with system.open_input_file(path) as file:
        facts = file.metadata() or {}
        tag = facts.get("ETag") or facts.get(b"ETag")
        size = file.size()
    if tag is None:
        return size, str(system.get_file_info(path).mtime_ns)
    return size, tag.decode() if isinstance(tag, bytes) else str(tag)


def _check_plain(system: Any, address: str, root: str, names: Iterable[str]) -> None:
    """Raise DataError if an object lies in a lakehouse table. names: everything below the root; the
    folders above it are asked for."""
    from pyarrow import fs

    above = []
    folder = root
    while folder:
        above += [f"{folder}/{log}" for log in LOGS]
        selector = fs.FileSelector(f"{folder}/metadata", allow_not_found=True)
        names = [*names, *(info.path for info in system.get_file_info(selector))]
        folder = posixpath.dirname(folder)
    found = [info.path for info in system.get_file_info(above) if info.type != fs.FileType.NotFound]
    if found or any(_LOG.search(name) for name in names):
        raise DataError(
            f"{stores.shown(address)}: it is, or lies in, a lakehouse table, whose files include"
            " deleted rows; pass a deltalake.DeltaTable, or a table of pyiceberg"
        )
