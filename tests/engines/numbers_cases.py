"""A table with amounts, dates, times, nulls and hostile values, questions about it, and the slow
twin's integers: what every engine must give."""

from datetime import date, datetime, timedelta
from decimal import ROUND_HALF_EVEN, Decimal

import numpy as np
import pyarrow as pa
from msgspec import Struct

from fastdp.numbers.typed import check
from fastdp.schema import Schema

from ..reference import numbers as slow

COUNTRIES = ["UK", "FR", "DE"]
SCHEMA = Schema.from_dict(
    {
        "user": {"column": "who", "order": "at"},
        "columns": {
            "amount": {"kind": "numeric", "edges": [0, 10, 100, 1000], "digits": 2},
            "weight": {"kind": "numeric", "dtype": "int64", "edges": [0, 5, 10]},
            "price": {
                "kind": "numeric",
                "dtype": "decimal128(12, 3)",
                "edges": [0, 1],
                "digits": 2,
            },
            "size": {"kind": "integer", "min": 0, "max": 9},
            "country": {"kind": "categorical", "dtype": "string", "values": COUNTRIES},
            "home": {
                "kind": "categorical",
                "dtype": "string",
                "values": COUNTRIES,
                "user": "constant",
            },
            "day": {
                "kind": "timestamp",
                "dtype": "date32",
                "min": "2024-01-01",
                "max": "2024-06-30",
                "parts": {"month": "month", "day_of_week": "dow"},
                "output": "parts",
            },
            "at": {
                "kind": "timestamp",
                "dtype": "timestamp[us]",
                "min": "2024-01-01",
                "max": "2024-06-30",
                "parts": {"date": "at_date", "hour": "hour"},
            },
        },
    }
).with_exact(["amount", "weight", "price", "size", "day", "at"])
UNITS = {
    "amount": Decimal("0.01"),
    "weight": Decimal(1),
    "price": Decimal("0.01"),
    "size": Decimal(1),
}

QUESTIONS = [
    "sum(amount)",
    "sum(amount) by month",
    "mean(amount) by country, dow",
    "mean(amount * size) where country != 'UK' and rows > 2 and amount * amount < 1000000",
    "sum(price - amount) where amount is not null and not (amount > 9999 or amount < -9999)",
    "count of rows where hour >= 12 by country",
    "share of rows where day < '2024-03-01' or size in (1, 2, 3) by home",
    "count of users",
    "count of users by country",
    "count of users by home",
    "count of users by first(country)",
    "count of users by month, last(country)",
    "count of users where home = 'UK'",
    "share of users where rows > 1",
    "share of users where rows > 1 by month",
    "share of users where first(day) < '2024-02-01' and last(day) - first(day) > 30 days",
    "share of users where max(at) - min(at) >= 36 hours",
    "share of users where not any(country = 'FR' and amount > 10.5)",
    "share of users where first(country) = 'UK' and last(country) in ('FR', 'DE')",
    "share of users where first(amount) is null or distinct(country) = 3",
    "median(sum(amount)) per user",
    "quantile(rows, 0.9) per user by home",
    "mean(max(amount) - min(amount)) per user",
    "mean(last(at) - first(at)) per user where rows >= 2",
    "sum(last(size) + 2 * first(size)) per user",
    "mean(distinct(day)) per user",
    "count of users where sum(amount) > 1000",
    "sum(weight)",
    "mean(sum(weight)) per user",
]


class Table(Struct, frozen=True):
    source: pa.Table
    rows: dict


def _seconds(value):
    """Seconds since 1970 of a date or time."""
    if value is None:
        return None
    moment = datetime(value.year, value.month, value.day)
    moment = value if isinstance(value, datetime) else moment
    return Decimal((moment - datetime(1970, 1, 1)) // timedelta(seconds=1))


def _amount(name, value):
    if value is None or value != value:
        return None
    if value in (float("inf"), float("-inf")):
        return (slow.LARGEST if value > 0 else -slow.LARGEST) * UNITS[name]
    number = Decimal(str(value)) / UNITS[name]
    steps = number.to_integral_value(rounding=ROUND_HALF_EVEN)
    return min(max(steps, -slow.LARGEST), slow.LARGEST) * UNITS[name]


def make(users=60, rows=900, seed=0):
    """A source and its rows by user in Python values."""
    rng = np.random.default_rng(seed)
    owner = (rng.random(rows) ** 2 * users).astype(int)
    amount = np.round(rng.lognormal(2, 1.5, rows), 3).tolist()
    hostile = [float("nan"), float("inf"), float("-inf"), -0.0, 1e300, -1e300, 2.675, 0.125, None]
    hostile += [2.665, 1.005, -2.675, 1e-320, 0.005, 0.015]
    for i, value in enumerate(hostile * 2):
        amount[i * 7] = value
    weight = rng.integers(-5, 20, rows).tolist()
    weight[3] = 2**62
    weight[4] = 2**62
    weight[5] = None
    price = [Decimal(int(n)).scaleb(-3) for n in rng.integers(-2000, 10**6, rows)]
    price[7] = None
    size = [None if rng.random() < 0.05 else int(n) for n in rng.integers(-1, 12, rows)]
    country = [[*COUNTRIES, "ES", None][i] for i in rng.integers(0, 5, rows)]
    home = [[*COUNTRIES, "ES", None][u % 5] for u in owner]
    days = [date.fromordinal(738886 + int(d)) for d in rng.integers(0, 200, rows)]
    days[11] = None
    start = datetime(2024, 1, 1)
    at = [start + timedelta(seconds=int(s)) for s in rng.integers(0, 40, rows) * 90_061]
    at[13] = at[14] = None
    columns = {
        "who": pa.array(owner, pa.int64()),
        "amount": pa.array(amount, pa.float64(), from_pandas=False),
        "weight": pa.array(weight, pa.int64()),
        "price": pa.array(price, pa.decimal128(12, 3)),
        "size": pa.array(size, pa.int64()),
        "country": pa.array(country),
        "home": pa.array(home),
        "day": pa.array(days, pa.date32()),
        "at": pa.array(at, pa.timestamp("us")),
    }
    by_user: dict = {}
    for i in range(rows):
        row = {name: _amount(name, columns[name][i].as_py()) for name in UNITS} | {
            "country": country[i],
            "home": home[i],
        }
        row |= {"day": _seconds(days[i]), "at": _seconds(at[i])}
        row |= {"month": None if days[i] is None else Decimal(days[i].month)}
        row |= {"hour": None if at[i] is None else Decimal(at[i].hour)}
        for name in ("country", "home"):
            row["code", name] = _code(row[name])
        row["code", "month"] = 13 if days[i] is None else days[i].month - 1
        row["code", "dow"] = 8 if days[i] is None else days[i].weekday()
        by_user.setdefault(int(owner[i]), []).append(row)
    return Table(pa.table(columns), by_user)


def _code(value):
    if value is None:
        return 4
    return COUNTRIES.index(value) if value in COUNTRIES else 3


def wanted(question, rows_of):
    """int64 [3, groups] of a question, by the slow twin: values, weights and numbers of entries."""
    number = check(question, SCHEMA)
    out = np.zeros((3, number.groups), np.int64)
    for entries in slow.evaluate(number, rows_of, number.shape).values():
        for group, (value, weight) in entries.items():
            value = value / 86_400 if number.kind == "days" else value
            out[:, group] += (slow.saturated(value, number.unit), weight, 1)
    return out
