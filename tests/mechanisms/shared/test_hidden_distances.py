"""What noise hides of a distance, and what that decides: the resolution, and whether a pair is asked
for."""

from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from fastdp.mechanisms.cliquetree import CliqueTree
from fastdp.mechanisms.shared import screening
from fastdp.mechanisms.shared.screening import Candidate, deviations, findings, tells

from ..growing import RowsSession, dependent_rows, job_of

PAIR = ("a", "b")


def found(c, table, sigma):
    return findings(c, table, sigma, float(table.sum()))


@given(st.floats(0, 1), st.floats(0.1, 1e3), st.floats(0.1, 1e3))
@settings(max_examples=60, deadline=None)
def test_more_noise_finds_less_and_never_more_than_there_is(part, low, more):
    table = np.random.default_rng(1).gamma(0.5, 40.0, (8, 9))
    total = float(table.sum())
    c = Candidate(PAIR, 2 * part * total, 10.0)
    off, apart = deviations(c.distance, table, total)
    assert off.sum() == pytest.approx(c.distance) and 0 <= apart <= part + 1e-12
    finds = [found(c, table, sigma) for sigma in (low, low + more)]
    assert -1e-9 * total <= finds[1] <= finds[0] + 1e-9 * total <= c.distance + 2e-9 * total


def test_where_a_cell_has_few_rows_groups_find_more_than_all_codes():
    """Two fifths of the rows are elsewhere, between groups and inside them. Noise of 28 rows hides cells
    of six. The planted bug: by distance less noise all codes win."""
    fine = np.full((40, 36), 6.0)
    coarse = fine.reshape(8, 5, 6, 6).sum(axis=(1, 3))
    distance = 2 * 0.4 * float(fine.sum())
    between = 0.7 * distance
    within = np.sqrt(distance**2 - between**2)
    pair = Candidate(PAIR, distance, 90.0)
    groups = Candidate(PAIR, between, 40.0, within=within)
    assert found(groups, coarse, 28.0) > found(pair, fine, 28.0)
    assert pair.gain(28.0) > groups.gain(28.0)
    assert found(pair, fine, 0.5) > found(groups, coarse, 0.5)


def test_cells_that_noise_hides_one_by_one_are_found_by_a_factor():
    """A column of 600 codes decides half of another one; groups of neighbouring codes say nearly nothing
    about it. The planted bug: cell by cell alone, the groups win."""
    fine = np.full((600, 5), 13.0)
    total = float(fine.sum())
    pair = Candidate(PAIR, 2 * 0.48 * total, 600.0)
    groups = Candidate(PAIR, 0.066 * total, 29.0, within=pair.distance)
    coarse = fine.reshape(30, 20, 5).sum(axis=1)
    assert found(pair, fine, 43.0) > found(groups, coarse, 43.0) > 0
    assert pair.noise(43.0) > 0.5 * pair.distance  # what is left of it is hidden


def test_a_pair_is_asked_for_if_its_answer_is_expected_to_be_followed():
    """A fifth of the rows elsewhere in 64 cells of 300: at noise of 50 rows an answer tells, at 600 it
    does not; a binary pair of the same distance tells at 600 too. Sets of three, and what public data
    explains, are other matters."""
    table = np.full((8, 8), 300.0)
    total = float(table.sum())
    pair = Candidate(PAIR, 2 * 0.2 * total, 64.0)
    assert tells(pair, table, 50.0, total) and not tells(pair, table, 600.0, total)
    assert tells(pair, np.full((2, 2), total / 4), 600.0, total)
    assert tells(Candidate(("a", "b", "c"), 1.0, 1.0), table.reshape(4, 4, 4), 600.0, total)
    assert tells(Candidate(PAIR, 1.0, 1.0, explained=1.0), table, 600.0, total)
    free = 49
    assert screening.least_square(free, table, 600.0) < free
    assert screening.least_square(1, np.full((2, 2), 300.0), 50.0) == 1


@pytest.mark.parametrize("some", [True, False])
def test_where_no_answer_tells_single_columns_get_all_of_the_batches(some):
    session = RowsSession(*dependent_rows(), mu=0.5, seed=1)
    with patch.object(screening, "tells", lambda *_: some):
        outcome = CliqueTree().run(session, job_of(session))
    assert any(outcome.details["batches"]) is some
    assert ("1-ways at last" in session.steps) is not some
    assert session.spent == pytest.approx(session.mu**2, rel=1e-9)
