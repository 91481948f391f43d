"""What it takes to deal a pool of users and to choose from it: processor seconds per million rows.

    python -m bench.pool [--tables cohorts events patients] [--rows 300000 1000000 3000000]
    python -m bench.pool --whole 10000000 --threads 2

Per stage, on one thread: draw: rows of the pool, three times as many as are wanted. segments: which
users may get which rows. features: what urns and exchanges know of rows. deal: urns. order: rows in
order of time, and exchanged. choice: whole users, such that what was released holds. write: values of
the codes. Once for a run: measure (reading, counting, noise, fits), trials (the parameters of urns).
floor: what a pool takes whose users want nothing and exchange nothing: segments, lists of rows, one
sort by user and time. Peak memory of the process, in MB.
Tables are those of `bench.users`, with their order declared, at epsilon 1; each line is a process of its own.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import wraps

import numpy as np
import pyarrow as pa
from msgspec.structs import replace

import fastdp
from fastdp.mechanisms.with_users import chosen_users
from fastdp.run.output import Output
from fastdp.users.dealing import FREE, Dealer
from fastdp.users.user_choice import Choice

from . import machine
from .users import DELTA, HELD_OUT, inputs, load

STAGES = {
    "draw": (Output, "_draw"),
    "segments": (Dealer, "segments"),
    "features": (Dealer, "features"),
    "deal": (Dealer, "urns"),
    "order": (Dealer, "_in_order"),
    "choice": (Choice, "choose"),
}


@contextmanager
def timed(stages: dict[str, tuple[type, str]]) -> Iterator[dict[str, float]]:
    """Processor seconds of each stage, while it lasts."""
    spent = dict.fromkeys(stages, 0.0)
    before = {stage: getattr(owner, name) for stage, (owner, name) in stages.items()}

    def wrapped(stage: str):
        @wraps(before[stage])
        def call(*args, **options):
            start = time.process_time()
            try:
                return before[stage](*args, **options)
            finally:
                spent[stage] += time.process_time() - start

        return call

    try:
        for stage, (owner, name) in stages.items():
            setattr(owner, name, wrapped(stage))
        yield spent
    finally:
        for stage, (owner, name) in stages.items():
            setattr(owner, name, before[stage])


def floor(output: Output) -> float:
    """Processor seconds per million rows that the first block's pool takes without urns and exchanges."""
    assert output.source is not None and output.source.dealer is not None
    dealer = output.source.dealer
    block = [output._shard(i) for i in range(min(output.shards, output.block_shards))]
    codes = {name: np.concatenate([part[name] for part in block]) for name in block[0]}
    alpha = np.full((len(dealer.alpha), len(dealer.roles.dealt)), FREE)
    plain = replace(dealer, alpha=alpha, joint=(), levels=())
    start = time.process_time()
    at = plain.segments(codes, 0)
    values = plain.features(codes, at.take)
    owner, _ = plain.urns(values, at, 0, 1)
    if plain.order is not None:
        plain._in_order(codes, values, at, owner, 0, 1, 0)
    return (time.process_time() - start) * dealer.times / len(owner) * 1e6


def one(name: str, rows: int, seed: int) -> dict[str, float]:
    """Processor seconds per million rows by stage, and in all; once, and in MB, of a run."""
    truth = load(name, None)
    assert truth is not None
    schema, values, _ = inputs(name, truth, "order")
    table = pa.table(values)
    recipe = {"mechanism": "cliquetree", "ids": {"source": "auto"}}
    fixed = {"seed": seed, "sample_seed": seed, "threads": 1}
    with timed({"trials": (chosen_users, "dealer")}) as once:  # type: ignore[dict-item]
        start = time.process_time()
        run = fastdp.synthesize(table, recipe, 1.0, DELTA, schema=schema, rows=rows, **fixed)
        before = time.process_time() - start
    with timed(STAGES) as spent:
        start = time.process_time()
        made = run.data.num_rows
        all_rows = time.process_time() - start
    spent["write"] = all_rows - sum(spent.values())
    found = {stage: seconds / made * 1e6 for stage, seconds in spent.items()}
    found["pool"] = sum(found[x] for x in ("segments", "features", "deal", "order"))
    found["all"] = all_rows / made * 1e6
    found["measure"] = before - once["trials"]
    found |= {"trials": once["trials"], "MB": machine.peak_mb()}
    return {**found, "floor": floor(run._output)}


def whole(rows: int, threads: int) -> dict[str, float]:
    """Seconds by the clock and of processors of a run of cohorts and of its rows, and peak memory."""
    truth = load("cohorts", None)
    assert truth is not None
    schema, values, _ = inputs("cohorts", truth, "order")
    recipe = {"mechanism": "cliquetree", "ids": {"source": "auto"}}
    fixed = {"seed": 0, "sample_seed": 0, "threads": threads}
    clock = time.perf_counter()
    run = fastdp.synthesize(pa.table(values), recipe, 1.0, DELTA, schema=schema, rows=rows, **fixed)
    found = {"fit": time.perf_counter() - clock}
    clock = time.perf_counter()
    start = time.process_time()
    made = sum(part.num_rows for part in run._output.tables())
    found |= {"rows": made, "clock": time.perf_counter() - clock}
    return found | {"processor": time.process_time() - start, "MB": machine.peak_mb()}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    chosen = ["cohorts", "events", "patients"]
    parser.add_argument("--tables", nargs="+", default=chosen, choices=list(HELD_OUT))
    parser.add_argument("--rows", nargs="+", type=int, default=[300_000, 1_000_000, 3_000_000])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1, help="parallel processes")
    parser.add_argument("--no-save", action="store_true", help="keep nothing in bench/results")
    parser.add_argument("--whole", type=int, metavar="ROWS", help="one run of so many rows instead")
    parser.add_argument("--threads", type=int, default=2, help="of that run")
    options = parser.parse_args()
    if options.whole:
        found = whole(options.whole, options.threads)
        print("  ".join(f"{name} {value:.2f}" for name, value in found.items()))
        if not options.no_save:
            machine.keep(f"pool_{options.threads}_threads", {"found": found})
        return
    shown = (*STAGES, "write", "pool", "floor", "all", "measure", "trials", "MB")
    print("seconds per million rows; measure and trials: seconds of a run")
    print(f"{'table, rows':<20}" + "".join(f"{stage:>9}" for stage in shown))
    cases = [(name, rows) for name in options.tables for rows in options.rows]
    kept = {}
    with ProcessPoolExecutor(options.jobs, max_tasks_per_child=1) as pool:
        runs = {case: pool.submit(one, *case, options.seed) for case in cases}
        for (name, rows), future in runs.items():
            found = future.result()
            print(
                f"{name} {rows:,}".ljust(20) + "".join(f"{found[stage]:>9.2f}" for stage in shown),
                flush=True,
            )
            kept[f"{name}, {rows} rows"] = found
    if not options.no_save:
        machine.keep("pool", {"seed": options.seed, "found": kept})


if __name__ == "__main__":
    main()
