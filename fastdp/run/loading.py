"""Finished runs from their folders, and their rows as lazy frames."""

from __future__ import annotations

import os
import tempfile
import weakref
from pathlib import Path
from typing import Any

from .._util import stores
from .._util.files import as_path, synthetic_path
from .._util.lazy import pl
from ..privacy.statement import part_folders
from ..schema.linked_schema import LinkedSchema
from .linked_result import LinkedRun
from .result import Run
from .run_files import reading_folder


def load_run(out: str | os.PathLike | Run | LinkedRun) -> Any:
    """A finished run folder as a `Run`, of linked tables as a `LinkedRun`. Measurements are read
    when they are first used. An address in an object store is copied to a temporary folder, which
    goes with the run."""

    if isinstance(out, Run | LinkedRun):
        return out
    if stores.is_store(out):
        copy = tempfile.TemporaryDirectory(prefix="fastdp-run-")
        found = load_run(stores.fetched(str(out), Path(copy.name)))
        weakref.finalize(found, copy.cleanup)
        return found
    folder = as_path(out, "a run folder")
    with reading_folder(folder):
        return _loaded(folder)


def _loaded(folder: Path) -> Any:
    """The run of a local folder: linked tables have a folder each."""
    from ..report import runs

    parts = {
        p.name.removeprefix("table-"): p
        for p in part_folders(folder)
        if p.name.startswith("table-")
    }
    if parts:
        linked = LinkedSchema.load(folder / "tables.json")
        return LinkedRun({name: load_run(parts[name]) for name in linked.tables}, linked, folder)
    return Run(**runs.folder(folder), out=folder)


def scan(run: str | os.PathLike | Run | LinkedRun) -> Any:
    """The synthetic rows of a run, or of its folder, as a lazy `polars.LazyFrame`; of linked tables
    a dict of them by table. Rows are read when the frame is collected."""
    found = load_run(run)
    if isinstance(found, LinkedRun):
        return {name: scan(part) for name, part in found.runs.items()}
    if found.out is None:
        return found.to_polars().lazy()
    rows = synthetic_path(found.out)
    return pl.scan_parquet(rows / "*.parquet" if rows.is_dir() else rows)
