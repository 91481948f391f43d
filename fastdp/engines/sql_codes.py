"""Codes of the rows of a query as SQL expressions: the rules of `codec.rules`, written for a
database.

Expressions are made of public facts alone: the schema, and names and types of the query's columns. A
code is a whole number, or -1 where the policy drops the row. No value makes an expression fail, in
whatever order a database evaluates it: what could is replaced by a harmless value first, in an inner
select (`guards`). Texts are compared as bytes, whatever the collation."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from msgspec import Struct, field

from .._util.lazy import pa
from ..codec import encode
from ..codec.maps import Source
from ..codec.policy import null_code, other_code
from ..codec.rules import Rule, rule_of
from ..errors import DataError
from ..schema import Schema, dtypes
from ..schema.coding import Listed
from ..schema.columns import Column
from ..schema.derived import Derived
from ..schema.epoch import DAY_MILLISECONDS, DAY_SECONDS, UNITS
from ..schema.kinds.places import MOST_UNITS, units_of
from ..schema.kinds.timestamp import Timestamp
from ..schema.within_bin import Grid
from .sql_dialects import Dialect
from .sql_expressions import as_bins, float_ends, neighbours, plain_code, search, text_bytes

FIRST_SECOND = -62_135_596_800
LAST_SECOND = 253_402_300_799
"""First second of the year 1 and last of 9999, in seconds since 1970, as in `codec.maps`."""
MOST_DECIMAL = 10**38 - 1
MOST_CASES = 4096
"""The most listed numbers that are written into a statement."""
MOST_VALUES = 1 << 20
"""The most values of a transform that are looked up."""
MOMENT_RANGE = {"ns": (-(1 << 63) + 1, (1 << 63) - 1)}
"""Times that a literal of a unit can hold, where these are fewer than the calendar's."""


class Lookup(Struct, frozen=True, eq=False):
    """A small public table (k, v0, v1, ...) to be joined: the codes of each key k."""

    name: str
    keys: Any
    codes: tuple[np.ndarray, ...]


class CodedQuery(Struct):
    """What makes codes of a query's rows. values: expressions of the source's columns, by alias;
    guards: expressions over these that are safe to compute with; joins: lookups, and the alias that
    each is joined on; codes: expression of each code column; drops: code columns that can be -1."""

    values: dict[str, str] = field(default_factory=dict)
    guards: dict[str, str] = field(default_factory=dict)
    joins: list[tuple[Lookup, str]] = field(default_factory=list)
    codes: dict[str, str] = field(default_factory=dict)
    drops: list[str] = field(default_factory=list)

    def select(self, query: str, more: dict[str, str]) -> str:
        """Codes, and `more` expressions of the source's columns by alias."""
        inner = ", ".join(f"{x} AS {name}" for name, x in (self.values | more).items())
        made = f"SELECT {inner} FROM ({query}) AS source"
        if self.guards:
            guards = ", ".join(f"{x} AS {name}" for name, x in self.guards.items())
            made = f"SELECT plain.*, {guards} FROM ({made}) AS plain"
        joins = "".join(
            f" LEFT JOIN {lookup.name} ON {lookup.name}.k = guarded.{x}" for lookup, x in self.joins
        )
        codes = ", ".join([*(f"{x} AS {name}" for name, x in self.codes.items()), *more])
        return f"SELECT {codes} FROM ({made}) AS guarded{joins}"


def coded_query(
    schema: Schema, types: pa.Schema, own_types: dict[str, str], dialect: Dialect, prefix: str
) -> CodedQuery:
    """The codes of all columns of a schema, under the names c0, c1, ... in the domain's order.
    types: Arrow's, own_types: the database's. DataError where a type cannot be read at all, or not
    by a database."""
    for name in {item.source for item in schema.fields.values()} & set(types.names):
        if pa.types.is_struct(types.field(name).type) and name in own_types:
            raise DataError(
                f"column {name!r}: engine='sql' does not read {own_types[name]}; cast the column in the"
                " query, or use engine='local' on the same query"
            )
    if problems := encode.type_problems(schema.fields.values(), types):
        raise DataError("<sql>: " + "; ".join(problems))
    alias = {name: f"c{i}" for i, name in enumerate(schema.domain)}
    made = CodedQuery()
    for i, item in enumerate(schema.fields.values()):
        kind = types.field(item.source).type
        source = Source.of(item.dtype, kind)
        assert source is not None, "the types were checked"
        own = own_types.get(item.source, "").upper()
        x = dialect.quoted(item.source)
        writer = _Writer(
            dialect=dialect,
            made=made,
            source=source,
            own=own,
            x=f"x{i}",
            table=f"{prefix}k{i}",
            name=item.source,
        )
        if isinstance(item, Timestamp):
            parts = writer.calendar(x, item)
        elif isinstance(item, Derived):
            parts = writer.transformed(x, item)
        elif item.number_grids is not None:
            parts = {item.name: writer.places(x, item.number_grids)}
        elif item.coding is not None:
            parts = {item.name: writer.column(x, item)}
        else:
            raise writer.refused(f"columns of kind {item.kind!r}")
        for column in item.parts:
            made.codes[alias[column.name]] = parts[column.name]
            if "drop" in (column.null.action, column.overflow.action):
                made.drops.append(alias[column.name])
    made.codes = {name: made.codes[name] for name in alias.values()}
    return made


class _Writer:
    """Writes the codes of one field. x: the alias of its values; table: the name of its lookup."""

    def __init__(
        self,
        dialect: Dialect,
        made: CodedQuery,
        source: Source,
        own: str,
        x: str,
        table: str,
        name: str,
    ):
        self.dialect = dialect
        self.made = made
        self.source = source
        self.own = own
        self.x = x
        self.table = table
        self.name = name

    def refused(self, what: str) -> DataError:
        return DataError(
            f"column {self.name!r}: engine='sql' cannot encode {what} from {self.own or self.kind};"
            " cast the column in the query, or use engine='local' on the same query"
        )

    @property
    def kind(self) -> pa.DataType:
        return self.source.kind

    def column(self, x: str, column: Column) -> str:
        """The code of a column that is encoded value by value."""
        t = pa.types
        if t.is_null(self.kind):
            self.made.values[self.x] = f"CAST(NULL AS {self.dialect.whole})"
            return str(plain_code(null_code(column)))
        if self.source.form in ("text", "dictionary"):
            return self._listed_texts(x, column)
        rule = rule_of(column, self.source)
        if self.source.form == "time":
            return self._times(x, column, rule)
        self.made.values[self.x] = self._number(x)
        if self.source.form == "float":
            return self._floats(rule)
        return self._whole(rule)

    # --- texts

    def _listed_texts(self, x: str, column: Column) -> str:
        coding = column.coding
        if not isinstance(coding, Listed) or dtypes.family(column.dtype) != "string":
            raise self.refused(f"{column.dtype}")
        self.made.values[self.x] = text_bytes(x, self.kind, self.own, self.dialect, self.refused)
        keys = pa.array([str(value).encode() for value in coding.values], pa.binary())
        lookup = Lookup(self.table, keys, (np.arange(len(keys)),))
        self.made.joins.append((lookup, self.x))
        null = plain_code(null_code(column))
        other = plain_code(other_code(column))
        found = f"COALESCE({self.table}.v0, {other})"
        return f"CASE WHEN {self.x} IS NULL THEN {null} ELSE {found} END"

    # --- numbers

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

    # --- times

    def _check_clock(self, own: pa.DataType) -> None:
        """Times with a zone are compared with those alone, as points in time."""
        zone = getattr(self.kind, "tz", None)
        if (zone is None) != (getattr(own, "tz", None) is None):
            raise self.refused(f"{self.source.dtype} on another clock")

    def _time_key(self, seconds: Fraction) -> str:
        """Whether x is at least a time, in seconds since 1970; compared in the source's own type."""
        if pa.types.is_date(self.kind):
            return f"{self.x} >= {self.dialect.day(math.ceil(seconds / DAY_SECONDS))}"
        unit = self.kind.unit
        ticks = math.ceil(seconds * UNITS[unit])
        least, most = MOMENT_RANGE.get(unit, (ticks, ticks))
        if ticks > most:
            return "(1 = 0)"
        if ticks < least:
            return "(1 = 1)"
        zoned = self.kind.tz is not None
        return f"{self.x} >= {self.dialect.moment(ticks, unit, zoned)}"

    def _times(self, x: str, column: Column, rule: Rule) -> str:
        own = dtypes.arrow(column.dtype)
        self._check_clock(own)
        if pa.types.is_date64(self.kind):
            raise self.refused(f"{self.source.dtype}")
        if pa.types.is_date(own):
            per_second = Fraction(1, DAY_SECONDS) if own.bit_width == 32 else Fraction(1000)
            one = 1 if own.bit_width == 32 else DAY_MILLISECONDS
        else:
            per_second = Fraction(UNITS[own.unit])
            one = 1
        self.made.values[self.x] = x
        codes = [plain_code(code) for code in rule.codes]
        keys: Sequence[int] = rule.keys
        if rule.way == "list":
            keys, codes = as_bins(rule, one)
        found = search(lambda key: self._time_key(Fraction(key) / per_second), keys, codes)
        return f"CASE WHEN {self.x} IS NULL THEN {plain_code(rule.null)} ELSE {found} END"

    def _clock(self, x: str, first: int, last: int) -> tuple[str, str]:
        """(whether a time lies in first <= seconds < last, its seconds since the year 1). Counted from
        there, no number is negative. Where it lies outside, the seconds are those of 1970."""
        if self.source.form != "time" or getattr(self.kind, "tz", None) is not None:
            raise self.refused("calendar parts")
        if pa.types.is_date64(self.kind):
            raise self.refused("calendar parts")
        d = self.dialect
        safe = f"{self.x}g"
        self.made.values[self.x] = x
        inside = f"{self._time_key(Fraction(first))} AND NOT {self._time_key(Fraction(last))}"
        dated = pa.types.is_date(self.kind)
        zero = d.day(0) if dated else d.moment(0, self.kind.unit, False)
        moment = f"(CASE WHEN {inside} THEN {self.x} ELSE {zero} END)"
        seconds = (
            f"{d.days(moment)} * {DAY_SECONDS}" if dated else d.seconds(moment, self.kind.unit)
        )
        self.made.guards[safe] = f"{seconds} + {-FIRST_SECOND}"
        return inside, safe

    def calendar(self, x: str, item: Timestamp) -> dict[str, str]:
        """As `Timestamp.split`, in whole numbers that are not negative."""
        d = self.dialect
        first = FIRST_SECOND
        last = LAST_SECOND + 1
        if {"year", "date"} & set(item.names):
            first = max(first, item.span[0] * DAY_SECONDS)
            last = min(last, (item.span[1] + 1) * DAY_SECONDS)
        inside, safe = self._clock(x, first, last)
        # Day 0 of the year 1 was a Monday.
        from_year_1 = -FIRST_SECOND // DAY_SECONDS
        day = d.divided(safe, DAY_SECONDS)
        hour = d.divided(d.remainder(safe, DAY_SECONDS), 3600)
        monday = 0 if item.week_start == "monday" else 1
        weekday = d.remainder(f"{day} + {monday}", 7)
        since_1970 = f"({day} - {from_year_1})"
        minutes = d.divided(d.remainder(safe, 3600), 60)
        codes: dict[str, Callable[[], str]] = {
            "shift": lambda: f"{weekday} * 3 + {d.divided(hour, 8)}",
            "hour": lambda: hour,
            "minute": lambda: d.divided(minutes, max(item.step // 60, 1)),
            "day_of_week": lambda: weekday,
            "day": lambda: f"{d.civil(since_1970, 'day')} - 1",
            "month": lambda: f"{d.civil(since_1970, 'month')} - 1",
            "year": lambda: f"{d.civil(since_1970, 'year')} - {item.years[0]}",
            "date": lambda: f"{since_1970} - {d.integer(item.span[0])}",
        }
        out = {}
        for column, part in zip(item.parts, item.names, strict=True):
            null = plain_code(null_code(column))
            other = plain_code(other_code(column))
            cases = f"WHEN {self.x} IS NULL THEN {null} WHEN NOT ({inside}) THEN {other}"
            out[column.name] = f"CASE {cases} ELSE {codes[part]()} END"
        return out

    def transformed(self, x: str, item: Derived) -> dict[str, str]:
        """By a table of all values that the field accepts; steps of the clock by remainders."""
        if item.clock_steps:
            return self._step(x, item)
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

    def _step(self, x: str, item: Derived) -> dict[str, str]:
        (column,) = item.parts
        inside, seconds = self._clock(x, FIRST_SECOND, LAST_SECOND + 1)
        null = plain_code(null_code(column))
        other = plain_code(other_code(column))
        grids = " ".join(
            f"WHEN {self.dialect.remainder(seconds, step)} = 0 THEN {code}"
            for code, step in enumerate(item.clock_steps)
        )
        outside = f"WHEN {self.x} IS NULL THEN {null} WHEN NOT ({inside}) THEN {other}"
        return {column.name: f"CASE {outside} {grids} END"}

    # --- grids of round numbers

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
