"""Dates on times that are counted in parts: the parts select exactly the rows of these dates where
they can, and say so where they cannot."""

from datetime import date

import numpy as np
import pyarrow as pa
import pytest

import fastdp
from fastdp.answers.part_dates import part_selections
from fastdp.answers.part_groups import groups_of, with_parts_named
from fastdp.errors import UsageError
from fastdp.report.quotes import quotes

DAY = 86_400


def timestamp(*parts, first="2024-11-01", last="2025-03-31"):
    entry = {"kind": "timestamp", "dtype": "timestamp[us]", "min": first, "max": last}
    named = {part: f"t_{part}" for part in parts}
    return fastdp.Schema.from_dict({"columns": {"t": entry | {"parts": named}}})


def matching(field, condition):
    """How much of each hour of the span the selections take, and whether all of it is sure."""
    first, last = field.span
    hours = (np.arange(first, last + 1)[:, None] * DAY + np.arange(24) * 3600).reshape(-1)
    codes, _ = field.split(hours)
    part = np.ones(len(hours))
    sure = np.ones(len(hours), bool)
    found = part_selections(field, condition)
    for column, code in zip(field.parts, codes):
        if column.name in found:
            part = part * found[column.name].part[code]
            sure &= found[column.name].sure[code]
    return hours // DAY, part, sure


@pytest.mark.parametrize(
    "parts, condition, days",
    [
        (("date",), "2025-01-15", ["2025-01-15"]),
        (
            ("date", "hour"),
            ("2024-12-30", "2025-01-02"),
            ["2024-12-30", "2024-12-31", "2025-01-01"],
        ),
        (("date",), [date(2025, 1, 1), date(2025, 3, 31)], ["2025-01-01", "2025-03-31"]),
        (("year", "month", "day"), date(2025, 2, 3), ["2025-02-03"]),
    ],
)
def test_parts_that_say_the_day_select_it_exactly(parts, condition, days):
    field = timestamp(*parts).fields["t"]
    day, part, sure = matching(field, condition)
    wanted = np.isin(day, [(date.fromisoformat(d) - date(1970, 1, 1)).days for d in days])
    assert np.array_equal(part, wanted.astype(float)) and np.array_equal(sure, wanted)


def test_whole_months_are_exact_and_one_day_is_a_part_of_its_weekdays():
    field = timestamp("year", "month", "day_of_week").fields["t"]
    day, part, sure = matching(field, ("2025-02-01", "2025-03-01"))
    months = day.astype("datetime64[D]").astype("datetime64[M]").astype(str)
    assert np.array_equal(part, (months == "2025-02").astype(float)) and (part > 0)[sure].all()
    day, part, sure = matching(field, "2025-02-03")  # one of four Mondays
    assert not sure.any() and part.sum() == pytest.approx(24) and set(part) == {0.0, 0.25}
    assert matching(field, (None, None))[1].min() == 1.0


@pytest.mark.parametrize(
    "parts, condition, said",
    [
        (("year", "month"), ("2024-12-01", "2025-02-01"), None),
        (("year", "month"), "2025-01-07", "cannot say these dates together"),
        (("date",), "2026-01-01", "expected dates from 2024-11-01 to 2025-03-31"),
        (("date",), "soon", "expected a date such as"),
        (("date",), (1, 2, 3), "low, high"),
    ],
)
def test_what_parts_cannot_say_is_refused_or_marked(parts, condition, said):
    field = timestamp(*parts).fields["t"]
    if said is None:  # December and January of both years: half of what the parts select
        whole = timestamp(*parts, first="2024-01-01", last="2025-12-31").fields["t"]
        _, part, sure = matching(whole, condition)
        assert not sure.any() and part.max() < 1
        return
    with pytest.raises(UsageError, match=said):
        part_selections(field, condition)


def check_groups(run, days):
    """The field alone, a part that is counted, and groups of days."""
    assert run.answer("count", by="t").equals(run.answer("count", by="t_date"))
    assert run.answer("count", by="hour(t)").by == ("t_hour",)
    weekdays = run.answer("count", by="weekday(t)", where={"t": (None, "2024-11-26")})
    assert weekdays.by == ("weekday(t)",)
    assert weekdays["weekday(t)"].to_pylist() == ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]
    before = days[days < np.datetime64("2024-11-26")].astype(np.int64)
    true = np.bincount((before + 3) % 7, minlength=7)  # 1970 began on a Thursday
    assert (weekdays["low"].to_numpy() - 20 <= true).all()
    assert (weekdays["high"].to_numpy() + 20 >= true).all()
    (month,) = run.answer("count", by=("month(t)",), simultaneous=True).to_pylist()
    (whole,) = run.answer("count", where={"t": ("2024-11-01", "2024-12-01")}).to_pylist()
    assert month["month(t)"] == "2024-11" and month["estimate"] == whole["estimate"]
    with pytest.raises(UsageError, match=r"expected date\(t\) or hour\(t\), which the schema"):
        run.answer("count", by="minute(t)")
    with pytest.raises(UsageError, match="have no common error"):
        run.answer("count", by="month(t)", minus={"month(t)": "2024-11"})


@pytest.mark.parametrize(
    "parts, by, columns",
    [
        (("year", "month", "day_of_week"), "t", ["t_year", "t_month"]),
        (("day_of_week", "hour"), "t", ["t_day_of_week", "t_hour"]),
        (("year", "month", "day_of_week"), "month(t)", ["t_month"]),
        (("year", "month", "day_of_week"), "quarter(t)", "2024-Q4 2025-Q1"),
        (("date",), "Month( t )", "2024-11 2024-12 2025-01 2025-02 2025-03"),
        (("day_of_week", "hour"), "month(t)", r"expected day_of_week\(t\) or hour\(t\)"),
        (("year", "month"), "date(t)", r"expected year\(t\) or month\(t\)"),
        (("date",), "month(time)", "the schema has no column 'time'"),
    ],
)
def test_groups_by_a_time_are_its_parts_days_or_refused(parts, by, columns):
    schema = timestamp(*parts)
    if isinstance(columns, list):
        assert groups_of(schema, by) == columns
    elif by == "month(time)" or columns.startswith("expected"):
        with pytest.raises(UsageError, match=columns):
            groups_of(schema, by)
    else:
        (groups,) = groups_of(schema, by)
        assert list(groups.days) == columns.split()
        first, last = schema.fields["t"].span
        assert sum(map(len, groups.days.values())) == last - first + 1


@pytest.mark.parametrize(
    ("condition", "first", "days"),
    [
        ("2024-12", date(2024, 12, 1), 31),
        (["2024-12", "2025-02"], date(2024, 12, 1), 59),
        (("2024-12", "2025-02"), date(2024, 12, 1), 62),
        ((None, "2024-12"), date(2024, 11, 1), 30),
    ],
)
def test_conditions_name_months_as_groups_do(condition, first, days):
    """`month(t)` stands for the same in `where` as in `by`: what the schema counts, or groups of days. It
    was said not to be a column."""
    found = with_parts_named(timestamp("date", "hour"), {"month(t)": condition})
    assert list(found) == ["t"] and min(found["t"]) == first and len(found["t"]) == days
    assert with_parts_named(timestamp("year", "month"), {"month(t)": 12}) == {"t_month": 12}
    assert with_parts_named(timestamp("date"), {"x": 1}) == {"x": 1}


@pytest.mark.parametrize("condition", ["2023-12", [], ("2026-01", None)])
def test_months_that_are_not_there_are_refused(condition):
    with pytest.raises(UsageError, match="expected groups such as '2024-11' up to '2025-03'"):
        with_parts_named(timestamp("date"), {"month(t)": condition})
    with pytest.raises(UsageError, match="are both about 't'"):
        with_parts_named(timestamp("date"), {"t": "2024-12-01", "month(t)": "2024-12"})


def test_clock_times_are_grouped_by_the_hour():
    entry = {"kind": "derived", "transform": "hhmm", "parts": ["hour", "minute"]}
    schema = fastdp.Schema.from_dict({"columns": {"departure": entry}})
    assert groups_of(schema, ("departure",)) == ["hour"]


def test_answers_take_a_date_as_people_type_it():
    rng = np.random.default_rng(0)
    days = np.datetime64("2024-11-01") + rng.integers(0, 30, 4000)
    seconds = days.astype("datetime64[s]") + rng.integers(0, DAY, 4000)
    schema = timestamp("date", "hour", last="2024-11-30")
    rows = pa.table({"t": pa.array(seconds.astype("datetime64[us]"))})
    run = fastdp.synthesize(rows, "mst", epsilon=5.0, delta=1e-6, schema=schema, seed=3)
    for where, true in (
        ({"t": "2024-11-05"}, days == np.datetime64("2024-11-05")),
        ({"t": ("2024-11-01", "2024-11-11")}, days < np.datetime64("2024-11-11")),
    ):
        (found,) = run.answer("count", where=where).to_pylist()
        assert (
            found["low"] - 20 <= true.sum() <= found["high"] + 20 and found["basis"] == "measured"
        )
    check_groups(run, days)
    with pytest.raises(UsageError, match="is part of 't'"):
        run.answer("count", where={"t_date": "2024-11-05", "t": "2024-11-05"})


def test_the_page_has_months_of_times_that_are_counted_by_date():
    """120 days are too many to show one by one; their months are not."""
    rng = np.random.default_rng(1)
    days = np.datetime64("2024-11-01") + rng.integers(0, 120, 3000)
    schema = timestamp("date", "hour", last="2025-02-28")
    rows = pa.table({"t": pa.array(days.astype("datetime64[us]"))})
    run = fastdp.synthesize(rows, "mst", epsilon=5.0, delta=1e-6, schema=schema, seed=3)
    labels = {"t_date": ([*schema.columns["t_date"].base_labels(), "(other)", "(null)"], True)}
    (shown,) = quotes(run._facts, labels)["periods"]
    assert shown["column"] == "month(t)"
    assert [line[0] for line in shown["lines"]] == ["2024-11", "2024-12", "2025-01", "2025-02"]
