"""What a budget can show, in words: before a run from public facts, after it from released numbers.

A count with standard error s is known within 1.96 s at 95 %. A value *stands out* where it has more
rows than that. A column *drowns* where an average value would not stand out (before a run), or
where values that do not hold half of its rows, once what noise alone would show is taken off (after
it): what it says about single values is mostly noise.
"""

import math
from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np
from msgspec import Struct

from .best_linear import estimate
from .clipping import Z95
from .facts import Facts

BY_CHANCE = math.exp(-(Z95**2) / 2) / math.sqrt(2 * math.pi)
"""Expected noise of a value without rows, where it exceeds 1.96 standard errors, in standard
errors."""
CHANCE_SPREAD = math.sqrt(Z95 * BY_CHANCE + 0.025 - BY_CHANCE**2)
"""The standard deviation of that noise, in standard errors."""
ADVICE = "most columns show little; use fewer or coarser columns, more rows, or a larger epsilon"
NAMED = 8
"""Columns that one sentence names."""


class Verdict(Struct, frozen=True):
    """Sentences for people; `warn`: most columns drown."""

    lines: tuple[str, ...]
    warn: bool = False


def expected(
    ones: Mapping[str, tuple[int, float]], pairs: Sequence[float], rows: int, at: str = ""
) -> Verdict:
    """What a run on about `rows` rows can show. `ones`: values and standard error of a count, by
    column; `pairs`: standard errors of counts of the pairs to be measured; `at`: which clip."""
    if not ones or rows < 1:
        return Verdict(())
    half = {a: Z95 * s for a, (_, s) in ones.items()}
    drowned = [a for a, (n, _) in ones.items() if rows / n < half[a]]
    typical = float(np.median(list(half.values())))
    known = f"a count is known within {typical:,.0f} rows or less (95 %){at}"
    lines = [f"single columns: {known}, so values with fewer rows do not stand out"]
    lines.append(_drowning(drowned, len(ones)))
    if pairs:
        wide = Z95 * float(np.median(pairs))
        cells = [n * m for (n, _), (m, _) in combinations(ones.values(), 2)]
        many = sum(rows / n >= wide for n in cells)
        large = f"in {many:,} of {len(cells):,} pairs an average cell has them"
        stand = (
            f"pairs that are measured: groups of at least about {wide:,.0f} rows stand out; {large}"
        )
        lines += [stand, _effect(wide, rows)]
    warn = 2 * len(drowned) > len(ones)
    return Verdict((*lines, f"warning: {ADVICE}") if warn else tuple(lines), warn)


def found(facts: Facts) -> Verdict:
    """What a finished run can show, from its own released numbers."""
    total = estimate(facts.marginals, ())
    rows = None if total is None else float(total.x[0])
    shown, drowned, lost = _columns(facts, rows)
    if not shown:
        return Verdict(())
    noise = facts.clipping.factor * float(np.median(shown))
    lines = [f"single columns: noise of about {noise:,.0f} rows on each count (95 %)"]
    lines.append(_drowning(drowned, len(shown)))
    if lost:
        of = f"{len(lost)} of {len(shown)} columns"
        lines.append(f"values lost, {of}: most rows lie outside the domain of {listed(lost)}")
    lines += _pairs(facts, rows)
    if facts.clipping.text:
        lines.append(("" if facts.clipping.known else "warning: ") + facts.clipping.text)
    return Verdict(tuple(lines), 2 * len(drowned + lost) > len(shown))


def _columns(facts: Facts, rows: float | None) -> tuple[list[float], list[str], list[str]]:
    """Of the columns that were measured: the half-widths at 95 % of a typical count of each, in
    rows that count; those that drown; and those most of whose rows lie outside the domain."""
    half, drowned, lost = list[float](), list[str](), list[str]()
    single = [m for m in facts.marginals if len(m.axes) == 1]
    for name in facts.schema.modelled:
        table = estimate(single, (name,))
        if table is None or table.known is not None:
            continue
        errors = np.sqrt(table.cell_variances())
        half.append(Z95 * float(np.median(errors)))
        by_chance = BY_CHANCE * errors.sum() + Z95 * CHANCE_SPREAD * math.sqrt(
            np.square(errors).sum()
        )
        clear = float(table.x[table.x > Z95 * errors].sum()) - by_chance
        column = facts.schema.columns.get(name)
        outside = None if column is None else column.overflow_target
        beyond = (
            facts.missing.get(name, (0.0,))[0] > 0.5
        )  # numbers beyond the bounds count as the nearest one
        if rows is None or not clear > rows / 2:
            drowned.append(name)
        elif beyond or (outside is not None and table.x[outside] > rows / 2):
            lost.append(name)
    return half, drowned, lost


def _pairs(facts: Facts, rows: float | None) -> list[str]:
    """Which pairs were measured, and what stands out in them."""
    lines = []
    if pairs := math.comb(len(facts.schema.modelled), 2):
        measured = facts.measured_pairs()
        names = [" with ".join(sorted(p)) for p in sorted(measured, key=sorted)]
        named = f" ({listed(names)})" if names else ""
        known = (
            "approximate: rows may miss or invent effects"
            if facts.distances
            else "of unknown error"
        )
        lines.append(
            f"pairs: {len(measured):,} of {pairs:,} were measured{named}; others are {known}"
        )
    precision: dict[frozenset[str], float] = {}  # what is measured several times is known better
    for m in facts.marginals:
        if len(m.axes) > 1 and m.complete:
            own = frozenset(m.axes)
            precision[own] = precision.get(own, 0.0) + 1 / float(np.median(m.variances))
    if precision and rows is not None:
        factor = facts.clipping.factor
        wide = Z95 * factor * float(np.median(list(precision.values()))) ** -0.5
        lines.append(f"in measured pairs groups of at least {wide:,.0f} rows stand out")
        lines.append(_effect(wide, factor * rows))
    return lines


def _effect(wide: float, rows: float) -> str:
    """The difference of two shares, each of rows / 2 with an error of `wide` at 95 %, that would be
    seen."""
    share = math.sqrt(2) * wide / max(rows / 2, 1.0)
    some = (
        f"a share that differs by {share:.1%} between two halves of the table, in a pair that is"
        " measured"
    )
    none = "none; not even a share of 0 in one half of the table and 1 in the other"
    return f"smallest effect: {some if share < 1 else none}"


def _drowning(names: Sequence[str], columns: int) -> str:
    if not names:
        return "no column is mostly noise"
    return f"mostly noise, {len(names)} of {columns} columns: {listed(names)}"


def listed(names: Sequence[str]) -> str:
    """The first names in one line, and how many more there are."""
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more
