"""Small faults, one at a time, against the tests that reach them.

    python -m tools.mutants [--seed 1] [--count 100] [--skip 0] [--only PATTERN] [--work FOLDER] [--jobs 1]
                            [--minutes M] [--test-seconds 300] [--hang-seconds 60] [--list]

Draws `--count` mutants by the seed: 60 of 100 in privacy code and the way of the rows, 25 in model
and mechanisms, 15 in C (`tools.mutants.places`), each site with the same chance. The quick tests
are run once without any change, and which of them reaches which line is recorded
(`tools.mutants.reach`). Every mutant is applied to a copy of the tree, its extension built if it is
in C, and the tests that reach it are run, those of its file's own name first, then the quickest
first, until one fails. In the end the tests that caught something are run without any change once
more, and where one fails by itself, the mutants that it seemed to catch are tried again without it.
Prints a table and every survivor. Survivors that change nothing a caller could see (a hint to the
cache, a margin of rounding) are counted, too.

`--skip K`: leave out the first K of the seed's mutants (to go on where another call ended);
`--only`: files by name, e.g. 'fastdp/privacy/*'; `--work`: a folder to keep the copy and the record
in from call to call; `--jobs`: mutants that are tried at once; `--minutes`: begin no further mutant
after so long; `--test-seconds`: recorded seconds of the tests that a mutant is tried on at most;
`--hang-seconds`: a test that takes that much longer than six times as long as recorded hangs;
`--list`: draw only.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from queue import SimpleQueue

from . import places
from .reach import Reach
from .sites import Site, c_sites, python_sites
from .trial import Limits, Workshop


@cache
def sites_of(path: str) -> list[Site]:
    text = (places.ROOT / path).read_bytes()
    return (c_sites if path.startswith("csrc/") else python_sites)(path, text)


def draw(seed: int, count: int, only: str = "*") -> list[tuple[str, Site]]:
    """(group, site) of the first `count` mutants of a seed; the same for any larger count."""
    rng = random.Random(seed)
    sites = {
        group: [
            s for path in places.files(group) if fnmatch.fnmatch(path, only) for s in sites_of(path)
        ]
        for group in places.GROUPS
    }
    weights = {group: places.PARTS[group] for group in sites if sites[group]}
    if not weights:
        raise SystemExit(f"no file to mutate is named like {only!r}")
    out: list[tuple[str, Site]] = []
    most = sum(map(len, sites.values()))
    while len(out) < min(count, most):
        group = rng.choices(list(weights), list(weights.values()))[0]
        pair = group, rng.choice(sites[group])
        if pair not in out:
            out.append(pair)
    return out


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--skip", type=int, default=0)
    parser.add_argument("--only", default="*")
    parser.add_argument("--work", type=Path)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=float("inf"))
    parser.add_argument("--test-seconds", type=float, default=Limits.tests)
    parser.add_argument("--hang-seconds", type=float, default=Limits.hang)
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    drawn = draw(options.seed, options.skip + options.count, options.only)[options.skip :]
    if options.list:
        for group, site in drawn:
            print(f"{group:<8} {site}")
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with tempfile.TemporaryDirectory() as temporary:
        folder = (options.work or Path(temporary)).resolve()
        limits = Limits(options.test_seconds, options.hang_seconds)
        workshops = [Workshop(folder / str(n), limits) for n in range(options.jobs)]
        reach = Reach(folder, workshops[0].tree, options.jobs)
        if reach.failing:
            print(
                f"{len(reach.failing)} tests fail or are skipped without any change and are"
                " left out"
            )
        end = time.monotonic() + 60 * options.minutes
        trials = run(list(enumerate(drawn, options.skip + 1)), workshops, reach, end)
        while by_themselves := set(
            workshops[0].failing(sorted({t.by for t in trials if t.by in reach.tests}))
        ):
            for name in sorted(by_themselves):
                print(f"fails without any change, so it catches nothing: {name}")
                del reach.tests[name]
            again = [(t.number, (t.group, t.site)) for t in trials if t.by in by_themselves]
            trials = [t for t in trials if t.by not in by_themselves] + run(
                again, workshops, reach, end
            )
        trials.sort(key=lambda t: t.number)
        if options.work:
            log = folder / f"seed-{options.seed}.jsonl"
            with log.open("a") as file:
                file.writelines(
                    json.dumps(asdict(t) | {"site": str(t.site)}) + "\n" for t in trials
                )
    if len(trials) < len(drawn):
        print(f"time is up; go on with --skip {options.skip + len(trials)}")
    report(trials)
    return 0


@dataclass(frozen=True)
class Trial:
    number: int
    group: str
    site: Site
    verdict: str
    by: str


def run(
    drawn: list[tuple[int, tuple[str, Site]]], workshops: list[Workshop], reach: Reach, end: float
) -> list[Trial]:
    """Tries numbered mutants in order, as many at once as there are workshops, until the time
    `end`."""
    free: SimpleQueue[Workshop] = SimpleQueue()
    for workshop in workshops:
        free.put(workshop)

    def attempt(number: int, group: str, site: Site) -> Trial | None:
        if time.monotonic() > end:
            return None
        workshop = free.get()
        try:
            outcome = workshop.try_out(site, reach)
        finally:
            free.put(workshop)
        print(
            f"{number:>4} {outcome.verdict:<10} {outcome.seconds:>5.0f} s  {site}  {outcome.by}",
            flush=True,
        )
        return Trial(number, group, site, outcome.verdict, outcome.by)

    with ThreadPoolExecutor(len(workshops)) as pool:
        tasks = [pool.submit(attempt, n, group, site) for n, (group, site) in drawn]
        try:
            return [trial for task in tasks if (trial := task.result()) is not None]
        except BaseException:  # Ctrl-C, SIGTERM
            pool.shutdown(wait=False, cancel_futures=True)
            for workshop in workshops:
                workshop.stop()
            raise


def report(trials: list[Trial]) -> None:
    counts = Counter((trial.group, trial.verdict) for trial in trials)
    verdicts = ("caught", "survived", "stillborn")
    print(f"\n{'':<10}" + "".join(f"{v:>12}" for v in verdicts))
    for group in (*places.GROUPS, "all"):
        line = [
            sum(n for (g, v), n in counts.items() if v == verdict and group in (g, "all"))
            for verdict in verdicts
        ]
        print(f"{group:<10}" + "".join(f"{n:>12}" for n in line))
    apart = [t for t in trials if t.site.kind in ("declared", "text")]
    rest = [t for t in trials if t not in apart]
    for some, what in (
        (trials, ""),
        (rest, f" without the {len(apart)} of a declared number or a text"),
    ):
        tried = [t.verdict for t in some if t.verdict != "stillborn"]
        print(f"caught {tried.count('caught') / max(1, len(tried)):.1%} of {len(tried)}{what}")
    for trial in trials:
        if trial.verdict == "survived":
            print(f"survived: {trial.site}")


if __name__ == "__main__":
    sys.exit(main())
