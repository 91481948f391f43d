"""A metric: in which share of the columns both tables have the same commonest value."""

import numpy as np

from fastdp.plugins import Comparison, metric


@metric("mode")
def mode(comparison: Comparison) -> float:
    pair = comparison.pair
    same = [
        np.bincount(pair.truth[name]).argmax() == np.bincount(pair.synthetic[name]).argmax()
        for name in pair.names
    ]
    return float(np.mean(same))
