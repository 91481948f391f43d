"""The work of a run at 1, 2, 4, 8 and 16 threads, and the memory bandwidth of the machine beside
it.

    python -m bench.cores [--rows 2000000] [--threads 1 2 4 8 16] [--only adagrid dual ...]

Every line is the least wall time of three repetitions, or of a second of them, so run it on a
machine that nobody else uses; threads beyond its cores are not measured. "bandwidth" is what as
many threads copy, in GB/s read and written, "arithmetic" what they hash, in GB/s, without memory:
what threads alone can gain. "pass, dual" is the dual's whole fit divided by its evaluations of all
cells, to be compared with a call of mirror descent on the same cells. "stolen" is the share of its
processors' time that a virtual machine was not given while a line was measured. The lines of
docs/research/threads.md follow at the end.
"""

from __future__ import annotations

import argparse
import hashlib
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow.parquet as pq

import fastdp
from fastdp._util.threads import available
from fastdp.domain import downward_closure
from fastdp.run.output import Output

from . import machine
from .measurements import OUTER, Problem, load, prepare, taxi_codes, to_fastdp

Piece = Callable[[int], float]


def least(work: Callable[[], object]) -> float:
    """The least of at least three repetitions, and of as many as a second holds."""
    found: list[float] = []
    while len(found) < 3 or sum(found) < 1.0:
        begin = time.perf_counter()
        work()
        found.append(time.perf_counter() - begin)
    return min(found)


def call(problem: Problem) -> Piece:
    """Seconds of one oracle call of mirror descent."""
    asked = to_fastdp(problem)
    total = float(problem.weighted[0].sum())

    def seconds(threads: int) -> float:
        found = []
        for _ in range(3):
            model = fastdp.fit(
                problem.domain,
                asked,
                total,
                stop="iters",
                iters=40,
                method="accelerated",
                threads=threads,
            )
            steps = np.diff(np.array(model.trace), axis=0)
            found.append(float(np.median(steps[:, 2] / steps[:, 0])))
        return min(found)

    return seconds


def whole_fit(problem: Problem, calls: list[int]) -> Piece:
    """Adds the calls of the oracle, or evaluations of the dual, to `calls`."""
    asked = to_fastdp(problem)
    total = float(problem.weighted[0].sum())

    def fit(threads: int) -> None:
        calls.append(fastdp.fit(problem.domain, asked, total, threads=threads).iterations)

    return lambda threads: least(lambda: fit(threads))


def counting(rows: int) -> Piece:
    """All 59 marginals of AdaGrid."""
    codes, _ = taxi_codes(fastdp.simulate.taxi(rows, seed=1, year=2020))
    domain = {name: int(column.max()) + 1 for name, column in codes.items()}
    table = fastdp.read(codes, fastdp.Schema.from_domain(domain))
    cliques = sorted(downward_closure(OUTER), key=len)
    return lambda threads: least(lambda: fastdp.marginals(table, cliques, threads=threads))


def sampling(problem: Problem) -> Piece:
    model = fastdp.fit(problem.domain, to_fastdp(problem), float(problem.weighted[0].sum()))
    return lambda threads: least(lambda: model.sample(10_000_000, seed=1, threads=threads))


def trips(rows: int, folder: Path) -> Path:
    """Simulated trips in row groups of a quarter of a million rows, and as text beside them."""
    import polars as pl

    made = fastdp.simulate.taxi(rows, seed=1, year=2020)
    pq.write_table(made, folder / "trips.parquet", row_group_size=1 << 18)
    pl.DataFrame(pl.from_arrow(made)).write_csv(folder / "trips.csv")
    return folder


def reading(source: Path) -> Piece:
    schema = fastdp.Schema.load("taxi-deid2")
    return lambda threads: least(lambda: fastdp.read(source, schema, threads=threads))


def writing(source: Path) -> Piece:
    """Codes decoded and written as Parquet, in 16 shards; without sampling and user ids."""
    table = fastdp.read(source, fastdp.Schema.load("taxi-deid2"))
    shard = -(-table.rows // 16)

    def codes(i: int) -> dict[str, np.ndarray]:
        return {name: column[i * shard : (i + 1) * shard] for name, column in table.codes.items()}

    rows = SimpleNamespace(total=table.rows, shard_rows=shard, columns=None, shard=codes)
    outcome: Any = SimpleNamespace(rows=rows, owners=None, counts=None)

    def write(threads: int) -> None:
        with tempfile.TemporaryDirectory(dir=source.parent) as folder:
            Output(table.schema, outcome, None, 1, threads=threads).write(Path(folder))

    return lambda threads: least(lambda: write(threads))


def stolen() -> tuple[float, float]:
    """Ticks that the machine's processors were not given so far, and all ticks."""
    ticks = [float(x) for x in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    return ticks[7], sum(ticks)


def bandwidth(threads: int) -> float:
    """GB/s, read and written, of copies by so many threads."""
    parts = [(np.ones(1 << 23), np.ones(1 << 23)) for _ in range(threads)]
    with ThreadPoolExecutor(threads) as pool:
        seconds = least(lambda: list(pool.map(lambda p: np.copyto(p[1], p[0]), parts)))
    return threads * 2 * parts[0][0].nbytes / seconds / 1e9


def arithmetic(threads: int) -> float:
    """GB/s of hashes (SHA-256) by so many threads, all within caches: what cores alone gain."""
    part = bytes(1 << 20)

    def hashes(_: int) -> None:
        for _ in range(8):
            hashlib.sha256(part)

    with ThreadPoolExecutor(threads) as pool:
        seconds = least(lambda: list(pool.map(hashes, range(threads))))
    return threads * 8 * len(part) / seconds / 1e9


WANTED = {
    "call, adagrid": 8,
    "fit, adagrid": 6,
    "fit, dual": 8,
    "59 marginals": 10,
    "10M rows sampled": 10,
    "Parquet read": 8,
    "CSV read": 8,
    "Parquet written": 8,
}
"""By line of the table: how many times as fast 16 threads should be as one."""
RATES = {"bandwidth": bandwidth, "arithmetic": arithmetic}


def milliseconds(seconds: float) -> str:
    """With one decimal below 20."""
    return f"{1e3 * seconds:,.{1 if seconds < 0.02 else 0}f}"


def lines(found: dict[str, dict[int, float]]) -> str:
    """The table of the docs: milliseconds, most threads against one, what was wanted."""
    threads = list(found["bandwidth"])
    last = threads[-1]
    out = []
    for name, by in found.items():
        times = name not in RATES
        shown = milliseconds if times else "{:.3g}".format
        cells = [shown(by[n]) for n in threads]
        gain = by[threads[0]] / by[last] if times else by[last] / by[threads[0]]
        out.append(
            " | ".join(["", name, *cells, f"{gain:.2g}", str(WANTED.get(name, "")), ""]).strip()
        )
    return "\n".join(out)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--threads", type=int, nargs="*", default=[1, 2, 4, 8, 16])
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--save", action="store_true")
    options = parser.parse_args()
    made = {
        k: load(prepare(options.rows, [(k, e, "gdp")])[0])
        for k, e in (("identity", 10.0), ("adagrid", 1.0))
    }
    passes: list[int] = []
    pieces: dict[str, Callable[[], Piece]] = {
        "call, identity": lambda: call(made["identity"]),
        "call, adagrid": lambda: call(made["adagrid"]),
        "fit, adagrid": lambda: whole_fit(made["adagrid"], []),
        "fit, dual": lambda: whole_fit(made["identity"], passes),
        "59 marginals": lambda: counting(options.rows),
        "10M rows sampled": lambda: sampling(made["adagrid"]),
        "Parquet read": lambda: reading(files / "trips.parquet"),
        "CSV read": lambda: reading(files / "trips.csv"),
        "Parquet written": lambda: writing(files / "trips.parquet"),
    }
    folder = tempfile.TemporaryDirectory()
    files = trips(options.rows, Path(folder.name))
    threads = [n for n in options.threads if n <= available()]
    print(f"{'':18}" + "".join(f"{n:>10}" for n in threads))
    found: dict[str, dict[int, float]] = {}
    for name, make in pieces.items():
        if options.only and not any(word in name for word in options.only):
            continue
        piece = make()
        before = stolen()
        found[name] = {n: piece(n) for n in threads}
        lost, ticks = (b - a for a, b in zip(before, stolen()))
        times = "".join(f"{1e3 * s:7.1f} ms" for s in found[name].values())
        print(f"{name:18}{times}   {100 * lost / max(1.0, ticks):.1f} % stolen", flush=True)
    if passes:
        found["pass, dual"] = {n: seconds / passes[-1] for n, seconds in found["fit, dual"].items()}
    if passes and "call, identity" in found:
        against = [found["pass, dual"][n] / found["call, identity"][n] for n in threads]
        print(f"{'pass against call':18}" + "".join(f"{x:10.2f}" for x in against))
    for name, rate in RATES.items():
        found[name] = {n: rate(n) for n in threads}
        print(f"{name:18}" + "".join(f"{r:10.1f}" for r in found[name].values()))
    folder.cleanup()
    print(lines(found))
    if options.save:
        machine.keep("cores", {"rows": options.rows, "found": found})


if __name__ == "__main__":
    main()
