"""First schemas of columns on both sides of every limit, and whole drafts with their notes, as they are
kept."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from functools import partial
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import fastdp
from fastdp.tables import drafting, textkinds, textvalues, whole

from .figures import check, given

WORDS = [f"w{i:04d}" for i in range(3000)]


def _cycle(values: list[Any], rows: int) -> list[Any]:
    return [values[i % len(values)] for i in range(rows)]


def _look(name: str, values: Any, bins: int = 20) -> Any:
    column = values if isinstance(values, pa.ChunkedArray) else pa.chunked_array([pa.array(values)])
    look = drafting._Look(name, column, bins)
    if look.problem:
        return [look.dtype, look.problem]
    facts = [look.dtype, look.null, look.distinct, look.why, look.repeats, given(look.candidate)]
    return [*facts, given(look.entry)]


def _identifiers() -> Any:
    """Texts and numbers with so many rows and distinct values; named like ids, persons, or neither."""
    out = []
    for rows in (49, 50, 51):
        for name in ("x", "user_id"):
            out.append([rows, name, _look(name, WORDS[:rows])[3]])
    for rows, distinct in [(199, 199), (200, 200), (201, 200)]:
        for step in (4, 5, 6):
            out.append(
                [rows, distinct, step, _look("n", _cycle([step * i for i in range(distinct)], rows))[3]]
            )
    for distinct in (1000, 1001):
        for name in ("n", "trip_id", "tripId", "number", "nrx"):
            numbers = _cycle([3 * i for i in range(distinct)], 2500)
            out.append([distinct, name, _look(name, numbers)[3]])
    for distinct in (99, 100, 101):
        for name in ("word", "city name", "driver", "the email"):
            out.append([distinct, name, _look(name, _cycle(WORDS[:distinct], 300))[3]])
    for distinct, rows in [(90, 100), (91, 100), (92, 100), (999, 2000), (1000, 2000), (1001, 2000)]:
        out.append([distinct, rows, _look("word", _cycle(WORDS[:distinct], rows))[3]])
    for distinct, rows in [(1001, 20_019), (1001, 20_020), (1001, 20_021)]:
        out.append([distinct, rows, _look("word", _cycle(WORDS[:distinct], rows))[3]])
    category = pa.chunked_array([pa.array(WORDS[:80]).dictionary_encode()])
    return [*out, _look("category", category)]


def _numbers() -> Any:
    out = []
    for width in (998, 999, 1000, 1001):
        out.append(_look("n", [5, 7, 5 + width]))
        out.append(_look("n", [-width, 0] * 30))
    for distinct in (49, 50, 51, 52):
        out.append(_look("n", [i * i * i for i in range(distinct)]))
        out.append(_look("n", [Decimal(i * i * i).scaleb(-2) for i in range(distinct)]))
    for digits in range(7):
        out.append(_look("n", [round(i * 1.234567, digits) for i in range(1, 99)]))
    out.append(_look("n", [1e12 + 0.25, 5.5, 7.0]))
    for near in (0.4e-9, 0.9e-9, 1.1e-9, 2.1e-9, 3e-9):
        out.append(_look("n", [1 + near, -(1 + near)]))
    out += [_look("n", values) for values in ([1.5, float("nan"), float("inf")], [None, 2.5], [3], [0.0])]
    out += [_look("n", pa.chunked_array([pa.array([], t)])) for t in (pa.int64(), pa.float64(), pa.bool_())]
    out += [_look("n", pa.chunked_array([pa.array([None, None], t)])) for t in (pa.date32(), pa.string())]
    out.append(_look("n", pa.chunked_array([pa.array([None], pa.timestamp("us"))])))
    out.append(_look("n", pa.chunked_array([pa.array([None], pa.decimal128(9, 2))])))
    out.append(_look("n", pa.chunked_array([pa.array([[1], [2]])])))
    return out


def _times() -> Any:
    day, out = dt.date(2020, 2, 27), []
    for distinct in (59, 60, 61):
        out.append(_look("d", [day + dt.timedelta(days=i) for i in range(distinct)]))
    noon = dt.datetime(2020, 2, 27, 12)
    for seconds in (3600, 1800, 900, 600, 300, 120, 60, 30, 1):
        out.append(_look("t", [noon, noon + dt.timedelta(seconds=seconds)]))
    return [*out, _look("t", [noon, None, noon + dt.timedelta(hours=1, seconds=60)])]


def _bins() -> Any:
    out = []
    for bins in (1, 2, 5, 20):
        for values in (
            [5.0] * 9,
            [0.0, 1.0],
            [-3.0, 8.0, 100.0],
            list(range(101)),
            [1e-7, 3e-7],
            [999.0, 1000.0],
        ):
            for whole_numbers in (False, True):
                out.append(given(drafting._bins, pl.Series(values, dtype=pl.Float64), whole_numbers, bins))
    skewed = pl.Series(np.geomspace(1, 1e6, 400))
    out += [given(drafting._bins, skewed, False, b) for b in (3, 10, 50)]
    for width in (
        -1.0,
        0.0,
        1e-9,
        0.0999,
        0.1,
        0.1001,
        0.19981,
        0.2,
        0.2003,
        1.0,
        1.9,
        2.0,
        4.9,
        5.01,
        9.99,
        10.0,
    ):
        out.append([width, given(drafting._round_step, width)])
    return out


TEXTS = {
    "money": [f"${i}.50" for i in range(60)],
    "euro": [f"{i},50 €" for i in range(60)],
    "percent": [f"{i} %" for i in range(60)],
    "commas": [f"1,{i:03d}" for i in range(60)],
    "german": [f"{1 + i % 28}.1{i % 3}.20{i % 20:02d}" for i in range(60)],
    "clock": [f"{i % 24}:{i % 60:02d}" for i in range(60)],
    "mostly": [*[f"${i}.50" for i in range(54)], *WORDS[:6]],
    "nine tenths": [*[f"${i}.50" for i in range(55)], *WORDS[:6]],
    "more": [*[f"${i}.50" for i in range(56)], *WORDS[:6]],
    "few kinds": [f"${i}.50" for i in range(50)],
    "truth": ["true", "FALSE", None],
    "yes": ["yes", "no"],
    "padded": ["007", "123"],
    "zero": ["0", "-0", "+12 "],
    "eighteen": ["9" * 18, "-" + "9" * 18],
    "nineteen": ["9" * 19],
    "points": ["1", "2.5", " .5", "1e3", "NA", ""],
    "dates": ["2020-01-31", "2020-02-01", "?"],
    "times": ["2020-01-31", "2020-02-01 10:20", "2020-02-01T10:20:30.5"],
    "zones": ["2020-02-01T10:20:30Z", "2020-02-01T10:20:30+02:00"],
    "missing": ["NA", "", None],
    "blanks": [" a", "b ", "c"],
    "words": ["a", "b"],
    "mixed": ["1", "a"],
}


def _texts(name: str) -> Any:
    texts = pl.Series(TEXTS[name], dtype=pl.String)
    column = pa.chunked_array([pa.array(TEXTS[name], pa.string())])
    raw = pa.chunked_array([pa.array([None if t is None else t.encode() for t in TEXTS[name]], pa.binary())])
    return [
        given(textkinds.count_kinds, texts),
        given(whole.look_of, texts),
        given(whole.typed, column),
        given(whole.typed, raw),
        _look(name, column),
        _look(name, raw),
    ]


VALUES = [
    *["1", "-1", "+1", "01", " 7 ", "1.0", "1.5", "1e3", ".5", "5.", "-0", "9223372036854775807", "x", ""],
    *["9223372036854775808", "123456789012345678", "1234567890123456789", "1_000", "nan", "inf", "-inf"],
    *["true", "T", "yes", "Y", "1", "FALSE", "f", "no", "N", "0", "truth"],
    *["2020-02-29", "2021-02-29", "2020-02-29T10:20", "2020-02-29 10:20", "2020-02-29 10:20:30.25"],
    *["2020-02-29T10:20:30.123456789", "02/29/2020 10:20:30 PM", "12/31/1999 12:00:00 AM", "2020-2-9"],
    *["2020-02-29T10:20:30Z", "2020-02-29T10:20:30+05:30", "2020-03-29T02:30:00", "2020-10-25T02:30:00"],
    *["9999-12-31T23:59:59", "0001-01-01", "262142-12-31T23:59:59", "-262143-01-01T00:00:00"],
]
TYPES = [
    *["int64", "uint8", "float64", "decimal128(10, 2)", "bool", "string", "date32", "timestamp[s]"],
    *["timestamp[us, tz=UTC]", "timestamp[us, tz=Europe/Berlin]"],
]


def _parsed(dtype: str) -> Any:
    """Texts one by one, all at once, without the last, with a null, and as a slice of a longer array."""
    raw = [text.encode() for text in VALUES]
    out = [given(textvalues.parse, pa.array([text], pa.binary()), dtype) for text in raw]
    whole_array = pa.array([*raw, None, b"\xff"], pa.binary())
    numbers = pa.array([b"1", b"22", None, b"-333", b"4", b"5", b"6", b"7", b"8", b"9", b"10"], pa.binary())
    for array in (
        whole_array,
        whole_array.slice(3),
        numbers,
        numbers.slice(2),
        numbers.slice(8),
        numbers[:0],
    ):
        out.append([given(textvalues.parse, array, dtype), given(textvalues.ids, array, dtype)])
    return out


def _drafts() -> Any:
    rows = 400
    rng = np.random.default_rng(3)
    frame = pl.DataFrame(
        {
            "driver": _cycle(WORDS[:150], rows),
            "card": [10_000 + 7 * (i % 180) ** 2 for i in range(rows)],
            "trip_id": np.arange(rows) + 10**6,
            "remark": [f"text {i}" for i in range(rows)],
            "fare": np.round(rng.lognormal(2, 1, rows), 2),
            "count": rng.integers(0, 5000, rows),
            "kind": _cycle(["b", "a", None], rows),
            "at": [dt.datetime(2020, 1, 1) + dt.timedelta(minutes=15 * i) for i in range(rows)],
        }
    )
    wide = frame.with_columns(card=pl.col("trip_id") % 190 * 1000, name=pl.col("driver"))
    plain, out = frame.drop("driver", "card", "trip_id", "remark"), []
    options: list[tuple[Any, dict[str, Any]]] = [
        (frame, {}),
        (wide, {"bins": 5}),
        (frame, {"user": "card"}),
        (frame, {"user": "kind", "drop": ["at"]}),
        (frame, {"user": "driver", "drop": ["remark", "fare"], "bins": 3}),
        (plain, {"dialect": {"delimiter": ";"}}),
        (frame, {"user": "drivers"}),
        (frame, {"drop": ["drivers"]}),
        (frame.select("remark"), {}),
        (plain, {"drop": plain.columns}),
        (plain.with_columns(odd=pl.struct("fare"), odder=pl.struct("kind")), {}),
    ]
    for source, chosen in options:
        out.append(given(lambda: _draft(source, chosen)))
    return out


def _draft(source: Any, chosen: dict[str, Any]) -> Any:
    made = fastdp.draft(source, **chosen)
    return [made.text().split("\n"), made.notes, made.users, [str(u) for u in made.users], made.left_out]


CASES: dict[str, Any] = {
    "identifiers": _identifiers,
    "numbers": _numbers,
    "times": _times,
    "bins": _bins,
    "drafts": _drafts,
    **{f"texts {name}": partial(_texts, name) for name in TEXTS},
    **{f"parsed {dtype}": partial(_parsed, dtype) for dtype in TYPES},
}


@pytest.mark.parametrize("name", CASES)
def test_drafts_are_those_that_are_kept(name):
    check("drafting", name, CASES[name]())
