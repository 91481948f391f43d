"""Rates of agreement by number of rows (`users.group_rates`)."""

import numpy as np

from fastdp.users.group_rates import rates_by_group


def test_rates_of_few_users_with_many_rows_are_known_better_than_by_themselves():
    """Taxis: two rows of one are of one day in .9, .7, .4 and .14 for taxis with few rows to many, of whom
    there are fewer and fewer. The logarithm of the last rate (how many days such a taxi drives on) is off by
    a half in the mean where each group stands for itself, and by a third of that and more less here."""
    rates = np.array([0.9, 0.73, 0.41, 0.135, 0.135, 0.135])
    users = np.array([50.0, 330, 540, 250, 50, 5])
    noise = 30.0
    seen = np.diag(users / noise)
    rng = np.random.default_rng(8)
    own, found = [], []
    for _ in range(60):
        sums = seen @ rates + rng.normal(0, 1, 6)
        found.append(rates_by_group(seen, sums, 0.05))
        own.append(np.clip(sums * noise / users, 0.01, 0.99))
    error, alone = (np.abs(np.log(np.array(x) / rates))[:, 2:5].mean(axis=0) for x in (found, own))
    assert (error[1:] < 0.7 * alone[1:]).all() and error[0] < 1.1 * alone[0]
    assert np.array(found).min() > 0 and np.array(found).max() < 1


def test_rates_that_are_known_are_kept_and_rates_of_nobody_are_near_chance_or_their_neighbours():
    rates = np.array([0.66, 0.16, 0.3, 0.02, 0.5, 0.99])
    assert np.allclose(rates_by_group(np.eye(6) * 1e5, rates * 1e5, 0.2), rates, atol=1e-3)
    nobody = rates_by_group(np.zeros((1, 6)), np.zeros(1), 0.2)
    assert np.allclose(nobody, 0.2, atol=1e-3)
    one = rates_by_group(np.eye(6)[:1] * 1e5, np.array([0.7e5]), 0.2)
    assert abs(one[0] - 0.7) < 1e-3 and 0.6 < one[1] < 0.7
    never = rates_by_group(np.eye(6) * 500, np.zeros(6), 0.1)
    assert (never > 0).all() and (never < 0.01).all()
