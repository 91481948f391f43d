"""Files that survive a crash of the machine."""

from __future__ import annotations

import os
import secrets
from pathlib import Path


def write_atomic(path: Path, data: bytes) -> None:
    """The file has its old content or the new, never a part, whenever the machine stops."""
    path.parent.mkdir(parents=True, exist_ok=True)
    other = path.with_name(f"{path.name}.tmp-{secrets.token_hex(4)}")
    try:
        with open(other, "wb") as f:
            f.write(data)
            f.flush()
            os.fsync(f.fileno())
        os.replace(other, path)
    except BaseException:
        other.unlink(missing_ok=True)
        raise
    sync(path.parent)


def sync(path: str | os.PathLike) -> None:
    """Puts a file's content, or a folder's names, on the disk."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def synthetic_path(folder: Path) -> Path:
    """Where a run folder keeps its rows: one file or a folder of shards."""
    one = folder / "synthetic.parquet"
    return one if one.exists() else folder / "synthetic"
