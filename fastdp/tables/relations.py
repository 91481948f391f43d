"""Relations between columns that a draft proposes as constraints. They are parts of a date or clock
time, columns that follow from another by a table, and the order of dates. The time zone is the one
in which parts agree.

They look at all rows, so a draft marks each of them LEARNT: the data's owner keeps those that are
rules.
"""

from __future__ import annotations

import keyword
import math
from collections.abc import Mapping, Sequence
from itertools import permutations
from typing import Any

from msgspec import Struct

from .._util.lazy import pl
from ..schema import dtypes
from ..schema.fields import parse_field

LEAST_ROWS = 50
ROWS_PER_VALUE = 20
"""A column determines another only if each of its values has this many rows on average: fewer agree
by chance."""
MOST_VALUES = 1000
SAMPLE = 5_000
ORDER_CELLS = 1 << 20
"""Order is proposed where the codes of both columns have at most this many combinations."""
ZONES = (
    "America/New_York America/Chicago America/Denver America/Los_Angeles America/Sao_Paulo"
    " Europe/London Europe/Paris Europe/Moscow Asia/Kolkata Asia/Shanghai Asia/Tokyo"
    " Australia/Sydney"
).split()
"""Zones that are tried for times in UTC whose parts stand in columns of their own."""
PARTS = {
    "year": (1, 9999),
    "month": (1, 12),
    "day": (1, 31),
    "hour": (0, 23),
    "day_of_week": (0, 6),
}
"""Parts of a time, and the range of each."""


class Columns(Struct):
    """Drafted columns: their values with nulls, and their documents, which the functions here may
    change."""

    values: Mapping[str, pl.Series]
    entries: dict[str, dict[str, Any]]

    def of_kind(self, *kinds: str) -> list[str]:
        return [name for name, entry in self.entries.items() if entry["kind"] in kinds]

    def named(self, *kinds: str) -> list[str]:
        """Columns whose names can stand in an expression."""
        return [n for n in self.of_kind(*kinds) if n.isidentifier() and not keyword.iskeyword(n)]

    def is_time(self, name: str) -> bool:
        return dtypes.family(self.entries[name]["dtype"]) in ("date", "timestamp")


def propose(columns: Columns) -> list[dict[str, Any]]:
    """Constraints that hold in every row, and the documents that they need."""
    if not columns.values or len(next(iter(columns.values.values()))) < LEAST_ROWS:
        return []
    _set_zones(columns)
    made = _parts(columns)
    made += _tables(columns, {c["column"] for c in made if "column" in c})
    return made + _orders(columns)


def _part(times: pl.Series, part: str) -> pl.Series | None:
    if part == "hour" and times.dtype.base_type().__name__ == "Date":
        return None
    got = times.dt.weekday() - 1 if part == "day_of_week" else getattr(times.dt, part)()
    return got.cast(int)


def _set_zones(columns: Columns) -> None:
    """For times in UTC: the zone on whose clock more columns are parts of the time than in UTC."""
    numbers = [columns.values[n].head(SAMPLE) for n in columns.of_kind("integer")]
    for name in columns.of_kind("timestamp"):
        entry = columns.entries[name]
        if not entry["dtype"].endswith("tz=UTC]"):
            continue

        times = columns.values[name].head(SAMPLE)
        best = max(
            ("UTC", *ZONES), key=lambda zone: _agreeing(times.dt.convert_time_zone(zone), numbers)
        )
        entry["dtype"] = entry["dtype"].replace("tz=UTC", f"tz={best}")
        local = columns.values[name].dt.convert_time_zone(best)
        entry |= {"min": str(local.min())[:10], "max": str(local.max())[:10]}
        columns.values = {**columns.values, name: local}


def _agreeing(times: pl.Series, numbers: Sequence[pl.Series]) -> int:
    """How many of the columns are a part of the time."""
    parts = [p for p in (_part(times, part) for part in PARTS) if p is not None]
    return sum(any(_agree(number, p) for p in parts) for number in numbers)


def _agree(number: pl.Series, part: pl.Series) -> bool:
    """Whether two columns of whole numbers are equal, with nulls in the same rows."""
    return bool((number.cast(float).eq_missing(part.cast(float))).all())


def _parts(columns: Columns) -> list[dict[str, Any]]:
    """`follows` for columns that are a part of a time or clock time, and `require` where several
    are one."""
    expressions: dict[str, tuple[pl.Series, str, str]] = {}
    for name in columns.named("timestamp"):
        for part in PARTS:
            if (values := _part(columns.values[name], part)) is not None:
                expressions[f"{part}({name})"] = values, name, part
    for name in columns.named("derived"):
        numbers = columns.values[name].cast(int)
        for part, values in zip(columns.entries[name]["parts"], (numbers // 100, numbers % 100)):
            expressions[part] = values, name, ""
    made: list[dict[str, Any]] = []
    for column in columns.of_kind("integer"):
        entry = columns.entries[column]
        number = columns.values[column]
        found = [text for text, (values, _, _) in expressions.items() if _agree(number, values)]
        if not found or (number.n_unique() < 2 and not found[0].startswith(f"{column}(")):
            continue
        _, source, part = expressions[found[0]]
        own = columns.entries[source]
        if part and not _can_tell(own, source, part):
            continue
        low, high = PARTS.get(part, (0, 59 if found[0].endswith("_minute") else 24))
        if part == "year":
            low, high = int(own["min"][:4]), int(own["max"][:4])
        entry |= {"min": low, "max": high, "null": own["null"]}
        made.append({"column": column, "follows": found[0]})
        for other in found[1:]:
            _, source, part = expressions[other]
            if not part or _can_tell(columns.entries[source], source, part):
                made.append({"require": f"{other} == {found[0]}"})
    return made


def _can_tell(entry: dict[str, Any], name: str, part: str) -> bool:
    """Whether the drafted parts of a time determine this one. Days of the month take the place of
    days of the week where they are asked for."""
    parts = entry["parts"]
    if part == "day" and "date" not in parts and "day_of_week" in parts:
        parts["day"] = parts.pop("day_of_week").removesuffix("_of_week")
    return part in parts or ("date" in parts and part != "hour")


def _tables(columns: Columns, following: set[str]) -> list[dict[str, Any]]:
    """Columns that another one determines, by a table of its values."""
    rows = len(next(iter(columns.values.values())))
    names = [
        n for n in columns.of_kind("categorical", "integer", "numeric") if not columns.is_time(n)
    ]
    distinct = {n: columns.values[n].drop_nulls().n_unique() for n in names}
    place = {n: i for i, n in enumerate(names)}
    most = min(MOST_VALUES, rows / ROWS_PER_VALUE)
    able = [
        n for n in columns.of_kind("categorical", "integer") if n in distinct and n not in following
    ]
    sources = [n for n in able if 1 < distinct[n] <= most]
    made = []
    for column in names:
        if column in following or distinct[column] < 2:
            continue
        near = [a for a in sources if (distinct[a], -place[a]) > (distinct[column], -place[column])]
        for source in sorted(near, key=lambda a: (distinct[a], place[a])):
            a, b = columns.values[source], columns.values[column]
            if not all(_determines(a.head(n), b.head(n)) for n in (SAMPLE, rows)):
                continue
            pairs = pl.DataFrame({"a": a, "b": b}).unique()
            listed = sorted(pairs.drop_nulls().rows(), key=lambda pair: (str(type(pair[0])), pair))
            _as_list(columns.entries[column], [b for _, b in listed])
            own = columns.entries[source]
            whole = (
                own["kind"] == "categorical"
                or len({a for a, _ in listed}) == own["max"] - own["min"] + 1
            )
            if own["null"] == "code" or not whole:
                columns.entries[column]["null"] = "code"
            table = [[plain(a), plain(b)] for a, b in listed]
            made.append({"column": column, "from": [source], "table": table, "model": False})
            break
    return made


def _determines(source: pl.Series, column: pl.Series) -> bool:
    """Whether each value of the source has one value of the column, and each null a null."""
    pairs = pl.DataFrame({"a": source, "b": column}).unique()
    null_to_null = bool(pairs.filter(pl.col("a").is_null())["b"].is_null().all())
    return pairs.height == source.n_unique() and null_to_null


def _as_list(entry: dict[str, Any], values: Sequence[Any]) -> None:
    """Turn bins into the list of the values that occur: a column that follows has listed values."""
    if entry["kind"] == "numeric":
        kept = {k: entry[k] for k in ("dtype", "null")}
        entry.clear()
        entry |= {**kept, "kind": "categorical", "values": sorted({plain(v) for v in values})}


def plain(value: Any) -> Any:
    """A value as a schema document has it."""
    return value if isinstance(value, bool | int | float | str) else str(value)


def _orders(columns: Columns) -> list[dict[str, Any]]:
    """Pairs of dates or times of which the first is never after the second."""
    times = [n for n in columns.of_kind("timestamp", "numeric") if columns.is_time(n)]
    made = []
    for a, b in permutations(times, 2):
        first, second = columns.values[a], columns.values[b]
        if first.dtype != second.dtype or (first > second).any() or not (first < second).mean():
            continue
        if (
            math.prod(c.size for n in (a, b) for c in parse_field(n, columns.entries[n]).parts)
            <= ORDER_CELLS
        ):
            note = "A rule? It holds in every row of the data. If it is not one, delete it."
            made.append({"order": [a, b], "note": note})
    return made
