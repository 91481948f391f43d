"""Numbers that a run released as conditions on the choice of users: precise ones hold, noisy ones
leave the pool alone."""

import numpy as np
import pytest

from fastdp.numbers.typed import check
from fastdp.schema import Schema
from fastdp.user_views import UserFacts
from fastdp.users.user_choice import Choice
from fastdp.users.user_quotes import Quote, lines, usable
from fastdp.users.user_weights import Lines, raked

SCHEMA = Schema.from_dict(
    {
        "user": {"column": "who", "order": "month"},
        "columns": {
            "month": {"kind": "integer", "dtype": "int64", "min": 0, "max": 5},
            "amount": {"kind": "numeric", "dtype": "float64", "edges": [0, 10, 20, 40, 80]},
        },
    }
)
VIEW = UserFacts((1, 2, 4), "rows")
MIDDLES = np.array([5.0, 15.0, 30.0, 60.0])


def pool(users=6_000, seed=1):
    """Users who differ in how many rows they have and in what a row costs."""
    rng = np.random.default_rng(seed)
    rows = rng.geometric(0.4, users)
    owner = np.repeat(np.arange(users), rows).astype(np.uint32)
    level = rng.normal(1.5, 0.8, users)[owner]
    amount = np.clip(np.rint(level + rng.normal(0, 0.6, len(owner))), 0, 3)
    month = rng.integers(0, 6, len(owner))
    return {"month": month.astype(np.uint32), "amount": amount.astype(np.uint32)}, owner


def answers(codes, owner, rows):
    """The five numbers of QUESTIONS, as a reader of so many rows would compute them."""
    scale = rows / len(owner)
    amount = MIDDLES[codes["amount"]]
    users = len(np.unique(owner))
    spent = np.bincount(owner, amount)
    early = codes["month"] < 2
    return [
        scale * amount.sum(),
        scale * early.sum(),
        (np.bincount(owner) > 1).sum() / users,
        amount[early].mean(),
        np.mean(spent[np.bincount(owner) > 0] <= 40),
    ]


QUESTIONS = (
    "sum(amount)",
    "count of rows where month < 2",
    "share of users where rows > 1",
    "mean(amount) where month < 2",
    "quantile(sum(amount), 0.4) per user",
)


def quoted(question, value, error):
    number = check(question, SCHEMA)
    return Quote(number, 0, value, value - 1.96 * error, value + 1.96 * error)


@pytest.mark.parametrize(("precise", "moved"), [(True, True), (False, False)])
def test_a_reader_gets_the_quoted_numbers_within_their_errors(precise, moved):
    """Quotes ten standard errors of the pool away. With small errors they are met; with errors far
    larger than the pool's own, what the pool says stays."""
    codes, owner = pool()
    wanted = len(owner) // 3
    users = 2_000.0
    rows = float(wanted)
    before = answers(codes, owner, rows)
    # The last is a share: 40 is quoted as the quantile .4, of which the pool has another share.
    shift = [1.12, 0.9, 0.96, 1.08, 1.0]
    aims = [b * s for b, s in zip(before, shift)]
    values = [*aims[:4], 40.0]
    errors = [0.005 * v if precise else 2.0 * v for v in values]
    aims[4] = 0.4 if precise else before[4]
    quotes = usable([quoted(q, v, e) for q, v, e in zip(QUESTIONS, values, errors)])
    assert len(quotes) == 5
    choice = Choice(VIEW, [], SCHEMA, 3, users, quotes=quotes, rows=rows)
    made = choice.choose(codes, owner, wanted, 1)
    assert len(made[1]) == wanted
    found = answers(*made, rows)
    near = [0.012, 0.012, 0.02, 0.015, 0.03]
    for aim, old, got, close in zip(aims, before, found, near):
        assert abs(got - (aim if moved else old)) < close * max(abs(aim), 1.0 if old < 1 else 0.0)


def test_lines_say_zero_where_quotes_hold_and_a_maximum_per_user_counts():
    codes, owner = pool(400)
    start = np.append(0, np.cumsum(np.bincount(owner)))
    amount = MIDDLES[codes["amount"]]
    per_user = np.bincount(owner, amount)
    for most, total in ((None, per_user.sum()), (50.0, np.minimum(per_user, 50).sum())):
        quote = Quote(check("sum(amount)", SCHEMA), 0, total, 0.9 * total, 1.1 * total, most)
        made = lines([quote], codes, start, np.ones(400), float(len(owner)))
        assert abs(made.tally(np.ones(400))[0]) < 1e-6 * total
    groups = [Quote(check("sum(amount) by month", SCHEMA), g, 1.0, 0.5, 1.5) for g in range(3)]
    assert lines(groups, codes, start, np.ones(400), float(len(owner))).values.shape == (3, 400)


def test_weights_meet_lines_by_their_precision():
    """One sum of a Gaussian, as far from the pool as a sample may be: the weights are at the mean of
    pool and line by precision. A sum that is ten times as far shows that the pool is wrong there."""
    rng = np.random.default_rng(2)
    row = np.clip(rng.normal(0, 0.2, 20_000), -1, 1)
    users = 5_000.0
    own = users * row.var()
    at = users * row.mean()
    for far, error in ((1, 1e-3), (1, np.sqrt(own)), (1, 1e6), (10, np.sqrt(own))):
        wanted = at + far * np.sqrt(own)
        line = Lines(row[None], np.array([wanted]), np.array([error]))
        got = float((raked([line], users, np.ones(len(row)))[0] * row).sum())
        prior = own if far == 1 else (wanted - at) ** 2 - error**2
        want = (wanted * prior + at * error**2) / (prior + error**2)
        assert abs(got - want) < 0.03 * abs(wanted - at) + 1e-6


def test_quantiles_count_amounts_anywhere_in_their_bins():
    """All users have one row in one bin: as its middle, the sums' quantiles would jump from 0 to 1."""
    number = check("quantile(sum(amount), 0.5) per user", SCHEMA)
    codes = {"month": np.zeros(4_000, np.uint32), "amount": np.full(4_000, 2, np.uint32)}
    start = np.arange(4_001)
    for quoted, below in ((25.0, 0.25), (30.0, 0.5), (35.0, 0.75)):  # the bin is 20 to 40
        found = lines(
            [Quote(number, 0, quoted, quoted - 1, quoted + 1)], codes, start, np.ones(4_000), 4_000
        )
        sides = np.unique(found.values[0])
        assert len(sides) == 2  # users above and below, of whom 0.5 should be below
        assert np.mean(found.values[0] > 0) == pytest.approx(below, abs=0.03)
    mean = check("mean(amount)", SCHEMA)
    held = lines([Quote(mean, 0, 30.0, 29.0, 31.0)], codes, start, np.ones(4_000), 4_000)
    assert np.abs(held.values).max(initial=0.0) == 0


def test_quotes_about_users_hold_where_a_time_in_parts_orders_their_rows():
    """Every number of users by groups was left out, since nobody can tell a time by its parts. Their
    order can be told: people began in January 1.4 times as often as quoted."""
    when = {"kind": "timestamp", "parts": {"year": "y", "month": "m", "day": "d"}}
    span = {"min": "2024-01-01", "max": "2025-12-31"}
    user = {"column": "who", "order": "when"}
    schema = Schema.from_dict({"user": user, "columns": {"when": when | span}})
    number = check("count of users by first(month(when))", schema)
    january = Quote(number, 0, 1.0, 0.5, 1.5)
    assert usable([january]) == [january]
    early = check("count of users where first(when) < '2024-03-01'", schema)
    assert usable([Quote(early, 0, 1.0, 0.5, 1.5)]) == []  # this needs the time itself
    # user 0 began in December of the first year, user 1 in January of the second
    codes = {"y": [1, 0, 1, 1], "m": [0, 11, 0, 5], "d": [3, 4, 7, 9]}
    codes = {name: np.array(column, np.uint32) for name, column in codes.items()}
    found = lines([january], codes, np.array([0, 2, 4]), np.ones(2), 4.0)
    began = found.values[0] > 0
    assert began.tolist() == [False, True]


def test_a_quote_that_tells_no_users_apart_is_left_out():
    """Of a panel everybody has two rows or more, and the quote says so. Its sum is 0 whoever is chosen; made
    as large as 1, its error was 1e300, and a charged run of 1,000 people ended for want of odds."""
    codes = {"month": np.zeros(600, np.uint32), "amount": np.full(600, 2, np.uint32)}
    codes["amount"][::2] = 1
    start = np.arange(0, 601, 3)
    back = Quote(check("share of users where rows > 1", SCHEMA), 0, 1.0, 0.98, 1.0)
    spent = Quote(check("sum(amount)", SCHEMA), 0, 15_000.0, 14_000.0, 16_000.0)
    found = lines([back, spent], codes, start, np.ones(200), 600.0)
    assert found.values.shape == (1, 200)
    assert (found.error < 1e9).all()
