"""Finds columns that, by the noisy 1-ways, hold almost only nulls or values outside their domain.

Such a column almost always means that the schema does not fit the data: another spelling, another
unit, another file. The rest of the budget would be spent on a column of nulls. The decision depends
on released answers and public facts alone (docs/guide/ledger.md, Stopping early).
"""

import math
from collections.abc import Collection, Sequence

import numpy as np
from msgspec import Struct

from ...estimate.total import average
from ...measurement import Measurement
from ...schema import Schema
from ...significance import LIKELY, SURE

LEAST_KNOWN = 0.005
"""A column is empty if few rows have a known value, by the answers: at most this share of all rows,
or at most `SURE` standard errors where that is more."""
FEW_ROWS = 1000.0
"""The answers can say that there are no rows only if `SURE` standard errors are at most this part
of the rows that count. Tables that are smaller than their noise run as before."""
MOST_NOISE = {"null": 0.05, "outside": 0.35}
"""A column that is mostly null (or mostly outside) is not reported where `SURE` standard errors are
more than this share of all rows. The bound is stricter for nulls: many columns are rightly almost
all null, few are rightly almost all outside."""


class EmptyColumn(Struct, frozen=True):
    """A column of the data (`name`, as in the schema) that holds few values. `null` and `outside`
    are the shares of rows that are null and outside the domain, by noisy answers, cut to 0..1."""

    name: str
    null: float
    outside: float

    def __str__(self) -> str:
        shares = {"null": self.null, "outside the schema's domain": self.outside}
        parts = [f"{share:.1%} {what}" for what, share in shares.items() if share >= LEAST_KNOWN]
        return f"column {self.name!r} ({', '.join(parts) or 'no known value'})"


def dropping_columns(
    schema: Schema, ones: Sequence[Measurement], leave_out: Collection[str] = ()
) -> list[str]:
    """The fields that may have emptied the table, if the 1-ways show no rows at all. Such a field
    drops rows whose value cannot be read, although the schema keeps values outside its domain.
    Empty if rows are there, if the noise could hide `FEW_ROWS`, or if there is no such field.

    A column whose type changed is such a field. None of its values can be read or clamped, so with
    `null = "drop"` every row goes. Where the schema drops both nulls and values outside, nothing is
    said: dropping is what was asked for. `leave_out`: fields that are never reported.
    """
    total, spread = average([(float(np.sum(m.values)), float(np.sum(m.variances))) for m in ones])
    error = math.sqrt(spread)
    if total >= LIKELY * error or SURE * error > FEW_ROWS:
        return []
    return [
        name
        for name, item in schema.fields.items()
        if name not in leave_out and item.null.action == "drop" and item.overflow.action != "drop"
    ]


def empty_columns(
    schema: Schema, ones: Sequence[Measurement], leave_out: Collection[str] = ()
) -> list[EmptyColumn]:
    """The columns, in the schema's order, that contain almost no value of their domain. Columns
    without a code for nulls or overflow cannot be judged. `ones`: 1-ways over the schema's codes;
    several of one column are averaged by their precision. `leave_out`: fields that are never
    reported."""
    total, spread = average([(float(np.sum(m.values)), float(np.sum(m.variances))) for m in ones])
    if total <= 0:
        return []
    empty: dict[str, EmptyColumn] = {}
    for name, column in schema.columns.items():
        answers = [m for m in ones if m.clique == (name,) and m.values.size == column.size]
        codes = [c for c in (column.null_code, column.overflow_code) if c is not None]
        field = getattr(column, "of", None) or name
        if not answers or not codes or field in leave_out:
            continue
        precision = np.sum([1 / m.variances for m in answers], axis=0)
        values = np.sum([m.values / m.variances for m in answers], axis=0) / precision
        # An upper bound: the total and the counts of the codes are positively correlated, so their
        # difference varies by less.
        noise = SURE * math.sqrt(float(np.sum(1 / precision[codes])) + spread)
        inside = total - float(np.sum(values[codes]))
        shares = np.clip(values / total, 0.0, 1.0)
        ends = (column.null_code, column.overflow_code)
        null, outside = (0.0 if code is None else float(shares[code]) for code in ends)
        most = MOST_NOISE["outside" if outside > null else "null"]
        if noise <= most * total and inside <= max(LEAST_KNOWN * total, noise):
            empty.setdefault(field, EmptyColumn(field, null, outside))
    return list(empty.values())
