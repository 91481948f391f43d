"""The threaded product with measured rows is scipy's, for any number of threads."""

import numpy as np
import pytest
import scipy.sparse as sp

from fastdp._core.ancestors import SparseRows
from fastdp._core.team import Team


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (1, 1), (7, 5), (40_000, 300)])
def test_a_product_is_scipys(shape):
    rng = np.random.default_rng(1)
    matrix = sp.random_array(shape, density=0.02, format="csr", rng=rng)
    x = rng.normal(size=shape[1])
    alone = SparseRows(matrix).product(x, 1)
    np.testing.assert_allclose(alone, matrix @ x, rtol=1e-12, atol=1e-13)
    assert (SparseRows(matrix).product(x, Team(4)) == alone).all()
