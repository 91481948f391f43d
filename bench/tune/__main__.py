"""Leave one rule out at a time, and measure what that costs.

    python -m bench.tune --inventory             every numeric constant, its kind and provenance
    python -m bench.tune --without CHEAP trends  these, on all tables that can be made here
    python -m bench.tune --quick                 every ablation on the small tables
    python -m bench.tune --of-class --without GROWTH  on tables of its class (`of_class`)
    python -m bench.tune --set mechanisms.shared.halving.LEVELS=2      another value of a constant
    python -m bench.tune --set division.PARENTS=.4 --bench linked --no-save    what another bench says
    python -m bench.tune --suite public --set mechanisms.shared.prior_screening.LEAST_USED=0.0
    python -m bench.tune --page [FILE ...]       only writes tuning.toml and what the page shows

Runs with and without have the same seeds; three seeds and epsilon 0.1 and 1 unless told otherwise.
They are added to bench/out/tune.jsonl, and their effects to bench/results/tune.jsonl. With --page,
those of files that --store wrote elsewhere are added; with --anew, they replace those of other commits.
"""

from __future__ import annotations

import argparse
import os
import sys
from contextlib import ExitStack
from importlib import import_module
from multiprocessing import set_start_method
from pathlib import Path

from . import inventory, job, page, suites
from .ablations import ABLATIONS, given, switched_off
from .judge import compared
from .of_class import CLASS
from .store import STORE, Store, keep, kept

EPSILONS = {"rows": (0.1, 1.0), "public": (0.1, 1.0), "people": (1.0,), "numbers": (1.0,)}
EPSILONS |= {"adagrid": (1.0,), "linked": (2.0,)}


def parser() -> argparse.ArgumentParser:
    out = argparse.ArgumentParser(
        prog="python -m bench.tune",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    out.add_argument("--inventory", action="store_true", help="only list constants")
    out.add_argument("--without", nargs="+", metavar="NAME", help=", ".join(ABLATIONS))
    out.add_argument("--set", nargs="+", default=[], metavar="PATH=VALUE", help="other values")
    out.add_argument("--bench", help="run this bench without them, with all arguments that follow")
    out.add_argument("--suite", nargs="+", default=list(suites.SUITES), choices=suites.SUITES)
    out.add_argument("--tables", nargs="+", metavar="TABLE")
    out.add_argument("--quick", action="store_true", help="small tables alone")
    out.add_argument("--of-class", action="store_true", help="on tables of each rule's class")
    out.add_argument("--epsilon", nargs="+", type=float)
    out.add_argument("--seeds", type=int, default=3)
    out.add_argument("--first-seed", type=int, default=6000)
    out.add_argument("--cores", type=int, help="runs at once; all cores")
    out.add_argument("--minutes", type=float, default=float("inf"), help="start no run after")
    out.add_argument("--store", type=Path, default=STORE)
    out.add_argument("--page", nargs="*", type=Path, metavar="FILE", help="only write tuning.toml")
    out.add_argument(
        "--anew", action="store_true", help="of these changes, keep no runs of other commits"
    )
    out.add_argument("--no-save", action="store_true", help="print, and write no page")
    return out


def main(arguments: list[str] | None = None) -> None:
    parse = parser()
    given_here = sys.argv[1:] if arguments is None else arguments
    after = given_here.index("--bench") + 2 if "--bench" in given_here else len(given_here)
    options = parse.parse_args(given_here[:after])
    if options.inventory:
        show_inventory()
        return
    store = Store(options.store)
    names = list(ABLATIONS) if options.without is None and not options.set else options.without
    if unknown := [name for name in names or () if name not in ABLATIONS]:
        parse.error(f"no ablation {unknown[0]!r}; there are {', '.join(ABLATIONS)}")
    if options.bench:
        run_bench(options.bench, given_here[after:], [*(names or ()), *options.set])
        return
    if options.page is None:
        wanted = runs(options, names or [])
        cores = options.cores or len(os.sched_getaffinity(0))
        found = job.run_all(wanted, cores, 60 * options.minutes)
        count = store.add(found, len(wanted))
        if count < len(wanted):
            print(f"{len(wanted) - count} runs were not started", file=sys.stderr)
        print("\n".join(page.lines(store.records(), [*(names or ()), *options.set])))
    if not options.no_save and options.store == STORE:
        files = [STORE] if options.page is None else options.page
        runs_kept = (record for path in files for record in Store(path).records())
        keep(compared(runs_kept), anew=options.anew)
        page.write(kept(), inventory.constants())


def run_bench(name: str, arguments: list[str], changes: list[str]) -> None:
    """Another bench with these changes in place, which its processes inherit."""
    set_start_method("fork", force=True)
    with ExitStack() as stack:
        for text in changes:
            stack.enter_context(switched_off(ABLATIONS.get(text) or given(text)))
        bench = import_module(f"bench.{name}")
        sys.argv = [f"bench.{name}", *arguments]
        bench.main()


def runs(options: argparse.Namespace, names: list[str]) -> list[job.Wanted]:
    """Every run of a job, those with the first seed first."""
    out: list[job.Wanted] = []
    for suite in options.suite:
        changes = [name for name in names if ABLATIONS[name].suite == suite]
        changes += [text for text in options.set if given(text).suite == suite]
        if not changes:
            continue
        seeds = range(options.first_seed, options.first_seed + options.seeds)
        for own, tables in together(options, suite, changes):
            here, why = suites.prepared(suite, tables)
            for table, reason in why.items():
                print(f"{table}: left out, {reason}", file=sys.stderr)
            out += job.in_order(suite, here, options.epsilon or EPSILONS[suite], seeds, own)
    return sorted(dict.fromkeys(out), key=lambda one: one.seed)


def together(
    options: argparse.Namespace, suite: str, changes: list[str]
) -> list[tuple[list[str], tuple[str, ...]]]:
    """(changes, the tables they are run on): all on the same tables, or each on those of its class."""
    if options.of_class:
        return [([name], CLASS[name]) for name in changes if name in CLASS]
    chosen = suites.TABLES[suite]
    known = suites.KNOWN.get(suite, chosen)
    if options.quick and suite == "rows":
        chosen = suites.SMALL
    if options.tables:
        chosen = tuple(t for t in options.tables if t in known)
    return [(changes, chosen)]


def show_inventory() -> None:
    found = inventory.constants()
    for one in found:
        print(f"{one.kind:10} {one.path} = {one.value}  {one.provenance}".rstrip())
    for folder, kinds in inventory.counts(found).items():
        print(folder, ", ".join(f"{count} {kind}" for kind, count in kinds.items()))


if __name__ == "__main__":
    main()
