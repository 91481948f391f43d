"""SIGKILL at random moments of a run of the command line, until it ends."""

from __future__ import annotations

import random
import shutil
import subprocess
import time
from pathlib import Path

from . import world


def trial(place: Path, wanted: int, rng: random.Random) -> tuple[str, list[str]]:
    """(what was done, what broke). Moments are even over the time that an undisturbed run takes."""
    world.prepare(place)
    begun = time.perf_counter()
    code, errors = world.finish(place)
    whole = time.perf_counter() - begun
    if code:
        return "an undisturbed run failed", [errors]
    problems = world.broken_promises(place)
    killed = finished = 0
    while killed < wanted and not problems:
        for name in ("run", "run.private"):
            shutil.rmtree(place / name, ignore_errors=True)
        for path in place.glob("budget.db*"):
            path.unlink()
        world.prepare(place)
        while not world.ended(place):
            process = world.start(place, *world.resumed(place))
            try:
                _, errors = process.communicate(
                    timeout=rng.uniform(0, whole) if killed < wanted else 900
                )
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()
                killed += 1
                if (place / "run").exists():
                    problems += world.broken_promises(place)
                continue
            if process.returncode:
                problems.append(
                    f"after {killed} kills: exit code {process.returncode}: {errors.strip()}"
                )
            break
        if not problems:
            problems += world.broken_promises(place)
        finished += 1
    return f"{killed} kills in {finished} runs of {whole:.1f} s, each resumed to its end", problems
