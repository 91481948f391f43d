"""Tails of numbers in bins: noise in bins where nobody is does not count as large amounts."""

import numpy as np

from fastdp.measurement import Measurement
from fastdp.mechanisms.shared.merged_codes import shape_of
from fastdp.mechanisms.shared.number_tails import numbers_in_bins, with_tails
from fastdp.rows_per_user import last_bin, last_run
from fastdp.schema import Schema

BINS = 42
NUMBERS = np.geomspace(1.0, 8192.0, BINS)
LOGS = np.log2(NUMBERS)
ROWS = 40_000 * np.exp(-0.5 * np.square((LOGS - 4.5) / 1.6))
ROWS = ROWS / ROWS.sum() * 40_000
SIGMA = 50.0


def measured(seed: int) -> np.ndarray:
    return ROWS + SIGMA * np.random.default_rng(seed).standard_normal(BINS)


def revenue(counts: np.ndarray) -> float:
    return float(counts @ NUMBERS / counts.sum())


def test_a_mean_is_that_of_the_rows_and_not_of_noise():
    """The largest bins are empty. Noise of 50 rows in the last dozen, cut off at 0, is about 20 rows each
    of 4,000 on average: as much again as a fifth of all. The planted bug is the rule without tails."""
    errors = np.full(BINS, SIGMA)
    numbers = np.ones(BINS, bool)
    rare = np.ones(BINS, bool)
    found = []
    without = []
    for seed in range(40):
        one = Measurement(("x",), measured(seed), SIGMA)
        rare = one.values < 3 * errors
        found.append(revenue(shape_of(one, rare, 40_000.0, numbers)))
        without.append(revenue(shape_of(one, rare, 40_000.0)))
    truth = revenue(ROWS)
    over = np.mean(without) / truth - 1
    assert over > 0.15
    assert abs(np.mean(found) / truth - 1) < over / 3


def test_tails_fall_and_what_stands_out_stays():
    values = measured(3)
    errors = np.full(BINS, SIGMA)
    first = BINS - 1 - last_bin(values[::-1], errors)
    last = last_bin(values, errors)
    made = with_tails(values, errors)
    assert np.array_equal(made[first : last + 1], values[first : last + 1])
    assert (np.diff(made[last + 1 :]) <= 0).all() and (made[last + 1 :] >= 0).all()
    assert (np.diff(made[:first]) >= 0).all() and (made[:first] >= 0).all()


def test_noise_alone_stays_as_it_is():
    noise = np.random.default_rng(0).standard_normal(20)
    assert last_run(noise, np.ones(20)) == (-1, -1)
    assert np.array_equal(with_tails(noise, np.ones(20)), noise)


def test_only_bins_of_numbers_and_amounts_have_tails():
    """Codes of categories, and times, have no order in which counts fall."""
    whole = {"kind": "integer", "dtype": "int64", "min": 0, "max": 9}
    bins = {"kind": "numeric", "dtype": "float64", "edges": [0, 1, 2, 4], "null": "code"}
    schema = Schema.from_dict(
        {
            "user": {"column": "who", "amounts": ["paid"], "max_rows": 9},
            "columns": {"code": whole, "paid": whole, "price": bins},
        }
    )
    found = numbers_in_bins(schema)
    assert list(found) == ["paid", "price"]
    assert found["price"].tolist()[:3] == [True] * 3 and not found["price"][-1]  # null
