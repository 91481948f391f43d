"""Dialects of databases that no engine connects to yet: Snowflake, BigQuery, Databricks and Trino.

UNTESTED ON A SERVER. Tests parse every statement that the engine would send, and nothing more: a
statement that parses can still count otherwise. Before one of these is used, its connection has to
pass `tests/engines/conformance.py` on a server."""

from __future__ import annotations

from .sql_dialects import Dialect, written


class _Untested(Dialect):
    """What the four share."""

    def rounded(self, x: str) -> str:
        # Their round() takes ties away from 0.
        even = f"2 * floor((({x}) + 0.5) / 2)"
        return f"(CASE WHEN ({x}) - floor({x}) = 0.5 THEN {even} ELSE round({x}) END)"


class Snowflake(_Untested):
    """Snowflake: whole numbers are decimals, so that a division would round: remainders come first."""

    name = "Snowflake"
    float64 = "DOUBLE"

    def moment(self, ticks: int, unit: str, zoned: bool) -> str:
        kind = "TIMESTAMP_TZ" if zoned else "TIMESTAMP_NTZ"
        return f"CAST({self.text(written(ticks, unit) + (' +0000' if zoned else ''))} AS {kind})"

    def bytes_of(self, x: str) -> str:
        return f"TO_BINARY({x}, 'UTF-8')"

    def sha256(self, x: str) -> str:
        return f"SHA2({x}, 256)"

    def hex_number(self, x: str) -> str:
        return f"CAST(TO_NUMBER({x}, 'XXXXXXXX') AS BIGINT)"

    def seconds(self, x: str, unit: str) -> str:
        return f"DATE_PART(EPOCH_SECOND, DATE_TRUNC('SECOND', {x}))"

    def days(self, x: str) -> str:
        return f"DATEDIFF(DAY, {self.day(0)}, {x})"

    def civil(self, day: str, part: str) -> str:
        return f"EXTRACT({part} FROM DATEADD(DAY, {day}, {self.day(0)}))"

    def divided(self, x: str, by: int) -> str:
        return f"CAST((({x}) - (({x}) % {by})) / {by} AS BIGINT)"


class BigQuery(_Untested):
    """BigQuery: remainders by MOD, times without a zone are DATETIME."""

    name = "BigQuery"
    quote = "`"
    float64 = "FLOAT64"
    float32 = "FLOAT64"
    whole = "INT64"
    wide = "BIGNUMERIC"
    texts = "STRING"
    sizes = ()
    temporary = "CREATE TEMP TABLE"

    def quoted(self, name: str) -> str:
        return "`" + name.replace("\\", "\\\\").replace("`", "\\`") + "`"

    def decimal(self, value: int, scale: int) -> str:
        return super().decimal(value, scale).replace(f"DECIMAL(38, {scale})", "BIGNUMERIC")

    def moment(self, ticks: int, unit: str, zoned: bool) -> str:
        kind = "TIMESTAMP" if zoned else "DATETIME"
        return f"CAST({self.text(written(ticks, unit) + ('+00' if zoned else ''))} AS {kind})"

    def is_nan(self, x: str) -> str:
        return f"IS_NAN({x})"

    def bytes_of(self, x: str) -> str:
        return f"CAST({x} AS BYTES)"

    def sha256(self, x: str) -> str:
        return f"TO_HEX(SHA256({x}))"

    def hex_number(self, x: str) -> str:
        return f"CAST(CONCAT('0x', {x}) AS INT64)"

    def seconds(self, x: str, unit: str) -> str:
        return f"DATETIME_DIFF(DATETIME_TRUNC({x}, SECOND), {self.moment(0, 's', False)}, SECOND)"

    def days(self, x: str) -> str:
        return f"DATE_DIFF({x}, {self.day(0)}, DAY)"

    def civil(self, day: str, part: str) -> str:
        return f"EXTRACT({part} FROM DATE_ADD({self.day(0)}, INTERVAL {day} DAY))"

    def divided(self, x: str, by: int) -> str:
        return f"DIV({x}, {by})"

    def wide_quotient(self, x: str, by: int) -> str:
        return self.divided(x, by)

    def remainder(self, x: str, by: int) -> str:
        return f"MOD({x}, {by})"


class Databricks(_Untested):
    """Databricks SQL and Spark SQL: quotients by `div`, times without a zone are TIMESTAMP_NTZ."""

    name = "Databricks"
    quote = "`"
    float64 = "DOUBLE"
    float32 = "FLOAT"
    texts = "STRING"

    def moment(self, ticks: int, unit: str, zoned: bool) -> str:
        kind = "TIMESTAMP" if zoned else "TIMESTAMP_NTZ"
        return f"CAST({self.text(written(ticks, unit) + ('+00:00' if zoned else ''))} AS {kind})"

    def is_nan(self, x: str) -> str:
        return f"isnan({x})"

    def bytes_of(self, x: str) -> str:
        return f"encode({x}, 'UTF-8')"

    def sha256(self, x: str) -> str:
        return f"sha2({x}, 256)"

    def hex_number(self, x: str) -> str:
        return f"CAST(conv({x}, 16, 10) AS BIGINT)"

    def seconds(self, x: str, unit: str) -> str:
        days = f"datediff({x}, {self.day(0)})"
        return f"({days} * 86400 + hour({x}) * 3600 + minute({x}) * 60 + CAST(floor(second({x})) AS INT))"

    def days(self, x: str) -> str:
        return f"datediff({x}, {self.day(0)})"

    def civil(self, day: str, part: str) -> str:
        return f"extract({part} FROM date_add({self.day(0)}, CAST({day} AS INT)))"

    def divided(self, x: str, by: int) -> str:
        return f"(({x}) div {by})"

    def rounded(self, x: str) -> str:
        return f"rint({x})"


class Trino(_Untested):
    """Trino: it has no temporary tables, so that a connection needs a schema that others cannot read."""

    name = "Trino"
    float64 = "DOUBLE"
    temporary = "CREATE TABLE"

    def moment(self, ticks: int, unit: str, zoned: bool) -> str:
        at = written(ticks, unit)
        if zoned:
            return f"CAST({self.text(at + ' UTC')} AS TIMESTAMP(6) WITH TIME ZONE)"
        return f"CAST({self.text(at)} AS TIMESTAMP(6))"

    def is_nan(self, x: str) -> str:
        return f"is_nan({x})"

    def bytes_of(self, x: str) -> str:
        return f"to_utf8({x})"

    def sha256(self, x: str) -> str:
        return f"lower(to_hex(sha256({x})))"

    def hex_number(self, x: str) -> str:
        return f"from_base({x}, 16)"

    def seconds(self, x: str, unit: str) -> str:
        return f"date_diff('second', {self.moment(0, 's', False)}, date_trunc('second', {x}))"

    def days(self, x: str) -> str:
        return f"date_diff('day', {self.day(0)}, {x})"

    def civil(self, day: str, part: str) -> str:
        return f"extract({part} FROM date_add('day', {day}, {self.day(0)}))"

    def divided(self, x: str, by: int) -> str:
        return f"(({x}) / {by})"


UNTESTED: tuple[type[Dialect], ...] = (Snowflake, BigQuery, Databricks, Trino)
