"""Measures of users: 0 between equal tables, and each sees the fault that it is for."""

import numpy as np
import pytest

from bench.people_measures import PEOPLE, measures, of_users


def people(rng, users=4_000):
    rows = rng.geometric(0.3, users)
    user = np.repeat(np.arange(users), rows)
    first = rng.integers(0, 6, users)
    period = np.minimum(first[user] + rng.integers(0, 5, len(user)), 11)
    amount = np.exp(rng.normal(0, 1, users)[user] + rng.normal(0, 0.5, len(user)))
    return user, period, amount


def test_equal_tables_are_0_apart_whatever_the_numbers_of_users():
    user, period, amount = people(np.random.default_rng(1))
    other = 7 * (user.max() - user) + 3
    found = measures(of_users(user, period, amount), of_users(other, period, amount))
    assert set(found) == set(PEOPLE)
    assert max(abs(x) for x in found.values()) < 1e-9


FAULTS = {
    "rows are dealt at random": (
        ("cohort", "span", "sum", "level"),
        lambda rng, u, p, a: (rng.permutation(u), p, a),
    ),
    "everybody begins four periods later": (
        ("first", "outside"),
        lambda rng, u, p, a: (u, p + 4, a),
    ),
    "all rows cost the same": (("top10", "sum", "level"), lambda rng, u, p, a: (u, p, 0 * a + 1)),
    "users have half of their rows": (
        ("per_user", "active"),
        lambda rng, u, p, a: (u * 2 + p % 2, p, a),
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_seen(fault):
    rng = np.random.default_rng(2)
    table = people(rng)
    seen, planted = FAULTS[fault]
    found = measures(of_users(*table), of_users(*planted(rng, *table)))
    assert all(abs(found[name]) > 0.04 for name in seen), found
