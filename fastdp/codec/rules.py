"""A plain description of how the numbers of a source become codes of a column.

`rule_of` writes a column's coding in the numbers of a source's type, exactly and without bounds.
Everything that encodes reads this one description: `Rule.code` says it in Python, `kernel_map` gives
it to the kernel, and `engines.sql_codes` writes it as SQL."""

from __future__ import annotations

import math
from bisect import bisect_right
from datetime import datetime
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Any

import numpy as np
from msgspec import Struct

from .._core import codes as core
from ..schema import dtypes
from ..schema.coding import Bins, Listed, Range, exact
from ..schema.columns import Column
from ..schema.epoch import DAY_MILLISECONDS, EPOCH, per_unit, since_1970
from .policy import ends, nan_code, null_code, other_code

_I64 = np.iinfo(np.int64)
_TABLE_LIMIT = 1 << 20
"""The most entries of a table by which the kernel looks up listed numbers; it only affects speed."""
_EXACT_FLOATS = 2**53
"""Whole numbers below this are floats exactly."""


class Form(Struct, frozen=True):
    """A source column's physical form, as far as encoding depends on it.

    `form`: `whole` (integers), `float`, `decimal`, `time` (dates and timestamps), `text` or
    `dictionary`; `target`: the family of the column's own type; `kind`: the source's Arrow type.
    """

    form: str
    target: str
    dtype: str
    kind: Any


class Rule(Struct, frozen=True, eq=False):
    """How a machine number x of a source becomes a code. DROP in place of a code leaves the row out.

    range: with v = x / step, code v - keys[0] where v is whole and keys[0] <= v <= keys[1]; `below`
    and `above` outside of these; `other` where v lies between and is not whole.
    list: codes[i] where x is keys[i], which ascend; else `other`.
    bins: codes[i], i the number of `keys` that are at most x; there is one code more than keys.
    Keys are whole numbers of any size, or floats where `floats` is set; x then is a float, and NaN
    has the code `nan`."""

    way: str
    keys: tuple[Any, ...]
    codes: tuple[int, ...]
    below: int
    above: int
    other: int
    nan: int
    null: int
    floats: bool = False
    step: Fraction = Fraction(1)

    def code(self, x: int | float | None) -> int:
        """The code of one number, or of null (None)."""
        if x is None:
            return self.null
        if x != x:
            return self.nan
        if self.way == "bins":
            return self.codes[bisect_right(self.keys, x)]
        if self.way == "list":
            at = bisect_right(self.keys, x) - 1
            return self.codes[at] if at >= 0 and self.keys[at] == x else self.other
        first, last = self.keys
        value = x if math.isinf(x) else Fraction(x) / self.step
        if value < first:
            return self.below
        if value > last:
            return self.above
        return int(value) - first if value == int(value) else self.other


def rule_of(column: Column, source: Form) -> Rule:
    """The rule from machine numbers in the source's form to codes of the column."""
    below, above = ends(column)
    floats = source.form == "float"
    coding = column.coding
    scale = Fraction(10) ** source.kind.scale if source.form == "decimal" else Fraction(1)
    step = Fraction(1)
    keys: tuple[Any, ...]
    codes: tuple[int, ...] = ()
    if isinstance(coding, Range):
        way = "range"
        keys = (coding.first, coding.first + coding.count - 1)
        step = scale
    elif isinstance(coding, Bins):
        units = per_unit(column.dtype) if coding.temporal else 1
        inner = [edge for edge in coding.edges if math.isfinite(edge)]
        lowest = [] if math.isinf(coding.edges[0]) else [below]
        highest = [] if math.isinf(coding.edges[-1]) else [above]
        way = "bins"
        codes = (*lowest, *range(coding.count), *highest)
        keys = tuple(inner if floats else (math.ceil(exact(e) * scale * units) for e in inner))
    else:
        assert isinstance(coding, Listed), f"a column of kind {column.kind!r} has no rule"
        way = "list"
        listed = _listed(coding, source, scale)
        keys = tuple(sorted(listed))
        codes = tuple(listed[key] for key in keys)
    other = other_code(column)
    nan = nan_code(column)
    null = null_code(column)
    return Rule(
        way=way,
        keys=keys,
        codes=codes,
        below=below,
        above=above,
        other=other,
        nan=nan,
        null=null,
        floats=floats,
        step=step,
    )


def _listed(coding: Listed, source: Form, scale: Fraction) -> dict[Any, int]:
    """The code of each number by which a listed value appears in the source. A float is the nearest
    one to the listed number."""
    out: dict[Any, int] = {}
    narrow = source.form == "float" and str(source.kind) in ("float", "halffloat")
    for code, value in enumerate(coding.values):
        number = as_number(value, source)
        if number is None:
            continue
        if source.form == "float":
            near = float(number)
            out.setdefault(float(np.float32(near)) if narrow else near, code)
        elif (scaled := Fraction(number) * scale).denominator == 1:
            out[int(scaled)] = code
    return out


def as_number(value: Any, source: Form) -> Decimal | None:
    """A listed value as the number by which it appears in the source; None if it cannot appear."""
    if source.form == "time":
        own = dtypes.arrow(source.dtype)
        if source.target == "date":
            days = (datetime.fromisoformat(value) - EPOCH).days
            return Decimal(days if own.bit_width == 32 else days * DAY_MILLISECONDS)
        return Decimal(since_1970(value, own.unit, own.tz))
    if isinstance(value, bool):
        return Decimal(int(value))
    if isinstance(value, str) and source.target == "string":
        text = value[1:] if value.startswith("-") else value
        plain = text.isascii() and text.isdigit() and (text == "0" or not text.startswith("0"))
        return Decimal(value) if plain and value != "-0" else None
    try:
        return Decimal(repr(value) if isinstance(value, float) else value)
    except InvalidOperation:
        return None


def kernel_map(rule: Rule) -> core.Map:
    """The rule as the kernel reads it, for numbers of at most 64 bits."""
    sides = {
        "below": rule.below,
        "above": rule.above,
        "other": rule.other,
        "nan": rule.nan,
        "null": rule.null,
    }
    if rule.way == "range":
        first, last = rule.keys
        return core.Map(core.AFFINE, lo=first, count=last - first + 1, **sides)
    if rule.way == "bins":
        if rule.floats:
            return core.Map(
                core.EDGES, count=len(rule.keys), fkeys=rule.keys, table=rule.codes, **sides
            )
        edges = [max(edge, _I64.min) for edge in rule.keys if edge <= _I64.max]
        table = rule.codes[: len(edges) + 1]
        return core.Map(core.EDGES, count=len(edges), ikeys=edges, table=table, **sides)
    inside = [
        (key, code)
        for key, code in zip(rule.keys, rule.codes)
        if rule.floats or _I64.min <= key <= _I64.max
    ]
    keys = [key for key, _ in inside]
    codes = [code for _, code in inside]
    if keys and all(key == key // 1 and abs(key) <= _I64.max for key in keys):
        low = int(keys[0])
        span = int(keys[-1]) - low + 1
        if span <= _TABLE_LIMIT and (not rule.floats or abs(low) + span < _EXACT_FLOATS):
            table_of = np.full(span, rule.other, dtype=np.uint32)
            table_of[np.array([int(key) - low for key in keys])] = codes
            return core.Map(core.TABLE, lo=low, count=span, table=table_of, **sides)
    own: dict[str, Any] = {"fkeys" if rule.floats else "ikeys": keys}
    return core.Map(core.SORTED, count=len(keys), table=codes, **own, **sides)
