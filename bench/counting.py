"""Counting the AdaGrid marginals against numpy, mbi, Polars, DuckDB and pandas, in one run.

    python -m bench.counting [--rows 1000000,10000000] [--peers numpy,polars] [--repeat 3]
    python -m bench.counting --threads

Each engine runs in a process of its own, with codes and weights already in memory. "all 59": every
marginal counted one by one (fastdp: one call). "7 outer": only the outer ones, without the
projections to the other 52, which fastdp's figure includes all the same. Times are the best of
several; ratios are time of the peer over time of fastdp. "cpu" is processor time of all threads
together: it says more than seconds do where others use the machine as well. "threads": fastdp on
one thread and on two, in turns in one process; there the 7 outer ones are counted alone.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from .machine import busy_seconds, describe, keep, peak_mb
from .measurements import PAIRS

BASE = ("pickup_community_area", "shift")
OUTER = [(*BASE, *more) for more in PAIRS]
CHICAGO = Path(__file__).parents[1] / "../shared/data/taxi-chicago-2022/trips.parquet"
QUIET = 0.1


def simulated(rows: int, folder: Path) -> None:
    """Simulated trips, encoded by the schema that ships with fastdp."""
    import fastdp

    table = fastdp.read(fastdp.simulate.taxi(rows, seed=1), fastdp.Schema.load("taxi-deid2"))
    save(table, np.arange(table.rows), 0, folder)


def chicago(rows: int, folder: Path) -> None:
    """The real trips, repeated; the taxis of each repetition are others."""
    import fastdp

    table = fastdp.read(CHICAGO, fastdp.Schema.load("taxi-chicago"))
    save(table, np.arange(rows) % table.rows, table.users, folder)


def save(table, take: np.ndarray, users: int, folder: Path) -> None:
    from fastdp.tables.bound import weights

    user = (table.user[take] + (np.arange(len(take)) // table.rows) * users).astype(np.uint32)
    for name, column in table.codes.items():
        np.save(folder / f"{name}.npy", column[take])
    np.save(folder / "user.npy", user)
    np.save(folder / "weight.npy", weights(np.bincount(user), 150)[user])
    (folder / "domain.json").write_text(json.dumps(dict(table.domain)))


def child(peer: str, folder: Path, job: str, repeat: int) -> None:
    """Runs one engine on one job and prints its figures as JSON."""
    from fastdp.domain import downward_closure

    from .peers_counting import PEERS

    domain = json.loads((folder / "domain.json").read_text())
    codes = {name: np.load(folder / f"{name}.npy") for name in domain}
    count = PEERS[peer](domain, codes, np.load(folder / "user.npy"), np.load(folder / "weight.npy"))
    if job == "7 outer" and not peer.startswith("fastdp"):
        cliques = OUTER
    else:
        cliques = downward_closure(OUTER)
    before = peak_mb()
    times: list[float] = []
    cpu: list[float] = []
    # Short jobs are repeated for a second: on a busy machine a single measurement says little.
    while len(times) < repeat or (sum(times) < 1 and len(times) < 50):
        start = time.perf_counter()
        spent = time.process_time()
        tables = count(cliques)
        times.append(time.perf_counter() - start)
        cpu.append(time.process_time() - spent)
        assert len(tables) == len(cliques)
        del tables
    figures = {"seconds": min(times), "cpu_seconds": min(cpu), "runs": len(times)}
    print(json.dumps({**figures, "peak_mb": peak_mb(), "loaded_mb": before}))


def by_threads(folder: Path, patience: float, repeat: int) -> None:
    """fastdp on one thread and on two, in turns, so that a machine that slows down slows both;
    prints JSON.

    Two threads cannot be twice as fast while others use a core. Pairs of runs during which they
    took more than QUIET of one are left out (at least 3 must remain, otherwise all count and
    "quiet" is false); patience: seconds for each job.
    """
    from fastdp.domain import downward_closure

    from .peers_counting import fastdp

    domain = json.loads((folder / "domain.json").read_text())
    codes = {name: np.load(folder / f"{name}.npy") for name in domain}
    user = np.load(folder / "user.npy")
    weight = np.load(folder / "weight.npy")
    count = {threads: fastdp(domain, codes, user, weight, threads=threads) for threads in (1, 2)}
    jobs = {"all 59": downward_closure(OUTER), "7 outer": OUTER}
    out = {}
    for job, cliques in jobs.items():
        pairs = []
        disturbed = []
        until = time.perf_counter() + patience
        while len(pairs) < repeat and time.perf_counter() < until:
            begin = time.perf_counter()
            total = busy_seconds()
            own = time.process_time()
            pair = []
            for work in count.values():
                start = time.perf_counter()
                spent = time.process_time()
                work(cliques)
                pair.append((time.perf_counter() - start, time.process_time() - spent))
            others = busy_seconds() - total - (time.process_time() - own)
            quiet = not others > QUIET * (time.perf_counter() - begin)
            (pairs if quiet else disturbed).append(pair)
            if not quiet:
                time.sleep(0.5)
        timings = np.array(pairs if len(pairs) >= 3 else pairs + disturbed)
        best = timings.min(axis=0)
        middle = np.median(timings[:, :, 0], axis=0)
        out[job] = {
            "seconds": best[:, 0].tolist(),
            "cpu_seconds": best[:, 1].tolist(),
            "ratio": best[0, 0] / best[1, 0],
            "ratio_of_medians": middle[0] / middle[1],
            "pairs": len(timings),
            "quiet": len(pairs) >= 3,
            "left_out": len(disturbed) if len(pairs) >= 3 else 0,
        }
    print(json.dumps({**out, "load_average": round(os.getloadavg()[0], 2)}))


def run(peer: str, folder: Path, job: str, repeat: int) -> dict | None:
    command = [sys.executable, "-m", "bench.counting", "--child", peer, "--folder", str(folder)]
    command += ["--job", job, "--repeat", str(repeat)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["?"])[-1]
        print(f"  {peer}: not run ({reason})")
        return None
    return json.loads(done.stdout.splitlines()[-1])


def compare(title: str, folder: Path, peers: list[str], repeat: int) -> dict:
    """Both jobs for every peer, as a table of times, ratios and peak memory."""
    out: dict = {"title": title, "jobs": {}}
    for job in ("all 59", "7 outer"):
        print(
            f"\n{title}, {job}\n  "
            f"{'engine':<16}{'seconds':>9}{'ratio':>8}{'cpu':>9}{'peak MB':>9}{'for counting':>14}"
        )
        figures: dict[str, dict] = {}
        # Ours before and after the others: the better of the two, as for everyone who repeats.
        for peer in ["fastdp", "fastdp-1-thread", *peers, "fastdp"]:
            record = run(peer, folder, job, repeat if peer != "pandas" else 1)
            if record and (peer not in figures or record["seconds"] < figures[peer]["seconds"]):
                figures[peer] = record
        ours = figures["fastdp"]["seconds"]
        for peer, record in figures.items():
            record["ratio"] = record["seconds"] / ours
            extra = record["peak_mb"] - record["loaded_mb"]
            print(
                f"  {peer:<16}{record['seconds']:>9.3f}{record['ratio']:>8.1f}{record['cpu_seconds']:>9.3f}"
                f"{record['peak_mb']:>9.0f}{extra:>14.0f}"
            )
        out["jobs"][job] = figures
    out["threads"] = compare_threads(title, folder)
    return out


def compare_threads(title: str, folder: Path, patience: float = 20.0) -> dict:
    """Both jobs on one thread and on two, as a table."""
    record = run("threads", folder, str(patience), 15)
    if record is None:
        raise SystemExit("fastdp did not run")
    print(
        f"\n{title}, 1 thread and 2\n "
        f" {'job':<10}{'seconds':>16}{'ratio':>8}{'of medians':>12}{'cpu':>16}"
    )
    for job in ("all 59", "7 outer"):
        each = record[job]
        seconds, cpu = ("{:.3f} {:.3f}".format(*each[key]) for key in ("seconds", "cpu_seconds"))
        disturbed = "" if each["quiet"] else "  (others used the machine)"
        print(
            f"  {job:<10}{seconds:>16}{each['ratio']:>8.2f}{each['ratio_of_medians']:>12.2f}{cpu:>16}"
            f"{disturbed}"
        )
    return record


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rows", default="1000000,10000000")
    parser.add_argument("--peers", default="numpy,mbi,polars,duckdb,pandas")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument(
        "--threads", action="store_true", help="only fastdp, on one thread and on two"
    )
    parser.add_argument("--no-save", action="store_true")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    parser.add_argument("--job", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child == "threads":
        by_threads(Path(options.folder), float(options.job), options.repeat)
        return
    if options.child:
        child(options.child, Path(options.folder), options.job, options.repeat)
        return
    print(json.dumps(describe()))
    peers = [p for p in options.peers.split(",") if p]
    results = []

    def measure(title: str, folder: str) -> None:
        if options.threads:
            record = compare_threads(title, Path(folder), patience=60.0)
            results.append({"title": title, "threads": record})
        else:
            results.append(compare(title, Path(folder), peers, options.repeat))

    sizes = [int(r) for r in options.rows.split(",")]
    for rows in sizes:
        with tempfile.TemporaryDirectory() as folder:
            simulated(rows, Path(folder))
            measure(f"{rows:,} simulated taxi rows", folder)
    if CHICAGO.exists():
        with tempfile.TemporaryDirectory() as folder:
            chicago(max(sizes), Path(folder))
            measure(f"Chicago trips tiled to {max(sizes):,} rows", folder)
    if not options.no_save:
        keep("counting-threads" if options.threads else "counting", {"results": results})


if __name__ == "__main__":
    main()
