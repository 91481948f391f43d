"""Numbers with intervals for the page that may be published: shares of columns, rows, measured
pairs."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .._util.lazy import pa, pc
from ..answers.amount_columns import adds_up, amounts, bounded, is_period
from ..answers.answer import answer
from ..answers.clipping import Z95
from ..answers.facts import Facts
from ..answers.losses import kept_of_users, losses
from ..answers.precision import CLEAR, reach
from ..answers.released_precision import released_precision
from ..answers.verdict import NONE, Verdict, judge
from ..errors import UsageError
from ..measurement import Measurement
from ..mechanisms.registry import names_where
from ..tables.table import Table
from .runs import get, promise, statement_of

MOST_CODES = 5000
"""Columns with more codes get no intervals."""
LOOKED_AT = 16
"""Measured pairs, the first ones, among which those to show are chosen."""
PAIRS = 4
"""Measured pairs that are shown."""
PAIR_CELLS = 2000
"""The most cells of a pair that may be shown."""
CELLS = 6
"""Cells of each pair that are shown."""
MOST_TOTALS = 60
"""Columns whose means and totals are looked at."""
PERIODS = 2
"""Columns of time that are shown."""
MOST_PERIODS = 60
"""Values that a column of periods has at most."""
ENDS = ("estimate", "low", "high")


def facts_of(run: Any, schema: Any) -> Facts | None:
    """What answers to questions about a run are made from; None if the run does not hold it."""
    statement = statement_of(run)
    measured = get(run, "measurements") if run is not None else None
    if statement is None or not measured or not isinstance(measured[0], Measurement):
        return None
    own = get(run, "schema") or schema
    return Facts.of(statement, own, measured, get(run, "tables") or {}, get(run, "model"))


class Intervals:
    """95 % intervals of the shares of a column's codes, and of the mean of a column of numbers."""

    def __init__(self, facts: Facts | None):
        self.facts = facts

    def _asked(self, of: str, columns: Sequence[str]) -> dict[str, np.ndarray] | None:
        facts = self.facts
        if facts is None or any(
            facts.schema.modelled.get(c, MOST_CODES) >= MOST_CODES for c in columns
        ):
            return None
        try:
            found = answer(facts, of, tuple(columns))
        except UsageError:  # more cells than an answer may have
            return None
        names = (*ENDS, "noise", "clipping", "model", "bins")
        return {n: found[n].to_numpy(zero_copy_only=False).astype(float) for n in names}

    def bars(self, column: str, bar: np.ndarray, n: int) -> tuple[list, list] | None:
        """(low, high) of the share of each of n bars; `bar` takes a code to its bar. Noise of codes
        in one bar is taken as independent, all else adds up."""
        found = self._asked("share", (column,))
        if found is None or len(found["low"]) != len(bar):
            return None
        total = lambda v: np.bincount(bar, v, n)  # noqa: E731
        noise = np.sqrt(total(found["noise"] ** 2 + found["model"] ** 2))
        half = Z95 * (noise + total(found["clipping"])) + total(found["bins"])
        alone = np.bincount(bar, minlength=n) == 1
        middle = total(found["estimate"])
        low = np.where(alone, total(found["low"]), np.maximum(middle - half, 0.0))
        high = np.where(alone, total(found["high"]), np.minimum(middle + half, 1.0))
        return rounded(low), rounded(high)

    def mean(self, column: str) -> list[float | None] | None:
        """[estimate, low, high] of the mean of a column of numbers; None if bounds cut values."""
        own = None if self.facts is None else self.facts.schema.columns.get(column)
        if own is None or not own.quantity or own.overflow.action == "clamp":
            return None
        found = self._asked(f"mean({column})", ())
        numbers = [] if found is None else rounded(np.array([found[k][0] for k in ENDS]), 9)
        return numbers if numbers and None not in numbers else None


def rounded(values: np.ndarray, digits: int = 5) -> list[float | None]:
    return [float(f"{v:.{digits}g}") if np.isfinite(v) else None for v in values]


class Truth:
    """True numbers for the owner's page: of the true rows in codes, and in values where they are
    there."""

    def __init__(self, table: Table, values: pa.Table | None):
        self.table = table
        self.values = values

    def total(self, of: str, name: str) -> float | None:
        """ "mean" or "sum" of a column of numbers."""
        values = self.values
        if values is None or name not in values.column_names:
            return None
        column = values[name]
        if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
            return None
        found = (pc.mean(column) if of == "mean" else pc.sum(column)).as_py()
        return None if found is None else float(found)

    def counts(self, names: Sequence[str], sizes: Sequence[int]) -> np.ndarray:
        """Rows in the cells of these columns, flattened."""
        flat = np.zeros(self.table.rows, np.int64)
        for name, size in zip(names, sizes):
            flat = flat * size + self.table.codes[name]
        return np.bincount(flat, minlength=int(np.prod(sizes)))


Labels = Mapping[str, tuple[list[str], bool]]
"""A text per code of each column, and whether the codes have an order."""


def quotes(
    facts: Facts | None, labels: Labels, asked: Sequence[Mapping] = (), truth: Truth | None = None
) -> dict | None:
    """Numbers that may be quoted: the number of true rows, means and totals, rows by period, and
    the largest cells of the pairs that were measured first. `asked`: numbers that were asked for
    before the run, which are not given twice. `truth`: the true number stands beside each, as
    `true`."""
    if facts is None:
        return None
    (whole,) = answer(facts, "count").to_pylist()
    measured = dict.fromkeys(m.axes for m in facts.marginals if len(m.axes) == 2)
    named = [p for p in measured if all(len(labels.get(a, ((),))[0]) > 1 for a in p)]
    small = [p for p in named if len(labels[p[0]][0]) * len(labels[p[1]][0]) <= PAIR_CELLS]
    pairs = [_pair(facts, p, labels, truth) for p in small[:LOOKED_AT]]
    pairs.sort(key=lambda p: -p["clear"] / p["of"])
    rows = {k: whole[k] for k in (*ENDS, "note")}
    rows["true"] = None if truth is None else truth.table.rows
    totals, wide = _totals(facts, {str(line["number"]) for line in asked}, truth)
    periods = [_period(facts, name, labels, truth) for name in _periods(facts, labels)]
    periods = [*_months(facts, labels, truth), *periods]
    return {
        "rows": rows,
        "totals": totals,
        "wide": wide,
        "periods": [one for one in periods if one is not None][:PERIODS],
        "pairs": [p for p in pairs if p.pop("both")][:PAIRS],
    }


def _totals(
    facts: Facts, asked: set[str], truth: Truth | None
) -> tuple[list[dict[str, Any]], list[str]]:
    """(means and totals of columns of numbers, names of those that are too wide to print)."""
    out: list[dict[str, Any]] = []
    wide: list[str] = []
    for name in amounts(facts.schema)[:MOST_TOTALS]:
        if bounded(facts.schema.columns[name]):
            continue
        for of in ("mean", "sum") if adds_up(facts.schema.columns[name]) else ("mean",):
            number = f"{of}({name})"
            if number in asked:
                continue
            found = _answered(facts, number)
            if found is None or not reach(found) <= CLEAR * abs(found["estimate"]):
                wide.append(number)
                continue
            true = None if truth is None else truth.total(of, name)
            out.append({"what": number, **{k: found[k] for k in ENDS}, "true": true})
    return out, wide


def _answered(facts: Facts, of: str) -> dict[str, Any] | None:
    """The one line of an answer that has an interval."""
    try:
        (found,) = answer(facts, of).to_pylist()
    except UsageError:
        return None
    return None if any(found[k] is None for k in ENDS) else found


def _periods(facts: Facts, labels: Labels) -> list[str]:
    """Columns whose values are periods of time: months first, then the fewest values."""
    fit = [
        name
        for name in facts.schema.modelled
        if name in labels
        and 1 < len(labels[name][0]) <= MOST_PERIODS
        and is_period(facts.schema.columns[name])
    ]
    return sorted(fit, key=lambda n: ("month" not in n.lower(), len(labels[n][0])))


def _months(facts: Facts, labels: Labels, truth: Truth | None) -> list[dict | None]:
    """Rows by month of times that are counted by their dates, where these are too many to show."""
    out: list[dict | None] = []
    for field in facts.schema.fields.values():
        dates = [part for part in field.parts if getattr(part, "dates", False)]
        if not dates or dates[0].name not in labels or dates[0].base <= MOST_PERIODS:
            continue
        if any(getattr(part, "part", "") == "month" for part in field.parts):
            continue  # the part is shown itself
        name = dates[0].name
        days = labels[dates[0].name][0]
        months = [day[: len("2025-03")] for day in days[: dates[0].base]]
        true: dict[str, int] = {}
        if truth is not None:
            for month, rows in zip(months, truth.counts((name,), (len(days),)).tolist()):
                true[month] = true.get(month, 0) + rows
        column = f"month({field.name})"
        found = answer(facts, "count", (column,)).to_pylist()
        if len(found) <= MOST_PERIODS and any((line["low"] or 0.0) > 0 for line in found):
            lines = [[f[column], *(f[k] for k in ENDS), true.get(f[column])] for f in found]
            out.append({"column": column, "lines": lines})
    return out


def _period(facts: Facts, name: str, labels: Labels, truth: Truth | None) -> dict | None:
    """Rows of the true table in each period; None without intervals."""
    try:
        found = answer(facts, "count", (name,)).to_pylist()
    except UsageError:
        return None
    names = labels[name][0]
    if len(found) != len(names) or not any((line["low"] or 0.0) > 0 for line in found):
        return None
    true = [None] * len(names) if truth is None else truth.counts((name,), (len(names),)).tolist()
    lines = [[label, *(f[k] for k in ENDS), t] for label, f, t in zip(names, found, true)]
    return {"column": name, "lines": [line for line in lines if line[1] or line[4]]}


def _pair(facts: Facts, names: tuple[str, ...], labels: Labels, truth: Truth | None) -> dict:
    """The largest cells of one pair that stand clear of 0, and how many do. The largest are
    picked among noisy ones, so intervals have to hold for all cells at once. `both`: whether several
    values of either column do; else the pair says no more than one of its columns."""
    found = answer(facts, "count", names, simultaneous=True).to_pylist()
    shape = [len(labels[a][0]) for a in names]
    order = sorted(
        range(len(found)), key=lambda i: (found[i]["low"] or 0.0, found[i]["estimate"] or 0.0)
    )
    order = [i for i in order[::-1][:CELLS] if (found[i]["low"] or 0.0) > 0]
    named = [[labels[a][0][c] for a, c in zip(names, np.unravel_index(i, shape))] for i in order]
    true = None if truth is None else truth.counts(names, shape)
    cells = [
        [*name, *(found[i][k] for k in ENDS), None if true is None else int(true[i])]
        for name, i in zip(named, order)
    ]
    clear = np.flatnonzero([(r["low"] or 0.0) > 0 for r in found])
    both = all(np.unique(codes).size > 1 for codes in np.unravel_index(clear, shape))
    of = {"clear": clear.size, "of": len(found), "both": both}
    return {"columns": list(names), "cells": cells, **of}


def verdict_of(run: Any, facts: Facts | None) -> Verdict:
    """The run's verdict, the same that `run.verdict` gives; an empty one if it holds no numbers."""
    statement = statement_of(run)
    if facts is None or statement is None:
        return NONE
    tables = get(run, "tables") or {}
    return judge(released_precision(facts, statement, tables, get(run, "measurements")))


def limits(run: Any, facts: Facts | None, user: str | None) -> list[list[str]]:
    """[topic, sentence] pairs on what was left out, lost and not measured."""
    statement = statement_of(run)
    if statement is None:
        return []
    makes_users = promise(statement)["mechanism"] in names_where(lambda traits: traits.makes_users)
    if facts is None:
        return [["users", text] for text in kept_of_users(user, statement, makes_users)]
    return [[topic, text] for topic, text in losses(facts, statement, makes_users)]
