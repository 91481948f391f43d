"""`python -m tests.audit.replay [WORLD ...] [--pairs N] [--seed K]`: figures of the replay audit."""

import argparse
import sys
import time

from .audit import audit_world
from .compare import Figures
from .worlds import WORLDS


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.audit.replay", description=__doc__)
    parser.add_argument("world", nargs="*", help=f"of {', '.join(WORLDS)}; all if none is named")
    parser.add_argument("--pairs", type=int, help="of each world; as many as in `make test`")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    figures, problems = Figures(), []
    for name in asked.world or WORLDS:
        begun, own = time.process_time(), Figures()
        found, _ = audit_world(name, asked.pairs or WORLDS[name].pairs, asked.seed, own)
        seconds = time.process_time() - begun
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
