"""Digests that identify this build of fastdp: a remote process that counts must have the driver's
build."""

import hashlib
import sys
import sysconfig
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from ..errors import DataError

PACKAGE = Path(__file__).parents[1]


@cache
def build() -> Mapping[str, str]:
    """Digests of the package's sources and of its kernels as they are installed here, and for which
    platform the kernels are."""
    return {
        "sources": _digest("*.py"),
        "platform": f"{sysconfig.get_platform()} {sys.implementation.cache_tag}",
        "kernels": _digest("_core/*.so"),
    }


def check(asked: Mapping[str, str]) -> None:
    """Raise DataError unless the build `asked`, the driver's, is this one. Kernels are compared
    only on the same platform; on another platform the same sources give the same integers."""
    here = build()
    same = asked["sources"] == here["sources"]
    if same and asked["platform"] == here["platform"]:
        same = asked["kernels"] == here["kernels"]
    if not same:
        raise DataError(
            "an executor runs another build of fastdp than the driver; install the driver's build on "
            "every executor"
        )


def _digest(pattern: str) -> str:
    state = hashlib.sha256()
    for path in sorted(PACKAGE.rglob(pattern)):
        state.update(f"{path.relative_to(PACKAGE).as_posix()} {path.stat().st_size}\n".encode())
        state.update(path.read_bytes())
    return state.hexdigest()
