"""Runs, and what is kept of them.

A job writes a line of JSON for every run (`Store`), which stays in bench/out. The repository has what
the pages need (`KEPT`): a line for each change at each commit, with the mean effect on every measure by
table and epsilon.
"""

from __future__ import annotations

import json
import sys
import time
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from .. import machine
from .judge import Compared

STORE = Path(__file__).resolve().parents[1] / "out" / "tune.jsonl"
KEPT = machine.RESULTS / "tune.jsonl"


def kept(path: Path = KEPT) -> list[Compared]:
    """All that is kept of earlier runs."""
    out = []
    for line in path.read_text("utf-8").splitlines():
        one = json.loads(line)
        for text, (seeds, effects) in one["cells"].items():
            table, epsilon = text.rsplit(" ", 1)
            known = {m: float(v) for m, v in zip(one["measures"], effects) if v is not None}
            where = (one["suite"], one["without"], one["commit"], table, float(epsilon))
            out.append(Compared(*where, tuple(seeds), known))
    return out


def keep(found: Iterable[Compared], path: Path = KEPT, anew: bool = False) -> None:
    """Adds comparisons to what is kept. One of the same change, commit and cell is replaced if it has
    fewer seeds. `anew`: of a change that is compared here, nothing of other commits stays."""
    found = list(found)
    commits = {(one.suite, one.without): one.commit for one in found} if anew else {}
    known = {
        where(c): c
        for c in (kept(path) if path.is_file() else [])
        if commits.get((c.suite, c.without), c.commit) == c.commit
    }
    for one in found:
        if where(one) not in known or len(known[where(one)].seeds) <= len(one.seeds):
            known[where(one)] = one
    lines: dict[tuple, list[Compared]] = defaultdict(list)
    for one in known.values():
        lines[one.commit, one.suite, one.without].append(one)
    with path.open("w", encoding="utf-8") as sink:
        for (commit, suite, without), cells in lines.items():
            measures = sorted({measure for c in cells for measure in c.effects})
            about = {"commit": commit, "suite": suite, "without": without, "measures": measures}
            shown = {}
            for c in cells:
                values = [c.effects.get(m) for m in measures]
                shown[f"{c.table} {c.epsilon:g}"] = [c.seeds, [0 if v == 0 else v for v in values]]
            sink.write(json.dumps(about | {"cells": shown}, separators=(",", ":")) + "\n")


def where(one: Compared) -> tuple:
    return one.commit, one.suite, one.without, one.table, one.epsilon


class Store:
    """Records of runs by commit, one file."""

    def __init__(self, path: Path = STORE):
        self.path = path

    def records(self) -> list[dict]:
        if not self.path.is_file():
            return []
        lines = self.path.read_text("utf-8").splitlines()
        return [json.loads(line) for line in lines if line.endswith("}")]

    def add(self, records: Iterable[dict], total: int) -> int:
        """Appends records as they come; how many there were. Progress goes to standard error."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        started = time.monotonic()
        count = 0
        from ..scoreboard.store import commit

        about = {"commit": commit(), "cores": machine.describe()["cores"]}
        with self.path.open("a", encoding="utf-8") as sink:
            for record in records:
                sink.write(json.dumps(about | record) + "\n")
                sink.flush()
                count += 1
                spent = time.monotonic() - started
                left = spent / count * (total - count)
                what = record["without"] or "as it is"
                result = record.get("failed") or f"{record.get('seconds', 0.0):.1f} s"
                print(
                    f"[{count}/{total}] {record['table']} {record['epsilon']:g} seed"
                    f" {record['seed']} without {what}: {result} (about {left:.0f} s left)",
                    file=sys.stderr,
                    flush=True,
                )
        return count
