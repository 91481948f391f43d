"""Compare mechanisms on many tables, by the field's measures, with peers in the same job.

    python -m bench.scoreboard                     everything that is not stored yet, then the page
    python -m bench.scoreboard --quick             under ten minutes on two cores, in bench/out
    python -m bench.scoreboard --install           environments of the peers: mbi, OpenDP, dpmm ...
    python -m bench.scoreboard --tables adult --mechanisms cliquetree "mbi MST" --epsilon 1
    python -m bench.scoreboard --csv FILE --domain DOMAIN [--target COLUMN]      a table of yours
    python -m bench.scoreboard --mechanisms star --tables xor3      a plug-in, by its name
    python -m bench.scoreboard --page              only writes docs/research/scoreboard.md anew
    python -m bench.scoreboard --rows FILE.csv     mean and standard error of every measure

Runs that are stored (bench/results/scoreboard, by version, table, mechanism, epsilon and seed) are
not run again; an interrupted job goes on where it was.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import time
from pathlib import Path

from . import contestants, page, peers, runs, store, tables

EPSILONS = (1.0, 3.0, 10.0, 0.1)
QUICK_MINUTES = 5.0
QUICK_LIMIT = 60.0
GRACE_MINUTES = 3.0
"""A job with --minutes ends whatever still runs so long after that time, so a quick job ends within
eight minutes. A run of a peer may take three times its limit by the clock."""
QUICK = Path(__file__).resolve().parents[1] / "out" / "scoreboard"


def parser() -> argparse.ArgumentParser:
    out = argparse.ArgumentParser(
        prog="python -m bench.scoreboard",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    out.add_argument("--quick", action="store_true", help="few tables, epsilon 1, two seeds")
    out.add_argument("--tables", nargs="+", metavar="TABLE", help=", ".join(tables.BENCHMARKS))
    out.add_argument("--csv", type=Path, help="a table of yours, with --domain")
    out.add_argument("--domain", type=Path, help="sizes of its columns (JSON), or its schema")
    out.add_argument("--target", help="its column that models predict")
    out.add_argument(
        "--ordered", nargs="*", default=[], help="its columns whose codes have an order"
    )
    out.add_argument("--mechanisms", nargs="+", metavar="NAME", help="also plug-ins and peers")
    out.add_argument(
        "--peer",
        action="append",
        default=[],
        metavar="NAME=COMMAND",
        help="a peer of yours; COMMAND gets NAME IN.npz OUT.npz EPSILON DELTA SEED",
    )
    out.add_argument("--epsilon", nargs="+", type=float)
    out.add_argument("--seeds", type=int, help="how many; 5, with --quick 2")
    out.add_argument("--first-seed", type=int, default=1000)
    out.add_argument("--cores", type=int, help="runs at once; all cores")
    out.add_argument("--limit", type=float, help="processor seconds of a run of a peer")
    out.add_argument(
        "--minutes",
        type=float,
        help=f"start no run after this time; {GRACE_MINUTES:g} minutes later all end",
    )
    out.add_argument("--no-models", action="store_true", help="train no models")
    out.add_argument("--no-quality", action="store_true", help="leave SDMetrics out")
    out.add_argument("--fresh", action="store_true", help="also what is stored")
    out.add_argument("--store", type=Path, help="another folder than bench/results/scoreboard")
    out.add_argument("--install", nargs="*", metavar="LIBRARY", help="only make environments")
    out.add_argument("--page", action="store_true", help="only write the page and the plot")
    out.add_argument("--check", action="store_true", help="fail if they are not up to date")
    out.add_argument("--rows", type=Path, help="only write means and standard errors to this file")
    return out


def main(arguments: list[str] | None = None) -> None:
    """Parses, then does one of: install, page, check, rows, run."""
    parse = parser()
    options = parse.parse_args(arguments)
    if (options.csv is None) != (options.domain is None):
        parse.error("--csv and --domain come together")
    kept = store.Store(options.store or (QUICK if options.quick else store.KEPT))
    if options.install is not None:
        peers.install(options.install or list(peers.LIBRARIES), kept.installs)
        return
    if options.rows is not None:
        page.write_rows(kept, options.rows)
        return
    if options.check:
        if stale := page.stale(kept):
            sys.exit(f"{stale} is not what the store gives: python -m bench.scoreboard --page")
        return
    if not options.page:
        run(options, kept, parse)
    written = page.write(kept)
    print(f"written: {written}")


def chosen(options, parse: argparse.ArgumentParser) -> list[tables.Benchmark]:
    """The tables of a job that can be made here; why the others are left out is printed."""
    if options.csv is not None:
        target = options.target
        return [tables.from_csv(options.csv, options.domain, target, tuple(options.ordered))]
    names = options.tables or [
        name for name, one in tables.BENCHMARKS.items() if one.quick or not options.quick
    ]
    if unknown := [name for name in names if name not in tables.BENCHMARKS]:
        parse.error(f"no table {unknown[0]!r}; there are {', '.join(tables.BENCHMARKS)}")
    out = []
    for name in names:
        one = tables.BENCHMARKS[name]
        reason = one.missing()
        if reason and not one.copy.is_file():
            print(f"{name}: left out, {reason}", file=sys.stderr)
        else:
            out.append(one)
    return out


def entrants(options) -> list[contestants.Contestant]:
    """Who takes part: those named, or the usual ones with every peer that is installed."""
    given = dict(text.split("=", 1) for text in options.peer)
    commands = {name: tuple(shlex.split(command)) for name, command in given.items()}
    names = options.mechanisms
    if names is None:
        there = peers.installed()
        others = [name for name in peers.NAMES if name.split()[0] in there]
        names = [*contestants.USUAL, *others]
    names = [*names, *(name for name in commands if name not in names)]
    out = []
    for name in names:
        one = contestants.named(name, commands)
        if one.kind == "peer" and not one.version:
            print(
                f"{name}: left out, not installed (--install makes its environment)",
                file=sys.stderr,
            )
        else:
            out.append(one)
    return out


def requests(options, chosen: list[tables.Benchmark], who: list[contestants.Contestant]):
    """Every run of a job. Peers, which take long, come last; of each, the first seed comes first
    everywhere, so that a job that is cut short has compared everybody."""
    epsilons = options.epsilon or ((1.0,) if options.quick else EPSILONS)
    count = options.seeds or (2 if options.quick else 5)
    limit = options.limit or (QUICK_LIMIT if options.quick else 600.0)
    out = []
    for seed in range(options.first_seed, options.first_seed + count):
        for epsilon in epsilons:
            for one in who:
                if not one.private and epsilon != epsilons[0]:
                    continue
                if one.name == "split" and seed != options.first_seed:
                    continue
                given = epsilon if one.private else None
                models = not options.no_models
                quality = not options.no_quality
                out += [
                    runs.Request(table.name, one, given, seed, limit, models, quality)
                    for table in chosen
                ]
    return sorted(out, key=lambda request: request.contestant.kind == "peer")


def wanted(request: runs.Request, stored: dict | None) -> bool:
    """Whether a run is still to be made: it is not stored, or it failed with less time."""
    if stored is None:
        return True
    return "failed" in stored and stored.get("limit", 0.0) < request.limit


def run(options, kept: store.Store, parse: argparse.ArgumentParser) -> None:
    """Makes the tables, runs what is not stored, and stores each result as it comes."""
    start = time.monotonic()
    here = chosen(options, parse)
    files = {one.name: one.copy for one in here}
    digests = {one.name: store.digest(tables.prepare(one)) for one in here}
    known = {} if options.fresh else kept.known()
    asked = []
    for request in requests(options, here, entrants(options)):
        name = store.identity(runs.described(request) | {"digest": digests[request.table]})
        if wanted(request, known.get(name)):
            asked.append(request)
    cores = options.cores or len(os.sched_getaffinity(0))
    minutes = options.minutes or (QUICK_MINUTES if options.quick else float("inf"))
    print(f"{len(asked)} runs, {cores} at once; stored in {kept.folder}", file=sys.stderr)
    show = runs.Progress(len(asked))

    def done(request: runs.Request, record: dict) -> None:
        about = runs.described(request) | {"digest": digests[request.table]}
        kept.add(about | record | {"limit": request.limit})
        show(request, record)

    last = start + 60 * minutes
    left = runs.run_all(asked, files, cores, last, last + 60 * GRACE_MINUTES, done)
    if left:
        print(f"{left} runs are left; the same command goes on", file=sys.stderr)


if __name__ == "__main__":
    main()
