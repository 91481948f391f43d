"""What changed since the scoreboard was stored at an earlier commit: errors now and then.

    python -m bench.scoreboard.since 18493e85 d55eb7fe     kept in bench/results/since.json

The store of each commit is read from git (the last one whose runs have that commit alone). A cell
is a table at one epsilon; its effect is the logarithm of the mean error now over the mean error then. The
effect is the mean over cells, with the standard error by the spread between them, as in `bench.tune`.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
from collections import defaultdict
from pathlib import Path

import numpy as np

from .. import machine
from ..markdown import table
from ..tune.judge import BEYOND, LEAST
from .store import KEPT

ROOT = Path(__file__).resolve().parents[2]
MEASURES = {
    "pairs": "pairs",
    "triples": "triples",
    "worst_pair": "worst pair",
    "ranges": "ranges",
    "wasserstein": "Wasserstein",
    "correlation": "correlations",
    "association": "Cramér's V",
}
MECHANISMS = ("cliquetree", "mst")
"""The default, and a published mechanism of the same store."""
Errors = dict[tuple[str, float, str], list[float]]


def errors_of(lines: list[str], mechanism: str) -> tuple[Errors, set[str]]:
    """(errors of a mechanism by table, epsilon and measure; its commits) of a stored file."""
    found: Errors = defaultdict(list)
    commits = set()
    for record in map(json.loads, lines[1:]):
        if record["mechanism"] == mechanism and "failed" not in record:
            commits.add(record["commit"])
            for measure in MEASURES.keys() & record["measures"].keys():
                key = (record["table"], record["epsilon"], measure)
                found[key].append(record["measures"][measure])
    return found, commits


def git(*arguments: str) -> str:
    command = ["git", "-C", str(ROOT), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def stored_at(commit: str, path: Path, mechanism: str) -> Errors:
    """The errors of a mechanism as it was at a commit, from the last store that has them."""
    name = path.relative_to(ROOT).as_posix()
    for version in git("log", "--format=%h", "--", name).split():
        found, commits = errors_of(git("show", f"{version}:{name}").splitlines(), mechanism)
        if commits == {commit}:
            return found
    raise ValueError(f"no store of {path.name} has runs of {commit} alone")


def effects(now: Errors, then: Errors) -> dict[str, dict[str, float]]:
    """By measure: the mean effect over cells, its standard error, and the number of cells."""
    logs: dict[str, list[float]] = defaultdict(list)
    for key in now.keys() & then.keys():
        ratio = (np.mean(now[key]) + LEAST) / (np.mean(then[key]) + LEAST)
        logs[key[2]].append(math.log(ratio))
    return {
        measure: {
            "mean": float(np.mean(found)),
            "error": float(np.std(found, ddof=1) / math.sqrt(len(found))),
            "cells": len(found),
        }
        for measure, found in logs.items()
        if len(found) > 1
    }


def block() -> str:
    """The kept comparisons, for docs/research/principles.md."""
    record = json.loads((machine.RESULTS / "since.json").read_text("utf-8"))
    rows = []
    for line in record["lines"]:
        shown = []
        for measure in MEASURES:
            one = line["effects"].get(measure)
            text = "" if one is None else f"{100 * one['mean']:+.1f} ± {100 * one['error']:.1f}"
            beyond = one is not None and abs(one["mean"]) > BEYOND * one["error"]
            shown.append(f"**{text}**" if beyond else text)
        cells = max(one["cells"] for one in line["effects"].values())
        commits = f"{line['then']} to {line['now']}"
        rows.append([f"`{line['mechanism']}`, {commits}", str(cells), *shown])
    return table(["mechanism, commits", "cells", *MEASURES.values()], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("commits", nargs="+")
    parser.add_argument("--no-save", action="store_true", help="keep nothing in bench/results")
    options = parser.parse_args()
    (path,) = KEPT.glob("*-16-cores.jsonl")
    lines = []
    for mechanism in MECHANISMS:
        now, commits = errors_of(path.read_text("utf-8").splitlines(), mechanism)
        for then in options.commits:
            found = effects(now, stored_at(then, path, mechanism))
            about = {"mechanism": mechanism, "then": then, "now": ", ".join(sorted(commits))}
            lines.append({**about, "effects": found})
    for line in lines:
        print(line["mechanism"], line["then"], "to", line["now"])
        for measure, one in line["effects"].items():
            print(f"  {measure:12} {one['mean']:+.4f} ± {one['error']:.4f} ({one['cells']} cells)")
    if not options.no_save:
        machine.keep("since", {"lines": lines})


if __name__ == "__main__":
    main()
