"""Which fastdp this is: what counts elsewhere must be what asked for it."""

from __future__ import annotations

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
    """Digests of the package's sources and of its kernels as they are installed here, and for which platform
    the kernels are."""
    return {
        "sources": _digest("*.py"),
        "platform": f"{sysconfig.get_platform()} {sys.implementation.cache_tag}",
        "kernels": _digest("_core/*.so"),
    }


def check(asked: Mapping[str, str]) -> None:
    """DataError unless the build that asks is this one. Kernels are compared where they are for one platform;
    on others they give the same integers from the same sources."""
    here = build()
    same = asked["sources"] == here["sources"]
    if same and asked["platform"] == here["platform"]:
        same = asked["kernels"] == here["kernels"]
    if not same:
        raise DataError(
            "an executor has another build of fastdp than the driver; install the same one on both"
        )


def _digest(pattern: str) -> str:
    state = hashlib.sha256()
    for path in sorted(PACKAGE.rglob(pattern)):
        state.update(f"{path.relative_to(PACKAGE).as_posix()} {path.stat().st_size}\n".encode())
        state.update(path.read_bytes())
    return state.hexdigest()
