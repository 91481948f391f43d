"""Cases of the kernels that encode values to codes, and decode codes to values."""

from __future__ import annotations

from typing import Any

import numpy as np

from fastdp._core import codes

from .casefile import DOUBLE, File

OUTSIDE = {"below": 60, "above": 61, "other": 62, "nan": 63, "null": 64}
"""Codes of the values that a rule does not list."""
WHOLE = [
    *(-(2**63), -(2**31), -129, -128, -1, 0, 1, 4, 5, 6, 36, 37, 38, 39),
    *(127, 128, 255, 256, 2**31, 2**63 - 1),
]
REALS = [
    *map(float, WHOLE),
    *(4.5, 5.0, -0.0, 36.999, 37.0, 0.1, 2.0**53, 2.0**63, 1e30, np.inf, -np.inf, np.nan),
]


def code_cases(out: File, rng: np.random.Generator) -> None:
    rows = 3000
    whole = rng.integers(-40, 140, rows)
    real = np.where(rng.random(rows) < 0.1, np.nan, np.round(rng.normal(30, 40, rows), 1))
    valid = np.packbits(rng.random(rows + 8) < 0.9, bitorder="little")
    table = rng.permutation(200).astype(np.uint32)
    keys = np.sort(rng.permutation(150)[:60])
    rules: list[tuple[int, dict[str, Any]]] = [
        (
            codes.AFFINE,
            {"lo": -10, "count": 100, "below": 0, "above": codes.DROP, "other": 7, "nan": 3},
        ),
        (codes.TABLE, {"lo": 0, "count": 100, "table": table, "null": 5}),
        (
            codes.SORTED,
            {"count": 60, "ikeys": keys, "fkeys": keys.astype(float), "table": table, "other": 9},
        ),
        (
            codes.EDGES,
            {"count": 60, "ikeys": keys, "fkeys": keys.astype(float), "table": table, "nan": 199},
        ),
    ]
    for rule, fields in rules:
        ready = codes.Map(rule, **fields)
        outside = [fields.get(name, codes.DROP) for name in OUTSIDE]
        whole_types = [whole.astype("i8"), whole.astype("i2"), (whole % 128).astype("u1")]
        for x in (*whole_types, real, real.astype("f4")):
            for bits, width in ((None, 4), (valid, 2)):
                shift = 0 if bits is None else 3
                made = np.zeros(rows, f"u{width}")
                keep = np.ones(rows, np.uint8)
                codes.encode([(x, ready, bits, shift, made, keep)])
                kind = codes.TYPES[x.dtype.str[1:]]
                facts = [kind, rule, fields.get("lo", 0), fields["count"], *outside, shift, width]
                out.case("encode", [x, facts, *_arrays(fields), bits], [made, keep])
    _decode_cases(out, rng, rows)


def _decode_cases(out: File, rng: np.random.Generator, rows: int) -> None:
    """Values of codes, from lists and drawn inside bins."""
    code = rng.integers(0, 200, rows).astype(np.uint16)
    values = rng.integers(-(2**60), 2**60, 200)
    made = np.zeros(rows, np.int64)
    codes.lookup(code, values, made)
    out.case("lookup", [code, values], [made])
    u = np.zeros(rows)
    codes.uniform(12345, 2**40, u)
    out.case("uniform", [np.array([12345], np.uint64), np.array([2**40], np.uint64)], [u])
    lo = np.sort(rng.normal(0, 1000, 200))
    bins = np.stack([lo, lo + 50, rng.choice([0.0, 7.0, -9.0], 200), lo, lo + 49])
    for even in (True, False):
        use = bins.copy()
        if even:
            use[2] = 0
        for integer, dtype in ((False, "f8"), (True, "i4")):
            made = np.zeros(rows, dtype)
            codes.draw(code, *use, integer, 1.0, 99, 5, made)
            facts = [int(integer), codes.TYPES[dtype]]
            out.case(
                "draw_values", [code, use, facts, 1.0, np.array([99, 5], np.uint64)], [made], DOUBLE
            )


def limit_cases(out: File, rng: np.random.Generator) -> None:
    """Numbers just inside and just outside of rules and types; rows on both sides of a block of
    4096."""
    table = rng.permutation(70).astype(np.uint32)
    for size in (0, 1, 31, 32, 33, 64):
        for dtype in ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8"):
            _rule_limits(out, size, dtype, table)
    for rows in (0, 1, 4095, 4096, 4097, 8193):
        code = rng.integers(0, 200, rows).astype(np.uint8)
        values = rng.integers(0, 250, 200).astype(np.int64)
        made = np.zeros(rows, np.int64)
        codes.lookup(code, values, made)
        u = np.zeros(rows)
        codes.uniform(7, 2**64 - 3000, u)
        if rows:
            out.case("lookup", [code.astype(np.uint16), values], [made])
            out.case(
                "uniform", [np.array([7], np.uint64), np.array([2**64 - 3000], np.uint64)], [u]
            )


def _rule_limits(out: File, size: int, dtype: str, table: np.ndarray) -> None:
    """Every rule over `size` values from 5 on, given numbers at its ends and at those of types."""
    numbers = REALS if dtype[0] == "f" else [w for w in WHOLE if _fits(w, dtype)]
    x = np.array(numbers, dtype)
    keys = np.arange(5, 5 + size, dtype=np.int64)
    listed = {"count": size, "ikeys": keys, "fkeys": keys.astype(float), "table": table}
    for rule, fields in (
        (codes.AFFINE, {"lo": 5, "count": size}),
        (codes.TABLE, {"lo": 5, "count": size, "table": table}),
        (codes.SORTED, listed),
        (codes.EDGES, listed),
    ):
        for outside in (dict.fromkeys(OUTSIDE, codes.DROP), OUTSIDE):
            made = np.zeros(x.size, "u1")
            keep = np.ones(x.size, np.uint8)
            ready = codes.Map(rule, **fields, **outside)
            codes.encode([(x, ready, None, 0, made, keep)])
            facts = [codes.TYPES[dtype], rule, fields.get("lo", 0), size, *outside.values(), 0, 1]
            out.case("encode", [x, facts, *_arrays(fields), None], [made, keep])


def _arrays(fields: dict[str, Any]) -> list[np.ndarray]:
    """The lists of a rule, empty where it has none."""
    kinds = (("ikeys", "i8"), ("fkeys", "f8"), ("table", "u4"))
    return [np.asarray(fields.get(name, []), kind) for name, kind in kinds]


def _fits(number: int, dtype: str) -> bool:
    limits = np.iinfo(dtype)
    return limits.min <= number <= limits.max


PARTS = (code_cases, limit_cases)
