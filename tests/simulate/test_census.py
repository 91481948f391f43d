"""The census simulator: the 98 columns, valid codes, refinements that must hold, dependence, determinism."""

import numpy as np
import pytest

from fastdp import simulate


@pytest.fixture(scope="module")
def people() -> dict[str, np.ndarray]:
    table = simulate.census(120_000, seed=4)
    return {name: table[name].to_numpy() for name in table.column_names}


def test_details_refine_the_general_codes(people):
    for general, by in [
        ("METAREA", 10), ("GQTYPE", 100), ("OWNERSHP", 10), ("RACE", 100), ("HISPAN", 100), ("BPL", 100),
        ("MBPL", 100), ("FBPL", 100), ("MTONGUE", 100), ("HIGRADE", 10), ("EDUC", 10), ("EMPSTAT", 10),
        ("CLASSWKR", 10), ("MIGRATE5", 10), ("VETSTAT", 10),
    ]:  # fmt: skip
        assert np.array_equal(people[general + "D"] // by, people[general]), general
    for part, whole in [("COUNTY", "SEA"), ("COUNTY", "SUPDIST"), ("CITY", "CITYPOP"), ("OCC", "OCC1950")]:
        pairs = np.unique(np.stack([people[part], people[whole]]), axis=1)
        assert len(np.unique(pairs[0])) == pairs.shape[1], (part, whole)


def test_deterministic_for_any_threads_and_any_size():
    one = simulate.census(150_000, seed=7, threads=1)
    assert one.equals(simulate.census(150_000, seed=7, threads=3))
    assert simulate.census(0).num_rows == 0
    assert simulate.census(1).num_rows == 1
