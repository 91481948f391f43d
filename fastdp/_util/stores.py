"""Object stores: addresses, and the file systems of pyarrow behind them.

Credentials come from where the libraries look for them: the environment, profiles, instance roles.
Error texts name the address without the part that can hold a key.
"""

from __future__ import annotations

import posixpath
import re
import shutil
from pathlib import Path
from typing import Any

from ..errors import DataError, RunError
from .files import scheme_of

SCHEMES = ("s3", "gs", "gcs", "abfs", "abfss")
STATEMENT = "privacy.json"
BLOCK = 8 << 20
"""Bytes that are copied at once."""
_CODE = re.compile(r"AWS Error ([A-Z_]+)")


def is_store(given: Any) -> bool:
    """Whether it is an address in an object store that fastdp reads and writes."""
    return isinstance(given, str) and scheme_of(given) in SCHEMES and "://" in given


def shown(address: str) -> str:
    """The address without keys: neither `KEY:SECRET@` nor what follows a question mark. A path of
    this machine stays as it is."""
    if not is_store(address):
        return address
    scheme, _, rest = address.strip().partition("://")
    who, at, place = rest.partition("?")[0].rpartition("@")
    container = at and scheme.lower().startswith("abfs") and ":" not in who  # CONTAINER@ACCOUNT
    return f"{scheme}://{who}@{place}" if container else f"{scheme}://{place}"


def opened(address: str) -> tuple[Any, str]:
    """(file system, path in it). DataError if pyarrow cannot open it."""
    from pyarrow import ArrowException, fs

    try:
        return fs.FileSystem.from_uri(address.strip())
    except (ArrowException, OSError, ValueError) as error:
        raise refused(address, error) from None


def refused(address: str, error: BaseException) -> DataError:
    """The error to raise in place of one of a store; it passes on the store's code alone."""
    code = _CODE.search(str(error))
    why = code[1] if code is not None else type(error).__name__
    return DataError(
        f"{shown(address)}: the store refused it or could not be reached ({why}); check the address,"
        " the region and the credentials"
    )


def fetched(address: str, into: Path) -> Path:
    """Copy everything below an address into a folder, which must exist; returns the folder. RunError
    if it has no statement, and for names that would leave the folder. A store may be hostile: of
    what it sends, nothing is looked at here."""
    from pyarrow import ArrowException, fs

    system, place = opened(address)
    place = place.rstrip("/")
    try:
        infos = system.get_file_info(fs.FileSelector(place, allow_not_found=True, recursive=True))
        paths = [info.path for info in infos if info.type == fs.FileType.File]
        names = [path[len(place) + 1 :] for path in paths]
        if STATEMENT not in names:
            raise RunError(f"{shown(address)} is not a run: it has no {STATEMENT}")
        for path, name in zip(paths, names):
            target = into / name
            if posixpath.normpath(name) != name or name.startswith(("../", "/")):
                raise RunError(f"{shown(address)}: an object's name leaves the run's folder")
            target.parent.mkdir(parents=True, exist_ok=True)
            with system.open_input_stream(path) as source, target.open("xb") as copy:
                shutil.copyfileobj(source, copy, BLOCK)
    except (OSError, ArrowException) as error:
        raise refused(address, error) from None
    return into
