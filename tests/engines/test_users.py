"""Histograms of users: what is refused before anything is counted, and the bins of rows per user."""

import numpy as np
import pytest

from fastdp.domain import Domain
from fastdp.engines import user_histograms as users
from fastdp.engines.local import local
from fastdp.errors import UsageError
from fastdp.tables.table import Table
from fastdp.userkeys import Groups, RowsPerUser

DOMAIN = Domain({"a": 3})


@pytest.mark.parametrize("cap", [0, -1, 1.5, True, False])
def test_caps_that_are_no_positive_whole_numbers_are_refused(cap):
    with pytest.raises(UsageError, match="cap"):
        users.checked(DOMAIN, Groups(("a",), 2), cap)


def test_rows_per_user_are_binned_from_their_lower_edges():
    """edges[i] <= R < edges[i + 1], the last bin open; users below the first edge, and those whose rows were
    all left out, are not counted."""
    rows = [1, 1, 2, 3, 4, 9]
    ids = np.repeat(np.arange(len(rows)), rows)
    table = Table.from_codes(DOMAIN, {"a": np.zeros(len(ids), np.uint8)}, user=ids)
    engine = local(table, 1)
    assert engine.user_histogram(RowsPerUser((1, 2, 4)), 1).tolist() == [2, 2, 2]
    assert engine.user_histogram(RowsPerUser((2, 9)), 1).tolist() == [3, 1]
    assert engine.user_histogram(RowsPerUser((10,)), 1).tolist() == [0]
    kept = table.take(ids != 0)
    assert local(kept, 1).user_histogram(RowsPerUser((1, 2, 4)), 1).tolist() == [1, 2, 2]
