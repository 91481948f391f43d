"""A machine that gives out: the run ends with a sentence, and goes on once the machine is well
again."""

from __future__ import annotations

import os
import resource
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

from . import world


def full_disk() -> None:
    """No file may grow beyond 60 kB: what a full disk does to a writer, without filling one."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000))


def no_memory() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (600 << 20, 600 << 20))


def trial(place: Path) -> tuple[str, list[str]]:
    """(what was done, what broke)."""
    problems: list[str] = []
    ended = []
    for name, limit in (("full disk", full_disk), ("no memory", no_memory)):
        ended.append(f"{name}: {_once(place / name.replace(' ', '-'), limit, problems)}")
    ended.append(f"folder that cannot be written: {_unwritable(place / 'unwritable', problems)}")
    ended.append(f"clock set back: {_clock(place / 'clock', problems)}")
    return "; ".join(ended), problems


def _once(place: Path, limit: Callable[[], None], problems: list[str]) -> str:
    """A run under a limit, which must fail in words or end well, and the same run without it.

    A process whose libraries crash where they get no memory (numpy's indexing does) dies by a
    signal, as if killed: no sentence then, but the run must go on all the same.
    """
    place.mkdir()
    world.prepare(place)
    code, errors = world.finish(place, limit=limit)
    if code == 0:
        problems += world.broken_promises(place)
        return "went through"
    if (place / "run").exists():
        problems.append(f"{place.name}: a failed run left its folder")
    if code > 0 and "Traceback" in errors:
        problems.append(
            f"{place.name}: ended without a sentence (exit code {code}): {errors.strip()[-300:]}"
        )
    end = "a sentence" if code > 0 else f"dead by signal {-code}"
    code, errors = world.finish(place, *world.resumed(place))
    if code:
        problems.append(f"{place.name}: does not go on afterwards: {errors.strip()[-300:]}")
    else:
        problems += world.broken_promises(place)
    return f"{end}, then resumed"


def _unwritable(place: Path, problems: list[str]) -> str:
    """`--out` below a file: no one, not even root, can make that folder."""
    place.mkdir()
    world.prepare(place)
    (place / "file").write_text("")
    code, errors = world.finish(place, "--out", str(place / "file" / "run"))
    if code <= 0 or "Traceback" in errors:
        problems.append(f"unwritable: exit code {code}: {errors.strip()[-300:]}")
    code, errors = world.finish(place)
    problems += (
        [f"unwritable: the budget is gone: {errors.strip()[-300:]}"]
        if code
        else world.broken_promises(place)
    )
    return "a sentence, nothing charged"


def _clock(place: Path, problems: list[str]) -> str:
    """The ledger was written by a clock a year ahead; a run under the true one must not be refused,
    nor the chain be broken."""
    import time

    import fastdp

    place.mkdir()
    real = time.time
    time.time = lambda: real() + 366 * 86_400
    try:
        world.prepare(place)
    finally:
        time.time = real
    code, errors = world.finish(place)
    if code:
        problems.append(f"clock: exit code {code}: {errors.strip()[-300:]}")
    else:
        problems += world.broken_promises(place)
        fastdp.Ledger(place / "budget.db").verify()
    shutil.rmtree(place / "run", ignore_errors=True)
    os.sync()
    return "the run goes through, the chain holds"
