"""The score kernels against numpy: all widths, ragged shapes, one thread and many."""

import numpy as np
import pytest

from fastdp._core import score
from fastdp.metrics.inputs import kernel_ready


@pytest.mark.parametrize("dtype", ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", ">i4"])
@pytest.mark.parametrize("rows", [0, 1, 1000])
def test_mark_and_recode(dtype, rows):
    low = 0 if "u" in dtype else -7
    values = np.random.default_rng(1).integers(low, 90, rows).astype(dtype)
    seen = np.zeros(100, np.uint8)
    score.mark(kernel_ready(values), low, seen)
    assert np.array_equal(np.flatnonzero(seen) + low, np.unique(values))
    table = np.random.default_rng(2).integers(0, 256, 100).astype(np.uint8)
    assert np.array_equal(score.recode(kernel_ready(values), low, table), table[values.astype(int) - low])
