"""Means, standard errors, and who beats the default by more than chance, from stored runs."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from scipy import special

from fastdp.mechanisms.registry import DEFAULT

from .measures import MEASURES

CONFIDENCE = 0.95
RIVALS = ("peer", "plug-in", "fastdp", "floor")
"""Kinds of contestants that the default is compared with. Ceilings are not private."""


@dataclass(frozen=True)
class Cell:
    """Values of one measure over seeds: one table, mechanism and epsilon (None: any)."""

    table: str
    measure: str
    mechanism: str
    kind: str
    epsilon: float | None
    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        return math.fsum(self.values) / len(self.values)

    @property
    def deviation(self) -> float:
        """Standard deviation over seeds; nan with one seed."""
        if len(self.values) < 2:
            return math.nan
        squares = math.fsum((v - self.mean) ** 2 for v in self.values)
        return math.sqrt(squares / (len(self.values) - 1))

    @property
    def error(self) -> float:
        """Standard error of the mean; nan with one seed."""
        return self.deviation / math.sqrt(len(self.values))


@dataclass(frozen=True)
class Loss:
    """A rival that is better than the default beyond chance. by: the difference of means, positive.
    half: half-width of its 95 % interval. seeds: of the default and of the rival."""

    ours: Cell
    rival: Cell
    epsilon: float
    by: float
    half: float

    @property
    def seeds(self) -> tuple[int, int]:
        return len(self.ours.values), len(self.rival.values)


def of_last_version(records: Iterable[dict]) -> list[dict]:
    """The records, by date, of the version that ran last: for each table, mechanism and epsilon.
    Seeds of several versions are never averaged."""
    dated = sorted(records, key=lambda record: record.get("date", ""))
    last = {_case(record): record["version"] for record in dated}
    return [record for record in dated if record["version"] == last[_case(record)]]


def latest(records: Iterable[dict]) -> list[dict]:
    """One record for each table, mechanism, epsilon and seed: of several machines the last by date.
    Errors do not depend on the machine, so measures that the last run was not asked for are those
    of the run before, if the table was the same."""
    out: dict[tuple, dict] = {}
    for record in of_last_version(records):
        key = (*_case(record), record["seed"])
        before = out.get(key, record)
        same = before.get("digest") == record.get("digest")
        measures = before["measures"] | record["measures"] if same else record["measures"]
        out[key] = record | {"measures": measures}
    return list(out.values())


def _case(record: dict) -> tuple:
    return record["table"], record["mechanism"], record["epsilon"]


def cells(records: Iterable[dict]) -> list[Cell]:
    """Every measure of every table, mechanism and epsilon. Seconds and memory are of one machine a
    table."""
    found: dict[tuple, dict[int, float]] = defaultdict(dict)
    kinds: dict[str, str] = {}
    records = of_last_version(record for record in records if "failed" not in record)
    for record in latest(records):
        kinds[record["mechanism"]] = record["kind"]
        for measure, value in record["measures"].items():
            key = (record["table"], measure, record["mechanism"], record["epsilon"])
            found[key][record["seed"]] = value
    for record in on_one_machine(records):
        for measure in ("processor", "peak_mb"):
            key = (record["table"], measure, record["mechanism"], record["epsilon"])
            found[key][record["seed"]] = record[measure]
    return [
        Cell(table, measure, name, kinds[name], epsilon, tuple(values.values()))
        for (table, measure, name, epsilon), values in found.items()
        if measure in MEASURES
    ]


def on_one_machine(records: Iterable[dict]) -> list[dict]:
    """Of every table the runs of one machine: that where the default ran at the most epsilons, then
    that with the most peers, then mechanisms, then runs."""
    by_table: dict[str, dict[str, list[dict]]] = defaultdict(lambda: defaultdict(list))
    for record in records:
        by_table[record["table"]][record["machine"]].append(record)
    out: list[dict] = []
    for machines in by_table.values():
        out += max(machines.values(), key=_worth)
    return out


def _worth(runs: list[dict]) -> tuple[int, int, int, int]:
    names = {run["mechanism"] for run in runs}
    peers = {run["mechanism"] for run in runs if run["kind"] == "peer"}
    epsilons = {run["epsilon"] for run in runs if run["mechanism"] == DEFAULT}
    return len(epsilons), len(peers), len(names), len(runs)


def elsewhere(records: Iterable[dict]) -> list[dict]:
    """Runs of mechanisms that did not run on the machine of their table (`on_one_machine`). Their
    seconds are shown with a mark, and not compared."""
    records = list(records)
    there = {(r["table"], r["mechanism"]) for r in on_one_machine(records)}
    return [r for r in records if (r["table"], r["mechanism"]) not in there]


def spread(ours: Cell, rival: Cell) -> tuple[float, float]:
    """Standard error of the difference of two means, and its degrees of freedom (Welch). With one
    seed on one side, that of a single further value beside the other side's seeds; nan with one on
    both."""
    n = len(ours.values)
    m = len(rival.values)
    if n < 2 and m < 2:
        return math.nan, math.nan
    if min(n, m) < 2:
        many = ours if n > 1 else rival
        k = len(many.values)
        return many.deviation * math.sqrt(1 + 1 / k), k - 1
    a, b = ours.error**2, rival.error**2
    if a + b == 0:
        return 0.0, n + m - 2
    return math.sqrt(a + b), (a + b) ** 2 / (a**2 / (n - 1) + b**2 / (m - 1))


def half_width(ours: Cell, rival: Cell) -> float:
    """Half-width of the 95 % interval of the difference of two means; nan with one seed on both
    sides."""
    error, freedom = spread(ours, rival)
    return float(special.stdtrit(freedom, (1 + CONFIDENCE) / 2)) * error


def by_chance(one: Loss) -> float:
    """How often a rival that is no better would seem so much better (one-sided p of Welch); nan with
    one seed on both sides."""
    error, freedom = spread(one.ours, one.rival)
    if error == 0:
        return 0.0 if one.by > 0 else 1.0
    return float(special.stdtr(freedom, -one.by / error))


def together(compared: Iterable[Loss], rate: float = 1 - CONFIDENCE) -> float:
    """The largest `by_chance` that counts when all comparisons are judged together, so that of the
    losses that count no more than `rate` are chance on average (Benjamini and Hochberg)."""
    found = np.sort([by_chance(one) for one in compared])
    found = found[~np.isnan(found)]
    allowed = rate * np.arange(1, len(found) + 1) / len(found)
    return float(found[found <= allowed].max(initial=0.0))


def gap(ours: Cell, rival: Cell) -> float:
    """By how much the rival is better; negative where the default is."""
    sign = 1.0 if MEASURES[ours.measure].higher else -1.0
    return sign * (rival.mean - ours.mean)


def comparisons(found: Iterable[Cell], default: str = DEFAULT) -> list[Loss]:
    """The default beside every rival, for each table, measure and epsilon: `by` is positive where
    the rival is better. Seconds and memory count beside other libraries: floors compute nothing,
    and fastdp's own simpler mechanisms are always faster."""
    found = list(found)
    rivals: dict[tuple, list[Cell]] = defaultdict(list)
    for cell in found:
        if cell.mechanism != default and cell.kind in RIVALS:
            rivals[cell.table, cell.measure].append(cell)
    out = []
    for ours in found:
        if ours.mechanism != default or ours.epsilon is None:
            continue
        for rival in rivals[ours.table, ours.measure]:
            if rival.epsilon not in (None, ours.epsilon):
                continue
            if rival.kind in ("floor", "fastdp") and not MEASURES[ours.measure].of_rows:
                continue
            by = gap(ours, rival)
            out.append(Loss(ours, rival, ours.epsilon, by, half_width(ours, rival)))
    return out


def losses(compared: Iterable[Loss]) -> list[Loss]:
    """Where the rival is better by more than the interval, or by anything if one seed is all there
    is on both sides."""
    return [one for one in compared if one.by > 0 and not one.by <= one.half]
