"""How databases spell what is not the same everywhere: a class for each, of some twenty functions.

Only exact operations are used: comparisons, and arithmetic on whole numbers that fit in 63 bits. A
dialect never writes a cast that a value could make fail.

Tested on servers: DuckDB and PostgreSQL. Texts of others are in `sql_other_dialects`, untested."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from ..measurement import MOST

UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
PRIME = (1 << 31) - 1
"""Tie numbers are computed modulo this prime: products of two stay below 2^62."""
HALF = 1 << 60
"""Numbers of more than 63 bits leave a database as two: how many times this, and the rest."""
PLAIN_TEXTS = ("VARCHAR", "TEXT", "CHARACTER VARYING")


def written(ticks: int, unit: str) -> str:
    """A time or day as ISO 8601 writes it, with a blank."""
    return str(np.array(ticks, f"datetime64[{unit}]")).replace("T", " ")


class Dialect:
    """The SQL standard, as far as it goes. whole: 64 bits; wide: more than 64."""

    name: ClassVar[str] = "SQL"
    float64: ClassVar[str] = "DOUBLE PRECISION"
    float32: ClassVar[str] = "REAL"
    whole: ClassVar[str] = "BIGINT"
    wide: ClassVar[str] = "DECIMAL(38, 0)"
    texts: ClassVar[str] = "VARCHAR"
    sizes: ClassVar[tuple[tuple[str, int], ...]] = (("SMALLINT", 1 << 15), ("INTEGER", 1 << 31))
    temporary: ClassVar[str] = "CREATE TEMPORARY TABLE"
    quote: ClassVar[str] = '"'

    def quoted(self, name: str) -> str:
        """A column's or table's name."""
        return self.quote + name.replace(self.quote, self.quote * 2) + self.quote

    def text(self, value: str) -> str:
        """A literal text."""
        return "'" + value.replace("'", "''") + "'"

    def integer(self, value: int) -> str:
        """A literal whole number. The digits of -2^63 alone are beyond 64 bits."""
        if value == -(1 << 63):
            return f"CAST({self.text(str(value))} AS {self.whole})"
        return f"({value})" if value < 0 else str(value)

    def double(self, value: float) -> str:
        """A literal float, as a text that is cast: `0.1` would be a decimal."""
        return f"CAST({self.text(repr(float(value)))} AS {self.float64})"

    def decimal(self, value: int, scale: int) -> str:
        """A literal decimal, `value` times 10^-scale; at most 38 digits."""
        digits = f"{'-' if value < 0 else ''}{abs(value):0{scale + 1}d}"
        number = f"{digits[:-scale]}.{digits[-scale:]}" if scale else digits
        return f"CAST({self.text(number)} AS DECIMAL(38, {scale}))"

    def moment(self, ticks: int, unit: str, zoned: bool) -> str:
        """A literal time: `ticks` of a unit since 1970."""
        at = written(ticks, unit)
        kind = "TIMESTAMP WITH TIME ZONE" if zoned else "TIMESTAMP"
        return f"CAST({self.text(at + ('+00' if zoned else ''))} AS {kind})"

    def day(self, days: int) -> str:
        """A literal date, `days` after 1970."""
        return f"CAST({self.text(written(days, 'D'))} AS DATE)"

    def is_nan(self, x: str) -> str:
        return f"{x} = {self.double(float('nan'))}"

    def decimal_nan(self, x: str) -> str:
        """Whether a decimal is not a number; empty where no decimal can be that."""
        return ""

    def to_float(self, x: str, own: str) -> str:
        """A number of the database's type `own` as the nearest float."""
        return f"CAST({x} AS {self.float64})"

    def to_whole(self, x: str) -> str:
        """A number that is known to be whole, and to fit, as 64 bits."""
        return f"CAST({x} AS {self.whole})"

    def rounded(self, x: str) -> str:
        """The nearest whole number to a float, as a float; of two the even one."""
        raise NotImplementedError

    def text_of(self, x: str, own: str) -> str:
        """A value of the database's type `own` as the text that a reader of rows gets."""
        return x if own.startswith(PLAIN_TEXTS) else f"CAST({x} AS {self.texts})"

    def bytes_of(self, x: str) -> str:
        """The UTF-8 bytes of a text."""
        raise NotImplementedError

    def sha256(self, x: str) -> str:
        """The SHA-256 of bytes, as 64 lower-case hexadecimal digits."""
        raise NotImplementedError

    def hex_number(self, x: str) -> str:
        """The whole number that eight hexadecimal digits spell."""
        raise NotImplementedError

    def seconds(self, x: str, unit: str) -> str:
        """Whole seconds since 1970, rounded down, of a time between the years 1 and 9999."""
        raise NotImplementedError

    def days(self, x: str) -> str:
        """Days since 1970 of a date between the years 1 and 9999."""
        return f"CAST({x} - {self.day(0)} AS {self.whole})"

    def civil(self, day: str, part: str) -> str:
        """year, month or day of a day since 1970."""
        return f"CAST(extract({part} FROM {self.day(0)} + CAST({day} AS INTEGER)) AS {self.whole})"

    def divided(self, x: str, by: int) -> str:
        """The quotient, rounded down, of a whole number that is not negative."""
        raise NotImplementedError

    def remainder(self, x: str, by: int) -> str:
        """The remainder of a whole number that is not negative."""
        return f"(({x}) % {by})"

    def as_wide(self, x: str) -> str:
        """A whole number of 64 bits as one of more: products of two of them fit."""
        return f"CAST({x} AS {self.wide})"

    def wide_sum(self, x: str) -> str:
        """The sum of whole numbers of at most 64 bits, as a wide one."""
        return f"sum({self.as_wide(x)})"

    def bounded(self, x: str) -> str:
        """A wide whole number as 64 bits; one beyond `MOST` becomes `MOST`."""
        return f"CAST(least({x}, {MOST}) AS {self.whole})"

    def halves(self, x: str) -> tuple[str, str]:
        """A wide whole number that is not negative, as two of 64 bits: see `HALF`."""
        return self.bounded(self.wide_quotient(x, HALF)), self.bounded(self.remainder(x, HALF))

    def wide_quotient(self, x: str, by: int) -> str:
        """As `divided`, of a wide whole number: an exact division of decimals."""
        return f"((({x}) - {self.remainder(x, by)}) / {by})"

    def small(self, size: int) -> str:
        """The smallest type for codes below `size`."""
        return next((kind for kind, most in self.sizes if size <= most), self.whole)


class DuckDb(Dialect):
    """DuckDB. Its texts are UTF-8; `//` rounds towards zero; NaN equals itself; sums of whole numbers
    have 128 bits."""

    name = "DuckDB"
    float64 = "DOUBLE"
    wide = "HUGEINT"
    sizes = (("UTINYINT", 1 << 8), ("USMALLINT", 1 << 16), ("UINTEGER", 1 << 32))
    temporary = "CREATE TEMP TABLE"
    moments: ClassVar[dict[str, str]] = {
        "s": "TIMESTAMP_S",
        "ms": "TIMESTAMP_MS",
        "us": "TIMESTAMP",
        "ns": "TIMESTAMP_NS",
    }

    def moment(self, ticks: int, unit: str, zoned: bool) -> str:
        at = written(ticks, unit)
        kind = "TIMESTAMPTZ" if zoned else self.moments[unit]
        return f"CAST({self.text(at + ('+00' if zoned else ''))} AS {kind})"

    def is_nan(self, x: str) -> str:
        return f"isnan({x})"

    def to_float(self, x: str, own: str) -> str:
        # DuckDB's own cast does not round to the nearest.
        if own.startswith(("DECIMAL", "HUGEINT")):
            x = f"CAST({x} AS VARCHAR)"
        return super().to_float(x, own)

    def rounded(self, x: str) -> str:
        return f"round_even({x}, 0)"

    def bytes_of(self, x: str) -> str:
        # A cast to BLOB would read `\x41` as one byte.
        return f"encode({x})"

    def sha256(self, x: str) -> str:
        return f"sha256({x})"

    def hex_number(self, x: str) -> str:
        return f"CAST('0x' || {x} AS BIGINT)"

    def seconds(self, x: str, unit: str) -> str:
        if unit == "ns":
            ticks = f"epoch_ns({x})"
            per = 10**9
        else:
            ticks = f"epoch_us({x})"
            per = 10**6
        return f"(({ticks} - ((({ticks}) % {per}) + {per}) % {per}) // {per})"

    def divided(self, x: str, by: int) -> str:
        return f"(({x}) // {by})"

    def wide_sum(self, x: str) -> str:
        return f"sum({x})"

    def wide_quotient(self, x: str, by: int) -> str:
        return self.divided(x, by)


class Postgres(Dialect):
    """PostgreSQL: no unsigned types, `/` of whole numbers rounds towards zero, NaN equals itself and
    is above all numbers, also as a NUMERIC. Texts are UTF-8, which is checked at opening."""

    name = "PostgreSQL"
    texts = "TEXT"
    wide = "NUMERIC"

    def decimal_nan(self, x: str) -> str:
        return f"{x} = CAST('NaN' AS NUMERIC)"

    def to_float(self, x: str, own: str) -> str:
        if own != "NUMERIC":
            return super().to_float(x, own)
        # The cast of a number that no float is near to would raise.
        most, least = "1.7976931348623157e308", "5e-324"
        return (
            f"CASE WHEN {self.decimal_nan(x)} THEN {self.double(float('nan'))}"
            f" WHEN {x} > CAST('{most}' AS NUMERIC) THEN {self.double(float('inf'))}"
            f" WHEN {x} < CAST('-{most}' AS NUMERIC) THEN {self.double(float('-inf'))}"
            f" WHEN abs({x}) < CAST('{least}' AS NUMERIC) THEN {self.double(0.0)}"
            f" ELSE CAST({x} AS {self.float64}) END"
        )

    def rounded(self, x: str) -> str:
        return f"round({x})"

    def text_of(self, x: str, own: str) -> str:
        # A cast of CHARACTER(n) takes its blanks away, which readers of rows see.
        length = own.removeprefix("CHARACTER(").removesuffix(")")
        text = super().text_of(x, own)
        return f"rpad({text}, {length})" if own.startswith("CHARACTER(") else text

    def bytes_of(self, x: str) -> str:
        return f"convert_to({x}, 'UTF8')"

    def sha256(self, x: str) -> str:
        return f"encode(sha256({x}), 'hex')"

    def hex_number(self, x: str) -> str:
        return f"CAST(CAST('x' || {x} AS bit(32)) AS BIGINT)"

    def seconds(self, x: str, unit: str) -> str:
        # Whole seconds are exact also where `extract` returns a float, before version 14.
        return f"CAST(extract(epoch FROM date_trunc('second', {x})) AS BIGINT)"

    def divided(self, x: str, by: int) -> str:
        return f"(({x}) / {by})"

    def wide_sum(self, x: str) -> str:
        # Of INTEGER it would have 64 bits; of BIGINT it is a NUMERIC.
        return f"sum(CAST({x} AS BIGINT))"

    def wide_quotient(self, x: str, by: int) -> str:
        return f"div({x}, {by})"
