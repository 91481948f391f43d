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

AS_IT_IS = ""
"""The name of the package without any change."""
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


@dataclass(frozen=True)
class Compared:
    """A change at one commit on one table at one epsilon: the mean over `seeds` of its effect on each
    measure."""

    suite: str
    without: str
    commit: str
    table: str
    epsilon: float
    seeds: tuple[int, ...]
    effects: Mapping[str, float]

    @property
    def cell(self) -> Cell:
        return self.table, self.epsilon


def compared(records: Iterable[dict]) -> list[Compared]:
    """Runs of changes against those as it is with the same seed and commit."""
    plain = {}
    changed: dict[tuple, list[dict]] = defaultdict(list)
    for r in records:
        if r["without"] == AS_IT_IS and "errors" in r:
            plain[run_key(r)] = r["errors"]
        elif r["without"] != AS_IT_IS and ("errors" in r or r.get("idle")):
            where = (r["suite"], r["without"], r["commit"], r["table"], r["epsilon"])
            changed[where].append(r)
    out = []
    for where, runs in changed.items():
        logs: dict[str, list[float]] = defaultdict(list)
        seeds = []
        for r in runs:
            if (with_it := plain.get(run_key(r))) is None:
                continue
            without = r.get("errors", with_it)
            seeds.append(r["seed"])
            for measure in without.keys() & with_it.keys():
                ratio = (without[measure] + LEAST) / (with_it[measure] + LEAST)
                logs[measure].append(math.log(ratio))
        if logs:
            effects = {m: float(f"{np.mean(found):.4g}") for m, found in sorted(logs.items())}
            out.append(Compared(*where, tuple(sorted(seeds)), effects))
    return out


def run_key(record: Mapping) -> tuple:
    """Runs with the same key are of the same commit, and differ in what is left out alone."""
    kept = ("suite", "table", "epsilon", "seed", "commit")
    return tuple(record[name] for name in kept)


def by_change(found: Iterable[Compared]) -> dict[str, list[Compared]]:
    """By what is left out, its cells at every commit."""
    out: dict[str, list[Compared]] = defaultdict(list)
    for one in found:
        out[one.without].append(one)
    return dict(out)


def judged(name: str, found: Sequence[Compared], tables: Sequence[str] | None = None) -> Verdict:
    """The verdict on one change, on these tables or on all. All seeds of a cell count alike, at
    whatever commit."""
    mine = [c for c in found if c.without == name and (tables is None or c.table in tables)]
    logs: dict[str, dict[Cell, list[float]]] = defaultdict(lambda: defaultdict(list))
    seeds: dict[Cell, int] = defaultdict(int)
    for one in mine:
        seeds[one.cell] += len(one.seeds)
        for measure, value in one.effects.items():
            logs[measure][one.cell] += len(one.seeds) * [value]
    effects = [effect(measure, cells) for measure, cells in sorted(logs.items())]
    acts = {c for cells in logs.values() for c, values in cells.items() if np.any(values)}
    return Verdict(name, effects, len(acts), len(seeds), max(seeds.values(), default=0))


def effect(measure: str, cells: Mapping[Cell, Sequence[float]]) -> Effect:
    """The mean over all cells, and its standard error by the spread between them."""
    means = np.array([np.mean(found) for found in cells.values()])
    error = float(means.std(ddof=1)) / math.sqrt(means.size) if means.size > 1 else math.inf
    active = {cell: float(np.mean(found)) for cell, found in cells.items() if np.any(found)}
    return Effect(measure, float(means.mean()), error, active)
