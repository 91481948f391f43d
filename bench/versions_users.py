"""An earlier version beside this one: synthetic users of the same tables, with the same fresh seeds.

    python -m bench.versions_users 18493e85 --tables few purchases --epsilon 1 3 --seeds 5 --jobs 2

As `bench.versions`, by the measures of `bench.users` with the order of rows declared. A job that stops
before its end (--minutes) has the first seeds of all tables. Kept in bench/results/versions_users.json.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

import numpy as np

from . import machine, users
from .versions import NOW, ROOT, Version, earlier, line, shown

TABLES = ("few", "purchases", "events", "patients", "cohorts", "courses", "fleets", "renewals")
FIRST_SEED = 7500
"""Seeds that nothing was chosen by."""
TITLES = {
    "rows": "pairs of rows",
    "same": "same column",
    "cross": "two columns",
    "distinct": "distinct",
    "next": "next",
    "cohort": "cohorts",
    "span": "spans",
    "sum": "sums",
    "per_user": "rows per user",
}
PROGRAM = """
import json, sys, time
import numpy as np
import pyarrow as pa
import fastdp
assert fastdp.__file__.startswith(sys.argv[1]), fastdp.__file__
for line in sys.stdin:
    want = json.loads(line)
    with np.load(want["source"]) as arrays:
        table = pa.table({name: arrays["x_" + name] for name in want["names"]})
    schema = fastdp.Schema.from_dict(want["schema"])
    recipe = {"mechanism": "cliquetree", "ids": {"source": "auto"}}
    started = time.process_time()
    seeds = {"seed": want["seed"], "sample_seed": want["seed"], "threads": 1}
    done = {}
    try:
        run = fastdp.synthesize(
            table, recipe, want["epsilon"], want["delta"], schema=schema, **seeds
        )
        rows = {"x_" + name: np.asarray(run.data[name]) for name in want["names"]}
        np.savez(want["target"], **rows)
    except Exception as error:
        done = {"failed": f"{type(error).__name__}: {error}"}
    print(json.dumps(done | {"seconds": time.process_time() - started}), flush=True)
"""
"""What a version runs: it knows nothing of `bench`, which differs between versions."""


def pair(roots: dict[str, Path], name: str, epsilon: float, seed: int) -> list[dict]:
    """A record for each version of one run."""
    truth = users.load(name, None)
    assert truth is not None
    schema, values, sizes = users.inputs(name, truth, "order")
    about = {"table": name, "epsilon": epsilon, "seed": seed}
    out = []
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "in.npz"), Path(folder, "out.npz")
        np.savez(source, **{f"x_{column}": found for column, found in values.items()})
        asked = {"source": str(source), "target": str(target), "names": list(values)}
        for which, root in roots.items():
            version = Version(root, PROGRAM)
            done = version.rows(about | asked | {"schema": schema.to_dict(), "delta": users.DELTA})
            version.close()
            if "failed" not in done:
                with np.load(target) as arrays:
                    made = {column: arrays[f"x_{column}"] for column in truth}
                found = users.errors(name, truth, made, sizes)
                done["errors"] = {m: abs(float(f"{found[m]:.5g}")) for m in TITLES}
            out.append({"suite": "cliquetree", "without": which, **about, **done})
    return out


def compared(roots: dict[str, Path], options: argparse.Namespace) -> Iterator[dict]:
    """All records, the first seed of all tables first."""
    until = time.monotonic() + 60 * options.minutes
    cells = [
        (name, epsilon, seed)
        for seed in range(options.first_seed, options.first_seed + options.seeds)
        for name in options.tables
        for epsilon in options.epsilon
    ]

    def one(cell: tuple[str, float, int]) -> list[dict]:
        return pair(roots, *cell) if time.monotonic() < until else []

    with ThreadPoolExecutor(options.jobs) as pool:
        for done in as_completed([pool.submit(one, cell) for cell in cells]):
            yield from done.result()


def block() -> str:
    """The kept comparison, for docs/research/principles.md."""
    return shown("versions_users", TITLES)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("commit")
    parser.add_argument("--tables", nargs="+", default=list(TABLES), choices=list(users.TABLES))
    parser.add_argument("--epsilon", type=float, nargs="+", default=[1.0, 3.0])
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--first-seed", type=int, default=FIRST_SEED)
    parser.add_argument("--jobs", type=int, default=1, help="runs at once")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="start no run after")
    parser.add_argument("--sources", type=Path, help="a folder or an archive of the commit's files")
    parser.add_argument("--runs", type=Path, help="also write each run here, as it ends")
    parser.add_argument("--no-save", action="store_true", help="keep nothing in bench/results")
    options = parser.parse_args()
    records = []
    with earlier(options.commit, options.sources) as root:
        for record in compared({NOW: ROOT, options.commit: root}, options):
            records.append(record)
            if options.runs is not None:
                with options.runs.open("a", encoding="utf-8") as sink:
                    sink.write(json.dumps(record) + "\n")
    found = line("cliquetree", options.commit, records)
    print(f"{found['cells']} cells, processor time x {found['processor']:.2f}")
    for name, effect in found["effects"].items():
        print(f"  {name:12} {effect['mean']:+.4f} ± {effect['error']:.4f}")
    if not options.no_save:
        machine.keep("versions_users", {"lines": [found], "runs": records})


if __name__ == "__main__":
    main()
