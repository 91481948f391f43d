"""Files that survive a crash of the machine: written next to their place, flushed to the disk, then
renamed."""

import contextlib
import os
import shlex
import shutil
from collections.abc import Iterator
from glob import has_magic
from pathlib import Path
from typing import Any

from ..errors import DataError, UsageError


def as_path(value: Any, what: str) -> Path:
    """A path; UsageError if it is none, such as an argument that stands in another's place."""
    text = os.fspath(value) if isinstance(value, str | os.PathLike) else None
    if not isinstance(text, str):
        raise UsageError(f"{what}: expected a path, got a {type(value).__name__}")
    if "\0" in text:
        raise UsageError(f"{what}: the path {text[:60]!r} contains a null character")
    return Path(text)


def check_source_path(path: str) -> None:
    """Raise DataError if a path, glob or folder of data cannot be read: it does not exist, is a
    URL, a workbook or one JSON document. Needs no heavy import, so that the command line can ask
    first."""
    if "://" in path:
        raise DataError(
            f"{path!r}: fastdp reads local files only, and this is a URL; download it first: "
            f"curl -O {shlex.quote(path)}"
        )
    if path.lower().endswith((".xlsx", ".xls", ".xlsm", ".xlsb", ".ods")):
        raise DataError(
            f"{path!r}: fastdp does not read workbooks; save the sheet as CSV, or pass "
            "polars.read_excel(...) in Python"
        )
    if path.lower().endswith(".json"):
        raise DataError(
            f"{path!r}: fastdp reads JSON lines, one object per line, in a .jsonl file; convert it "
            "(jq -c '.[]'), or pass polars.read_json(...) in Python"
        )
    if not has_magic(path) and not os.path.exists(path):
        raise DataError(f"no file {path!r}")


@contextlib.contextmanager
def replacing(path: str | os.PathLike) -> Iterator[Path]:
    """A path next to `path` to write one file or one folder to.

    When the block ends, what was written there is flushed to the disk and gets its name. At every
    moment, `path` is what it was before or the whole of the new content. After an exception nothing
    is left. A folder can take the place of nothing or of an empty folder only.
    """
    path = Path(path)
    aside = path.with_name(f"{path.name}.tmp-{os.urandom(4).hex()}")
    try:
        yield aside
        sync_tree(aside)
        os.replace(aside, path)
        sync(path.parent)
    finally:
        if aside.is_dir():
            shutil.rmtree(aside, ignore_errors=True)
        else:
            aside.unlink(missing_ok=True)


def write_atomic(path: str | os.PathLike, data: bytes, mode: int = 0o666) -> None:
    """Replaces a file's content by `data`; after a crash the file holds the old content or the new,
    never a part. `mode` is subject to the umask."""
    with replacing(path) as aside:
        handle = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        with os.fdopen(handle, "wb") as file:
            file.write(data)


def sync(path: str | os.PathLike) -> None:
    """Put a file's content, or a folder's names, on the disk."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_tree(path: Path) -> None:
    """Put a file, or a folder with all that is in it, on the disk; a folder's names after its
    files."""
    for folder, _, names in os.walk(path, topdown=False):
        for name in names:
            sync(Path(folder, name))
        sync(folder)
    if not path.is_dir():
        sync(path)


def synthetic_path(folder: Path) -> Path:
    """Where a run folder keeps its rows: one file or a folder of shards."""
    one = folder / "synthetic.parquet"
    return one if one.exists() else folder / "synthetic"
