"""Limits of memory and time, as limits of cells."""

import pytest

from fastdp.mechanisms.limits import size_limits
from fastdp.mechanisms.limits.size_limits import PAIR_BYTES, PUBLIC_PAIR_BYTES

MEMORY = 10**9
"""Bytes."""
BY_MEMORY = MEMORY // 2 // size_limits.CELL_BYTES
BY_TIME = 2 * size_limits.CELLS_PER_SECOND
"""Cells that two seconds allow."""


@pytest.mark.parametrize("power, unit", list(enumerate(("", "K", "M", "G", "T"))))
def test_sizes_are_written_with_powers_of_1024(power, unit):
    assert size_limits.parse_bytes(f"3{unit}") == 3 * 1024**power


@pytest.mark.parametrize(
    "public, each", [(False, PAIR_BYTES), (True, PAIR_BYTES + PUBLIC_PAIR_BYTES)]
)
def test_pairs_get_half_of_the_memory_between_a_least_and_their_own_limit(public, each):
    assert size_limits.pair_cells(MEMORY, 10**9, public) == MEMORY // 2 // each
    assert size_limits.pair_cells(MEMORY, 50_000, public) == 50_000
    assert size_limits.pair_cells(1, 10**9, public) == size_limits.LEAST_CELLS
    assert size_limits.pair_cells(None, 7, public) == 7


def test_a_model_has_as_many_cells_as_memory_and_time_allow():
    assert size_limits.model_cells(None, MEMORY, None) == BY_MEMORY
    assert size_limits.model_cells(None, None, 2.0) == BY_TIME
    assert size_limits.model_cells(None, MEMORY, 2.0) == min(BY_MEMORY, BY_TIME)
    assert size_limits.model_cells(None, 1 << 24, 1e-9) == size_limits.LEAST_CELLS


def test_a_limit_of_cells_comes_before_those_of_memory_and_time():
    assert size_limits.model_cells(None, None, None, 9) == 9
    assert size_limits.model_cells(9, MEMORY, 2.0) == 9
