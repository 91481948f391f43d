"""Can one tell from what a run released whether a user of 200 rows was in the data? Every
mechanism.

    python -m tools.membership [--runs 20000] [--pipelines 300] [--epsilon 1 10] [--only NAME ...]
                               [--save FILE] [--seed N]

releases: the best attack (likelihood ratio) on all answers of a session together, `--runs` runs a
side; more where mu is below 2 and all noise is Gaussian, since the runs needed for a given relative
width grow with 1 / mu^2. run, releases and run, rows: `--pipelines` whole runs a side, from the
table to the rows; the attack on the rows learns from a third of them. Each line: errors, what they
show (a lower bound at 99.9 % confidence), the claim. Exit code 1 where a lower bound is above its
claim, or where all noise is Gaussian and less than 95 % of what the answers can show is shown by
the releases.
"""

from __future__ import annotations

import argparse
import datetime
import json
import math
import subprocess
import sys
import time
from pathlib import Path

import fastdp
from bench.machine import describe

from . import attack, world

WANTED = 0.95
ROOT = Path(__file__).parents[2]


def build() -> str:
    """Version and commit, "+" where the tree differs from it."""
    version = fastdp.__version__
    try:
        git = subprocess.run(
            ["git", "describe", "--always", "--dirty=+"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return version
    return f"{version} ({git.stdout.strip()})"


def problem(v: attack.Verdict) -> str:
    """What is wrong with a verdict; "" where all is well."""
    if not v.holds:
        return f"shows {v.lower:.4f}, more than the claim {v.claim:.4f}"
    if v.attack == "releases" and v.lower < WANTED * v.exact:
        return (
            f"shows {v.lower:.4f}, less than {WANTED:.0%} of what the answers can show,"
            f" {v.exact:.4f}"
        )
    return ""


def save(path: Path, lines: list[dict]) -> None:
    """Results so far, with date, build and machine."""
    day = datetime.datetime.now(datetime.UTC).date().isoformat()
    facts = {"date": day, "build": build(), "machine": describe(), "confidence": attack.CONFIDENCE}
    text = json.dumps({**facts, "delta": world.DELTA, "results": lines}, indent=1, allow_nan=False)
    path.write_text(text + "\n", "utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools.membership",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--runs", type=int, default=20_000, help="runs a side on releases; 0: none")
    parser.add_argument("--pipelines", type=int, default=300, help="whole runs a side; 0: none")
    parser.add_argument("--epsilon", type=float, nargs="+", default=[1.0, 10.0])
    parser.add_argument("--only", nargs="+", choices=[c.name for c in world.cases()])
    parser.add_argument("--save", type=Path, help="results as JSON, with date, build and machine")
    parser.add_argument("--seed", type=int, help="fixes the noise; without one it is the system's")
    options = parser.parse_args()
    lines = []
    problems = 0
    head = f"{'':<26}{'epsilon':>8}  {'attack':<14}{'runs a side':>12}{'errors':>9}{'shown':>8}"
    print(head + f"{'possible':>9}{'claim':>8}{'shown/claim':>13}")
    for case in world.cases():
        if options.only and case.name not in options.only:
            continue
        for epsilon in options.epsilon:
            start = time.process_time()
            verdicts = []
            if options.runs:
                verdicts.append(attack.on_releases(case, epsilon, options.runs, options.seed))
            if options.pipelines:
                verdicts += attack.on_pipeline(case, epsilon, options.pipelines, options.seed)
            for v in verdicts:
                possible = "" if math.isnan(v.exact) else f"{v.exact:.4f}"
                text = (
                    f"{case.name:<26}{epsilon:>8g} "
                    f" {v.attack:<14}{v.runs:>12}{v.errors:>9}{v.lower:>8.4f}"
                )
                text += f"{possible:>9}{v.claim:>8.4f}{v.lower / v.claim:>12.1%}" + " eps" * v.pure
                wrong = problem(v)
                print(text + (f"  PROBLEM {wrong}" if wrong else ""), flush=True)
                problems += bool(wrong)
                lines.append({"case": case.name, "epsilon": epsilon, **v.facts()})
            lines[-1]["cpu_seconds"] = round(time.process_time() - start, 1)
            if options.save:
                save(options.save, lines)
    print("no bound was passed" if not problems else f"{problems} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
