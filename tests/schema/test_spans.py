"""Times drawn from their parts: against a slow twin, and over spans whose days cannot be listed."""

from itertools import chain, combinations

import numpy as np
import pyarrow as pa
import pytest

import fastdp
from fastdp.codec.decode import decode
from fastdp.codec.encode import encode_batch
from fastdp.errors import SchemaError
from fastdp.schema import Schema, epoch

PARTS = ("shift", "hour", "day_of_week", "month", "year")
SOME = list(chain.from_iterable(combinations(PARTS, r) for r in range(1, 5)))
SPANS = [
    ("2019-02-27", "2021-03-02"),
    ("2020-02-27", "2020-03-01"),
    ("2020-05-05", "2020-05-05"),
    ("1969-12-30", "1970-01-02"),
]


def field(parts, span, dtype="timestamp[s]", week_start="monday"):
    entry = {
        "kind": "timestamp",
        "dtype": dtype,
        "parts": list(parts),
        "min": span[0],
        "max": span[1],
    }
    schema = Schema.from_dict({"columns": {"x": {**entry, "week_start": week_start}}})
    return schema, schema.fields["x"]


def slow_day(item, codes: dict[str, int], u: float) -> int:
    """The day at `u` of the sorted list of those that fit, by looking at every day of the span."""
    days = np.arange(item.span[0], item.span[1] + 1)
    split = dict(zip(item.names, item.split(days * 86_400)[0], strict=True))
    weekday = split.get("day_of_week", split["shift"] // 3 if "shift" in split else None)
    wanted = codes.get("day_of_week", codes["shift"] // 3 if "shift" in codes else None)
    same_week = np.ones(len(days), bool) if weekday is None else weekday == wanted
    fits = same_week.copy()
    for part in ("year", "month"):
        if part in codes:
            fits &= split[part] == codes[part]
    pool = next(pool for pool in (days[fits], days[same_week], days) if len(pool))
    return int(pool[min(int(u * len(pool)), len(pool) - 1)])


@pytest.mark.parametrize("week_start", ["monday", "sunday"])
@pytest.mark.parametrize("span", SPANS, ids="-".join)
def test_days_are_those_of_the_slow_twin(span, week_start):
    rng = np.random.default_rng(3)
    for parts in SOME:
        item = field(parts, span, week_start=week_start)[1]
        codes = [rng.integers(0, part.count, 15) for part in item.parts]
        u = {purpose: rng.random(15) for purpose in ("day", "hour", "second")}
        made = item.join(codes, u.__getitem__) // 86_400
        rows = zip(*codes, strict=True)
        want = [
            slow_day(item, dict(zip(parts, row, strict=True)), x) for row, x in zip(rows, u["day"])
        ]
        assert made.tolist() == want, parts


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize(
    "parts", [("year", "month", "day_of_week", "hour"), ("month", "shift"), ("hour",)]
)
@pytest.mark.parametrize("zone", ["", ", tz=Asia/Tokyo"])
def test_the_longest_span_of_each_type_is_decoded_and_read_back(parts, unit, zone):
    """The years 1 to 9999 have 3,652,059 days in 839,916 classes of year, month and weekday."""
    dtype = f"timestamp[{unit}{zone}]"
    span = [epoch.text_of(day, "date32") for day in epoch.day_range(dtype)]
    schema, item = field(parts, span, dtype)
    rng = np.random.default_rng(5)
    codes = {part.name: rng.integers(0, part.count, 500) for part in item.parts}
    for part in item.parts:
        if part.part in ("year", "month"):  # the first and last months of the span are not whole
            codes[part.name][:] = np.clip(codes[part.name], 1, part.count - 2)
    read = encode_batch(schema, decode(schema, codes, 7))[0]
    assert all(np.array_equal(read[name], column) for name, column in codes.items())


@pytest.mark.parametrize(
    "span", [("1677-09-21", "2000-01-01"), ("2000-01-01", "2262-04-11")], ids="-".join
)
def test_a_span_that_nanoseconds_cannot_hold_is_refused(span):
    with pytest.raises(
        SchemaError, match=r"timestamp\[ns\] holds only days from 1677-09-23 to 2262-04-09"
    ):
        field(["year"], span, "timestamp[ns]")


@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Tokyo", "+05:30"])
def test_days_of_a_private_domain_are_those_of_the_columns_own_clock(zone):
    """No row of the first or last day is lost where that is another day in UTC, and times stay on
    the hour of their own clock. Noise of a row or two."""
    instants = pa.array(np.arange(4000) % 96 * 3600 + 1800 * (zone == "+05:30"), pa.int64())
    table = pa.table({"x": instants.cast(pa.timestamp("s", zone))})
    run = fastdp.synthesize(
        table, "mst", domain="private", epsilon=50, delta=1e-6, seed=1, sample_seed=2
    )
    assert abs(run.data.num_rows - 4000) < 20
    local = run.data["x"].cast(pa.timestamp("s", zone)).to_pylist()
    assert all(t.minute == t.second == 0 for t in local) and len({t.date() for t in local}) <= 5


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_a_far_date_in_a_private_domain_is_found_and_decoded(unit):
    """9999-12-31 (2200 in nanoseconds) stands for "none": a tenth of the rows have it."""
    day = 86_400 * {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    far = 84_006 if unit == "ns" else 2_932_896
    rows = np.where(np.arange(3000) % 10 == 0, far, 18_262 + np.arange(3000) % 300) * day
    rows[:2] = np.iinfo(np.int64).max, np.iinfo(np.int64).min
    table = pa.table({"x": pa.array(rows).view(pa.timestamp(unit))})
    run = fastdp.synthesize(
        table, "mst", domain="private", epsilon=20, delta=1e-6, seed=1, sample_seed=2
    )
    days = run.data["x"].combine_chunks().view(pa.int64()).to_numpy() // day
    # Noise of one row, and 1/30 for bins.
    assert np.isclose(np.mean(days > 18_262 + 400), 0.1, atol=0.05)
