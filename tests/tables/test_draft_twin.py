"""A slow twin of drafts: the rules of `tables.drafting`, value by value in plain Python, over random columns
whose numbers of rows, values and nulls lie at the limits of the rules."""

import datetime as dt
import math
from collections import Counter
from decimal import Decimal
from itertools import pairwise

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings, strategies as st

import fastdp
from fastdp.tables import drafting
from fastdp.tables.drafting import EMPTY, FEW, OFTEN, RANGE

IDS, PEOPLE = ("id", "the_id", "theId", "x key", "ssn", "name"), ("patient", "my house", "tailnum")
NAMES = ("x", "idea", "Number of", *IDS, *PEOPLE)
START = dt.datetime(2001, 5, 17)


def nice(step):
    """The least of 1, 2 and 5 times a power of ten that is at least `step`, or a thousandth less."""
    return min(m * Decimal(10) ** d for d in range(-9, 15) for m in (1, 2, 5)
               if float(m * Decimal(10) ** d) >= 0.999 * step)  # fmt: skip


def between(values, share):
    at = share * (len(values) - 1)
    low, high = (sorted(values)[f(at)] for f in (math.floor, math.ceil))
    return low + (high - low) * (at % 1)


def bins_of(values, whole, bins):
    """Round edges over the middle 98 %, from 0 where no value is below, else open, with a step to spare."""
    inner = between(values, 0.01), between(values, 0.99)
    step = nice((inner[1] - inner[0]) / bins) if inner[1] > inner[0] else Decimal(1)
    step = max(1, math.ceil(step)) if whole else step
    first = math.floor(inner[0] / float(step))
    last = max(first + 1, math.ceil(inner[1] / float(step)))
    edges = [float(i * step) for i in range(first, last + 1)]
    made = {"max": max(*values, edges[-1] + float(step))}
    if min(values) >= 0 and edges[0] <= 0:
        return made | {"edges": [0, *(e for e in edges if e > 0), math.inf]}
    return made | {"edges": [-math.inf, *edges, math.inf], "min": min(*values, edges[0] - float(step))}


def even_bins(values, digits, bins):
    at = [sorted(values)[math.floor(i / bins * (len(values) - 1))] for i in range(bins)]
    twice = [a for a, b in pairwise(at) if a == b]
    own = set() if digits is None else {round(a + 10.0**-digits, digits) for a in twice}
    edges = sorted({*at, *own})
    return {"edges": [*edges, math.inf], "max": max(*values, edges[-1])}


def number(values, whole, digits, bins, public):
    """A range, a list, a clock or bins."""
    low, high, distinct = min(values), max(values), len(set(values))
    if whole and high - low < RANGE:
        return {"kind": "integer", "min": low, "max": high}
    if distinct <= (FEW if whole or digits == "scale" else min(FEW, len(values) // OFTEN)):
        return {"kind": "categorical", "values": sorted(set(values))}
    if whole and 0 <= low and high <= 2400 and all(v % 100 < 60 for v in values):
        by = next(b for b in (30, 15, 10, 5, 1) if all(v % 100 % b == 0 for v in values))
        uneven = by > 1 or max(Counter(v % 100 for v in values).values()) > 3 * len(values) / 60
        return {"kind": "derived", "by": by, "parts": 1 + uneven}
    plain = [float(v) for v in values]
    if digits == "scale":
        digits = 2
    elif not whole:
        digits = next((d for d in range(5) if all(abs(round(v, d) - v) < 1e-9 for v in plain)), None)
    made = even_bins(plain, 0 if whole else digits, bins) if public else bins_of(plain, whole, bins)
    return {"kind": "numeric", **made, "digits": None if whole else digits}


def identifier(name, values, text):
    rows, distinct = len(values), len(set(values))
    if rows < drafting.IDENTIFIERS:
        return False
    if text:
        named = name in (*IDS, *PEOPLE) and distinct > 2 * FEW
        return named or distinct > 0.9 * rows or distinct > max(rows / OFTEN, drafting.MOST_VALUES)
    every = distinct == rows and rows >= 4 * drafting.IDENTIFIERS and max(values) - min(values) >= RANGE
    return every or (name in IDS and distinct > 2 * FEW)


def user(name, values, why):
    """The rows that 99 % of the values have at most, or None: these are no ids of users."""
    counts = sorted(Counter(values).values())
    named = name in (*IDS, *PEOPLE) and 2 * len(counts) >= OFTEN
    panel = len(counts) > FEW and counts[0] == counts[-1]
    if 2 <= len(counts) <= len(values) / 2 and (why or named or panel):
        return counts[math.ceil(0.99 * (len(counts) - 1) - 1e-9)]
    return None


ROWS = [30, 49, 50, 51, 60, 120, 199, 200, 240, 1100]
VALUES = [1, 2, 9, 10, 11, 20, 24, 25, 26, 49, 50, 51, 52, 60, 100, 101]
SHARES = [0.5, 0.503, 0.9, 0.905, 1.0]


def column(kind, rows, distinct, width, low, even, seed):
    """Whole numbers from `low` to `low + width`, of so many different ones, in any order, evenly often or
    not; or numbers with digits, prices, texts and clock times made from them."""
    rng = np.random.default_rng(seed)
    distinct = min(rows, distinct if isinstance(distinct, int) else round(distinct * rows))
    width = max(width, distinct - 1) if distinct > 1 else 0
    inside = rng.choice(np.arange(1, max(1, width)), max(0, distinct - 2), replace=False)
    some = sorted({low, low + width, *(low + inside).tolist()})
    which = np.arange(rows) % len(some)
    if not even:
        which[len(some) :] = rng.integers(0, len(some), rows - len(some))
    values = [some[i] for i in rng.permutation(which)]
    if kind.startswith("clock"):
        by, odd = (int(k) for k in kind.split()[1:])
        return [v // 60 % 24 * 100 + v % 60 // by * by for v in values] + [odd] * (odd != 0)
    if kind.startswith("float"):
        return [v + v % 7 / 10 ** int(kind.split()[1]) for v in values]
    make = {"price": lambda v: Decimal(v) + Decimal(v % 7) / 100, "text": "w{}".format}
    return [make.get(kind, int)(v) for v in values]


KINDS = ["int", "int", "whole", "price", "text", "text", *(f"float {d}" for d in range(1, 6))]
KINDS += [f"clock {by} {odd}" for by in (1, 5, 10, 15, 30) for odd in (0, 0, 2400, 2401, 60, 99, -1)]
columns = st.tuples(
    st.sampled_from(KINDS), st.sampled_from(ROWS), st.sampled_from([*VALUES, *SHARES]),
    st.sampled_from([0, RANGE - 1, RANGE, RANGE + 1, 10**6]), st.sampled_from([0, 0, 1, -7, 5000]),
    st.booleans(), st.integers(0, 99),
)  # fmt: skip


@given(
    columns,
    st.sampled_from(NAMES),
    st.integers(1, 24),
    st.booleans(),
    st.sampled_from([0, 1, 2]),
    st.booleans(),
)
@settings(max_examples=250, deadline=None)
def test_a_column_is_drafted_by_its_values(made, name, bins, public, nulls, shuffled):
    kind, values = made[0].split()[0], column(*made)
    if nulls == 2:  # the fewest nulls that leave a column out, or one less
        nulls = math.ceil(len(values) * EMPTY / (1 - EMPTY) - 1e-6) - shuffled
    listed = [None] * nulls + values
    types = {"int": pl.Int64, "clock": pl.Int64, "text": pl.String, "price": pl.Decimal(12, 2)}
    series = pl.Series(listed, dtype=types.get(kind, pl.Float64), strict=False)
    table = pl.DataFrame(
        {name: series, "other": [False, True] * (len(listed) // 2) + [True] * (len(listed) % 2)}
    )
    drafted = fastdp.draft(table, bins=bins, public=public)
    text, whole = (
        kind == "text",
        kind in ("int", "clock", "whole") or (kind == "float" and all(v == int(v) for v in values)),
    )
    empty = nulls / len(listed) >= EMPTY
    why = (text or whole) and identifier(name, values, text)
    usual = user(name, values, why) if text or whole else None
    assert [(u.name, u.values, u.rows, u.usual) for u in drafted.users] == (
        [(name, len(set(values)), len(values), usual)] if usual and not empty else []
    )
    assert set(drafted.left_out) == ({name} if empty or why else set())
    if empty or why:
        assert ("null" in drafted.left_out[name]) == empty
        return
    field = drafted.schema.fields[name]
    assert field.null.action == ("code" if nulls else "drop")
    if text:
        assert field.kind == "categorical" and list(field.values) == sorted(set(values))
        return
    want = number(
        [int(v) for v in values] if whole else values,
        whole,
        "scale" if kind == "price" else None,
        bins,
        public,
    )
    assert field.kind == want["kind"]
    if field.kind == "integer":
        assert (field.min, field.max) == (want["min"], want["max"])
    elif field.kind == "categorical":
        assert [float(v) for v in field.values] == [float(v) for v in want["values"]]
    elif field.kind == "derived":
        assert (field.by, len(field.names)) == (want["by"], want["parts"])
    else:
        assert field.edges == pytest.approx(want["edges"])
        assert (field.min, field.max) == pytest.approx((want.get("min"), want["max"]))
        assert field.digits == want["digits"]
