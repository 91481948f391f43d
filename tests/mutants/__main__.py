"""Small faults, one at a time, against the tests that concern the file they are in.

    python -m tests.mutants [--seed 1] [--count 100] [--skip 0] [--only PATTERN] [--work FOLDER]
                            [--minutes M] [--stage-seconds 420] [--list]

Draws `--count` mutants by the seed: 60 of 100 in privacy code and the way of the rows, 25 in model and
mechanisms, 15 in C (`tests.mutants.places`), each site with the same chance. Every mutant is applied to a
copy of the tree, its extension built if it is in C, and its tests are run, quickest first, until one fails;
those tests are run without any change, too, once. Prints a table and every survivor; those of
equivalent.toml, which change nothing that a caller could see, are counted apart. Exit code 1 if less than 95
% of the others are caught.

`--skip K`: leave out the first K of the seed's mutants (to go on where another call ended); `--only`: files
by name, e.g. 'fastdp/privacy/*'; `--work`: a folder to keep the copy in from call to call; `--minutes`: begin
no further mutant after so long; `--stage-seconds`: tests of a mutant that take longer hang (more on a busy
machine); `--list`: draw only.
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
import tomllib
from collections import Counter
from functools import cache
from pathlib import Path

from . import places
from .sites import Site, c_sites, python_sites
from .trial import STAGE_SECONDS, Workshop

WANTED = 0.95
EQUIVALENT = Path(__file__).with_name("equivalent.toml")


@cache
def sites_of(path: str) -> list[Site]:
    text = (places.ROOT / path).read_bytes()
    return (c_sites if path.startswith("csrc/") else python_sites)(path, text)


def draw(seed: int, count: int, only: str = "*") -> list[tuple[str, Site]]:
    """(group, site) of the first `count` mutants of a seed; the same for any larger count."""
    rng = random.Random(seed)
    sites = {
        group: [s for path in places.files(group) if fnmatch.fnmatch(path, only) for s in sites_of(path)]
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


def listed() -> list[dict]:
    """The entries of equivalent.toml."""
    return tomllib.loads(EQUIVALENT.read_text("utf-8")).get("mutant", [])


def equivalent(site: Site) -> str | None:
    """Why a mutant changes nothing that a caller could see; None unless it is one of those listed."""
    text = (places.ROOT / site.path).read_text("utf-8").split("\n")[site.line - 1]
    for entry in listed():
        fits = entry["path"] == site.path and entry["line"] in text
        if fits and entry.get("new", site.new) == site.new and entry.get("old", site.old) == site.old:
            return entry["why"]
    return None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--skip", type=int, default=0)
    parser.add_argument("--only", default="*")
    parser.add_argument("--work", type=Path)
    parser.add_argument("--minutes", type=float, default=float("inf"))
    parser.add_argument("--stage-seconds", type=float, default=STAGE_SECONDS)
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    drawn = draw(options.seed, options.skip + options.count, options.only)[options.skip :]
    if options.list:
        for group, site in drawn:
            print(f"{group:<8} {site}" + (f"  (equivalent: {why})" if (why := equivalent(site)) else ""))
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    end = time.monotonic() + 60 * options.minutes
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.work or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        workshop = Workshop(folder, options.seed, options.stage_seconds)
        counts: Counter[tuple[str, str]] = Counter()
        survivors = []
        for number, (group, site) in enumerate(drawn, options.skip + 1):
            if time.monotonic() > end:
                print(f"time is up; go on with --skip {number - 1}")
                break
            why = equivalent(site)
            if why is not None:
                verdict, by, seconds = "equivalent", why, 0.0
            else:
                outcome = workshop.try_out(site)
                if outcome.verdict == "caught":
                    workshop.unchanged(outcome.stage)
                verdict, by, seconds = outcome.verdict, outcome.by, outcome.seconds
            counts[group, verdict] += 1
            if verdict == "survived":
                survivors.append(site)
            print(f"{number:>4} {verdict:<10} {seconds:>5.0f} s  {site}  {by}", flush=True)
            if options.work:
                with (folder / f"seed-{options.seed}.jsonl").open("a") as log:
                    log.write(
                        json.dumps(
                            {
                                "number": number,
                                "group": group,
                                "verdict": verdict,
                                "site": str(site),
                                "by": by,
                            }
                        )
                        + "\n"
                    )
    return report(counts, survivors)


def report(counts: Counter[tuple[str, str]], survivors: list[Site]) -> int:
    verdicts = ("caught", "survived", "equivalent", "stillborn")
    print(f"\n{'':<10}" + "".join(f"{v:>12}" for v in verdicts))
    for group in (*places.GROUPS, "all"):
        line = [
            sum(n for (g, v), n in counts.items() if v == verdict and group in (g, "all"))
            for verdict in verdicts
        ]
        print(f"{group:<10}" + "".join(f"{n:>12}" for n in line))
    caught, survived = line[:2]
    share = caught / max(1, caught + survived)
    print(f"\ncaught {share:.1%} of {caught + survived} mutants that may change behaviour")
    for site in survivors:
        print(f"survived: {site}")
    return 0 if share >= WANTED else 1


if __name__ == "__main__":
    sys.exit(main())
