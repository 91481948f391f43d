"""What users see is what the snapshots say; `python -m tests.snapshots` writes them anew."""

import pytest

from .cases import CASES, FOLDER, Place, masked, shown


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return Place(tmp_path_factory.mktemp("snapshots"))


@pytest.mark.parametrize("name", CASES)
def test_users_see_what_the_snapshot_says(place, name):
    assert shown(name, place) == (FOLDER / f"{name}.txt").read_text("utf-8")


def test_there_is_a_snapshot_for_each_case_and_at_most_a_hundred():
    assert {path.stem for path in FOLDER.glob("*.txt")} == set(CASES) and len(CASES) <= 100


def test_numbers_that_a_processor_or_noise_could_change_are_masked():
    text = "epsilon 1.25, 1e-06, 12,345 rows, 3 columns, part-0, 2026-11-16T12:00:00Z, " + "0a" * 32
    assert masked(text) == "epsilon #, #, # rows, 3 columns, part-0, TIME, HASH\n"
