"""Simulated purchases of people who differ, with facts about people that are known beforehand.

Planted: nobody begins after month `LAST_START`. The share of people who buy again falls from cohort
to cohort (`AGAIN`). Few people have most of the purchases, and of the money. A person's purchases
cost alike: two thirds of the variance of the logarithm lie between people.
"""

from __future__ import annotations

import numpy as np

from fastdp.simulate._draw import check_int

from .._util.lazy import pa

MONTHS = 12
LAST_START = 8
COUNTRIES = 8
SHOPS = 24
PAYMENTS = 4
AGAIN = np.linspace(0.62, 0.30, LAST_START + 1)
"""The share of people who buy again, by the month in which they began."""
BETWEEN = 0.8
"""Standard deviation between people of the mean logarithm of their amounts."""
WITHIN = 0.57
"""Standard deviation of the logarithm of an amount within a person."""
MOST_PURCHASES = 400
"""Purchases of one person, at most."""


def purchases(people: int, seed: int = 0) -> pa.Table:
    """The purchases of `people` customers: customer, country, shop, month, payment, amount. A
    customer has one country and two favourite shops. Equal arguments give equal tables."""
    people = check_int("people", people, 0, 5_000_000)
    rng = np.random.default_rng((check_int("seed", seed, 0, 2**63 - 1), 0x5409))
    sizes = np.array([3.0, 2.0, 1.5, 1.2, 1.0, 1.4, 0.8, 1.6, 1.1])
    first = rng.choice(LAST_START + 1, people, p=sizes / sizes.sum())
    again = rng.random(people) < AGAIN[first]
    more = np.ceil(rng.lognormal(1.1, 1.1, people)).astype(np.int64)
    rows = np.where(again, np.minimum(1 + more, MOST_PURCHASES), 1)
    country = rng.choice(COUNTRIES, people, p=[0.3, 0.2, 0.15, 0.1, 0.1, 0.07, 0.05, 0.03])
    favourites = rng.integers(0, SHOPS, (people, 2))
    habit = rng.integers(0, PAYMENTS, people)
    level = 3.0 + 0.1 * (country % 4) + rng.normal(0.0, BETWEEN, people)
    loyal = rng.beta(1.5, 1.0, people)

    of = np.repeat(np.arange(people), rows)
    count = len(of)
    starts = np.cumsum(rows) - rows
    stays = np.maximum(rng.random(count) * loyal[of], 0.0)
    month = first[of] + (stays * (MONTHS - first[of])).astype(np.int64)
    month[starts] = first
    shop = favourites[of, (rng.random(count) < 0.3).astype(np.int64)]
    shop = np.where(rng.random(count) < 0.15, rng.integers(0, SHOPS, count), shop)
    pay = np.where(rng.random(count) < 0.85, habit[of], rng.integers(0, PAYMENTS, count))
    amount = np.exp(level[of] + 0.15 * (shop % 3) + rng.normal(0.0, WITHIN, count))

    order = rng.permutation(count)
    ids = rng.permutation(10 * people + 10)[:people] + 1
    columns = {
        "customer": ids[of],
        "country": country[of],
        "shop": shop,
        "month": month,
        "payment": pay,
        "amount": np.maximum(np.round(amount, 2), 0.01),
    }
    return pa.table({name: values[order] for name, values in columns.items()})
