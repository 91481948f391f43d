"""What the answers of a run say about rows that its schema does not hold. Post-processing of
released numbers only."""

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from ..estimate.total import average
from ..measurement import Measurement
from ..schema import Schema
from ..significance import LIKELY

NOTED = 0.02
"""A note names the columns that are expected to miss at least this share of the rows."""
UNSURE = "the number of rows is mostly noise: it is below two standard errors"


def estimated_total(schema: Schema, answers: Iterable[Measurement]) -> tuple[float, float] | None:
    """(rows that count, standard error) by all marginals of the schema's columns; None without
    any."""
    sums = [
        (float(np.sum(m.values)), float(np.sum(m.variances)))
        for m in answers
        if m.query is None and set(m.clique) <= set(schema.columns)
    ]
    if not sums:
        return None
    total, variance = average(sums)
    return total, math.sqrt(variance)


def empty_note(planned: Iterable[tuple[float, float, int]], counted: float) -> str:
    """What a plan says where a run that counts so many rows may end with none, as it does where their
    estimate is below LIKELY standard errors (`UNSURE`). `planned`: of each answer the cells that stay
    where noise hides all values, their standard error, and how many such answers there are. Empty
    where a run of twice as many standard errors is expected."""
    precision = sum(times / (cells * sigma**2) for cells, sigma, times in planned)
    if not precision or counted * math.sqrt(precision) >= 2 * LIKELY:
        return ""
    return (
        "the run may end with a table of no rows, and its budget is spent all the same: so few rows are"
        " mostly noise at this epsilon; take a larger one, or wait for more rows"
    )


def missing_rows(
    schema: Schema, found: Iterable[str], answers: Sequence[Measurement]
) -> dict[str, tuple[float, float]]:
    """For each of these columns, (share of the rows whose value is outside the list that the run
    found, standard error). Columns without a code for such values, or not measured separately, are
    left out."""
    total = estimated_total(schema, answers)
    out: dict[str, tuple[float, float]] = {}
    if total is None or total[0] <= total[1]:
        return out
    for name in found:
        column = schema.columns.get(name)
        if column is None or (code := column.overflow_target) is None:
            continue
        alone = [m for m in answers if m.clique == (name,) and m.query is None]
        ones = [m for m in alone if m.values.size == column.size]
        if not ones:
            continue
        rows, variance = average([(float(m.values[code]), float(m.variances[code])) for m in ones])
        share = min(1.0, max(0.0, rows / total[0]))
        out[name] = (share, math.hypot(math.sqrt(variance), share * total[1]) / total[0])
    return out


def missing_notes(missing: Mapping[str, tuple[float, float]]) -> list[str]:
    """A note on the columns whose domain misses rows that matter."""
    listed = [
        f"{name} {share:.1%} (standard error {error:.1%})"
        for name, (share, error) in missing.items()
        if share >= max(NOTED, error)
    ]
    text = "share of rows whose value lies outside the domain that the run found, by noisy counts: "
    return [text + ", ".join(listed)] if listed else []
