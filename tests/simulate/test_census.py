"""The census simulator: the 98 columns, valid codes, refinements that must hold, dependence, determinism."""

import json
from pathlib import Path

import numpy as np
import pytest

from fastdp import simulate

SHARED = Path(__file__).parents[2] / "../shared/data/census1940"


@pytest.fixture(scope="module")
def people() -> dict[str, np.ndarray]:
    table = simulate.census(120_000, seed=4)
    return {name: table[name].to_numpy() for name in table.column_names}


@pytest.mark.parametrize("state", ["Colorado", "Vermont"])
def test_every_value_is_in_the_code_book(state):
    if not SHARED.exists():
        pytest.skip("the shared code lists are not here")
    specs = json.loads((SHARED / "colorado-specs.json").read_text())
    lists = json.loads((SHARED / "value-lists.json").read_text())
    table = simulate.census(60_000, seed=1, state=state)
    assert table.column_names == list(specs)
    for name in table.column_names:
        seen = np.unique(table[name].to_numpy())
        assert seen.min() >= 0 and seen.max() <= specs[name]["maxval"], name
        assert name not in lists or np.isin(seen, lists[name]).all(), name


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


def test_cities_name_the_state(people):
    cities = simulate.census_cities()
    in_colorado = {code for code, state in cities.items() if state == "Colorado"}
    assert set(np.unique(people["CITY"])) - {0} == in_colorado
    other = simulate.census(20_000, state="Ohio")["CITY"].to_numpy()
    assert {cities[c] for c in np.unique(other) if c} == {"Ohio"}


def test_deterministic_for_any_threads_and_any_size():
    one = simulate.census(150_000, seed=7, threads=1)
    assert one.equals(simulate.census(150_000, seed=7, threads=3))
    assert simulate.census(0).num_rows == 0
    assert simulate.census(1).num_rows == 1
