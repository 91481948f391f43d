"""What the schema lets a user have: bounds by hand, and tables at their limits that stay within them."""

import numpy as np
import pytest

from fastdp.numbers import typed
from fastdp.numbers.public_bounds import most_of_user
from fastdp.numbers.user_evaluation import user_values
from fastdp.numbers.user_values import Block
from fastdp.schema import Schema

DAYS = (19_723, 20_088)  # 2024-01-01 to 2024-12-31
ROWS = 12
PLAIN = {
    "user": {"column": "who", "max_rows": ROWS, "order": "date"},
    "columns": {
        "date": {
            "kind": "timestamp",
            "dtype": "date32",
            "parts": ["month", "date"],
            "min": "2024-01-01",
            "max": "2024-12-31",
        },
        "price": {"kind": "numeric", "edges": [0, 5, 50], "digits": 2, "min": 0, "max": 80},
        "balance": {"kind": "numeric", "edges": [-9, 0, 9], "digits": 1, "min": -30, "max": 20},
        "open": {"kind": "numeric", "edges": [0, 5, 50], "digits": 2},
        "pieces": {"kind": "integer", "min": 1, "max": 7},
        "shop": {"kind": "string", "values": list("abc")},
    },
}
SCHEMA = Schema.from_dict(PLAIN)
BOUNDS = {
    "count of rows": ROWS,
    "count of rows where price > 3 by shop": ROWS,
    "share of rows where pieces > 2": ROWS,
    "sum(price)": 80 * ROWS,
    "sum(price * pieces) by shop": 80 * 7 * ROWS,
    "sum(balance)": 30 * ROWS,
    "mean(price - balance)": 110 * ROWS,
    "sum(open)": None,
    "sum(rows) per user": ROWS,
    "mean(sum(pieces)) per user": 7 * ROWS,
    "mean(sum(price) - 5 * max(pieces)) per user": 80 * ROWS - 5,
    "mean(distinct(shop)) per user": ROWS,
    "mean(last(date) - first(date)) per user": DAYS[1] - DAYS[0],
    "mean(max(date) - min(date) + 7 days) per user": DAYS[1] - DAYS[0] + 7,
    "sum(max(price)) per user by shop": 80 * 5**0.5,
    "median(first(balance)) per user": 30,
    "share of users where rows > 1": None,
    "count of users": None,
}


@pytest.mark.parametrize("text", BOUNDS)
def test_bounds_by_hand(text):
    number = typed.check(text, SCHEMA)
    found, wanted = most_of_user(number), BOUNDS[text]
    if wanted is None:
        assert found is None
    else:
        assert found * float(number.unit) == pytest.approx(wanted, abs=1.01 * float(number.unit))


def test_what_a_run_finds_is_no_bound():
    private = typed.check("count of rows", SCHEMA, ["shop"])
    assert most_of_user(private) is None
    without = {**PLAIN, "user": {"column": "who", "order": "date"}}
    assert most_of_user(typed.check("sum(price)", Schema.from_dict(without))) is None
    rows = {"columns": {k: v for k, v in PLAIN["columns"].items() if k != "date"}}
    alone = typed.check("sum(price)", Schema.from_dict(rows))
    assert most_of_user(alone) == 8000


@pytest.mark.parametrize("text", [text for text, most in BOUNDS.items() if most])
def test_nobody_within_the_schema_exceeds_a_bound(text):
    """Users with any number of rows up to the most, with values that are often the outermost."""
    number = typed.check(text, SCHEMA)
    rng = np.random.default_rng(6)
    users = 400
    rows = rng.integers(1, ROWS + 1, users)
    rows[: users // 4] = ROWS
    user = np.repeat(np.arange(users), rows).astype(np.uint32)
    n = len(user)

    def ends(low, high):
        inner = rng.integers(low, high + 1, n)
        return np.choose(rng.integers(0, 3, n), [np.full(n, low), np.full(n, high), inner])

    amounts = {
        "date": ends(*DAYS),
        "price": ends(0, 8000),
        "balance": ends(-300, 200),
        "pieces": ends(1, 7),
    }
    codes = {name: rng.integers(0, c.size, n) for name, c in SCHEMA.columns.items()}
    codes["shop"] = rng.integers(0, 3, n)
    codes["date_date"] = amounts["date"] - DAYS[0]
    found = user_values(number, Block(users, user, codes, amounts))
    squares = np.add.reduceat(
        found.value.astype(float) ** 2, found.offsets[:-1][np.diff(found.offsets) > 0]
    )
    assert np.sqrt(squares.max()) <= most_of_user(number) * (1 + 1e-9)
