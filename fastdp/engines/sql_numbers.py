"""Codes of numbers as SQL expressions: ranges, bins, listed numbers, derived columns, grids of round
numbers."""

import math
from collections.abc import Sequence

import numpy as np

from .._util.lazy import pa
from ..codec.policy import null_code, other_code
from ..codec.rules import Rule
from ..schema.derived import Derived
from ..schema.kinds.places import MOST_UNITS, units_of
from ..schema.within_bin import Grid
from .sql_expressions import as_bins, float_ends, neighbours, plain_code, search
from .sql_field import FieldCodes, Lookup

MOST_DECIMAL = 10**38 - 1
"""The largest decimal of 38 digits, which is what databases hold."""
MOST_CASES = 4096
"""The most listed numbers that are written into a statement."""
MOST_VALUES = 1 << 20
"""The most values of a transform that are looked up."""


class NumberCodes(FieldCodes):
    """Writes codes of a field of numbers or truth values."""

    def column(self, x: str, rule: Rule) -> str:
        """The code of a number by its rule: a range, bins or listed numbers."""
        self.made.values[self.x] = self._number(x)
        if self.source.form == "float":
            return self._floats(rule)
        return self._whole(rule)

    def _number(self, x: str) -> str:
        t = pa.types
        d = self.dialect
        if t.is_boolean(self.kind):
            return f"CASE WHEN {x} THEN 1 WHEN NOT {x} THEN 0 END"
        if self.source.form == "float":
            if self.own == "NUMERIC" and self.source.target != "float":
                raise self.refused(f"{self.source.dtype}")
            return d.to_float(x, self.own)
        if t.is_decimal(self.kind) and not self.own.startswith(("DECIMAL", "HUGEINT", "NUMERIC(")):
            raise self.refused(f"{self.source.dtype}")
        if t.is_uint64(self.kind):
            return f"CAST({x} AS HUGEINT)"
        return f"CAST({x} AS {d.whole})" if t.is_integer(self.kind) else x

    def _at_least(self, key: int) -> str:
        """Whether x is at least a key of the rule; x IS NOT NULL."""
        if pa.types.is_decimal(self.kind):
            if not -MOST_DECIMAL <= key <= MOST_DECIMAL:
                return "(1 = 0)" if key > 0 else "(1 = 1)"
            if not self.own.startswith("HUGEINT"):
                return f"{self.x} >= {self.dialect.decimal(key, self.kind.scale)}"
        return f"{self.x} >= {self.dialect.integer(key)}"

    def _whole(self, rule: Rule) -> str:
        """Of whole numbers and decimals."""
        null = f"WHEN {self.x} IS NULL THEN {plain_code(rule.null)}"
        if pa.types.is_decimal(self.kind) and (is_nan := self.dialect.decimal_nan(self.x)):
            null += f" WHEN {is_nan} THEN {plain_code(rule.nan)}"
        if rule.way == "bins":
            codes = [plain_code(code) for code in rule.codes]
            return f"CASE {null} ELSE {search(self._at_least, rule.keys, codes)} END"
        if rule.way == "list":
            return f"CASE {null} ELSE {self._runs(rule)} END"
        first, last = rule.keys
        low = math.ceil(first * rule.step)
        high = math.floor(last * rule.step) + 1
        inside = f"{self._at_least(low)} AND NOT {self._at_least(high)}"
        safe = f"{self.x}g"
        d = self.dialect
        self.made.guards[safe] = f"CASE WHEN {inside} THEN {self.x} END"
        fraction = ""
        if pa.types.is_decimal(self.kind) and rule.step != 1:
            fraction = f"WHEN {safe} <> floor({safe}) THEN {plain_code(rule.other)} "
        above = f"WHEN {self._at_least(high)} THEN {plain_code(rule.above)}"
        code = f"{d.to_whole(f'floor({safe})' if fraction else safe)} - {d.integer(first)}"
        outside = f"WHEN {safe} IS NULL THEN {plain_code(rule.below)}"
        return f"CASE {null} {above} {outside} {fraction}ELSE {code} END"

    def _runs(self, rule: Rule) -> str:
        """Of listed numbers: a binary search over runs of neighbours whose codes rise with them."""
        runs = neighbours(rule)
        if len(runs) > MOST_CASES:
            raise self.refused(f"more than {MOST_CASES} listed numbers")
        near = runs and max(-runs[0][0], runs[-1][1]) < 1 << 62
        if len(runs) == len(rule.keys) or not near or not pa.types.is_integer(self.kind):
            if len(rule.keys) > MOST_CASES:
                raise self.refused(f"more than {MOST_CASES} listed numbers")
            return search(self._at_least, *as_bins(rule, 1))
        safe = f"{self.x}g"
        ends = (runs[0][0], runs[-1][1] + 1)
        inside = f"{self._at_least(ends[0])} AND NOT {self._at_least(ends[1])}"
        self.made.guards[safe] = f"CASE WHEN {inside} THEN {self.x} END"
        keys: list[int] = []
        codes = [str(plain_code(rule.other))]
        for first, last, code in runs:
            keys += [first, last + 1]
            shifted = f"{self.dialect.to_whole(safe)} - {self.dialect.integer(first - code)}"
            codes += [str(code) if first == last else shifted, codes[0]]
        return search(self._at_least, keys, codes)

    def _floats(self, rule: Rule) -> str:
        x = self.x
        d = self.dialect
        null = plain_code(rule.null)
        nan = plain_code(rule.nan)
        cases = f"WHEN {x} IS NULL THEN {null} WHEN {d.is_nan(x)} THEN {nan}"

        def at_least(key: float) -> str:
            return f"{x} >= {d.double(key)}"

        if rule.way == "bins":
            codes = [plain_code(code) for code in rule.codes]
            return f"CASE {cases} ELSE {search(at_least, rule.keys, codes)} END"
        if rule.way == "list":
            if len(rule.keys) > MOST_CASES or any(math.isinf(key) for key in rule.keys):
                raise self.refused(f"infinities or more than {MOST_CASES} listed numbers")
            return f"CASE {cases} ELSE {search(at_least, *as_bins(rule, None))} END"
        first, last = float_ends(*rule.keys)
        safe = f"{x}g"
        inside = f"{at_least(first)} AND {x} <= {d.double(last)}"
        self.made.guards[safe] = (
            f"CASE WHEN {d.is_nan(x)} THEN NULL WHEN {inside} AND {x} = floor({x}) THEN {x} END"
        )
        below = f"WHEN NOT {at_least(first)} THEN {plain_code(rule.below)}"
        above = f"WHEN {x} > {d.double(last)} THEN {plain_code(rule.above)}"
        fraction = f"WHEN {safe} IS NULL THEN {plain_code(rule.other)}"
        code = f"{d.to_whole(safe)} - {d.integer(rule.keys[0])}"
        return f"CASE {cases} {below} {above} {fraction} ELSE {code} END"

    def transformed(self, x: str, item: Derived) -> dict[str, str]:
        """By a table of all values that the field accepts."""
        form = self.source.form
        readable = form in ("whole", "float", "decimal")
        if not readable or item.reach is None or item.reach > MOST_VALUES:
            raise self.refused(f"a column of kind {item.kind!r} ({item.name})")
        self.made.values[self.x] = self._number(x)
        values = np.arange(item.reach + 1)
        codes, good = item.split(values)
        kept = tuple(np.asarray(own)[good].astype(np.int64) for own in codes)
        lookup = Lookup(self.table, pa.array(values[good], pa.int64()), kept)
        key = self.x
        missing = f"{self.x} IS NULL"
        if form != "whole":
            d = self.dialect
            key = f"{self.x}g"
            ends = (d.double(0.0), d.double(float(item.reach)))
            if form == "float":
                missing = f"({missing} OR {d.is_nan(self.x)})"
            else:
                ends = ("0", str(item.reach))
            inside = f"{self.x} >= {ends[0]} AND {self.x} <= {ends[1]}"
            whole = f"CASE WHEN {inside} AND {self.x} = floor({self.x}) THEN {self.x} END"
            self.made.guards[key] = d.to_whole(whole)
        self.made.joins.append((lookup, key))
        out = {}
        for i, column in enumerate(item.parts):
            null = plain_code(null_code(column))
            other = plain_code(other_code(column))
            found = f"COALESCE({self.table}.v{i}, {other})"
            out[column.name] = f"CASE WHEN {missing} THEN {null} ELSE {found} END"
        return out

    def places(self, x: str, grids: Sequence[Grid]) -> str:
        """As `decimal_places.places`, in floats: every operation is exact or rounds to the nearest."""
        numbers = self.source.form in ("whole", "float", "decimal")
        if not numbers or pa.types.is_boolean(self.kind):
            raise self.refused("digits")
        self.made.values[self.x] = self.dialect.to_float(x, self.own)
        d = self.dialect
        x = self.x
        most = d.double(MOST_UNITS)
        ends = f"{x} >= {d.double(math.inf)} OR {x} <= {d.double(-math.inf)}"
        cases = [f"WHEN {x} IS NULL OR {d.is_nan(x)} OR {ends} THEN {len(grids) + 1}"]
        for code, (scale, step, at) in enumerate(map(units_of, grids)):
            # Numbers whose units fit in 62 bits; of the others it is known where they lie.
            safe = f"{x}p{code}"
            fits = d.double(2.0**62 / scale)
            bounded = f"{x} < {fits} AND {x} > -{fits}"
            self.made.guards[safe] = f"CASE WHEN NOT ({d.is_nan(x)}) AND {bounded} THEN {x} END"
            units = d.rounded(f"({safe} * {d.double(scale)})")
            value = f"({units} / {d.double(scale)})"
            if pa.types.is_float32(self.kind):
                value = f"CAST(CAST({value} AS {d.float32}) AS {d.float64})"
            near = f"{value} = {safe}"
            if step == 1:
                on = f"{safe} IS NULL OR abs({units}) >= {most} OR {near}"
            else:
                on_step = f"{d.remainder(f'{d.to_whole(units)} - {at}', step)} = 0"
                on = f"abs({units}) < {most} AND {near} AND {on_step}"
            cases.append(f"WHEN {on} THEN {code}")
        return f"CASE {' '.join(cases)} ELSE {len(grids)} END"
