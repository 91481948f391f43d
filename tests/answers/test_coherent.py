"""Errors of the model's cells may have the same sign: what that does to sums of them."""

import numpy as np
import pytest
import scipy.sparse as sp

from fastdp.answers.best_linear import Table, factor, sum_matrix
from fastdp.answers.coherent import DIVIDED, CoherentTable

GROUPS, CELLS = 5, 8


@pytest.fixture
def table():
    """A table of which both margins are known."""
    shape = (GROUPS, CELLS)
    spread = np.random.default_rng(0).uniform(1, 9, shape).reshape(-1)
    at = np.indices(shape).reshape(2, -1)
    matrix = sum_matrix(list(at), list(shape))
    about = factor(matrix, spread, 1e-6)
    maps = (np.arange(GROUPS), np.arange(CELLS))
    return CoherentTable(("a", "b"), maps, np.full(spread.size, 50.0), spread, about, basis="model")


def error(table, *weights) -> np.ndarray:
    return np.sqrt(table.variances(sp.csr_array(np.array([w.reshape(-1) for w in weights]))))


def part(group, cells):
    out = np.zeros((GROUPS, CELLS))
    out[group, cells] = 1
    return out


def test_errors_of_one_sign_in_a_group_are_covered_and_the_plain_table_misses_them(table):
    # Planted: all people whom the model lacks in the first half of a group are in its other half.
    errors = np.sqrt(table.cell_variances()).reshape(GROUPS, CELLS)
    half = errors[2].sum() / 2
    found = error(table, part(2, slice(0, 4)), part(2, slice(4, 8)))
    assert (found <= half * (1 + 1e-9)).all()  # no set is off by more than half of the distance
    assert found[0] == pytest.approx(half, rel=0.25)
    plain = Table(table.axes, table.maps, table.x, table.spread, table.factor)
    assert (error(plain, part(2, slice(0, 4))) < 0.75 * found[:1]).all()


def test_what_a_set_has_too_much_the_rest_of_its_group_lacks(table):
    for cells in ([0], [0, 3], [1, 2, 5, 7], list(range(1, 8))):
        others = np.setdiff1d(np.arange(CELLS), cells)
        both = np.array([part(1, cells).reshape(-1), part(1, others).reshape(-1)])
        one, other = table._together(sp.csr_array(both), 0)
        assert one == pytest.approx(other, rel=1e-9)


def test_a_multiple_of_known_sums_changes_nothing(table):
    rng = np.random.default_rng(1)
    weight = rng.normal(size=(GROUPS, CELLS))
    together = table._together(sp.csr_array(weight.reshape(1, -1)), 0)
    for row in (0, 3):
        more = weight.copy()
        more[row] += 5.0  # a group's own sum is known
        again = table._together(sp.csr_array(more.reshape(1, -1)), 0)
        assert again == pytest.approx(together, rel=0.2)  # c is one of four numbers


def test_no_cell_is_off_by_more_than_twice_its_part(table):
    errors = np.sqrt(table.cell_variances())
    found = error(table, *(np.eye(1, errors.size, i)[0] for i in range(errors.size)))
    assert (found >= errors * (1 - 1e-9)).all() and (found <= DIVIDED * errors * (1 + 1e-9)).all()


def test_errors_of_groups_are_independent(table):
    weights = [part(g, slice(0, 4)) for g in range(GROUPS)]
    own = table._together(sp.csr_array(np.array([w.reshape(-1) for w in weights])), 0)
    every = table._together(sp.csr_array(sum(weights).reshape(1, -1)), 0)
    assert every[0] == pytest.approx(np.sqrt(np.square(own).sum()))
    one = table._together(sp.csr_array(np.ones((1, GROUPS * CELLS))), 0)
    assert one[0] == pytest.approx(0.0, abs=1e-9)  # the number of users is known
