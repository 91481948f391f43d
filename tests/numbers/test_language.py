"""The language of numbers: all examples parse, texts and numbers say the same, errors point at what
is wrong."""

from decimal import Decimal

import pytest
from hypothesis import given, settings, strategies as st
from msgspec.structs import replace

from fastdp.errors import UsageError
from fastdp.numbers import number_nodes as lang
from fastdp.numbers.language import parse
from fastdp.numbers.number_nodes import unplaced
from fastdp.numbers.number_text import render

EXAMPLES = [
    "sum(amount)",
    "sum(amount) by month",
    "mean(amount)",
    "share of users where rows > 1",
    "count of users by country",
    "share of users where first(date) < '2024-02-01' and last(date) - first(date) > 30 days",
    "median(sum(amount)) per user",
    "count of users where sum(amount) > 1000",
]


@pytest.mark.parametrize("text", EXAMPLES)
def test_examples_parse_and_are_written_again(text):
    number = parse(text)
    assert number.text == text
    assert _said(parse(render(number))) == _said(number)


def test_what_the_examples_mean():
    months = parse("sum(amount) by month")
    assert (months.aggregate, months.of, months.by) == ("sum", "rows", ("month",))
    back = parse(EXAMPLES[5])
    assert (back.aggregate, back.of) == ("share", "users")
    early, late = back.where.items
    assert early.left == lang.Aggregate("first", lang.Column("date", 27), 21)
    assert late.right.unit == "days" and late.right.value == 30
    assert parse("median(rows) per user").q == Decimal("0.5")
    assert parse("COUNT OF USERS WHERE Rows > 1").of == "users"
    assert parse("mean(rows) of users") == replace(
        parse("mean(rows) per user"), text="mean(rows) of users"
    )
    assert parse("count").of == "rows"
    assert parse("sum(a) by b where c = 1").by == ("b",)


def _said(number):
    return replace(unplaced(number), text="")


names = st.sampled_from(["amount", "x1", "a b", "rows", "days", "und\u00e9", "where", "sum", "%"])
columns = st.builds(lang.Column, names)
decimals = st.decimals(-(10**6), 10**6, places=2).map(lambda d: Decimal(f"{d + 0:f}"))
units = st.sampled_from(["", "", *lang.DURATIONS])
constants = st.one_of(
    st.builds(lang.Constant, decimals, units),
    st.builds(lang.Constant, st.text("ab'\" `\u00e9", max_size=5)),
)
rows = st.just(lang.Aggregate("rows"))


def _values(inner):
    functions = st.sampled_from(["sum", "min", "max", "first", "last", "distinct"])
    aggregates = st.builds(lang.Aggregate, functions, inner)
    return aggregates | st.builds(lang.Arithmetic, st.sampled_from("+-*"), inner, inner)


values = st.recursive(columns | constants | rows, _values, max_leaves=6)


def _conditions(inner):
    pairs = st.lists(inner, min_size=2, max_size=3).map(tuple)
    out = st.builds(lang.Not, inner) | st.builds(lang.Aggregate, st.just("any"), inner)
    return out | st.builds(lang.Logical, st.sampled_from(["and", "or"]), pairs)


lists = st.lists(constants, min_size=1, max_size=3).map(tuple)
compared = st.builds(lang.Comparison, st.sampled_from(lang.COMPARISONS), values, values)
conditions = st.recursive(
    compared | st.builds(lang.Membership, values, lists) | st.builds(lang.Missing, values),
    _conditions,
    max_leaves=5,
)


@st.composite
def numbers(draw):
    aggregate = draw(st.sampled_from(["count", "share", "sum", "mean", "quantile"]))
    plain = aggregate in ("count", "share")
    where = draw(conditions) if aggregate == "share" else draw(st.none() | conditions)
    by = tuple(draw(st.lists(names, max_size=3, unique=True)))
    picks = st.sampled_from(["", "first", "last"])
    return lang.Number(
        aggregate,
        draw(st.sampled_from(["rows", "users"])),
        None if plain else draw(values),
        draw(st.sampled_from([Decimal("0.5"), Decimal("0.99")]))
        if aggregate == "quantile"
        else None,
        where,
        by,
        tuple(draw(picks) for _ in by),
    )


@settings(max_examples=75, deadline=None)
@given(numbers())
def test_a_number_is_what_its_text_says(number):
    """Arithmetic, conditions, quotes, keywords as names, at any depth."""
    assert _said(parse(render(number))) == number


@settings(max_examples=100, deadline=None)
@given(st.text("sumcountof users rows(where)by=<>'\"`0.9,+-*\u00e9\n\0", max_size=60))
def test_any_text_parses_or_is_refused_with_a_place(text):
    try:
        number = parse(text)
    except UsageError as error:
        assert "number" in str(error)
    else:
        assert _said(parse(render(number))) == _said(number)


@pytest.mark.parametrize(
    ("text", "at", "why"),
    [
        ("total(amount)", 1, "expected 'count', 'share'"),
        ("sum(amount", 11, "expected ')', the text ends"),
        ("sum(total amount)", 11, "put it in backticks: `total amount`"),
        ("sum(total.amount)", 10, "a column with such a name stands in backticks"),
        ("sum(amount) for month", 13, "expected 'where', 'by' or the end, got 'for'"),
        ("share of users", 15, "a share needs one"),
        ("share users where rows > 1", 7, "expected 'of'"),
        ("count of people", 10, "expected 'rows' or 'users', got 'people'"),
        ("quantile(rows, 90) per user", 16, "a number between 0 and 1"),
        ("count per user", 7, "write 'count of users'"),
        ("count of users where avg(x) > 1", 22, "one of the functions rows, sum"),
        ("count where a = 'x", 17, "the quote is not closed"),
        ("count where a ~ 2", 15, "'~' has no meaning here"),
        ("sum(a) by b, b", 15, "each column once"),
        ("count where a in ()", 19, "a number, or a text between quotes"),
        ("avg(amount)", 1, "got 'avg'; write mean(...)"),
        ("max(amount)", 1, "one person decides it; ask for a quantile"),
        ("count(*) where a > 1", 6, "write 'count of rows'"),
        ("sum(amount) where a between 1 and 2", 21, "write 'x >= low and x < high'"),
        ("sum(amount) group by a", 13, "got 'group'; write 'by'"),
        ("count where " + "(" * 99 + "a" + ")" * 99, 53, "levels"),
    ],
)
def test_errors_say_where_and_what_was_expected(text, at, why):
    with pytest.raises(UsageError) as caught:
        parse(text)
    assert f"at character {at}:" in str(caught.value) and why in str(caught.value)


@pytest.mark.parametrize("text", [None, 3, "", "  ", "x" * 3000])
def test_texts_that_are_none(text):
    with pytest.raises(UsageError):
        parse(text)


@pytest.mark.parametrize(
    ("text", "means"),
    [
        ("summ(amount)", "did you mean 'sum'?"),
        ("median(amount) per usr", "expected 'user', got 'usr'"),
    ],
)
def test_a_mistyped_word_is_no_name_of_two_words(text, means):
    """A hint about columns with blanks had called the first word of a question 'summ summ'."""
    with pytest.raises(UsageError) as caught:
        parse(text)
    assert str(caught.value).endswith(means) and "backticks" not in str(caught.value)
