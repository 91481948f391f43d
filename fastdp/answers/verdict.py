"""What a budget can show, in words: before a run from public facts, after it from released numbers.

A count with standard error s is known within 1.96 s at 95 %. A value *stands out* where it has more rows than
that. A column *drowns* where an average value would not stand out (before a run), or where values that do not
hold half of its rows, once what noise alone would show is taken off (after it): what it says about single
values is mostly noise.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from .best_linear import estimate
from .clipping import Z95
from .facts import Facts

BY_CHANCE = math.exp(-(Z95**2) / 2) / math.sqrt(2 * math.pi)
"""Expected noise of a value without rows, where it exceeds 1.96 standard errors, in standard errors."""
CHANCE_SPREAD = math.sqrt(Z95 * BY_CHANCE + 0.025 - BY_CHANCE**2)
"""The standard deviation of that noise, in standard errors."""
ADVICE = "most columns show little; use fewer or coarser columns, more rows, or a larger epsilon"
NAMED = 8
"""Columns that one sentence names."""


@dataclass(frozen=True)
class Verdict:
    """Sentences for people; `warn`: most columns drown."""

    lines: tuple[str, ...]
    warn: bool = False


def expected(
    ones: Mapping[str, tuple[int, float]], pairs: Sequence[float], rows: int, at: str = ""
) -> Verdict:
    """What a run on about `rows` rows can show. `ones`: values and standard error of a count, by column;
    `pairs`: standard errors of counts of the pairs to be measured; `at`: which clip."""
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
        stand = f"pairs that are measured: groups of at least about {wide:,.0f} rows stand out; {large}"
        lines += [stand, _effect(wide, rows)]
    warn = 2 * len(drowned) > len(ones)
    return Verdict((*lines, f"warning: {ADVICE}") if warn else tuple(lines), warn)


def found(facts: Facts) -> Verdict:
    """What a finished run can show, from its own released numbers."""
    drowned, lost, half, sizes = [], [], [], facts.schema.modelled
    total = estimate(facts.marginals, ())
    single = [m for m in facts.marginals if len(m.axes) == 1]
    for a in sizes:
        table = estimate(single, (a,))
        if table is None or table.known is not None:
            continue
        errors = np.sqrt(table.cell_variances())
        half.append(Z95 * float(np.median(errors)) * facts.clipping.factor)
        by_chance = BY_CHANCE * errors.sum() + Z95 * CHANCE_SPREAD * math.sqrt(np.square(errors).sum())
        shown = float(table.x[table.x > Z95 * errors].sum()) - by_chance
        outside = facts.schema.columns[a].overflow_target if a in facts.schema.columns else None
        beyond = facts.missing.get(a, (0.0,))[0] > 0.5  # numbers beyond the bounds count as the nearest one
        if total is None or not shown > float(total.x[0]) / 2:
            drowned.append(a)
        elif beyond or (outside is not None and table.x[outside] > float(total.x[0]) / 2):
            lost.append(a)
    if not half:
        return Verdict(())
    lines = [f"single columns: noise of about {float(np.median(half)):,.0f} rows on each count (95 %)"]
    lines.append(_drowning(drowned, len(half)))
    of = f"{len(lost)} of {len(half)}"
    lines += [f"values lost, {of} columns: most rows lie outside the domain of {listed(lost)}"] * bool(lost)
    pairs, inside = math.comb(len(sizes), 2), facts.measured_pairs()
    if pairs:
        known = "approximate: rows may miss or invent effects" if facts.distances else "of unknown error"
        names = [" with ".join(sorted(p)) for p in sorted(inside, key=sorted)]
        named = f" ({listed(names)})" if names else ""
        lines.append(f"pairs: {len(inside):,} of {pairs:,} were measured{named}; others are {known}")
    sets: dict[frozenset[str], float] = {}  # their precision: what is measured several times is known better
    for m in (m for m in facts.marginals if len(m.axes) > 1 and m.complete):
        sets[frozenset(m.axes)] = sets.get(frozenset(m.axes), 0.0) + 1 / float(np.median(m.variances))
    if sets and total is not None:
        wide = Z95 * facts.clipping.factor * float(np.median(list(sets.values()))) ** -0.5
        stand = f"in measured pairs groups of at least {wide:,.0f} rows stand out"
        lines += [stand, _effect(wide, facts.clipping.factor * float(total.x[0]))]
    warning = "" if facts.clipping.known else "warning: "
    lines += [warning + facts.clipping.text] if facts.clipping.text else []
    return Verdict(tuple(lines), 2 * len(drowned + lost) > len(half))


def _effect(wide: float, rows: float) -> str:
    """The difference of two shares, each of rows / 2 with an error of `wide` at 95 %, that would be seen."""
    share = math.sqrt(2) * wide / max(rows / 2, 1.0)
    some = f"a share that differs by {share:.1%} between two halves of the table, in a pair that is measured"
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
