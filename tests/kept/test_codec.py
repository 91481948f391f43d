"""Codes of values of every Arrow type under columns of every kind, the values of every code, and what
constraints rule out, as they are kept."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from fastdp import Schema
from fastdp.codec import bins, ordered, possible, violations, written
from fastdp.codec.decode import decode
from fastdp.codec.encode import encode_batch

from .figures import check, given, plain

DAYS = ["2020-02-29", "1969-12-31", "1970-01-01"]
ZONED = "timestamp[us, tz=Europe/Berlin]"
COLUMNS: dict[str, dict[str, Any]] = {
    "small": {"kind": "integer", "min": -2, "max": 9},
    "clamped": {"kind": "integer", "min": 1, "max": 7, "overflow": "clamp", "null": "drop"},
    "dropped": {"kind": "integer", "min": 0, "max": 7, "overflow": "drop", "null": {"value": 3}},
    "nan outside": {"kind": "integer", "max": 5, "nan": "overflow", "dtype": "float64"},
    "tenths": {"kind": "integer", "min": -1, "max": 12, "dtype": "decimal128(5, 1)"},
    "long": {"kind": "integer", "min": -3, "max": 1 << 21, "dtype": "int64"},
    "as text": {"kind": "integer", "max": 9, "dtype": "string"},
    "listed": {"kind": "categorical", "values": [3, -1, 7], "dtype": "int8"},
    "other": {"kind": "categorical", "values": ["a", "7", "007", ""], "other": "elsewhere", "null": "drop"},
    "own other": {"kind": "categorical", "values": ["a", "7", "-1"], "other": "a"},
    "far": {"kind": "categorical", "values": [0, 1 << 40, -5], "dtype": "int64", "overflow": {"value": 0}},
    "halves": {"kind": "categorical", "values": [0.5, 2.0, 0.1], "dtype": "float32"},
    "money": {"kind": "categorical", "values": ["1.50", "-2", "7"], "dtype": "decimal128(9, 2)"},
    "ends of int64": {
        "kind": "categorical",
        "values": [str(2**62), str(-(2**62) - 1), str(2**63 - 1), "7"],
        "dtype": "decimal128(19, 0)",
    },
    "truth": {"kind": "categorical", "values": [True, False], "null": "drop"},
    "enum": {"kind": "categorical", "values": ["a", "b"], "dtype": "enum", "null": {"value": "b"}},
    "day": {"kind": "categorical", "values": DAYS, "dtype": "date32"},
    "day64": {"kind": "categorical", "values": DAYS[:2], "dtype": "date64", "null": "drop"},
    "moment": {"kind": "categorical", "values": ["2020-02-29T10:20:30.5"], "dtype": "timestamp[ms]"},
    "zoned": {"kind": "categorical", "values": ["2020-02-29T10:20:30"], "dtype": ZONED},
    "bins": {"kind": "numeric", "edges": [0, 1, 2.5, 7], "dtype": "float64"},
    "open": {
        "kind": "numeric",
        "edges": ["-inf", 0, 2, "inf"],
        "dtype": "float64",
        "digits": 2,
        "nan": "overflow",
    },
    "tails": {
        **{"kind": "numeric", "edges": ["-inf", 0, 2, "inf"], "tail": {"law": "uniform", "width": 4}},
        **{"lower_tail": {"mean": 3}, "min": -8, "max": 99, "whole": True, "dtype": "int32"},
    },
    "beyond": {"kind": "numeric", "edges": [0, 2, 5], "tail": {"mean": 3}, "max": 9, "null": "drop"},
    "cut": {"kind": "numeric", "edges": [-5, 0, 2, 5, 8], "min": 1, "max": 4, "overflow": "clamp"},
    "cents": {"kind": "numeric", "edges": [-1, 0.1, 0.3, 1, 8], "dtype": "decimal128(10, 2)"},
    "tenths of cents": {"kind": "numeric", "edges": [0, 3, 8], "dtype": "decimal128(10, 3)", "digits": 1},
    "single": {"kind": "numeric", "edges": [-1, 0.1, 7, 9], "dtype": "float32", "null": "drop"},
    "counts": {"kind": "numeric", "edges": [0, 3, 8, 250], "dtype": "uint8", "overflow": "drop"},
    "days": {
        "kind": "numeric",
        "edges": ["1969-12-27", "1970-01-01", "2020-02-29", "2021-01-01"],
        "dtype": "date32",
    },
    "times": {
        "kind": "numeric",
        "edges": ["1970-01-01", "2020-02-29T10:20:30", "inf"],
        "dtype": "timestamp[ms]",
    },
    "times zoned": {
        "kind": "numeric",
        "edges": ["1970-01-01", "2020-02-29T11:20:30", "2023-11-14"],
        "dtype": ZONED,
    },
    "parts": {
        **{"kind": "timestamp", "parts": ["year", "month", "day_of_week", "hour"], "step": 900},
        **{"min": "2019-12-30", "max": "2020-03-02", "dtype": "timestamp[s]"},
    },
    "shift": {"kind": "timestamp", "parts": ["shift"], "dtype": ZONED, "null": "drop", "overflow": "drop"},
    "date part": {
        "kind": "timestamp",
        "parts": ["date"],
        "min": "2020-02-27",
        "max": "2020-03-02",
        "dtype": "date32",
    },
    "date part 64": {
        **{"kind": "timestamp", "parts": ["date", "month"], "min": "2020-02-27", "max": "2020-03-02"},
        **{"dtype": "date64"},
    },
    "zone parts": {
        **{"kind": "timestamp", "parts": ["date", "hour"], "min": "2020-03-28", "max": "2020-03-30"},
        **{"dtype": ZONED, "step": 3600},
    },
    "divmod": {"kind": "derived", "transform": "divmod", "by": 7, "max": 30, "parts": ["q", "r"]},
}
NUMBERS = [
    -3,
    -2,
    -1,
    0,
    1,
    2,
    3,
    5,
    7,
    8,
    9,
    10,
    12,
    13,
    30,
    31,
    None,
    249,
    250,
    1 << 21,
    (1 << 21) + 1,
    1 << 40,
]
FLOATS = [0.1, 0.3, 0.5, 1.5, 2.5, -0.0, 6.999999, 7.0, 2.0**53, -(2.0**53), float("nan"), float("inf")]
SOME = [n for n in NUMBERS if n is None or -100 < n < 120]
STAMPS = [
    0,
    -1,
    1_582_971_630,
    1_582_971_629,
    1_577_664_000,
    1_583_193_599,
    1_583_193_600,
    1_700_000_000,
    None,
]
WORDS = [
    "a",
    "b",
    "7",
    "007",
    "-1",
    " 7 ",
    "",
    " ",
    "7.0",
    "1.50",
    "1.5",
    "1e0",
    "x",
    None,
    "true",
    "0",
    "1_0",
]
WORDS += ["nan", "inf", "-inf", "2020-02-29", "1969-12-31T23:59:59.5", "2020-02-29T10:20:30.5", "9" * 25]
WORDS += [
    "2020-02-29T10:20:30+01:00",
    "2020-02-29T10:20:30",
    "0001-01-01",
    "9999-12-31T23:59:59",
    "2.0",
    "30",
]


def _times(unit: str, tz: str | None = None) -> pa.Array:
    per = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    raw = [None if s is None else s * per + per // 2 for s in STAMPS]
    far = [] if unit == "ns" else [300_000_000_000 * per, -70_000_000_000 * per]
    return pa.array([*raw, *far], pa.timestamp(unit, tz))


SOURCES: dict[str, pa.Array] = {
    "int64": pa.array(NUMBERS, pa.int64()),
    "int8": pa.array(SOME, pa.int8()),
    "uint64": pa.array([0, 7, None, (1 << 63) - 1, 1 << 63, (1 << 64) - 1], pa.uint64()),
    "float64": pa.array([*FLOATS, *(None if n is None else float(n) for n in NUMBERS), -float("inf")]),
    "float32": pa.array([*FLOATS[:9], None, 3.0, 250.0], pa.float32()),
    "float16": pa.array(np.array([0.5, 2.0, 7.0, -1.0, np.nan, np.inf], np.float16)),
    "decimal": pa.array([None if n is None else Decimal(n) for n in NUMBERS], pa.decimal128(20, 0)),
    "cents": pa.array([Decimal(f"{n}.{c:02d}") for n in (-2, 0, 1, 7) for c in (0, 1, 10, 29, 30, 50)]),
    "tens": pa.array([Decimal("-30"), Decimal("0"), Decimal("10"), None], pa.decimal128(5, 0)),
    "wide": pa.array([Decimal(10) ** 30, -(Decimal(10) ** 30), Decimal("7.00"), None], pa.decimal256(50, 2)),
    "bool": pa.array([True, False, None]),
    "text": pa.array(WORDS, pa.string()),
    "bytes": pa.array(
        [None if w is None else w.encode() for w in WORDS] + [b"\xff", b"7\x00"], pa.large_binary()
    ),
    "view": pa.array(WORDS, pa.string_view()),
    "dictionary": pa.array(WORDS).dictionary_encode(),
    "numbers by index": pa.array([7, 3, None, 7, -1, 30]).dictionary_encode(),
    "null in dictionary": pa.DictionaryArray.from_arrays([0, 1, None, 2], pa.array([7, None, 100])),
    "null": pa.nulls(3),
    "date32": pa.array([dt.date(2020, 2, 29), dt.date(1969, 12, 31), dt.date(2020, 3, 2), None]),
    "date64": pa.array([dt.date(2020, 2, 29), dt.date(1970, 1, 1), None], pa.date64()),
    **{unit: _times(unit) for unit in ("s", "ms", "us", "ns")},
    "utc": _times("us", "UTC"),
    "berlin": _times("ms", "Europe/Berlin"),
    "struct": pa.array([{"a": 1}]),
}


def _schema(name: str) -> Schema:
    return Schema.from_dict({"columns": {"x": COLUMNS[name]}})


def _codes(schema: Schema, table: pa.Table) -> Any:
    codes, keep = encode_batch(schema, table)
    return [[name, " ".join(map(str, c.tolist()))] for name, c in codes.items()] + (
        [] if keep is None else ["".join("01"[int(k)] for k in keep)]
    )


def _encoded(name: str) -> Any:
    """Every source, whole and as a slice; all numbers are also read in two chunks."""
    schema, out = _schema(name), []
    for source, array in SOURCES.items():
        if name == "long" and source in ("decimal", "cents", "tens", "wide"):
            continue  # a map over two million numbers each
        out.append([source, given(_codes, schema, pa.table({"x": array}))])
        if len(array) > 12:
            out.append(given(_codes, schema, pa.table({"x": array.slice(5, 9)})))
    chunks = pa.chunked_array([SOURCES["int64"].slice(0, 9), SOURCES["int64"].slice(9)])
    return [*out, given(_codes, schema, pa.table({"x": chunks}))]


def _decoded(name: str) -> Any:
    """Values of every code (of long columns, of some), drawn eleven times; a slice; what is refused."""
    schema = _schema(name)
    sizes = {c: column.size for c, column in schema.columns.items()}
    codes = {}
    for turn, (column, size) in enumerate(sizes.items()):
        every = np.arange(size) if size < 50 else np.array([0, 1, size // 2, size - 3, size - 2, size - 1])
        codes[column] = np.roll(np.resize(every, 11 * max(5, len(every))), turn * 7)
        codes[column] = np.resize(codes[column], 220)
    out = [given(decode, schema, codes, 5), given(decode, schema, codes, 5, 3, threads=2)]
    for column, size in sizes.items():
        for odd in ([-1], [size], [[0]], [0.5]):
            out.append(given(decode, schema, {column: np.array(odd)}, 5))
        out.append(given(decode, schema, {column: np.array([0, size - 1, 0])}, 5, 2))
    x = next(iter(schema.columns.values()))
    if hasattr(x, "edges"):
        out += [given(bins.bins_of, x), given(bins.digits, x), given(bins.on_grid, x), given(bins._limits, x)]
        out.append(given(written.stored_per_number, x))
    out += [given(written.has_stand_in, x), given(written.drawn_overflow, x)]
    out.append(given(written.read_back, x) if x.size < 1000 else x.size)
    return [
        *out,
        given(decode, schema, {"y": codes}, 5),
        given(decode, schema, {}, 5),
        given(decode, schema, codes, 5, -1),
    ]


def _edges() -> Any:
    out: list[Any] = []
    for value in (-1.005, -0.1, 0.0, 0.29, 0.3, 1.0, 2.5, float("inf"), -float("inf")):
        for digits in (0, 1, 2):
            out.append([bins._ceil(value, digits), bins._floor(value, digits)])
        for dtype in ("float64", "float32"):
            out.append([bins._below(value, dtype).hex(), bins._at_least(value, dtype).hex()])
    return out


GRID: dict[str, Any] = {
    "a": {"kind": "integer", "min": 0, "max": 5, "null": "code", "overflow": "code"},
    "b": {"kind": "integer", "min": 2, "max": 6, "null": "drop", "overflow": "drop"},
    "c": {"kind": "integer", "min": -1, "max": 3, "null": "drop", "overflow": "code"},
    "s": {"kind": "string", "values": ["x", "y"], "null": "code", "other": "z"},
    "u": {"kind": "numeric", "edges": [0, 2, 5, 9], "digits": 1, "null": "code", "overflow": "code"},
    "v": {"kind": "numeric", "edges": [0, 3, 6, 9], "digits": 1, "null": "drop", "overflow": "drop"},
    "w": {"kind": "numeric", "edges": [-2, 3, "inf"], "digits": 1, "null": "code"},
    "f": {"kind": "numeric", "edges": [0, 4, 9], "dtype": "float64", "null": "code"},
    "from": {
        "kind": "timestamp",
        "parts": ["date"],
        "min": "2020-01-01",
        "max": "2020-01-04",
        "dtype": "date32",
    },
    "till": {"kind": "timestamp", "parts": ["date", "hour"], "min": "2020-01-02", "max": "2020-01-05"},
    "m": {"kind": "derived", "transform": "divmod", "by": 3, "max": 10, "parts": ["q", "r"]},
}
CONSTRAINTS: dict[str, list[dict[str, Any]]] = {
    "allowed": [{"columns": ["a", "s"], "allowed": [[0, "x"], [[1, 2], "y"]]}],
    "forbidden": [{"columns": ["b", "s"], "forbidden": [[[2, 4], "x"], [3, ["x", "y"]]]}],
    "divide": [{"columns": ["c", "b"], "divide": 2}, {"columns": ["a", "b"], "divide": 3}],
    "require": [{"require": "a + b >= 5 or s == 'x'"}, {"require": "not (c == 0 and a > 3)"}],
    "order": [{"order": ["u", "v"]}],
    "strict": [{"order": ["b", "a"], "strict": True}],
    "strict bins": [{"order": ["v", "u"], "strict": True}],
    "three": [{"order": ["u", "v", "w"]}],
    "two chains": [{"order": ["u", "v"]}, {"order": ["v", "w"]}, {"order": ["a", "b"]}],
    "floats": [{"order": ["f", "v"]}],
    "fixed": [{"order": ["a", "u"]}, {"order": ["a", "c"]}],
    "times": [{"order": ["from", "till"]}],
    "dates": [{"order": ["from_date", "till_date"], "strict": True}],
    "follows": [{"column": "a", "follows": "b - c"}],
    "follows text": [{"column": "s", "follows": "'x' if b > 4 else 'y'"}],
    "table": [{"column": "s", "from": ["b"], "table": [[2, "x"], [3, "y"], [6, "w"]]}],
    "month": [{"column": "a", "follows": "day(till_date)"}],
    "modelled": [{"column": "a", "follows": "b", "model": True}],
    "parts": [{"require": "q <= 2"}, {"column": "c", "follows": "q"}],
    "circle": [{"order": ["a", "b"]}, {"order": ["b", "a"]}],
    "outside": [{"column": "s", "from": ["b"], "table": [[2, "x"], [3, "y"]]}],
    "part": [{"require": "q <= 2"}, {"column": "a", "follows": "q"}, {"column": "s", "follows": "'x'"}],
    "no code": [{"column": "b", "follows": "a"}],
    "number": [{"require": "a + b"}],
    "words": [{"columns": ["s", "s"], "divide": 2}],
    "mixed": [{"order": ["u", "from"]}],
    "steps": [{"order": ["u", "f", "w"]}],
    "nothing left": [{"require": "a > 7"}],
}


def _constrained(name: str) -> Any:
    """What is known of the constraints, which of the rows of all codes break them, and rows as written."""

    def all_of_it() -> Any:
        schema = Schema.from_dict({"columns": GRID, "constraints": CONSTRAINTS[name]})
        facts = possible.known(schema)
        out: list[Any] = [
            [[m.clique, m.impossible.shape, m.impossible.ravel().tolist(), m.numbers] for m in facts.masks],
            [[f.column, f.sources, f.table] for f in facts.follows],
            [f.column for f in facts.derived],
        ]
        for group in facts.orders:
            out.append(
                [[plain(i) for i in group.items], [list(b.items()) for b in group.before], group.numbers]
            )
        rng = np.random.default_rng(2)
        codes = {c: rng.integers(0, column.size, 300) for c, column in schema.columns.items()}
        out += [violations.count_broken_codes(schema, codes), violations.broken_codes(schema, codes)]
        rows = decode(schema, codes, 9)
        out += [given(violations.count_violations, schema, rows), given(lambda: rows.slice(0, 40))]
        plain_schema = Schema.from_dict({"columns": GRID})
        out.append(given(violations.count_violations, schema, decode(plain_schema, codes, 9)))
        out.append(given(violations.count_violations, schema, rows.select(["a", "b", "u", "v"])))
        return out

    return given(all_of_it)


def _computed() -> Any:
    """Codes of computed values of every type, under columns of every kind of list."""
    out: list[Any] = []
    values: list[Any] = [np.float64(v) for v in (-2.0, -1.0, 0.0, 1.0, 2.0, 2.5, 3.0, 7.0, np.nan, np.inf)]
    values += [
        np.int64(-1),
        np.int64(3),
        np.bool_(True),
        np.str_("a"),
        np.str_("7"),
        np.datetime64("2020-02-29"),
    ]
    for name in ("small", "clamped", "listed", "other", "halves", "truth", "enum", "day", "tenths", "money"):
        (target,) = _schema(name).columns.values()
        out.append([name, *(given(possible._code, target, value) for value in values)])
    return out


def _settled() -> Any:
    """Numbers where every draw is out of order, from the ends of bins."""
    out: list[Any] = []
    for name in ("order", "three", "strict bins", "floats", "fixed", "times"):
        schema = Schema.from_dict({"columns": GRID, "constraints": CONSTRAINTS[name]})
        for group in ordered.order_groups(schema):
            shapes = {c: schema.columns[c].size for item in group.items for c in item.columns}
            grid = np.indices(list(shapes.values())).reshape(len(shapes), -1)[:, ::7]
            codes = dict(zip(shapes, grid))
            down = {item.name: -float(i) for i, item in enumerate(group.items)}
            made = group.settle(codes, lambda item, attempt: np.full(grid.shape[1], down[item.name]))
            out.append([name, given(lambda: made)])
    return out


SPAN = {"min": "2020-01-20", "max": "2020-04-10"}
CLOCKS: dict[str, Any] = {
    "m": {"kind": "timestamp", "parts": ["year", "month"], "dtype": "date32", **SPAN},
    "n": {"kind": "timestamp", "parts": ["year", "month"], "dtype": "date64", "null": "drop", **SPAN},
    "h": {"kind": "timestamp", "parts": ["date", "hour"], "min": "2020-01-30", "max": "2020-02-02"},
    "z": {"kind": "timestamp", "parts": ["month"], "dtype": "timestamp[ns]", "step": 600, **SPAN},
    "d": {"kind": "numeric", "edges": ["2020-01-20", "2020-02-11", "2020-04-11"], "dtype": "date32"},
    "e": {"kind": "numeric", "edges": ["2020-01-01", "2020-03-01", "2020-05-01"], "dtype": "date64"},
    "t": {"kind": "numeric", "edges": ["2020-01-30", "2020-02-01T06:00:00", "inf"], "dtype": "timestamp[ms]"},
    "l": {"kind": "categorical", "values": ["2020-01-25", "2020-02-20"], "dtype": "date32", "null": "drop"},
    "i": {"kind": "numeric", "edges": [0, 40, 90], "dtype": "int16", "null": "drop", "overflow": "drop"},
    "k": {"kind": "numeric", "edges": [0, 30, 90], "dtype": "decimal128(9, 2)", "overflow": "drop"},
    "x": {"kind": "numeric", "edges": [-9, 30, 90], "dtype": "decimal128(9, 2)", "digits": 1},
}
CLOCK_ORDERS: dict[str, list[list[str]]] = {
    "months": [["m", "n"]],
    "months back": [["n", "m"]],
    "months and days": [["m", "d"], ["e", "n"]],
    "three of days": [["d", "e", "l"]],
    "hours": [["h", "t"]],
    "hours back": [["t", "h"]],
    "months and hours": [["h", "z"]],
    "listed": [["l", "m"]],
    "whole and cents": [["i", "k"]],
    "cents and whole": [["x", "i"]],
    "cents": [["x", "k"]],
}


def _clocks(name: str) -> Any:
    """Dates, times and decimals in order, strictly or not: values drawn, where all draws are out of order,
    and what of other rows is out of order."""
    out: list[Any] = []
    names = {column for order in CLOCK_ORDERS[name] for column in order}
    columns = {column: CLOCKS[column] for column in CLOCKS if column in names}
    for strict in (False, True):

        def all_of_it(strict: bool = strict) -> Any:
            constraints = [{"order": order, "strict": strict} for order in CLOCK_ORDERS[name]]
            schema = Schema.from_dict({"columns": columns, "constraints": constraints})
            rng = np.random.default_rng(4)
            codes = {c: rng.integers(0, column.size, 900) for c, column in schema.columns.items()}
            masks = possible.known(schema).masks
            ruled_out = [m.impossible[tuple(codes[c] for c in m.clique)] for m in masks]
            keep = ~np.logical_or.reduce([np.zeros(900, bool), *ruled_out])
            codes = {c: column[keep] for c, column in codes.items()}
            made = decode(schema, codes, 9)
            free = decode(Schema.from_dict({"columns": columns}), codes, 9)
            items = [item for group in possible.known(schema).orders for item in group.items]
            facts: list[Any] = [[i.name, i.kind, i.step, i.fixed, i.whole_span] for i in items]
            facts += [[i.low.ravel()[:6], i.high.ravel()[:6]] for i in items]
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(ordered, "TRIES", 0)
                ends = decode(schema, codes, 9)
            counts = [violations.count_violations(schema, t) for t in (made, ends, free)]
            assert not any(counts[0].values()) and not any(counts[1].values())
            return [
                facts,
                counts,
                made.slice(0, 60),
                ends.slice(0, 60),
                _codes(schema, made) == _codes(schema, free),
            ]

        out.append(given(all_of_it))
    return out


SHIFTS: dict[str, Any] = {
    "whole": {"kind": "integer", "min": 0, "max": 20, "null": "code", "overflow": "code"},
    "days": {"kind": "integer", "min": 0, "max": 6, "null": "drop", "overflow": "drop"},
    "listed": {"kind": "categorical", "values": list(range(20, -1, -1)), "dtype": "int8", "null": "drop"},
    "quarters": {"kind": "integer", "min": 0, "max": 27, "null": "code", "overflow": "drop"},
    "other": {"kind": "integer", "min": 0, "max": 12},
}


def _shifts() -> Any:
    """Days and hours that are written beside shifts."""
    out: list[Any] = []
    for name, column in SHIFTS.items():
        for part, dtype in (("hour", "int8"), ("day_of_week", "uint16"), ("hour", "int64")):
            document = {
                "columns": {"s": column},
                "outputs": {"more": {"from": "s", "part": part, "dtype": dtype}},
            }

            def made(document: Any = document) -> Any:
                schema = Schema.from_dict(document)
                codes = {"s": np.arange(3 * schema.columns["s"].size) % schema.columns["s"].size}
                return [decode(schema, codes, 5, outputs=wanted) for wanted in (True, False)]

            out.append([name, given(made)])
    return out


CASES: dict[str, Any] = {
    **{f"codes of {name}": partial(_encoded, name) for name in COLUMNS},
    **{f"values of {name}": partial(_decoded, name) for name in COLUMNS},
    **{f"constraints {name}": partial(_constrained, name) for name in CONSTRAINTS},
    **{f"clocks {name}": partial(_clocks, name) for name in CLOCK_ORDERS},
    "edges": _edges,
    "settled": _settled,
    "computed": _computed,
    "shifts": _shifts,
}


@pytest.mark.parametrize("name", CASES)
def test_codes_and_values_are_those_that_are_kept(name):
    check("codec", name, CASES[name]())
