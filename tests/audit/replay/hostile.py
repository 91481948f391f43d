"""Small tables, and users made to break a run: none, one, many or all rows; extreme values, nulls,
NaN, infinities, times out of range, new categories; the only one who has a value."""

from datetime import UTC, datetime, timedelta
from typing import Any, Literal
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa

import fastdp

EPOCH = datetime(1970, 1, 1)
VICTIM = 1 << 40
"""The id of the user who is in one table of a pair only."""
MOST_ROWS = 6
"""The public bound on rows of a user in `schema`; users may have more."""
TYPES = {
    "u": pa.int64(),
    "n": pa.int64(),
    "g": pa.string(),
    "x": pa.float64(),
    "t": pa.timestamp("us"),
}
WILD: dict[str, list] = {
    "n": [None, -1, 4, 7, 2**31, -(2**63), 2**63 - 1],
    "g": [None, "", "new", "a\x00b", "é" * 50, "[/m]", "NaN"],
    "x": [None, float("nan"), float("inf"), float("-inf"), -0.0, 5e-324, 1e308, 1e22],
    "t": [None, -(2**63) + 1, 2**63 - 1, 0, -1],
}


def rows(rng: np.random.Generator, users: int = 12, most: int = 60) -> pa.Table:
    """A table of up to `most` rows. Some users have many rows, some rows lack an id."""
    count = int(rng.choice([0, 1, most // 2, most], p=[0.05, 0.05, 0.3, 0.6]))
    return made(rng, (rng.random(count) ** 2 * users).astype(np.int64).tolist(), wild=0.05)


def made(rng: np.random.Generator, ids: list, wild: float) -> pa.Table:
    """Rows of these users; a share `wild` of the values are hostile ones."""
    count = len(ids)
    values: dict[str, list] = {
        "u": [None if who != VICTIM and rng.random() < 0.04 else who for who in ids],
        "n": rng.integers(0, 4, count).tolist(),
        "g": rng.choice(["a", "b", "c"], count).tolist(),
        "x": np.round(rng.gamma(2.0, 10.0, count), 2).tolist(),
        "t": (1_600_000_000_000_000 + rng.integers(0, 10**14, count)).tolist(),
    }
    for name, odd in WILD.items():
        for i in np.flatnonzero(rng.random(count) < wild):
            values[name][i] = odd[rng.integers(len(odd))]
    return pa.table(
        {
            n: pa.array(values[n], pa.int64()).cast(t) if n == "t" else pa.array(values[n], t)
            for n, t in TYPES.items()
        }
    )


KINDS = ("one", "some", "bound", "many", "alike", "wild", "copy", "alone", "nobody")
"""Hostile users: one row; three; as many as the bound; many more; many equal rows; nothing but
hostile values; everybody's rows once more; values that nobody else has; one row without an id."""


def victim(rng: np.random.Generator, base: pa.Table) -> pa.Table:
    """The rows of one hostile user."""
    kind = rng.choice(list(KINDS))
    if kind == "copy" and base.num_rows:  # everybody's rows once more
        return base.set_column(0, "u", pa.array([VICTIM] * base.num_rows, pa.int64()))
    counts = {"one": 1, "some": 3, "bound": MOST_ROWS, "many": 40, "alike": 9, "wild": 15}
    count = counts.get(str(kind), 5)
    if kind == "nobody":
        return made(rng, [VICTIM], wild=0.3).set_column(0, "u", pa.array([None], pa.int64()))
    if kind == "alike":  # all rows equal: the largest change of one cell
        return made(rng, [VICTIM], wild=0.3).take([0] * count)
    if kind == "alone":  # values that nobody else has
        own = made(rng, [VICTIM] * count, wild=0.0).to_pydict()
        own |= {"g": [f"only{i}" for i in range(count)], "x": [1e6 + i for i in range(count)]}
        return pa.table({n: pa.array(own[n], t) for n, t in TYPES.items()})
    return made(rng, [VICTIM] * count, wild=1.0 if kind == "wild" else 0.2)


def neighbours(rng: np.random.Generator, base: pa.Table, count: int) -> list[pa.Table]:
    """Tables that have one user more than `base`, or one less; their rows anywhere."""
    out = []
    for _ in range(count):
        ids = [who for who in set(base["u"].to_pylist()) if who is not None]
        if ids and rng.random() < 0.3:
            leaves = ids[rng.integers(len(ids))]
            kept = [i for i, who in enumerate(base["u"].to_pylist()) if who != leaves]
            out.append(base.take(pa.array(kept, pa.int64())))
        else:
            out.append(shuffled(rng, pa.concat_tables([base, victim(rng, base)])))
    return out


def one_row(rng: np.random.Generator, base: pa.Table, count: int) -> list[pa.Table]:
    """Tables that have one row more than `base`, or one less."""
    out = []
    for _ in range(count):
        if base.num_rows and rng.random() < 0.4:
            kept = np.delete(np.arange(base.num_rows), rng.integers(base.num_rows))
            out.append(base.take(pa.array(kept)))
        else:
            who = int(rng.choice([VICTIM, 0, 1]))
            more = made(rng, [VICTIM], wild=0.5).set_column(0, "u", pa.array([who], pa.int64()))
            out.append(shuffled(rng, pa.concat_tables([base, more])))
    return out


def one_group(rng: np.random.Generator, base: pa.Table, count: int) -> list[pa.Table]:
    """Tables in which one user has rows of one more group over (n, g), any number of them."""
    out = []
    for _ in range(count):
        more = made(rng, [VICTIM], wild=0.3).take([0] * int(rng.choice([1, 2, 9])))
        out.append(shuffled(rng, pa.concat_tables([base, more])))
    return out


def shuffled(rng: np.random.Generator, table: pa.Table) -> pa.Table:
    return table.take(pa.array(rng.permutation(table.num_rows)))


def schema(rng: np.random.Generator, columns: str = "ngxt", **facts: Any) -> fastdp.Schema:
    """A public schema of some of the columns above, with policies drawn at random. `facts`: of
    [user]; without users where they are {"column": None}."""

    def policy(*more: str) -> str:
        return str(rng.choice(["code", "drop", *more]))

    def some(column: dict) -> dict:
        numbers = column["kind"] != "string"
        own = {"null": policy(), "overflow": policy(*(["clamp"] if numbers else []))}
        return column | own

    dates = ["2020-09-01T00:00:00", "2021-09-01T00:00:00", "2022-09-01T00:00:00"]
    every = {
        "n": some({"kind": "integer", "max": 3}),
        "g": some({"kind": "string", "values": ["a", "b", "c"]}),
        "x": some({"kind": "numeric", "edges": [0, 10, 20, 50]})
        | {"nan": str(rng.choice(["null", "overflow"]))},
        "t": some({"kind": "numeric", "dtype": "timestamp[us]", "edges": dates}),
    }
    null = str(rng.choice(["drop", "own"]))
    user = {"column": "u", "max_rows": MOST_ROWS, "null": null} | facts
    plain = {"fastdp": 1, "name": "w", "columns": {name: every[name] for name in columns}}
    return fastdp.Schema.from_dict(plain | ({"user": user} if user["column"] else {}))


def zoned(table: pa.Table) -> pa.Table:
    """The same rows with times of a zone, which a unit of periods has to convert."""
    at = table.schema.get_field_index("t")
    return table.set_column(at, "t", table["t"].cast(pa.timestamp("us", "UTC")))


def month_of(micro: int | None, zone: str | None) -> tuple[int, int] | None:
    """The month of a time, by Python's calendar and zones; None if it is no valid time."""
    try:
        moment = EPOCH + timedelta(microseconds=micro)  # type: ignore[arg-type]
        local = moment if zone is None else moment.replace(tzinfo=UTC).astimezone(ZoneInfo(zone))
    except (OverflowError, TypeError):
        return None
    return local.year, local.month


def one_user_month(
    rng: np.random.Generator,
    base: pa.Table,
    count: int,
    zone: str | None,
    month: tuple[int, int] | Literal["any"] | None = "any",
) -> list[pa.Table]:
    """Tables in which one user has rows of one month more than in `base`, or less. The user may
    have rows of other months; times are at both ends of the month, or all invalid (None)."""
    whose = [
        (who, month_of(micro, zone))
        for who, micro in zip(base["u"].to_pylist(), base["t"].cast(pa.int64()).to_pylist())
    ]
    there = sorted({pair for pair in whose if pair[0] is not None}, key=repr)
    out = []
    for _ in range(count):
        if there and rng.random() < 0.4:
            leaves = there[rng.integers(len(there))]
            kept = [i for i, pair in enumerate(whose) if pair != leaves]
            out.append(base.take(pa.array(kept, pa.int64())))
            continue
        ids = sorted({pair[0] for pair in there} | {VICTIM})
        number = int(rng.integers(0, 40))
        drawn_month = None if rng.random() < 0.25 else (2020 + number // 12, number % 12 + 1)
        times = _month_times(drawn_month if month == "any" else month, zone)
        who = ids[rng.integers(len(ids))]
        if (who, month_of(times[0], zone)) in there:
            who = VICTIM
        more = made(rng, [VICTIM] * int(rng.choice([1, 3, MOST_ROWS, 40])), wild=0.3)
        if rng.random() < 0.5:
            more = more.take([0] * more.num_rows)
        drawn = pa.array([times[i] for i in rng.integers(0, len(times), more.num_rows)], pa.int64())
        more = more.set_column(0, "u", pa.array([who] * more.num_rows, pa.int64()))
        at = more.schema.get_field_index("t")
        more = more.set_column(at, "t", drawn.cast(base["t"].type))
        out.append(shuffled(rng, pa.concat_tables([base, more])))
    return out


def _month_times(month: tuple[int, int] | None, zone: str | None) -> list[int | None]:
    """Times of one month, in microseconds: its first and last ones, and others; or invalid ones."""
    if month is None:
        return [None, -(2**63) + 1, 2**63 - 1, 10**18]
    clock = UTC if zone is None else ZoneInfo(zone)
    number = 12 * month[0] + month[1] - 1
    ends = [
        datetime(k // 12, k % 12 + 1, 1, tzinfo=clock).astimezone(UTC).replace(tzinfo=None)
        for k in (number, number + 1)
    ]
    first, last = ((end - EPOCH) // timedelta(microseconds=1) for end in ends)
    return [first, last - 1, (first + last) // 2, first + 1]
