"""All property tests of the suite, again and again with fresh seeds, until the time is up.

    python -m tools.fuzz [--minutes 5] [--seed 1] [--only tests/audit tests/core ...]

Readers of files (schema, recipe, model, statement, ledger, CSV, TSV, JSON lines, IPC), kernels
against their slow twins, laws of privacy code. Prints a line for every failure with the command
that repeats it; exit code 1 if anything failed. `make sanitize` runs the kernels' tests under
sanitizers.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]


def files_with_properties(under: list[str]) -> list[Path]:
    """Test files that use hypothesis, whatever draws most first."""
    places = [ROOT / name for name in under]
    found = ([p] if p.is_file() else sorted(p.rglob("test_*.py")) for p in places)
    listed = [path for paths in found for path in paths]
    uses = {p: p.read_text("utf-8").count("@given") for p in listed}
    return sorted((p for p, n in uses.items() if n), key=lambda p: -uses[p])


def command(path: Path, seed: int) -> list[str]:
    name = str(path.relative_to(ROOT))
    return [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-x",
        "-m",
        "not slow",
        f"--hypothesis-seed={seed}",
        name,
    ]


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools.fuzz",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", nargs="+", default=["tests"])
    options = parser.parse_args()
    files = files_with_properties(options.only)
    end = time.monotonic() + 60 * options.minutes
    if not files:
        parser.error(
            f"no property tests under {', '.join(options.only)}; name files or folders of tests"
        )
    done = 0
    failed = []
    seed = options.seed
    fresh = {**os.environ, "FASTDP_FUZZ": "1"}  # examples that `make test` does not draw
    while time.monotonic() < end:
        for path in files:
            if time.monotonic() >= end:
                break
            run = subprocess.run(
                command(path, seed),
                cwd=ROOT,
                env=fresh,
                capture_output=True,
                text=True,
                check=False,
            )
            done += 1
            if run.returncode not in (0, 5):  # 5: every test of the file is a slow one
                line = " ".join(["FASTDP_FUZZ=1 python", *command(path, seed)[1:]])
                failed.append(line)
                reason = re.findall(r"^E .*", run.stdout, re.M)[:1]
                print(f"FAILED {line}\n       {' '.join(reason)}", flush=True)
        seed += 1
    rounds = seed - options.seed
    print(f"{done} runs of {len(files)} files, {rounds} whole rounds, {len(failed)} failures")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
