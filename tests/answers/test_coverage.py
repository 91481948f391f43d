"""Whole runs on simulated tables: intervals of `run.answer` cover, with and without users; naive
ones do not.

Intervals of one run share its noise, so a run counts as a few dozen independent ones, not as its
hundreds of cells. Bounds follow from the binomial with that number.
"""

import numpy as np
import pytest

from bench import coverage

INDEPENDENT = 30
"""Independent intervals that one run is worth at least: it draws its noise anew in each of dozens
of cells."""


def least(runs, level=0.95):
    """Coverage below this happens in one of 3,000 suites if intervals cover at `level`."""
    return level - 3.4 * np.sqrt(level * (1 - level) / (runs * INDEPENDENT))


def tallies(table, epsilon, seeds):
    out = coverage.empty()
    for seed in seeds:
        coverage.one_run(out, *table, epsilon, 1e-6, seed)
    return {key: tally.line(sizes=True) for key, tally in out.items() if tally.asked}


def people(rows=8_000, seed=1):
    rng = np.random.default_rng(seed)
    a = rng.choice(6, rows, p=[0.4, 0.25, 0.15, 0.1, 0.07, 0.03])
    b = (a + rng.integers(0, 3, rows)) % 6
    c = np.where(rng.random(rows) < 0.3, rng.integers(0, 4, rows), a % 4)
    d = rng.integers(0, 5, rows)
    columns = {"a": a, "b": b, "c": c, "d": d}
    return {k: int(v.max()) + 1 for k, v in columns.items()}, columns, None


def test_a_small_table_is_covered():
    found = tallies(people(), 0.5, [1])  # little enough that some pairs are not measured
    for kind in ("single column", "measured pair", "share"):
        assert found["answer", kind]["coverage"] > least(1), kind
        assert found["answer", kind]["unknown"] == 0
    assert found["answer", "unmeasured pair"]["coverage"] > least(1, 0.9)
    assert ("naive", "coefficient") in found


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [1.0, 10.0])
@pytest.mark.parametrize("users", [False, True])
def test_simulated_tables_are_covered_and_naive_intervals_of_users_rows_are_not(users, epsilon):
    table = coverage.simulated(None, 60_000) if users else people(30_000)
    seeds = range(40, 44)
    found = tallies(table, epsilon, seeds)
    lines = [
        (kind, found["answer", kind])
        for kind in coverage.QUESTION_KINDS
        if ("answer", kind) in found
    ]
    lines += [
        ((k, size), own)
        for k, r in lines
        if k in coverage.CELLS
        for size, own in r["sizes"].items()
    ]
    for kind, line in lines:
        if line["intervals"] >= (20 if isinstance(kind, str) else 100):
            level = 0.9 if "unmeasured pair" in kind or kind in ("mean", "difference") else 0.95
            assert line["coverage"] > least(len(seeds), level), (kind, line)
    if users:  # clipping is nowhere in an interval that takes synthetic rows for a sample
        assert found["naive", "single column"]["coverage"] < least(len(seeds))
