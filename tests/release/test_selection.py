"""Weights of a selection: whole units, one at least, and limits on both sides."""

import pytest

from fastdp.errors import UsageError
from fastdp.release.selection import WEIGHT_UNITS, score_weights


def test_weights_are_whole_units_and_one_at_least():
    assert score_weights(None, 3, "pick") == [WEIGHT_UNITS] * 3
    tiny = 0.1 / WEIGHT_UNITS
    assert score_weights([1, 2.5, tiny], 3, "pick") == [WEIGHT_UNITS, round(2.5 * WEIGHT_UNITS), 1]
    assert score_weights([2**20 - 1], 1, "pick") == [(2**20 - 1) * WEIGHT_UNITS]


@pytest.mark.parametrize("weights", [[1.0], [1.0, 1.0, 1.0], [1.0, 0.0], [1.0, -1.0], [2.0**20, 1.0]])
def test_weights_beyond_their_limits_are_refused(weights):
    with pytest.raises(UsageError, match="'pick': expected one positive weight per clique, below 2\\^20"):
        score_weights(weights, 2, "pick")
