"""Names of facts about users: times in parts are known by their dates, and errors say what is missing."""

from datetime import date

import pytest

import fastdp
from fastdp.answers.clipping import Clipping
from fastdp.answers.fact_names import in_facts
from fastdp.answers.people_facts import PeopleFacts
from fastdp.errors import UsageError
from fastdp.schema import Schema

DAY = {
    "kind": "timestamp",
    "dtype": "date32",
    "min": "2024-01-01",
    "max": "2024-01-09",
    "step": 86400,
}
ROWS = fastdp.Schema.from_dict(
    {
        "user": {"column": "who", "order": "day"},
        "columns": {"day": {**DAY, "parts": {"date": "d"}}, "shop": {"kind": "integer", "max": 3}},
    }
)


def facts(tabled=True):
    columns = {name: ROWS.columns["d"].renamed(name) for name in ("first(d)", "last(d)")}
    return PeopleFacts(Schema(columns), [], Clipping(), None, {}, {}, tabled=tabled)


def test_a_time_in_parts_is_known_by_its_dates():
    """The schema's order is `day`, numbers are asked by `first(day)`, and only answers wanted the
    name of a column that nobody wrote in the data."""
    where = {"last(day)": (date(2024, 1, 3), date(2024, 1, 6))}
    of, by, there = in_facts(ROWS, facts(), "mean(first(day))", ["first(day)"], where)
    assert (of, by) == ("mean(first(d))", ["first(d)"])
    assert there == {"last(d)": [f"2024-01-0{i}" for i in (3, 4, 5)]}
    every = in_facts(ROWS, facts(), "count", (), {"last(day)": (None, None)})[2]
    assert len(every["last(d)"]) == 9, "no limit leaves all days, and not those without a date"
    assert in_facts(ROWS, facts(), "count", "last(d)", None)[1] == "last(d)"


def test_a_part_of_a_time_is_known_as_numbers_name_it():
    """`count of users by first(month(day))` could be asked before a run, and then not be found."""
    rows = Schema.from_dict(
        {
            "user": {"column": "who", "order": "day"},
            "columns": {"day": {**DAY, "parts": {"year": "y", "month": "m", "day": "d"}}},
        }
    )
    column = rows.columns["m"].renamed("first(m)")
    of_months = PeopleFacts(Schema({"first(m)": column}), [], Clipping(), None, {}, {}, tabled=True)
    where = {"first(month(day))": [1]}
    _, by, there = in_facts(rows, of_months, "count", "first(month(day))", where)
    assert (by, there) == ("first(m)", {"first(m)": [1]})
    with pytest.raises(UsageError, match=r"no 'first\(year\(day\)\)' of users"):
        in_facts(rows, of_months, "count", "first(year(day))", None)


@pytest.mark.parametrize(
    ("name", "tabled", "text"),
    [
        ("shop", True, "'shop' is no fact about users that the run released"),
        ("sum(shop)", True, r"released no 'sum\(shop\)' of users; there are first\(d\), last\(d\)"),
        ("sum(shop)", False, "made no table about its users, since they are too few"),
    ],
)
def test_a_missing_fact_is_explained(name, tabled, text):
    """`the schema has no column 'shop'` was untrue: the schema has it, users have no constant of it."""
    with pytest.raises(UsageError, match=text):
        in_facts(ROWS, facts(tabled), "count", name, None)
