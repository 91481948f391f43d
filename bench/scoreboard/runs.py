"""One run of one contestant, in a process of its own: rows, seconds, memory and measures.

`run_all` starts as many processes at once as there are cores to use. Each uses one thread, is ended
when its time is over, and writes its result to a file, so a run that dies takes nothing with it.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from multiprocessing import connection, get_context
from pathlib import Path

import numpy as np
import pyarrow as pa

import fastdp

from .. import machine
from . import measures, peers, tables
from .contestants import Contestant

ONE_THREAD = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "POLARS_MAX_THREADS",
    "NPROC",
)
"""What sets the threads of numpy's libraries, of polars and of jax (NPROC)."""
SCORING_SECONDS = 600
"""What scoring may take beyond the limit of a run."""
Codes = dict[str, np.ndarray]


@dataclass(frozen=True)
class Request:
    """One run that is wanted. epsilon: None for contestants that do not depend on it."""

    table: str
    contestant: Contestant
    epsilon: float | None
    seed: int
    limit: float
    models: bool = True
    quality: bool = True


@dataclass(frozen=True)
class Made:
    """Synthetic codes, and what making them took: from a table in memory to rows in memory.
    peak_mb: peak memory beyond what the process held before, which is packages and the table."""

    codes: Codes
    seconds: float
    processor: float
    peak_mb: float


class Failed(Exception):
    """A contestant that gave no rows; the text says why."""


def run_of(
    task: tables.Task, mechanism: str, epsilon: float, seed: int, **options: object
) -> fastdp.Run:
    """A run of a mechanism of fastdp or of a plug-in; "independent" is every column by itself.
    options: of its recipe."""
    table = fastdp.Table.from_codes(task.sizes, task.codes, user=task.user)
    recipe: object = mechanism
    if mechanism == "independent":
        recipe = {"mechanism": "adagrid", "outer": [[name] for name in task.sizes]}
    elif options:
        recipe = {"mechanism": mechanism, **options}
    return fastdp.synthesize(
        table, recipe, epsilon, task.delta, seed=seed, sample_seed=seed, threads=1
    )


def codes_of(task: tables.Task, rows: pa.Table) -> Codes:
    return {name: rows[name].to_numpy().astype(np.int64) for name in task.sizes}


def by_fastdp(task: tables.Task, mechanism: str, epsilon: float, seed: int) -> Made:
    held = machine.held_mb()
    start = time.perf_counter()
    used = time.process_time()
    rows = run_of(task, mechanism, epsilon, seed).data
    seconds = time.perf_counter() - start
    used = time.process_time() - used
    return Made(codes_of(task, rows), seconds, used, max(0.0, machine.peak_mb() - held))


def by_peer(task: tables.Task, who: Contestant, epsilon: float, seed: int, limit: float) -> Made:
    """Rows of a peer. Its unit is a row: where a table has users, it gets one row of each."""
    seen = task.one_row_each(seed)
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "in.npz")
        target = Path(folder, "out.npz")
        sizes = np.array(json.dumps(task.sizes))
        np.savez(source, sizes=sizes, **{f"x_{a}": c for a, c in seen.codes.items()})
        arguments = (who.name, str(source), str(target), str(epsilon), str(task.delta), str(seed))
        ended = peers.limited((*who.command, *arguments), limit, Path(folder, "log"))
        if ended.reason is not None:
            raise Failed(ended.reason)
        with np.load(target) as arrays:
            codes = {a: arrays[f"x_{a}"] for a in task.sizes}
            held = float(arrays["held_mb"]) if "held_mb" in arrays else 0.0
            seconds = float(arrays["seconds"])
            used = float(arrays["used"])
            return Made(codes, seconds, used, max(0.0, ended.peak_mb - held))


def by_hand(task: tables.Task, name: str, seed: int) -> Made:
    """Floors and ceilings that need no mechanism."""
    rng = np.random.default_rng(seed)
    start = time.process_time()
    if name == "uniform":
        codes = {a: rng.integers(0, n, task.rows) for a, n in task.sizes.items()}
    elif name == "split":
        codes = task.held_out
    else:
        codes = bootstrap(task, rng)
    used = time.process_time() - start
    return Made(codes, used, used, 0.0)


def bootstrap(task: tables.Task, rng: np.random.Generator) -> Codes:
    """Units drawn with replacement: rows, or users with all of their rows."""
    if task.user is None:
        chosen = rng.integers(0, task.rows, task.rows)
    else:
        users, at = np.unique(task.user, return_inverse=True)
        times = np.bincount(rng.integers(0, len(users), len(users)), minlength=len(users))
        chosen = np.repeat(np.arange(task.rows), times[at])
    return {a: c[chosen] for a, c in task.codes.items()}


def rows_of(task: tables.Task, request: Request) -> Made:
    who = request.contestant
    if who.kind == "peer":
        return by_peer(task, who, request.epsilon or math.nan, request.seed, request.limit)
    if who.private:
        return by_fastdp(task, who.name, request.epsilon or math.nan, request.seed)
    return by_hand(task, who.name, request.seed)


def one(task: tables.Task, request: Request) -> dict:
    """The record of one run: measures, or why there are none."""
    try:
        made = rows_of(task, request)
        if measures.rows_of(made.codes) == 0:
            raise Failed("it gave no rows")
    except Failed as error:
        return {"failed": str(error)}
    except Exception as error:  # whatever a mechanism raises is its result, and the job goes on
        return {"failed": f"{type(error).__name__}: {error}"[:200]}
    models = request.models and request.contestant.name != "split"  # it would be tested on itself
    found = measures.score(task, made.codes, models, request.quality)
    return {
        "rows": measures.rows_of(made.codes),
        "seconds": _short(made.seconds),
        "processor": _short(made.processor),
        "peak_mb": round(made.peak_mb),
        "measures": {name: _short(value) for name, value in found.items()},
    }


def _short(value: float) -> float:
    return float(f"{value:.5g}")


def _child(task: Path, request: Request, result: Path) -> None:
    """The whole life of a process: one run, its record in a file."""
    import warnings

    warnings.filterwarnings("ignore")
    with open(os.devnull, "w") as silent, contextlib.redirect_stdout(silent):
        record = one(tables.load(task), request)
    result.write_text(json.dumps(record), "utf-8")


@dataclass
class _Running:
    request: Request
    process: object
    result: Path
    until: float


def run_all(
    requests: list[Request],
    tasks: dict[str, Path],
    cores: int,
    last_start: float,
    end: float,
    done: Callable[[Request, dict], None],
) -> int:
    """Runs the requests in their order, `cores` at once; `done` gets every record as it comes.

    last_start, end: times of the monotonic clock after which no run is started, and none goes on.
    Returns how many runs gave no record because of these."""
    os.environ |= dict.fromkeys(ONE_THREAD, "1")
    context = get_context("forkserver")
    context.set_forkserver_preload(_preloaded(requests))
    waiting = iter(requests)
    started = 0
    running: list[_Running] = []
    with tempfile.TemporaryDirectory() as folder, _ended_together(running):
        while True:
            while len(running) < cores and time.monotonic() < last_start:
                request = next(waiting, None)
                if request is None:
                    break
                started += 1
                result = Path(folder, f"{started}.json")
                arguments = (tasks[request.table], request, result)
                process = context.Process(target=_child, args=arguments)
                process.start()
                last = time.monotonic() + peers.CLOCK * request.limit + SCORING_SECONDS
                running.append(_Running(request, process, result, last))
            if not running or time.monotonic() > end:
                return len(requests) - started + len(running)
            for one_run in list(_ended(running)):
                running.remove(one_run)
                done(one_run.request, _record(one_run))


def _preloaded(requests: list[Request]) -> list[str]:
    """Modules that the runs need. Those that are not installed are left out by the fork server."""
    out = [f"{__package__}.warm"]
    if any(request.models for request in requests):
        out += ["sklearn.ensemble", "sklearn.linear_model", "sklearn.metrics"]
    if any(request.quality for request in requests) and measures.quality_is_here():
        out += ["pandas", "sdmetrics.reports.single_table"]
    return out


@contextlib.contextmanager
def _ended_together(running: list[_Running]) -> Iterator[None]:
    """Ends the processes of runs when the job ends, also when it is told to (SIGTERM)."""
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
        for one_run in running:
            one_run.process.kill()


def _ended(running: list[_Running]) -> Iterator[_Running]:
    """The runs that ended, after waiting a second at most; those whose time is over are ended."""
    connection.wait([r.process.sentinel for r in running], timeout=1.0)
    now = time.monotonic()
    for one_run in list(running):
        if now > one_run.until:
            one_run.process.kill()
        if not one_run.process.is_alive() or now > one_run.until:
            one_run.process.join()
            yield one_run


def _record(ended: _Running) -> dict:
    if ended.result.is_file():
        return json.loads(ended.result.read_text("utf-8"))
    if time.monotonic() > ended.until:
        return {"failed": f"not done in {peers.CLOCK * ended.request.limit + SCORING_SECONDS:g} s"}
    return {"failed": f"its process ended with {ended.process.exitcode}"}


class Progress:
    """A line for every run, with an estimate of what is left."""

    def __init__(self, total: int, stream=None):
        self.total = total
        self.count = 0
        self.start = time.monotonic()
        self.stream = stream or sys.stderr

    def __call__(self, request: Request, record: dict) -> None:
        self.count += 1
        spent = time.monotonic() - self.start
        left = spent / self.count * (self.total - self.count)
        if "failed" in record:
            text = record["failed"]
        else:
            text = f"pairs {record['measures']['pairs']:.4f}, {record['processor']:.1f} s"
        epsilon = "" if request.epsilon is None else f" epsilon {request.epsilon:g}"
        print(
            f"[{self.count}/{self.total}] {request.table}{epsilon} {request.contestant.name} seed"
            f" {request.seed}: {text} (about {left / 60:.0f} min left)",
            file=self.stream,
            flush=True,
        )


def described(request: Request) -> dict:
    """What identifies a run in the store."""
    who = asdict(request.contestant)
    return {
        "version": who["version"],
        "table": request.table,
        "mechanism": who["name"],
        "kind": who["kind"],
        "epsilon": request.epsilon,
        "seed": request.seed,
    }
