"""`python -m tests.audit.replay [WORLD ...] [--pairs N] [--seed K] [--seeds M] [--jobs J]`: figures
of the replay audit. `--seed 1 --seeds 25` goes through the pairs of `make test-slow`."""

import argparse
import multiprocessing
import sys
from concurrent.futures import ProcessPoolExecutor

from .audit import timed
from .compare import Figures
from .worlds import WORLDS


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.audit.replay", description=__doc__)
    parser.add_argument("world", nargs="*", help=f"of {', '.join(WORLDS)}; all if none is named")
    parser.add_argument(
        "--pairs", type=int, help="of each world and seed; as many as in `make test`"
    )
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--seeds", type=int, default=1, help="so many seeds one after another")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    asked = parser.parse_args()
    names = asked.world or list(WORLDS)
    seeds = range(asked.seed, asked.seed + asked.seeds)
    figures = Figures()
    problems = []
    fresh = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(asked.jobs, mp_context=fresh) as pool:
        parts = {
            name: [pool.submit(timed, name, asked.pairs, seed) for seed in seeds] for name in names
        }
        for name, asked_for in parts.items():
            own = Figures()
            found = []
            seconds = 0.0
            for one in asked_for:
                texts, of_part, spent = one.result()
                own.add(of_part)
                found += texts
                seconds += spent
            done = f"{own.pairs} pairs, {own.finished} finished, {own.steps} steps, {seconds:.1f} s"
            print(f"{name}: {done}, {len(found)} found", flush=True)
            for text, count in own.errors.items():
                print(f"    {count} ended with: {text[:200]}")
            for text in found[:8]:
                print(f"    {text}")
            problems += found
            figures.add(own)
    print("\n".join(figures.lines()))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
