"""The score kernels against numpy: all widths, ragged shapes, one thread and many."""

from itertools import combinations

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


@pytest.mark.parametrize("rows", [(0, 0), (0, 5), (7, 0), (1, 1), (60, 3000), (3000, 2500)])
@pytest.mark.parametrize("columns", [2, 3, 8])
@pytest.mark.parametrize("threads", [1, 3])
def test_grouped_pairs(rows, columns, threads):
    rng = np.random.default_rng(sum(rows) + columns)
    groups = 11
    sizes = rng.integers(1, 30, columns).astype(np.int32)
    sizes[0] = 256
    sides = []
    for n in rows:
        group = rng.integers(0, groups - 2, n).astype(np.uint32)
        codes = [rng.integers(0, s, n).astype(np.uint8) for s in sizes]
        start, packed = score.group_rows(group, codes, groups)
        assert np.array_equal(np.diff(start), np.bincount(group, minlength=groups))
        sides.append((group, codes, start, packed))
    (ga, ca, sa, pa), (gb, cb, sb, pb) = sides
    distances = score.grouped_pairs(sa, pa, sb, pb, sizes, threads)
    for p, (i, j) in enumerate(combinations(range(columns), 2)):
        for g in range(groups):
            a, b = (np.zeros((sizes[i], sizes[j])) for _ in range(2))
            np.add.at(a, (ca[i][ga == g], ca[j][ga == g]), 1)
            np.add.at(b, (cb[i][gb == g], cb[j][gb == g]), 1)
            if a.sum() and b.sum():
                expected = np.abs(a / a.sum() - b / b.sum()).sum()
            else:
                expected = 2.0 if a.sum() + b.sum() else 0.0
            assert distances[g, p] == pytest.approx(expected, abs=1e-12)


def test_distance():
    rng = np.random.default_rng(0)
    a, b = (rng.integers(0, 50, n).astype(np.uint32) for n in (300, 20))
    expected = np.abs(np.bincount(a, minlength=50) / 300 - np.bincount(b, minlength=50) / 20).sum()
    assert score.distance(a, b, 50) == pytest.approx(expected)
    none = a[:0]
    assert (score.distance(a, none, 50), score.distance(none, none, 50)) == (2.0, 0.0)
