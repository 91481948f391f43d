"""Refuses files of a lakehouse table: which of them hold rows of today is written in a log.

A Delta, Iceberg or Hudi table keeps files whose rows were deleted or replaced. A reader that takes
every Parquet file of the folder brings deleted people back. The log lies in the table's folder, so
it is looked for in all folders above a source's files.
"""

import os
import re
from collections.abc import Collection, Iterable
from functools import cache
from typing import NamedTuple

from .._util.files import local_path
from ..errors import DataError


class Layout(NamedTuple):
    """A kind of table: its name, and how to read what it holds today (with `{path}`)."""

    name: str
    advice: str


DELTA = Layout(
    "Delta Lake",
    "give the folder {path} itself, or pass polars.scan_delta({path})",
)
ICEBERG = Layout(
    "Apache Iceberg",
    "give the newest file of its folder metadata (....metadata.json), or pass a pyiceberg table",
)
HUDI = Layout("Apache Hudi", 'pass spark.read.format("hudi").load({path})')
STREAM = Layout("Spark Structured Streaming", "pass spark.read.parquet({path})")

LOGS = {"_delta_log": DELTA, ".hoodie": HUDI, "_spark_metadata": STREAM}
"""Layouts by the name of the folder that holds their log."""

_VERSION = re.compile(r"(.+)@v(\d{1,18})")
_METADATA = re.compile(r"([^\0]+\.metadata\.json(?:\.gz)?)(?:@(\d{1,19}))?")

ICEBERG_ENDINGS = (".metadata.json", ".metadata.json.gz", "version-hint.text")
"""Ends of names of which an Iceberg table has one in its folder `metadata`."""


def layout_of(folder: str) -> Layout | None:
    """The layout of the table whose folder this is; None for a plain folder."""
    found = next((kind for log, kind in LOGS.items() if _exists(folder, log)), None)
    if found is not None:
        return found
    try:
        names = os.listdir(os.path.join(folder, "metadata"))
    except OSError:
        return None
    return ICEBERG if any(name.endswith(ICEBERG_ENDINGS) for name in names) else None


def delta_folder(given: str | os.PathLike) -> tuple[str, int | None] | None:
    """(folder, version) if a path is the folder of a Delta table, or `FOLDER@vN`, its version N;
    None for anything else."""
    path = os.fspath(given)
    if not isinstance(path, str):
        return None
    path = local_path(path)
    version = None
    at = _VERSION.fullmatch(path)
    if at is not None and not os.path.lexists(path):
        path = at[1]
        version = int(at[2])
    return (path, version) if _exists(path, "_delta_log") else None


def iceberg_metadata(given: str | os.PathLike) -> tuple[str, int | None] | None:
    """(file, snapshot) if a path is the metadata file of an Iceberg table, or that file with
    `@SNAPSHOT`; None for anything else."""
    path = os.fspath(given)
    if not isinstance(path, str):
        return None
    found = _METADATA.fullmatch(local_path(path))
    if found is None or not os.path.isfile(found[1]):
        return None
    return found[1], None if found[2] is None else int(found[2])


def names_table(given: str | os.PathLike) -> bool:
    """Whether a path names a lakehouse table that fastdp reads by its log."""
    return delta_folder(given) is not None or iceberg_metadata(given) is not None


def check_plain(root: str, files: Iterable[str], known_logs: Collection[Layout] = ()) -> None:
    """Raise DataError if a file of a source belongs to a lakehouse table. `root`: the source as it
    was given; `files`: all its files; `known_logs`: layouts whose log the reader follows."""
    known = cache(layout_of)
    folders: set[str] = set()
    for file in files:  # a link can lie outside the table, or point to a file inside
        folders.add(os.path.dirname(os.path.abspath(file)))
        folders.add(os.path.dirname(os.path.realpath(file)))
    for folder in sorted(folders):
        for place in _upwards(folder):
            kind = known(place)
            if kind is not None and kind not in known_logs:
                raise DataError(
                    f"{root!r}: {place!r} is a table of {kind.name}. Its folder also holds rows"
                    " that were deleted or replaced;"
                    f" {kind.advice.format(path=repr(place))} in Python, or write the table's rows"
                    " to plain Parquet files first"
                )


def _upwards(folder: str) -> Iterable[str]:
    """The folder and all folders above it."""
    while True:
        yield folder
        above = os.path.dirname(folder)
        if above == folder:
            return
        folder = above


def _exists(folder: str, name: str) -> bool:
    return "\0" not in folder and os.path.lexists(os.path.join(folder, name))
