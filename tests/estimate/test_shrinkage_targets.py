"""First centres of regions, code by code."""

from __future__ import annotations

import numpy as np
import pytest

from fastdp.domain import Domain
from fastdp.estimate.dual.region_graph import Partitions, Region, Regions
from fastdp.estimate.dual.shrinkage_targets import first_centre

BINS = np.array([0, 1, 1, 2, 1, 3])


def region(names, clique, y, sigma) -> Region:
    y = np.asarray(y, float)
    return Region(frozenset(names), clique, y.shape, y, sigma, y.size, 0.0)


@pytest.mark.parametrize("sigma", [4.0, np.array([1.0, 2.0, 3.0, 4.0, 5.0, 60.0])], ids=["alike", "each"])
@pytest.mark.parametrize("met", ["nobody", "whole", "merged", "merged by a single column"])
def test_codes_that_pairs_merge_share_the_mean_and_all_others_keep_their_answer(sigma, met):
    """Half a sigma at least for a code of its own, a tenth of a sigma of the mean for a merged one; only
    regions of several columns merge."""
    partitions = Partitions(Domain({"a": 6, "b": 3}))
    merged = partitions.number("a", BINS)
    assert merged == 1
    y = np.array([9.0, -30.0, 1.0, 0.3, 2.0, -5.0])
    single = region([("a", 0)], ("a",), y, sigma)
    others = {
        "nobody": [],
        "whole": [region([("a", 0), ("b", 0)], ("b", "a"), np.ones((3, 6)), 1.0)],
        "merged": [region([("a", 1), ("b", 0)], ("b", "a"), np.ones((3, 4)), 1.0)],
        "merged by a single column": [region([("a", 1)], ("a",), np.ones(4), 1.0)],
    }[met]
    got = first_centre(Regions(partitions, [single, *others], []), single)
    each = np.broadcast_to(sigma, y.shape)
    for code in range(6):
        bin_ = np.flatnonzero(BINS == BINS[code])
        if met == "merged" and len(bin_) > 1:
            expected = max(y[bin_].mean(), 0.1 * each[bin_].mean())
        else:
            expected = max(y[code], 0.5 * each[code])
        assert got[code] == pytest.approx(expected, rel=1e-14), code
