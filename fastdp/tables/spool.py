"""A table's code columns in a folder of plain files, mapped into memory when they are needed.

The folder holds private codes: its creator must give it mode 0700 and remove it. It is written atomically.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from pathlib import Path

import numpy as np

from ..errors import DataError
from ..schema import Schema
from .table import Table

MANIFEST = "table.json"


class SpoolLost(DataError):
    """A spool folder is missing or incomplete; it can be made again from its source."""


def save(table: Table, folder: str | os.PathLike[str]) -> str:
    """Writes a table to `folder`, replacing what is there; returns the SHA-256 of its content (private)."""
    folder = Path(folder)
    aside = folder.with_name(folder.name + ".part")
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir(mode=0o700)
    columns = [(f"c{i}", name, column) for i, (name, column) in enumerate(table.codes.items())]
    arrays = {file: column for file, _, column in columns}
    if table.user is not None and table.user_hash is not None:
        arrays |= {"user": table.user, "user_hash": table.user_hash}
    state = hashlib.sha256()
    for file, array in arrays.items():
        content = np.ascontiguousarray(array)
        state.update(f"{file} {content.dtype.str} {len(content)}\n".encode())
        state.update(content.data)
        content.tofile(aside / file)
    if table.user is not None:
        table.rows_per_user().tofile(aside / "rows_per_user")
    manifest = {
        "rows": table.rows,
        "users": table.users,
        "has_users": table.user is not None,
        "dropped": table._dropped,
        "columns": [[file, name, column.dtype.str] for file, name, column in columns],
    }
    (aside / MANIFEST).write_text(json.dumps(manifest), "utf-8")
    shutil.rmtree(folder, ignore_errors=True)
    os.rename(aside, folder)
    return state.hexdigest()


def load(folder: str | os.PathLike[str], schema: Schema) -> Table:
    """The saved table with memory-mapped columns. SpoolLost if a file is missing or has the wrong length."""
    folder = Path(folder)
    try:
        manifest = json.loads((folder / MANIFEST).read_text("utf-8"))
        rows, users, has_users = manifest["rows"], manifest["users"], manifest["has_users"]
        table = Table(
            schema,
            {name: _mapped(folder / file, kind, rows) for file, name, kind in manifest["columns"]},
            rows=rows,
            user=_mapped(folder / "user", "u4", rows) if has_users else None,
            users=users,
            user_hash=_mapped(folder / "user_hash", "u8", users) if has_users else None,
            dropped=manifest["dropped"],
        )
        if has_users:
            table._rows_per_user = _mapped(folder / "rows_per_user", "u4", users)
    except (OSError, ValueError, KeyError):
        raise SpoolLost("the spooled codes of a partition are missing or damaged") from None
    return table


def _mapped(path: Path, kind: str, length: int) -> np.ndarray:
    dtype = np.dtype(kind)
    if path.stat().st_size != length * dtype.itemsize:
        raise ValueError("of another length")
    return np.memmap(path, dtype, mode="r", shape=(length,)) if length else np.empty(0, dtype)
