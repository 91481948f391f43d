"""Long trials of whole runs; each prints what it did, and the exit code is 1 if anything broke a
promise.

    python -m tools.soak [--seed 1] [--kills 200] [--runs 100] [--at-once 8]
                         [--only kills memory parallel faults]

kills: a run of the command line is killed (SIGKILL) at a random moment, again and again until it
ends, with `--resume`; then the folder verifies against its ledger, which was charged once, and no
noisy answer was drawn twice. memory: so many runs in one process, resident memory flat within 5 %.
parallel: so many runs at once, in threads and in processes, equal to one after another (test
seeds). faults: a full disk, a folder that cannot be written, no memory, a clock that was set back:
a sentence and an exit code, and the run goes on afterwards.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path

from . import faults, kills, many

TRIALS = ("kills", "memory", "parallel", "faults")


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools.soak",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kills", type=int, default=200, help="kills in all")
    parser.add_argument("--runs", type=int, default=100, help="runs in one process")
    parser.add_argument("--at-once", type=int, default=8)
    parser.add_argument("--only", nargs="+", choices=TRIALS, default=TRIALS)
    options = parser.parse_args()
    rng = random.Random(options.seed)
    problems = []
    for name in options.only:
        start = time.perf_counter()
        with tempfile.TemporaryDirectory(prefix=f"soak-{name}-") as folder:
            place = Path(folder)
            if name == "kills":
                summary, wrong = kills.trial(place, options.kills, rng)
            elif name == "memory":
                summary, wrong = many.memory(options.runs)
            elif name == "parallel":
                summary, wrong = many.parallel(options.at_once)
            else:
                summary, wrong = faults.trial(place)
        print(f"{name:9s} {summary}  ({time.perf_counter() - start:.0f} s)", flush=True)
        for problem in wrong:
            print(f"          PROBLEM {problem}", flush=True)
        problems += wrong
    print("no promise was broken" if not problems else f"{len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
