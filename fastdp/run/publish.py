"""Publishes a finished run folder in an object store: whole or not at all. `lake_sinks` has tables.

The statement `privacy.json` is written last. Without it, nobody takes the objects for a run. Only
the run folder leaves the machine: the ledger and the private folder stay.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .._util import stores
from .._util.files import as_path
from .._util.lazy import pa
from .._util.progress import LOG
from ..errors import RunError, UsageError
from .lake_sinks import is_lake, publish_rows
from .verify import verify

STATEMENT = stores.STATEMENT


def publish(run: str | os.PathLike[str], to: Any) -> str:
    """Publish a finished run: its folder to an object store, or its rows as a lakehouse table.

    The folder is verified first. In a store, all files are uploaded, the statement last, so that a
    run appears whole or not at all. A lakehouse table gets the rows in one transaction, which names
    the statement's SHA-256. If it fails or is killed, call it again: it costs no budget. Where the
    same run is published already, nothing is done.

    Parameters
    ----------
    run : path
        A finished run folder.
    to : str or pyiceberg table
        An address, such as `s3://bucket/released/2026-01-31`, that is empty or holds a part of this run;
        `delta:FOLDER`, a Delta table; or a table of pyiceberg. A table must be empty, or of earlier runs.

    Returns
    -------
    str
        The address without keys, or the name of the table.
    """
    folder = as_path(run, "run").absolute()
    if not stores.is_store(to) and not is_lake(to):
        raise UsageError(
            f"to: expected an address such as s3://bucket/folder, or delta:FOLDER, got {to!r}"
        )
    if not (folder / STATEMENT).is_file():
        raise RunError(f"{folder} is not a finished run: it has no {STATEMENT}")
    if not verify(folder).ok:
        raise RunError(f"{folder}: it does not hold what its statement says (fastdp verify)")
    if is_lake(to):
        return publish_rows(folder, to)
    names = ordered(folder)
    system, place = stores.opened(to)
    place = place.rstrip("/")
    try:
        if _is_there(system, place, folder, names):
            return stores.shown(to)
        *before_statement, statement = names
        for name in before_statement:
            LOG.info("publishing %s", name)
            _upload(system, f"{place}/{name}", folder / name)
        _check_sizes(system, place, folder, before_statement)
        LOG.info("publishing %s", statement)
        _upload(system, f"{place}/{statement}", folder / statement)
    except (OSError, pa.ArrowException) as error:
        why = stores.refused(to, error)
        raise RunError(
            f"{why}. The run folder {folder} is whole, and nothing that is a run was published;"
            f" publish it again at no charge: fastdp publish {folder} {stores.shown(to)}"
        ) from None
    return stores.shown(to)


def ordered(folder: Path) -> list[str]:
    """The files of a run folder as they are uploaded: statements last, the folder's own at the end.
    UsageError for a link, which would bring in a file from elsewhere."""
    names = []
    for file in sorted(folder.rglob("*")):
        if file.is_symlink():
            raise UsageError(f"{file} is a link; a run folder holds files only")
        if file.is_file():
            names.append(file.relative_to(folder).as_posix())
    return sorted(names, key=lambda name: (name.endswith(STATEMENT), -name.count("/"), name))


def local_folder(address: str) -> Path:
    """The folder on this machine in which a run is made that will go to a store. It has the
    address's last name and lies in the working directory."""
    _, _, path = stores.shown(address).partition("://")
    name = path.rstrip("/").rpartition("/")[2]
    if "/" not in path.rstrip("/") or not name or name in (".", ".."):
        raise UsageError(
            f"out: {stores.shown(address)} names no folder in the store; give one, such as "
            "s3://bucket/released/2026-01-31"
        )
    return Path(name).absolute()


def check_free(address: str, folder: Path) -> None:
    """Raise an error, before anything is charged, if a run cannot go to this address: the store
    refuses it, or something is there already. A finished run's folder is compared when it is
    published."""
    from pyarrow import fs

    system, place = stores.opened(address)
    place = place.rstrip("/")
    try:
        infos = system.get_file_info(fs.FileSelector(place, allow_not_found=True, recursive=True))
    except (OSError, pa.ArrowException) as error:
        raise stores.refused(address, error) from None
    there = [info.path for info in infos if info.type == fs.FileType.File]
    if there and not (folder / STATEMENT).is_file():
        raise UsageError(
            f"out: {stores.shown(address)} already holds objects; choose another place, or remove them"
        )


def _is_there(system: Any, place: str, folder: Path, names: Sequence[str]) -> bool:
    """Whether this run is published there already. UsageError if the place holds something else."""
    from pyarrow import fs

    infos = system.get_file_info(fs.FileSelector(place, allow_not_found=True, recursive=True))
    there = {info.path[len(place) + 1 :] for info in infos if info.type == fs.FileType.File}
    if other := sorted(there - set(names)):
        raise UsageError(f"to: the place already holds other objects, such as {other[0]!r}")
    if STATEMENT not in there:
        return False
    with system.open_input_stream(f"{place}/{STATEMENT}") as stream:
        text = stream.read()
    if text != (folder / STATEMENT).read_bytes():
        raise UsageError("to: another run is published there; choose another place")
    _check_sizes(system, place, folder, names)
    return True


def _upload(system: Any, path: str, file: Path) -> None:
    """Write one object. A stream that is dropped by an error can leave a short object behind.
    Without a statement that is not a run, so the statement is written in one piece."""
    block = file.stat().st_size if file.name == STATEMENT else stores.BLOCK
    with file.open("rb") as source, system.open_output_stream(path) as target:
        while data := source.read(block):
            target.write(data)


def _check_sizes(system: Any, place: str, folder: Path, names: Sequence[str]) -> None:
    """Raise OSError if an object is not as large as its file."""
    infos = system.get_file_info([f"{place}/{name}" for name in names])
    for name, info in zip(names, infos):
        if info.size != (folder / name).stat().st_size:
            raise OSError(f"the object {name} is not whole")
