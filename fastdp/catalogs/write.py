"""Writes a run's metadata in the form that a catalogue reads."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .._util.files import as_path, write_atomic
from ..errors import UsageError
from .about import About, read_about
from .croissant import croissant
from .datapackage import datapackage
from .described import described
from .openlineage import openlineage

FORMS = ("croissant", "datapackage", "openlineage")


def export(
    run: Any,
    form: str,
    out: str | os.PathLike[str] | None = None,
    *,
    about: About | Mapping[str, Any] | str | os.PathLike[str] | None = None,
    base: str | None = None,
    time: str | None = None,
    namespace: str = "fastdp",
) -> Path:
    """Write metadata of a run for a data catalogue, from released facts alone. It costs no budget.

    Parameters
    ----------
    run : Run, LinkedRun or path
        A finished run folder, or a run that was written to one.
    form : str
        "croissant", "datapackage" (Frictionless) or "openlineage".
    out : path, optional
        The file to write. Default: `RUN.FORM.json` next to the run folder. It may not lie inside
        the folder, which holds only what the statement names.
    about : About, mapping or path of a TOML file, optional
        What only the publisher knows: title, description, license, url, creator, contact, date,
        version, keywords, base.
    base : str, optional
        The address of the published run folder. Default: the one of `about`; without one, files are
        named relative to `out`, which then lies above the run folder.
    time : str, optional
        For "openlineage": when the run ended, in ISO 8601. Default: now.
    namespace : str
        For "openlineage": of the job and of the rows.

    Returns
    -------
    Path
        The written file.
    """
    if form not in FORMS:
        raise UsageError(f"form= must be one of {', '.join(FORMS)}, got {form!r}")
    folder = as_path(getattr(run, "out", run), "a run folder").resolve()
    publisher = read_about(about)
    target = Path(out) if out is not None else folder.with_name(f"{folder.name}.{form}.json")
    if target.resolve().is_relative_to(folder):
        raise UsageError(
            f"out={os.fspath(target)!r}: a run folder holds only what its statement names; "
            f"choose a place outside {folder.name}"
        )
    facts = described(folder)
    address = base if base is not None else publisher.base
    if form == "openlineage":
        document = openlineage(facts, address or "", time=time, namespace=namespace)
    else:
        makers = {"croissant": croissant, "datapackage": datapackage}
        document = makers[form](facts, publisher, _prefix(folder, target, address))
    text = json.dumps(document, indent=1, ensure_ascii=False, default=str)
    write_atomic(target, (text + "\n").encode())
    return target


def _prefix(folder: Path, target: Path, address: str | None) -> str:
    """What precedes the names of files: an address, or the way from the metadata to the folder."""
    if address is not None:
        return address.rstrip("/") + "/"
    above = target.resolve().parent
    if not folder.is_relative_to(above):
        raise UsageError(
            f"out={os.fspath(target)!r}: the run folder {folder.name} is not below it, so readers "
            "would not find the rows; write it next to the run folder, or give base="
        )
    return folder.relative_to(above).as_posix() + "/"
