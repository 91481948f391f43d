from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings, strategies as st

from fastdp.errors import MeasurementError
from fastdp.queries import AdaGrid, Binned, Grid, Identity, Sparse, Weighted, fresh, project_cells

from .reference.adagrid import explicit


def family(sizes: dict[str, int], share: float, rng) -> Grid:
    """A random grid over all attributes: a cell is plausible with probability `share` where its
    children are fine."""
    grids = {}
    names = tuple(sizes)
    for k in range(1, len(names) + 1):
        for clique in combinations(names, k):
            shape = tuple(sizes[a] for a in clique)
            cells = np.arange(int(np.prod(shape)))
            if k == 1:
                grids[clique] = Grid(clique, shape, cells)
                continue
            children = tuple(grids[c] for c in combinations(clique, k - 1))
            fine = rng.random(cells.size) < share
            for child in children:
                below = project_cells(cells, clique, shape, child.clique, child.shape)
                fine &= np.isin(below, child.fine) & (
                    rng.random(int(np.prod(child.shape)))[below] < share
                )
            grids[clique] = Grid(clique, shape, cells[fine], children)
    return grids[names]


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.integers(1, 5), min_size=1, max_size=4),
    st.floats(0.2, 1.0),
    st.integers(0, 2**32 - 1),
)
def test_structured_queries_equal_their_explicit_matrices(sizes, share, seed):
    rng = np.random.default_rng(seed)
    query = AdaGrid(family({f"a{i}": n for i, n in enumerate(sizes)}, share, rng))
    matrix = explicit(query.grid)
    assert matrix.shape == (query.rows, query.cells)
    x = rng.integers(0, 2**40, query.cells)
    assert query.product(x).dtype == np.int64
    assert (query.product(x) == matrix.astype(np.int64) @ x).all()
    r = rng.integers(-1000, 1000, query.rows)
    assert (query.transpose(r) == matrix.T.astype(np.int64) @ r).all()
    assert query.column_norm2() == 1
    scaled = explicit(query.grid, scaled=True)
    num, den = query.coef2
    assert np.allclose(scaled, matrix * np.sqrt(num / den)[:, None])
    assert np.allclose((scaled**2).sum(0), 1)


def test_a_forgotten_child_coefficient_breaks_the_norm():
    """Planted bug: without the 1/sqrt(children) the column norm is above 1, and the exact check
    sees it."""
    rng = np.random.default_rng(0)

    class Forgetful(AdaGrid):
        @property
        def coef2(self):
            ones = np.ones(self.rows, np.int64)
            return ones, ones

    grid = family({"a": 4, "b": 3, "c": 3}, 0.6, rng)
    assert AdaGrid(grid).column_norm2() == 1
    assert Forgetful(grid).column_norm2() > 1


def test_blocks_reproduce_the_product():
    rng = np.random.default_rng(5)
    query = AdaGrid(family({"a": 4, "b": 3, "c": 5}, 0.7, rng))
    x = rng.random(query.cells)
    tables = {("a", "b", "c"): x}
    cube = x.reshape(4, 3, 5)
    for clique in [("a", "b"), ("a", "c"), ("b", "c"), ("a",), ("b",), ("c",)]:
        drop = tuple(i for i, a in enumerate("abc") if a not in clique)
        tables[clique] = cube.sum(axis=drop).reshape(-1)
    rows = []
    for block in query.blocks(("a", "b", "c")):
        part = tables[block.plus][slice(None) if block.cells is None else block.cells].copy()
        if block.minus:
            np.subtract.at(part, block.at, tables[block.minus][block.fine])
        rows.append(part)
    assert np.allclose(np.concatenate(rows), query.product(x))
    binned = Binned((4, 3, 5), ([0, 1, 1, 0], None, [2, 0, 1, 0, 2]))
    for query in (binned, Sparse(sp.csr_array(rng.integers(-2, 3, (7, 60))))):
        (block,) = query.blocks(("a", "b", "c"))
        number, line, cell, value = block.matrix
        assert np.allclose(np.bincount(line, value * x[cell], number), query.product(x))


def test_grid_refuses_a_fine_cell_over_a_coarse_one():
    with pytest.raises(MeasurementError, match="not fine"):
        a, b, c = (Grid((n,), (2,), np.arange(2)) for n in "abc")
        ab = Grid(("a", "b"), (2, 2), np.array([0]), (a, b))
        ac = Grid(("a", "c"), (2, 2), np.array([0]), (a, c))
        bc = Grid(("b", "c"), (2, 2), np.array([0]), (b, c))
        Grid(("a", "b", "c"), (2, 2, 2), np.array([7]), (ab, ac, bc))


def test_simple_queries_have_their_products_and_norms():
    x = np.arange(12)
    assert (Identity(12).product(x) == x).all() and Identity(12).column_norm2() == 1
    weighted = Weighted([1, 4, 9], 4)
    assert weighted.column_norm2() == Fraction(9, 4)
    assert np.allclose(weighted.row_sigma(6.0), [12, 6, 4])
    binned = Binned((4, 3), [[0, 0, 1, 1], None])
    assert binned.product(x).tolist() == [3, 5, 7, 15, 17, 19] and binned.column_norm2() == 1
    assert binned.transpose(np.arange(6)).tolist() == [0, 1, 2] * 2 + [3, 4, 5] * 2
    sparse = Sparse(sp.csr_array(np.array([[1, 1, 0], [0, 1, 1]])))
    assert sparse.product(np.array([1, 2, 4])).tolist() == [3, 6] and sparse.column_norm2() == 2
    real = Sparse(sp.csr_array(np.array([[0.5, 0.25], [0, 0.5]])))
    assert real.column_norm2() == Fraction(5, 16)
    with pytest.raises(MeasurementError, match="zeros and ones"):
        real.product(np.array([1, 2]))
    with pytest.raises(MeasurementError, match="12 cells"):
        Identity(12).product(np.arange(3))


@pytest.mark.parametrize(
    "num, den", [([1, 0], [2, 2]), ([1, -1], 1), ([1, 1], [2, 0]), ([1, 1], -2), ([0], 0)]
)
def test_weights_that_are_no_positive_fractions_are_refused(num, den):
    with pytest.raises(MeasurementError, match="positive"):
        Weighted(num, den)


def test_scalars_too_fine_to_add_up_exactly_are_refused():
    """Sums are exact below 2^62: just below it they are taken, from there on refused."""
    for rows in (1, 2, 3):
        most = (2**62 - 1) // rows
        assert Weighted([most] * rows).column_norm2() == most
        with pytest.raises(MeasurementError, match="too fine"):
            Weighted([most + 1] * rows).column_norm2()
    assert Weighted([1, 1], [2**30, 3**19]).column_norm2() == Fraction(1, 2**30), (
        "exact, whatever they share"
    )


def test_only_the_queries_of_this_package_are_made_again():
    class Mine(Identity):
        pass

    with pytest.raises(MeasurementError, match="got Mine"):
        fresh(Mine(3), {})


@pytest.mark.parametrize("entry", [2.0, -1.0, 0.5])
def test_a_matrix_of_other_entries_than_zero_and_one_counts_nothing_exactly(entry):
    """Whole numbers are counts: both directions refuse them, and take floats."""
    query = Sparse(np.array([[1.0, entry, 0.0], [0.0, 1.0, 1.0]]))
    for call, size in ((query.product, 3), (query.transpose, 2)):
        for kind in (np.int64, np.int32, np.uint8):
            with pytest.raises(MeasurementError, match="zeros and ones"):
                call(np.ones(size, kind))
    assert query.product(np.ones(3)).tolist() == [1 + entry, 2.0]
    assert query.transpose(np.ones(2)).tolist() == [1.0, entry + 1, 1.0]


def test_a_cell_that_a_matrix_names_twice_counts_twice():
    """Ones beside each other are a 2, of which one user would move the answer by 2; halves are a
    1."""
    ones, halves = (sp.csr_array((np.full(2, x), [0, 0], [0, 2]), shape=(1, 3)) for x in (1.0, 0.5))
    with pytest.raises(MeasurementError, match="zeros and ones"):
        Sparse(ones).product(np.ones(3, np.int64))
    assert Sparse(halves).product(np.arange(5, 8)).tolist() == [5]
