"""The scan of released answers."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from fastdp.engines import SCALE
from fastdp.errors import RunError
from fastdp.run.folder_check import Answered, _Place

SIZES = (3, 0, 5, 1, 0, 7)
RELEASES = [{"law": "gaussian"}, {"law": "discrete-laplace"}]


def scanned(width: int) -> list[Answered]:
    """Six measurements read `width` rows at a time; the third is off the grid."""
    entries = [Answered(n, f"m{n}", ("a",), rows, release=n % 2) for n, rows in enumerate(SIZES)]
    number = np.repeat(np.arange(len(SIZES)), SIZES)
    value = np.arange(number.size) - 4.0
    value[number == 2] += 0.3
    error = 1 + np.arange(number.size) % 5
    place = _Place(entries, RELEASES)
    for at in range(0, number.size, width):
        place.take(*(x[at : at + width] for x in (number, value, error.astype(float))))
    place.end()
    return entries


def test_a_scan_does_not_depend_on_the_batches_of_the_file():
    whole = scanned(100)
    start = 0
    for m in whole:
        values = [i - 4.0 + (0.3 if m.number == 2 else 0.0) for i in range(start, start + m.rows)]
        assert m.values == values
        grid = (np.array(values) * (1 if m.number % 2 else SCALE)).astype(np.int64)
        assert m.sha256 == (None if m.number == 2 else hashlib.sha256(grid.tobytes()).hexdigest())
        errors = [1 + i % 5 for i in range(start, start + m.rows)]
        assert not m.rows or (m.low, m.high) == (min(errors), max(errors))
        start += m.rows
    for width in range(1, 17):
        assert scanned(width) == whole, width


def test_answers_in_another_order_are_refused_wherever_they_lie():
    for i in range(6):
        number = np.array([0, 0, 1, 1, 2, 2])
        number[i] = (number[i] + 1) % 3
        for width in (1, 2, 6):
            place = _Place([Answered(n, "m", ("a",), 2, release=0) for n in range(3)], RELEASES)
            with pytest.raises(RunError, match="order"):
                for part in np.split(number, range(width, 6, width)):
                    place.take(part, np.zeros(len(part)), np.ones(len(part)))
