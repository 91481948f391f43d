"""In which period a row is: against Python's own calendar and zones, for every type of times."""

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pytest

import fastdp
from fastdp.engines import pieces
from fastdp.engines.local import LocalCounter
from fastdp.errors import DataError, SchemaError, UsageError
from fastdp.schema.periods import LENGTHS, NO_TIME, NO_TIME_CODE, Period, code_of, name_of
from fastdp.tables import ingest, part_checks
from fastdp.tables.row_periods import row_periods
from fastdp.tables.sources.source import open_parts
from fastdp.tables.userids import UserIndex

EPOCH = datetime(1970, 1, 1)
ZONES = ["UTC", "America/New_York", "Asia/Kathmandu", "+05:30", "Australia/Lord_Howe"]


def twin(moment: datetime | None, length: str, zone: str | None) -> str:
    """The name of a period, by the standard library. `zone`: of a time in UTC; None: as written."""
    if moment is None:
        return NO_TIME
    if zone is not None:
        clock = timedelta(hours=5, minutes=30) if zone == "+05:30" else None
        moment = moment + clock if clock else moment.replace(tzinfo=UTC).astimezone(ZoneInfo(zone))
    year, week, _ = moment.isocalendar()
    names = {"day": f"{moment:%Y-%m-%d}", "month": f"{moment:%Y-%m}", "year": f"{moment:%Y}"}
    return (names | {"week": f"{year:04d}-W{week:02d}"})[length]


def moments(rng: np.random.Generator) -> list[datetime | None]:
    """Times at the edges of days, months, years and changes of the clock, and others."""
    edges = [datetime(2026, m, 1) for m in range(1, 13)] + [datetime(1969, 12, 31, 23, 59, 59)]
    edges += [datetime(2026, 3, 8, 7), datetime(2026, 11, 1, 6), datetime(1900, 1, 1)]
    near = [timedelta(seconds=int(s)) for s in (-1, 0, 1, 18_000, 20_700, -19_800)]
    some = [edge + step for edge in edges for step in near]
    drawn = [EPOCH + timedelta(seconds=int(s)) for s in rng.integers(-(10**9), 2 * 10**9, 50)]
    return [*some, *drawn, None]


@pytest.mark.parametrize("length", LENGTHS)
def test_periods_are_those_of_the_calendar(length):
    some = moments(np.random.default_rng(0))
    whole = [None if m is None else m.replace(microsecond=0) for m in some]
    for zone in ZONES:
        period = Period(length, "t", zone).checked()
        for unit in ("s", "us"):
            naive = pa.array(whole, pa.timestamp(unit))
            got = [name_of(length, c) for c in row_periods(naive, period).tolist()]
            assert got == [twin(m, length, None) for m in whole]
            zoned = naive.cast(pa.timestamp(unit, "Europe/Paris"))
            got = [name_of(length, c) for c in row_periods(zoned, period).tolist()]
            assert got == [twin(m, length, zone) for m in whole], zone
    days = pa.array([None if m is None else m.date() for m in some], pa.date32())
    names = [twin(m, length, None) for m in some]
    plain = Period(length, "t").checked()
    for array in (days, days.cast(pa.date64()), days.cast(pa.string()).dictionary_encode()):
        got = [name_of(length, c) for c in row_periods(array, plain).tolist()]
        assert got == names
    assert [code_of(length, name) for name in names] == row_periods(days, plain).tolist()


def test_what_is_no_valid_time_is_one_period():
    period = Period("month", "t", "Asia/Kathmandu").checked()
    wild = pa.array([None, -(2**63) + 1, 2**63 - 1, 10**18], pa.int64())
    for kind in (pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.timestamp("s", "UTC")):
        assert (row_periods(wild.cast(kind), period) == NO_TIME_CODE).all()
    last = pa.array([datetime(9999, 12, 31, 23, 59)], pa.timestamp("us", "UTC"))
    assert row_periods(last, period)[0] == NO_TIME_CODE  # the year 10000 on that clock
    texts = pa.array([b"", b"2026-13-01", b"\xff", b"soon"], pa.binary())
    assert (row_periods(texts, period) == NO_TIME_CODE).all()
    assert (row_periods(pa.nulls(2), period) == NO_TIME_CODE).all()


def test_a_text_with_an_offset_is_converted():
    period = Period("day", "t", "Europe/Paris").checked()
    texts = pa.array(["2026-03-31T23:30:00Z", "2026-03-31 23:30:00", "2026-03-31"])
    names = [name_of("day", c) for c in row_periods(texts, period).tolist()]
    assert names == ["2026-04-01", "2026-03-31", "2026-03-31"]


IDS = {
    "int": pa.array([1, 1, 2, 2, None], pa.int64()),
    "text": pa.array(["a", "a", "", "", None]),
    "float": pa.array([0.5, 0.5, -1.0, -1.0, None]),
    "dictionary": pa.array(["a", "a", "b", "b", None]).dictionary_encode(),
    "decimal": pa.array([1, 1, 2, 2, None], pa.int64()).cast(pa.decimal128(30, 2)),
    "binary": pa.array([b"\0", b"\0", b"\0\0", b"\0\0", None]),
}


@pytest.mark.parametrize("kind", IDS)
def test_users_are_pairs_of_user_and_period(kind):
    """Equal if both parts are; a row without an id is alone, or left out, as for users."""
    days = [date(2026, 1, 31), date(2026, 2, 1), date(2026, 2, 1), date(2026, 2, 28), None]
    table = pa.table({"u": IDS[kind], "t": pa.array(days), "n": [0, 1, 0, 1, 0]})
    plain = {"unit": {"kind": "user-period", "period": "month", "of": "t"}}
    plain["columns"] = {"n": {"kind": "integer", "max": 1}}
    for null, users in (("drop", 3), ("own", 4)):
        schema = fastdp.Schema.from_dict(plain | {"user": {"column": "u", "null": null}})
        read = fastdp.read(pa.concat_tables([table, table]), schema, threads=1)
        assert read.user[:4].tolist() == [0, 1, 2, 2]
        assert read.users == (users if null == "drop" else users + 1)
        assert len(set(read.user_hash.tolist())) >= 3
        only = fastdp.read(table, schema.with_period(schema.period.during("2026-02")))
        assert only.rows == 3 and only.users == 2
        none = fastdp.read(table, schema.with_period(schema.period.during(NO_TIME)))
        assert none.rows == (1 if null == "own" else 0)


def test_text_files_have_the_same_periods(tmp_path):
    (tmp_path / "t.csv").write_text("u,t,n\n1,2026-01-31,0\n1,2026-02-01 00:00,1\n1,soon,1\n1,,0\n")
    plain = {"user": "u", "unit": {"kind": "user-period", "period": "month", "of": "t"}}
    schema = fastdp.Schema.from_dict(plain | {"columns": {"n": {"kind": "integer", "max": 1}}})
    assert fastdp.read(tmp_path / "t.csv", schema).user.tolist() == [0, 1, 2, 2]


def test_the_unit_is_part_of_the_schema(tmp_path):
    plain = {"user": {"column": "u"}, "columns": {"n": {"kind": "integer", "max": 1}}}
    unit = {"kind": "user-period", "period": "week", "of": "t", "zone": "Europe/Paris"}
    schema = fastdp.Schema.from_dict(plain | {"unit": unit})
    for name in ("s.toml", "s.json"):
        schema.save(tmp_path / name)
        assert fastdp.Schema.load(tmp_path / name) == schema
    assert fastdp.Schema.from_dict(plain) != schema == fastdp.Schema.from_dict(schema.to_dict())
    assert schema.without_users().period is None and schema.select(["n"]).period == schema.period
    wrong = [{"period": "hour"}, {"zone": "Mars/Base"}, {"of": None}, {"dtype": "int8"}, {"x": "y"}]
    for change in wrong:
        with pytest.raises(SchemaError, match="unit, field"):
            fastdp.Schema.from_dict(plain | {"unit": unit | change})
    with pytest.raises(SchemaError, match="user column"):
        fastdp.Schema.from_dict({"unit": unit, "columns": plain["columns"]})
    with pytest.raises(UsageError, match="such as '2026-W14'"):
        schema.period.during("2026-03")
    with pytest.raises(DataError, match="is int64; expected dates, times"):
        fastdp.read(pa.table({"u": [1], "t": [1], "n": [0]}), schema)
    with pytest.raises(DataError, match="'t' is missing"):
        fastdp.read(pa.table({"u": [1], "n": [0]}), schema)
    with pytest.raises(DataError, match="from_codes takes ids without times"):
        fastdp.Table.from_codes(schema, {"n": np.zeros(1, np.int64)}, user=np.zeros(1))


def test_partitions_hold_whole_user_periods():
    """As between Spark's tasks: encoded, dealt, joined. The integers are those of one table."""
    rng = np.random.default_rng(3)
    days = np.datetime64("2026-01-01") + rng.integers(0, 90, 400)
    who = pa.array([f"person {i}" for i in rng.integers(0, 9, 400)])
    table = pa.table({"u": who, "t": pa.array(days), "n": rng.integers(0, 4, 400)})
    plain = {"user": {"column": "u"}, "columns": {"n": {"kind": "integer", "max": 3}}}
    plain["unit"] = {"kind": "user-period", "period": "month", "of": "t"}
    schema = fastdp.Schema.from_dict(plain)
    secret = bytes(16)
    parts = open_parts(table, schema.dialect)
    wanted = part_checks.checked_columns(parts, schema)
    encoded = ingest.encoded(parts, schema, wanted, UserIndex("u", secret), 1)
    joined = {p: pieces.Joined(schema, UserIndex(secret=secret)) for p in range(5)}
    for partition, piece in pieces.dealt(encoded, 5):
        joined[partition].add(piece)
    made = [one.table() for one in joined.values()]
    whole = fastdp.read(table, schema, threads=1)
    assert sum(one.users for one in made) == whole.users == 27
    every = np.concatenate([one.user_hash for one in made])
    assert sorted(every.tolist()) == sorted(whole.user_hash.tolist())
    counts = [LocalCounter(one, 1).marginals([("n",)], 3)["n",] for one in made]
    assert np.array_equal(sum(counts), LocalCounter(whole, 1).marginals([("n",)], 3)["n",])
