"""All runs of a job.

Every change is compared with the package as it is, by runs with the same seeds of the same commit.
"""

from __future__ import annotations

import os
import time
import traceback
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

from . import suites
from .ablations import ABLATIONS, given, switched_off
from .judge import AS_IT_IS

ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "POLARS_MAX_THREADS")


@dataclass(frozen=True)
class Wanted:
    """One run. without: the name of an ablation, NAME=VALUE, or `AS_IT_IS`."""

    suite: str
    table: str
    epsilon: float
    seed: int
    without: str = AS_IT_IS


def run(one: Wanted) -> dict:
    """The record of one run: its errors, or why there are none."""
    change = ABLATIONS.get(one.without)
    if change is None and one.without != AS_IT_IS:
        change = given(one.without)
    options = change.options if change is not None else {}
    record = dict(vars(one))
    started = time.process_time()
    try:
        with switched_off(change):
            found = suites.SUITES[one.suite](one.table, one.epsilon, one.seed, options)
    except Exception as error:  # what a change breaks is its result, and the job goes on
        where = traceback.extract_tb(error.__traceback__)[-1]
        text = f"{type(error).__name__}: {error} ({Path(where.filename).name}:{where.lineno})"
        return record | {"failed": text[:200]}
    record["seconds"] = round(time.process_time() - started, 2)
    return record | {"errors": {name: float(f"{value:.5g}") for name, value in found.items()}}


def in_order(
    suite: str,
    tables: Iterable[str],
    epsilons: Iterable[float],
    seeds: Iterable[int],
    changes: Iterable[str],
) -> list[Wanted]:
    """The runs of a suite: a seed for all tables and changes before the next one, so that a job
    that is cut short has compared everything."""
    names = (AS_IT_IS, *changes)
    return [
        Wanted(suite, table, epsilon, seed, name)
        for seed in seeds
        for table in tables
        for epsilon in epsilons
        for name in names
    ]


class Idle:
    """Cells in which a change did nothing with one seed: they are not run with further seeds."""

    def __init__(self) -> None:
        self.errors: dict[tuple, dict] = {}

    def learn(self, record: dict) -> None:
        if "errors" in record:
            cell = (record["suite"], record["table"], record["epsilon"])
            self.errors[*cell, record["without"], record["seed"]] = record["errors"]

    def has(self, one: Wanted) -> bool:
        cell = (one.suite, one.table, one.epsilon)
        return any(
            (*cell, AS_IT_IS, seed) in self.errors and self.errors[*cell, AS_IT_IS, seed] == errors
            for (*where, name, seed), errors in self.errors.items()
            if tuple(where) == cell and name == one.without != AS_IT_IS and seed != one.seed
        )


def run_all(wanted: list[Wanted], cores: int, seconds: float) -> Iterator[dict]:
    """The records as they come, `cores` runs at once; none is started after `seconds`. Where a
    change did nothing with an earlier seed, its record says so without a run."""
    os.environ |= dict.fromkeys(ONE_THREAD, "1")
    until = time.monotonic() + seconds
    waiting = iter(wanted)
    idle = Idle()
    with ProcessPoolExecutor(cores, mp_context=get_context("forkserver")) as pool:
        running: set[Future] = set()
        while True:
            while len(running) < cores + 4 and time.monotonic() < until:
                one = next(waiting, None)
                if one is None:
                    break
                if idle.has(one):
                    yield vars(one) | {"idle": True}
                else:
                    running.add(pool.submit(run, one))
            if not running:
                return
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                record = future.result()
                idle.learn(record)
                yield record
