"""What leaving something out does, with standard errors, from runs with the same seeds and commit.

The effect on a measure is the logarithm of its error without the rule, less that with it: +0.02 says
that leaving it out costs 2 %. A *cell* is a table at one epsilon; its effect is the mean over seeds.
The effect of a change is the mean over cells, those included in which it does nothing. Its standard
error is by the spread between cells, which has the noise of the seeds and the difference of tables in
it. Where runs are equal to the last digit in every cell, the change acts nowhere.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from .store import AS_IT_IS

LEAST = 1e-4
"""Added to errors before their ratio is taken: below it nobody sees a difference."""
BEYOND = 2.0
"""Standard errors beyond which an effect counts."""

Cell = tuple[str, float]


@dataclass(frozen=True)
class Effect:
    """Of one change on one measure: the mean over cells, its standard error, and the effect on each
    cell in which it acts."""

    measure: str
    mean: float
    error: float
    cells: Mapping[Cell, float]

    @property
    def z(self) -> float:
        return self.mean / self.error if self.error > 0 else 0.0


@dataclass(frozen=True)
class Verdict:
    """Of one change: its effects by measure, and in how many of how many cells it acts."""

    name: str
    effects: Sequence[Effect]
    acts: int
    looked: int
    seeds: int

    @property
    def worst(self) -> Effect | None:
        """The measure that leaving it out harms most surely."""
        return max(self.effects, key=lambda e: e.z, default=None)

    @property
    def best(self) -> Effect | None:
        """The measure that leaving it out helps most surely."""
        return min(self.effects, key=lambda e: e.z, default=None)

    @property
    def harms(self) -> bool:
        """Whether a measure is worse without it, beyond two standard errors."""
        return self.worst is not None and self.worst.z > BEYOND

    @property
    def helps(self) -> bool:
        """Whether a measure is better without it, beyond two standard errors."""
        return self.best is not None and self.best.z < -BEYOND

    @property
    def word(self) -> str:
        if not self.acts:
            return "acts nowhere"
        if self.harms and self.helps:
            return "mixed"
        if self.harms:
            return "earns its place"
        return "better without" if self.helps else "not shown"


def comparable(records: Iterable[dict]) -> dict[str, list[dict]]:
    """By change, its runs at every commit and those as it is of the same commits."""
    by_commit: dict[str, list[dict]] = defaultdict(list)
    for record in records:
        by_commit[record["commit"]].append(record)
    out: dict[str, list[dict]] = defaultdict(list)
    for found in by_commit.values():
        plain = [r for r in found if r["without"] == AS_IT_IS]
        for name in dict.fromkeys(r["without"] for r in found):
            if name != AS_IT_IS:
                out[name] += [*plain, *(r for r in found if r["without"] == name)]
    return dict(out)


def run_key(record: Mapping) -> tuple:
    """Runs with the same key are of the same commit, and differ in what is left out alone."""
    kept = ("suite", "table", "epsilon", "seed", "commit")
    return tuple(record[name] for name in kept)


def judged(name: str, records: Sequence[dict], tables: Sequence[str] | None = None) -> Verdict:
    """The verdict on one change, on these tables or on all."""
    errors: dict[bool, dict[tuple, dict]] = {False: {}, True: {}}
    for r in records:
        if "errors" in r and (tables is None or r["table"] in tables):
            errors[r["without"] == name][run_key(r)] = r["errors"]
    logs: dict[str, dict[Cell, list[float]]] = defaultdict(lambda: defaultdict(list))
    idle = [r for r in records if r.get("idle") and (tables is None or r["table"] in tables)]
    for r in idle:
        if run_key(r) in errors[False]:
            errors[True][run_key(r)] = errors[False][run_key(r)]
    for key, without in errors[True].items():
        if (with_it := errors[False].get(key)) is None:
            continue
        for measure in without.keys() & with_it.keys():
            ratio = (without[measure] + LEAST) / (with_it[measure] + LEAST)
            logs[measure][key[1], key[2]].append(math.log(ratio))
    effects = [effect(measure, cells) for measure, cells in sorted(logs.items())]
    known: set[Cell] = {cell for cells in logs.values() for cell in cells}
    acts = {c for cells in logs.values() for c, found in cells.items() if np.any(found)}
    seeds = max((len(found) for cells in logs.values() for found in cells.values()), default=0)
    return Verdict(name, effects, len(acts), len(known), seeds)


def effect(measure: str, cells: Mapping[Cell, Sequence[float]]) -> Effect:
    """The mean over all cells, and its standard error by the spread between them."""
    means = np.array([np.mean(found) for found in cells.values()])
    error = float(means.std(ddof=1)) / math.sqrt(means.size) if means.size > 1 else math.inf
    active = {cell: float(np.mean(found)) for cell, found in cells.items() if np.any(found)}
    return Effect(measure, float(means.mean()), error, active)
