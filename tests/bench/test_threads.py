"""The forecast for many threads, on work whose best division is known."""

import numpy as np
import pytest

from bench.threads import BARRIER, forecast, phases


def test_one_thread_does_everything():
    work = [[("slices up", 1e-3), ("slices up", 2e-3)], [("gather", 4e-3)]]
    assert forecast(work, 1) == pytest.approx(7e-3)


def test_a_phase_lasts_as_long_as_its_last_piece():
    even = [[("slices up", 1e-3)] * 8]
    assert forecast(even, 4) == pytest.approx(2e-3 + BARRIER)
    assert forecast(even, 3) == pytest.approx(3e-3 + BARRIER)
    assert forecast([[("gather", 5e-3), ("gather", 1e-3)]], 16) == pytest.approx(5e-3 + BARRIER)


def test_pieces_are_told_apart_by_their_counters():
    base = 4096
    notes = [
        (base, 0, 0),
        (base, 1, 10),
        (0, 0, 30),
        (base + 8 * 4, 0, 31),
        (base + 8 * 4, 1, 90),
        (0, 0, 100),
    ]
    parts = phases(np.array(notes, np.int64))
    assert [[(what, round(1e9 * seconds)) for what, seconds in phase] for phase in parts] == [
        [("copy", 10), ("copy", 20)],
        [("alone", 1), ("slices up", 59), ("slices up", 10)],
    ]
