"""Files that survive a crash of the machine: written next to their place, flushed to the disk, then
renamed."""

import contextlib
import os
import re
import shlex
import shutil
from collections.abc import Iterator
from glob import has_magic
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from ..errors import DataError, UsageError

_URL = re.compile(r"\s*([A-Za-z][A-Za-z0-9+.-]+):/")
"""The beginning of a URL. One slash is enough: `pathlib` turns two into one, and some stores use
one (`dbfs:/`). A single letter is not a scheme."""
_DOWNLOADS = ("http", "https", "ftp")


def scheme_of(text: str) -> str | None:
    """The scheme of a URL in lower case; None if the text is the path of a local file."""
    found = _URL.match(text)
    if found is not None:
        return found[1].lower()
    return "unknown" if "://" in text else None


def file_of_url(text: str) -> str:
    """The local path that a `file:` URL names; UsageError if it names another machine."""
    rest = text.strip()[len("file:") :]
    if rest.startswith("//"):
        host, slash, rest = rest[2:].partition("/")
        if host.lower() not in ("", "localhost") or not slash:
            raise UsageError(
                f"{text!r}: expected file:///PATH, a path on this machine from its root"
            )
        rest = f"/{rest}"
    return unquote(rest)


def as_path(value: Any, what: str) -> Path:
    """A local path, also from a `file:` URL. UsageError for anything else: another URL, or an
    argument that stands in another's place."""
    # The text of a path object of a cloud store is a URL; its __fspath__ can be a local copy.
    shown = str(value) if isinstance(value, os.PathLike) else value
    scheme = scheme_of(shown) if isinstance(shown, str) else None
    if scheme == "file" and isinstance(value, str):
        value = file_of_url(value)
    elif scheme is not None:
        if scheme == "file":
            hint = "pass the URL as text"
        else:
            hint = "give a local path (fastdp publish uploads)"
        raise UsageError(
            f"{what}: {shown!r} is a URL, and fastdp reads and writes local files only; {hint}"
        )
    text = os.fspath(value) if isinstance(value, str | os.PathLike) else None
    if not isinstance(text, str):
        raise UsageError(f"{what}: expected a path, got a {type(value).__name__}")
    if "\0" in text:
        raise UsageError(f"{what}: the path {text[:60]!r} contains a null character")
    return Path(text)


def local_path(text: str) -> str:
    """The text with a `file:` URL turned into its path; any other text as it is."""
    return file_of_url(text) if scheme_of(text) == "file" else text


def source_path(path: str) -> str:
    """The local path, glob or folder of data; that of a `file:` URL without its scheme. DataError
    if it cannot be read: it does not exist, is another URL, a workbook or one JSON document. Needs
    no heavy import, so that the command line can ask first."""
    path = local_path(path)
    scheme = scheme_of(path)
    if scheme is not None:
        raise DataError(f"{path!r}: fastdp reads local files only; {_url_advice(path, scheme)}")
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
    return path


def _url_advice(url: str, scheme: str) -> str:
    """What to do with a URL that was given as data."""
    one_file = not has_magic(url) and not url.endswith("/") and url.strip().count("/") > 2
    if scheme in _DOWNLOADS and one_file:
        return f"download it first: curl -fLO {shlex.quote(url.strip())}"
    return (
        "copy the data to this machine first, or pass an object that reads the URL, such as"
        " polars.scan_parquet(URL) in Python"
    )


@contextlib.contextmanager
def replacing(path: str | os.PathLike) -> Iterator[Path]:
    """A path next to `path` to write one file or one folder to.

    When the block ends, what was written there is flushed to the disk and gets its name. At every
    moment, `path` is what it was before or the whole of the new content. After an exception nothing
    is left. A folder can take the place of nothing or of an empty folder only.
    """
    path = as_path(path, "the file to write")
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
