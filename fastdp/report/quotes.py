"""Numbers with intervals for the page that may be published: shares of columns, rows, measured
pairs."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..answers.answer import answer
from ..answers.clipping import Z95
from ..answers.facts import Facts
from ..answers.losses import kept_of_users, losses
from ..answers.precision import released
from ..answers.verdict import NONE, Verdict, judge
from ..errors import UsageError
from ..measurement import Measurement
from ..mechanisms.registry import names_where
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


def quotes(facts: Facts | None, labels: Mapping[str, tuple[list[str], bool]]) -> dict | None:
    """The number of true rows, and the largest cells of the pairs that were measured first."""
    if facts is None:
        return None
    (whole,) = answer(facts, "count").to_pylist()
    measured = dict.fromkeys(m.axes for m in facts.marginals if len(m.axes) == 2)
    named = [p for p in measured if all(len(labels.get(a, ((),))[0]) > 1 for a in p)]
    small = [p for p in named if len(labels[p[0]][0]) * len(labels[p[1]][0]) <= PAIR_CELLS]
    pairs = [_pair(facts, p, labels) for p in small[:LOOKED_AT]]
    pairs.sort(key=lambda p: -p["clear"] / p["of"])
    rows = {k: whole[k] for k in (*ENDS, "note")}
    return {"rows": rows, "pairs": [p for p in pairs if p["clear"]][:PAIRS]}


def _pair(
    facts: Facts, names: tuple[str, ...], labels: Mapping[str, tuple[list[str], bool]]
) -> dict:
    """The largest cells of one pair, and how many of its cells stand clear of 0."""
    found = answer(facts, "count", names).to_pylist()
    shape = [len(labels[a][0]) for a in names]
    order = sorted(
        range(len(found)), key=lambda i: (found[i]["low"] or 0.0, found[i]["estimate"] or 0.0)
    )
    order = order[::-1][:CELLS]
    named = [[labels[a][0][c] for a, c in zip(names, np.unravel_index(i, shape))] for i in order]
    cells = [[*name, *(found[i][k] for k in ENDS)] for name, i in zip(named, order)]
    clear = sum((r["low"] or 0.0) > 0 for r in found)
    return {"columns": list(names), "cells": cells, "clear": clear, "of": len(found)}


def verdict_of(run: Any, facts: Facts | None) -> Verdict:
    """The run's verdict, the same that `run.verdict` gives; an empty one if it holds no numbers."""
    statement = statement_of(run)
    if facts is None or statement is None:
        return NONE
    tables = get(run, "tables") or {}
    return judge(released(facts, statement, tables, get(run, "measurements")))


def limits(run: Any, facts: Facts | None, user: str | None) -> list[list[str]]:
    """[topic, sentence] pairs on what was left out, lost and not measured."""
    statement = statement_of(run)
    if statement is None:
        return []
    makes_users = promise(statement)["mechanism"] in names_where(lambda traits: traits.makes_users)
    if facts is None:
        return [["users", text] for text in kept_of_users(user, statement, makes_users)]
    return [[topic, text] for topic, text in losses(facts, statement, makes_users)]
