"""A slow twin of drafts: the rules of `tables.drafting`, value by value in plain Python, over
random columns whose numbers of rows, values and nulls lie at the limits of the rules."""

import datetime as dt
import math
from collections import Counter
from decimal import Decimal
from itertools import pairwise

import numpy as np
import polars as pl
import pytest
from hypothesis import example, given, settings, strategies as st

import fastdp
from fastdp.schema.transforms import CLOCK_STEPS, MIDNIGHT
from fastdp.tables import drafted_columns
from fastdp.tables.drafted_columns import EMPTY, FEW, OFTEN, RANGE

IDS = ("id", "the_id", "theId", "x key", "ssn", "name")
PEOPLE = ("patient", "my house", "tailnum")
NAMES = ("x", "idea", "Number of", *IDS, *PEOPLE)


def nice(step):
    """The least of 1, 2 and 5 times a power of ten that is at least `step`, or a thousandth
    less."""
    return min(
        m * Decimal(10) ** d
        for d in range(-9, 15)
        for m in (1, 2, 5)
        if float(m * Decimal(10) ** d) >= 0.999 * step
    )


def between(values, share):
    at = share * (len(values) - 1)
    low, high = (sorted(values)[f(at)] for f in (math.floor, math.ceil))
    return low + (high - low) * (at % 1)


def bins_of(values, whole, bins):
    """Round edges over the middle 98 %, from 0 where no value is below, else open, with a step to
    spare."""
    inner = between(values, 0.01), between(values, 0.99)
    step = nice((inner[1] - inner[0]) / bins) if inner[1] > inner[0] else Decimal(1)
    step = max(1, math.ceil(step)) if whole else step
    first = math.floor(inner[0] / float(step))
    last = max(first + 1, math.ceil(inner[1] / float(step)))
    edges = [float(i * step) for i in range(first, last + 1)]
    made = {"max": max(*values, edges[-1] + float(step))}
    if min(values) >= 0 and edges[0] <= 0:
        return made | {"edges": [0, *(e for e in edges if e > 0), math.inf]}
    return made | {
        "edges": [-math.inf, *edges, math.inf],
        "min": min(*values, edges[0] - float(step)),
    }


def even_bins(values, digits, bins):
    at = [sorted(values)[math.floor(i / bins * (len(values) - 1))] for i in range(bins)]
    twice = [a for a, b in pairwise(at) if a == b]
    own = set() if digits is None else {round(a + 10.0**-digits, digits) for a in twice}
    edges = sorted({*at, *own})
    return {"edges": [*edges, math.inf], "max": max(*values, edges[-1])}


def with_single_values(made, values, digits, bins):
    """Values with as many rows as an even bin, and at least OFTEN, are bins of their own."""
    values = [v if digits is None else round(v, digits) for v in values]
    often = [v for v, rows in Counter(values).items() if rows >= max(OFTEN, len(values) / bins)]
    unit = Decimal(1).scaleb(-(digits or 0))
    ends = {
        v: math.nextafter(v, math.inf) if digits is None else float(Decimal(repr(v)) + unit)
        for v in often
    }
    single = [v for v in sorted(often) if not {v, ends[v]} <= set(made["edges"])]
    edges = sorted({*made["edges"], *single, *(ends[v] for v in single)})
    return made | {"edges": edges, "atoms": tuple(single)}


def number(values, whole, digits, bins, public):
    """A range, a list, a clock or bins."""
    low = min(values)
    high = max(values)
    distinct = len(set(values))
    if whole and high - low < RANGE:
        return {"kind": "integer", "min": low, "max": high}
    if distinct <= (FEW if whole or digits == "scale" else min(FEW, len(values) // OFTEN)):
        return {"kind": "categorical", "values": sorted(map(float, set(values)))}
    if whole and 0 <= low and high <= 2400 and all(v % 100 < 60 for v in values):
        by = next(b for b in (30, 15, 10, 5, 1) if all(v % 100 % b == 0 for v in values))
        uneven = max(Counter(v % 100 for v in values).values()) > 3 * len(values) / 60
        return {"kind": "derived", "by": by, "parts": 1 + uneven}
    plain = [float(v) for v in values]
    if digits == "scale":
        digits = 2
    elif not whole:
        digits = next(
            (d for d in range(5) if all(abs(round(v, d) - v) < 1e-9 for v in plain)), None
        )
    made = even_bins(plain, 0 if whole else digits, bins) if public else bins_of(plain, whole, bins)
    made = with_single_values(made, plain, 0 if whole else digits, bins)
    return {"kind": "numeric", "min": None, **made, "digits": None if whole else digits}


def identifier(name, values, text):
    rows = len(values)
    distinct = len(set(values))
    if rows < drafted_columns.IDENTIFIERS:
        return False
    if text:
        named = name in (*IDS, *PEOPLE) and distinct > 2 * FEW
        return (
            named
            or distinct > 0.9 * rows
            or distinct > max(rows / OFTEN, drafted_columns.MOST_VALUES)
        )
    every = (
        distinct == rows
        and rows >= 4 * drafted_columns.IDENTIFIERS
        and max(values) - min(values) >= RANGE
    )
    return every or (name in IDS and distinct > 2 * FEW)


def user(name, values, why):
    """The rows that 99 % of the values have at most, or None: these are no ids of users."""
    counts = sorted(Counter(values).values())
    named = name in (*IDS, *PEOPLE) and 2 * len(counts) >= OFTEN
    panel = len(counts) > FEW and counts[0] == counts[-1]
    if 2 <= len(counts) <= len(values) / 2 and (why or named or panel):
        return counts[math.ceil(0.99 * (len(counts) - 1) - 1e-9)]
    return None


ROWS = [30, 49, 50, 51, 60, 120, 199, 200, 240, 1300]
VALUES = [1, 2, 9, 10, 11, 20, 24, 25, 26, 49, 50, 51, 52, 60, 100, 101, 1000, 1001]
SHARES = [0.5, 0.503, 0.9, 0.905, 1.0]


def column(kind, rows, distinct, width, low, even, seed):
    """Whole numbers from `low` to `low + width`, of so many different ones, in any order, evenly
    often or not; or numbers with digits, prices, texts and clock times made from them."""
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


CLOCKS = [
    f"clock {by} {odd}" for by in (1, 5, 10, 15, 30) for odd in (0, 0, 2400, 2401, 60, 99, -1)
]
FLOATS = [f"float {digits}" for digits in range(1, 6)]
columns = st.tuples(
    st.sampled_from(["int", "int", "whole", "price", "text", "text"])
    | st.sampled_from(CLOCKS + 5 * FLOATS),
    st.sampled_from(ROWS),
    st.sampled_from([*VALUES, *SHARES]),
    st.sampled_from([0, RANGE - 1, RANGE, RANGE + 1, 10**6]),
    st.sampled_from([0, 0, 1, -7, 5000]),
    st.booleans(),
    st.integers(0, 99),
)
OPTIONS = [
    st.sampled_from(NAMES),
    st.integers(1, 24),
    st.booleans(),
    st.sampled_from([0, 1, 2]),
    st.booleans(),
]
TYPES = {"int": pl.Int64, "clock": pl.Int64, "text": pl.String, "price": pl.Decimal(12, 2)}


@given(columns, *OPTIONS)
@example(("text", 50, 45, 0, 0, True, 1), "x", 5, False, 0, False)
@example(("text", 1300, 1000, 0, 0, True, 1), "x", 5, False, 0, False)
@example(("text", 1300, 1001, 0, 0, True, 1), "x", 5, False, 0, False)
@example(("float 5", 240, 60, 10**6, 0, False, 1), "x", 2, False, 0, False)
@example(("clock 1 2400", 240, 1.0, 1400, 0, True, 1), "x", 5, False, 0, False)
@settings(max_examples=60, deadline=None)
def test_a_column_is_drafted_by_its_values(made, name, bins, public, nulls, less):
    kind = made[0].split()[0]
    values = column(*made)
    if nulls == 2:  # the fewest nulls that leave a column out, or one less
        nulls = math.ceil(len(values) * EMPTY / (1 - EMPTY) - 1e-6) - less
    series = pl.Series([None] * nulls + values, dtype=TYPES.get(kind, pl.Float64), strict=False)
    table = pl.DataFrame({name: series, "other": [i % 2 == 0 for i in range(len(series))]})
    drafted = fastdp.draft(table, bins=bins, public=public)
    text = kind == "text"
    whole = kind in ("int", "clock", "whole")
    whole = whole or (kind == "float" and all(v == int(v) for v in values))
    empty = nulls / len(series) >= EMPTY
    why = (text or whole) and identifier(name, values, text)
    usual = user(name, values, why) if text or whole else None
    found = [(name, len(set(values)), len(values), usual)] if usual and not empty else []
    assert [(u.name, u.values, u.rows, u.usual) for u in drafted.users] == found
    if less:
        assert fastdp.draft(table, user=name).schema.user == name
    assert set(drafted.left_out) == ({name} if empty or why else set())
    if empty or why:
        assert ("null" in drafted.left_out[name]) == empty
        return
    field = drafted.schema.fields[name]
    assert field.null.action == ("code" if nulls else "drop")
    if text:
        assert field.kind == "categorical" and list(field.values) == sorted(set(values))
        return
    numbers = [int(v) for v in values] if whole else values
    want = number(numbers, whole, "scale" if kind == "price" else None, bins, public)
    if whole and kind in ("whole", "float") and "digits" in want:
        want["digits"] = 0
    assert field.kind == want.pop("kind")
    for key, value in want.items():
        own = len(field.names) if key == "parts" else getattr(field, key)
        own = [float(v) for v in own] if key == "values" else own
        assert own == (None if value is None else pytest.approx(value)), key


@given(
    st.booleans(),
    st.sampled_from([40, 61, 120, 700]),
    st.sampled_from([59, 60, 369, 370, 371, 900, 40_000]),
    st.sampled_from(CLOCK_STEPS),
    st.sampled_from([0.0, 0.79, 0.81, 0.9]),
    st.sampled_from([1, 3, 1600, 1999]),
    st.integers(2, 40),
    st.integers(0, 9),
)
@settings(max_examples=40, deadline=None)
def test_times_are_drafted_by_their_span_step_and_rows_a_year(
    dates, rows, days, step, midnight, year, bins, seed
):
    """The coarsest step that all clock times have, days where most are at midnight; dates, or year,
    month and day of the week; years to a bin where a year has few rows, from the first to that
    after the last."""
    rng = np.random.default_rng(seed)
    first = dt.datetime(year, 5, 17)
    passed = [0, days * 86_400, *(int(d) * 86_400 for d in rng.integers(0, days + 1, rows - 2))]
    if not dates:
        clock = rng.integers(0, 86_400 // step, rows) * step
        clock[: math.ceil(midnight * rows)] = 0
        clock[-1] = step % 86_400
        passed = [p + int(c) for p, c in zip(passed, clock)]
    times = [first + dt.timedelta(seconds=p) for p in passed]
    last = max(times)
    years = max(times).year - year + 1
    values = [t.date() for t in times] if dates else times
    drafted = fastdp.draft(pl.DataFrame({"t": values, "t_date": [True] * rows}), bins=bins)
    field = drafted.schema.fields["t"]
    if dates and len(set(values)) <= drafted_columns.MANY_DATES:
        assert [str(v) for v in field.values] == sorted({str(v) for v in values})
        return
    at = [p % 86_400 for p in passed]
    found = next(s for s in CLOCK_STEPS if all(c % s == 0 for c in at))
    found = 86_400 if at.count(0) / rows >= MIDNIGHT else found
    listed = (max(times) - min(times)).days < drafted_columns.DAYS_LISTED
    assert any("time of day" in note for note in drafted.notes) == (
        0 < at.count(0) < rows and found == 86_400
    )
    if not listed and rows < drafted_columns.ROWS_A_YEAR * years:
        wide = next(w for w in (1, 2, 5, 10, 20, 50, 100, 1000) if years <= w * bins)
        starts = [
            max(1, y) for y in range(year // wide * wide, last.year // wide * wide + wide + 1, wide)
        ]
        day = 86_400 if field.dtype != "date32" else 1
        epoch = dt.date(1970, 1, 1)
        assert [epoch + dt.timedelta(e / day) for e in field.edges] == [
            dt.date(y, 1, 1) for y in starts
        ]
        assert (field.dtype == "date32") == (found == 86_400)
        return
    parts = ["date"] if listed else ["year", "month", "day_of_week"]
    assert list(field.names) == parts + ["hour"] * (found < 86_400)
    assert dates or field.step == found
    assert [c.name for c in field.parts][:1] == ["t_date_part" if listed else "t_year"], (
        "a name that is free"
    )
    assert [field.to_plain()[end] for end in ("min", "max")] == [
        str(first.date()),
        str(last.date()),
    ]


@given(
    st.lists(
        st.tuples(
            st.integers(0, 3),
            st.sampled_from([1, 2, 3, 9, 10, 11, 50]),
            st.booleans(),
            st.booleans(),
        ),
        min_size=2,
        max_size=5,
    ),
    st.integers(0, 99),
)
@settings(max_examples=40, deadline=None)
def test_columns_that_others_determine_are_proposed(made, seed):
    """Each column is a function of an earlier one, or random; with a row that breaks it, or nulls.
    The source is the first with the fewest values that determines it, has more values, and 20 rows
    for each."""
    rng = np.random.default_rng(seed)
    rows = 200
    names = [f"c{i}" for i in range(len(made))]
    columns: list[list[int | None]] = []
    for i, (of, size, breaks, nulls) in enumerate(made):
        if of < i:
            table = {v: int(w) for v, w in zip(range(60), rng.integers(0, size, 60))}
            own = [None if v is None else table[v] for v in columns[of]]
        else:
            own = [int(v) for v in rng.integers(0, size, rows)]
        own[-1] = 59 if breaks else own[-1]
        few = nulls and own.count(own[0]) < rows / 2
        columns.append([None if few and v == own[0] else v for v in own])
    drafted = fastdp.draft(
        pl.DataFrame(dict(zip(names, columns)), schema=dict.fromkeys(names, pl.Int64)), public=True
    )
    distinct = [len({*c} - {None}) for c in columns]

    def determines(a, b):
        pairs = {*zip(columns[a], columns[b])}
        return len(pairs) == len({*columns[a]}) and all(y is None for x, y in pairs if x is None)

    want = {}
    for b, own in enumerate(distinct):
        able = [
            a
            for a in range(len(made))
            if 1 < distinct[a] <= rows / 20 and (distinct[a], -a) > (own, -b)
        ]
        if own > 1 and (fine := [a for a in able if determines(a, b)]):
            want[names[b]] = min(fine, key=lambda a: (distinct[a], a))
    got = {c.column: c for c in drafted.schema.constraints}
    assert {c: names.index(g.sources[0]) for c, g in got.items()} == want
    for name, a in want.items():
        pairs = {*zip(columns[a], columns[names.index(name)])}
        assert [tuple(row) for row in got[name].table] == sorted(p for p in pairs if None not in p)
        listed = {x for x, y in pairs if None not in (x, y)}
        gaps = None in columns[a] or len(listed) < max(listed) - min(listed) + 1
        null = drafted.schema.fields[name].null.action
        assert null == ("code" if gaps or None in columns[names.index(name)] else "drop")
