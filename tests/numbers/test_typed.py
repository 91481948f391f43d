"""Types of numbers: units, signs, groups, and what is refused before anything is charged."""

from decimal import Decimal

import pytest

from fastdp.errors import UsageError
from fastdp.numbers.typed import check
from fastdp.schema import Schema

from .test_language import EXAMPLES

SCHEMA = Schema.from_dict(
    {
        "user": {"column": "who", "order": "date"},
        "columns": {
            "amount": {"kind": "numeric", "edges": [0, 10, 100], "digits": 2, "min": 0},
            "delta": {"kind": "numeric", "edges": ["-inf", 0, 10]},
            "rate": {"kind": "numeric", "edges": [0, 0.5, 1]},
            "items": {"kind": "integer", "min": 0, "max": 9},
            "paid": {"kind": "categorical", "dtype": "bool", "values": [False, True]},
            "country": {
                "kind": "categorical",
                "dtype": "string",
                "values": ["UK", "FR"],
                "user": "constant",
            },
            "shop": {"kind": "categorical", "dtype": "string", "values": ["a", "b", "c"]},
            "date": {
                "kind": "timestamp",
                "dtype": "date32",
                "min": "2024-01-01",
                "max": "2024-12-31",
                "parts": {"date": "d", "month": "month"},
            },
        },
    }
)


@pytest.mark.parametrize("text", EXAMPLES)
def test_all_examples_have_types(text):
    assert check(text, SCHEMA).text == text


@pytest.mark.parametrize(
    ("text", "kind", "unit", "signed", "groups", "one_group"),
    [
        ("sum(amount)", "number", "0.01", False, 1, True),
        ("sum(amount) by month", "number", "0.01", False, 14, False),
        ("sum(delta)", "number", "0.001", True, 1, True),
        ("sum(rate)", "number", "0.0001", False, 1, True),
        ("mean(amount * items)", "number", "0.01", False, 1, True),
        ("mean(amount - items)", "number", "0.01", True, 1, True),
        ("count by shop, month", "count", "1", False, 5 * 14, False),
        ("count of users by country", "truth", "1", False, 4, True),
        ("count of users by shop", "truth", "1", False, 5, False),
        ("count of users by first(shop)", "truth", "1", False, 5, True),
        ("mean(last(date) - first(date)) per user", "days", "1", False, 1, True),
        ("mean(first(items) - last(items)) per user", "number", "1", True, 1, True),
        ("mean(max(items) - min(items)) per user", "number", "1", False, 1, True),
    ],
)
def test_units_signs_and_groups(text, kind, unit, signed, groups, one_group):
    number = check(text, SCHEMA)
    assert (number.kind, number.unit, number.signed) == (kind, Decimal(unit), signed)
    assert (number.groups, number.one_group) == (groups, one_group)
    assert len(number.labels()) == groups


def test_labels_are_those_of_the_columns():
    assert check("count by paid, country", SCHEMA).labels()[:4] == [
        ("False", "UK"),
        ("False", "FR"),
        ("False", "(other)"),
        ("False", "(null)"),
    ]


def test_exact_numbers_that_are_read():
    assert check("count of users by shop", SCHEMA).amounts == ("date",)  # the order of rows
    assert check("sum(amount) where items > 1 and month = 3", SCHEMA).amounts == ("amount", "items")
    assert check("count by shop", SCHEMA).amounts == ()


def test_values_that_the_run_finds_are_not_looked_up():
    text = "share of users where any(shop = 'z')"
    with pytest.raises(UsageError, match="has no value 'z'"):
        check(text, SCHEMA)
    assert check(text, SCHEMA, private=("shop",)).kind == "truth"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("sum(amont)", "at character 5: the schema has no column 'amont'; did you mean 'amount'?"),
        ("sum(shop)", "sum() needs numbers, got values of 'shop'"),
        ("sum(rows)", "add 'per user'"),
        ("sum(3)", "expected a column, got a constant"),
        ("median(amount)", "median(sum(amount)) per user"),
        ("mean(amount) per user", "aggregate it, as in first(amount)"),
        ("sum(sum(sum(amount))) per user", "sum() aggregates rows, and has a value of a user"),
        ("share of users where shop = 'a'", "any(shop = ...)"),
        ("share of users where country = 'Uk'", "did you mean 'UK'?"),
        ("share of users where rows > 'x'", "cannot compare a number with the text 'x'"),
        ("share of users where country < 'UK'", "have no order; use = or in"),
        ("share of users where rows", "expected a condition, such as rows > 1"),
        ("share of rows where paid", "write paid = true"),
        ("share of users where first(date) > '2024-13-01'", "'2024-13-01' is not a date"),
        ("share of users where last(date) - first(date) > 30", "such as 30 days"),
        ("share of users where last(date) - first(date) > 5 hours", "whole days"),
        ("share of users where last(date) + first(date) > 3", "cannot compute"),
        ("share of users where any(rows > 3)", "any() takes a condition on rows"),
        ("sum(any(paid = true)) per user", "share of users where"),
        ("count of users by date", "its columns are d, month"),
        ("count by first(shop)", "groups users, and the number is of rows"),
        ("count by d, month, shop", "groups, the limit is 16384"),
        ("sum(amount * 0.00000001)", "too many decimals"),
        ("count where amount > 0.00000000001", "too many digits"),
        ("count where items is null is null", "expected"),
    ],
)
def test_what_cannot_be_asked(text, why):
    with pytest.raises(UsageError) as caught:
        check(text, SCHEMA)
    assert why in str(caught.value) and text in str(caught.value)


def test_first_needs_an_order_of_rows():
    plain = {k: v for k, v in SCHEMA.to_plain().items() if k != "user"} | {"user": "who"}
    without = Schema.from_dict(plain)
    with pytest.raises(UsageError, match="needs an order of rows"):
        check("share of users where first(shop) = 'a'", without)
    assert check("mean(last(date) - first(date)) per user", without).signed is False


def test_periods_of_a_date_are_the_columns_that_count_them():
    """month(date) means the column that the schema counts months in, whatever its name."""
    plain = check("sum(amount) by month", SCHEMA)
    named = check("sum(amount) by MONTH(date)", SCHEMA)
    assert named.by == plain.by == ("month",) and named.labels() == plain.labels()
    assert named.text == "sum(amount) by MONTH(date)", "the question stays as it was asked"
    first = check("count of users by first(month(date))", SCHEMA)
    assert first.by == ("month",) and first.one_group


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("sum(amount) by year(date)", "counts no year of 'date'; it counts date, month"),
        ("sum(amount) by month(shop)", "not counted in parts"),
        ("sum(amount) by month(dat)", "did you mean 'date'"),
        ("sum(amount) by month(date), month", "twice"),
    ],
)
def test_periods_that_the_schema_does_not_count_are_refused(text, why):
    with pytest.raises(UsageError, match=why):
        check(text, SCHEMA)
