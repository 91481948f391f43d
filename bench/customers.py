"""The example of docs/guide/users.md, which compares customers' habits, run several times.

    python -m bench.customers [--runs 5] [--jobs 2]

The page's own program is run, so the table below it is what a reader's run gives: the mean over the
runs, and their standard deviation. Runs differ by their noise.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import re
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np

import fastdp

from . import machine

PAGE = Path(__file__).resolve().parents[1] / "docs" / "guide" / "users.md"
PROGRAM = re.compile(r"```python\n(import numpy as np\n(?:(?!```).)*def behaviour.*?)```", re.S)


def program() -> str:
    """The page's program that leaves its figures in `found`."""
    found = PROGRAM.findall(PAGE.read_text("utf-8"))
    if len(found) != 1:
        raise ValueError(f"{PAGE.name} has {len(found)} programs with `behaviour`")
    return found[0]


def one(_: int) -> dict[str, dict[str, float]]:
    """The figures of one run: by way, by habit."""
    names: dict = {"fastdp": fastdp}
    with contextlib.redirect_stdout(io.StringIO()):
        exec(compile(program(), PAGE.name, "exec"), names)
    return {
        way: {habit: float(x) for habit, x in lines.items()}
        for way, lines in names["found"].items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--no-save", action="store_true", help="keep nothing in bench/results")
    options = parser.parse_args()
    with ProcessPoolExecutor(options.jobs) as pool:
        runs = list(pool.map(one, range(options.runs)))
    found = {
        way: {habit: [run[way][habit] for run in runs] for habit in lines}
        for way, lines in runs[0].items()
    }
    for way, lines in found.items():
        for habit, values in lines.items():
            print(f"{way:10} {habit:34} {np.mean(values):.3f} ± {np.std(values):.3f}")
    if not options.no_save:
        machine.keep("customers", {"runs": options.runs, "found": found})


if __name__ == "__main__":
    main()
