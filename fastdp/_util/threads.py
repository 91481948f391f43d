"""How many threads: the one place that decides. Never a global, always an argument."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import TypeVar

from ..errors import UsageError, is_whole

MOST_THREADS = 4096
"""More than any machine of today has cores; far below where starting threads fails."""


Part = TypeVar("Part")
Result = TypeVar("Result")


def available() -> int:
    """Cores this process may use: its affinity mask, and the cgroup's quota where one is set."""
    if hasattr(os, "sched_getaffinity"):
        cores = len(os.sched_getaffinity(0))
    else:
        cores = os.cpu_count() or 1
    return max(1, min(cores, _quota() or cores))


@cache
def _quota() -> int | None:
    """Cores by the cgroup's quota, or None where none is set. Read once in a process: this is asked
    before every call of a kernel."""
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()[:2]
        return None if quota == "max" else max(1, round(int(quota) / int(period)))
    except (OSError, ValueError):
        return None


def resolve(threads: int | None) -> int:
    """The number asked for, at most one per core, or all cores for None. No result depends on it,
    and more threads than cores would only wait for each other."""
    if threads is None:
        return available()
    if not is_whole(threads, 1, MOST_THREADS):
        raise UsageError(
            f"threads must be a whole number from 1 to {MOST_THREADS}, got {threads!r}"
        )
    return min(int(threads), available())


def each(work: Callable[[Part], Result], parts: Sequence[Part], threads: int) -> list[Result]:
    """work(part) for every part, in their order. For numpy's loops, which let other threads run
    meanwhile. Cut the parts by the data, never by the number of threads, so that no result depends
    on it."""
    if threads == 1 or len(parts) < 2:
        return [work(part) for part in parts]
    with ThreadPoolExecutor(min(threads, len(parts))) as pool:
        return list(pool.map(work, parts))
