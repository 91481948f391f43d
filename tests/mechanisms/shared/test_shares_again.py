"""1-ways that are measured again share what helps: noise that hides a code costs its rows, and no more."""

import numpy as np
import pytest

from fastdp.measurement import Measurement
from fastdp.mechanisms.shared.one_ways import averaged, ones_shares, shares_again


def column(name, rows, sigma=1.0):
    return Measurement((name,), np.asarray(rows, float), sigma)


def divided(ones, unit, share=0.5):
    return shares_again(ones, [m.values for m in ones], share, unit, lambda clique: 1.0)


def test_with_little_noise_sizes_alone_count():
    """As the first 1-ways are divided: k codes get k^(2/3)."""
    ones = [column("two", [5e5] * 2, 1e3), column("sixteen", [5e5] * 16, 1e3)]
    found = divided(ones, unit=1e-2)
    expected = ones_shares({"two": 2, "sixteen": 16}, 0.5, lambda clique: 1.0)
    assert found == pytest.approx(expected, abs=0.05)
    assert sum(found.values()) == pytest.approx(0.5)


def test_a_column_whose_codes_stay_hidden_gets_nothing():
    """Two thousand codes of half a row each, where noise is a hundred rows, against two of 500."""
    ones = [column("hidden", [0.5] * 2000, 400.0), column("seen", [500.0] * 2, 400.0)]
    found = divided(ones, unit=1e-4)
    assert found == {"hidden": 0.0, "seen": 0.5}


def test_what_matters_more_gets_more():
    ones = [column(a, [500.0] * 4, 100.0) for a in "ab"]
    found = shares_again(
        ones, [m.values for m in ones], 0.5, 1e-3, lambda clique: 3.0 if clique == ("a",) else 1.0
    )
    assert found["a"] > found["b"] > 0


def test_a_column_that_is_not_measured_again_keeps_its_answer():
    first = [column("a", [3.0, 5.0]), column("b", [1.0, 7.0])]
    second = [column("b", [3.0, 5.0])]
    kept, mean = averaged(first, second)
    assert kept is first[0]
    assert mean.values == pytest.approx([2.0, 6.0])
