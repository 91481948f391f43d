"""Tables of two rows of a user: whose rows they are, and what they count."""

import numpy as np

from fastdp.users.row_tables import RowTables
from fastdp.users.two_rows import MOST_ROWS, TwoRows


def test_each_pair_of_rows_is_of_one_user_and_each_user_counts_as_one():
    """Users' values are their own, so that a pair of rows of two users would show. Users of more than
    MOST_ROWS rows and one row of each of the others are in the cell that tells nothing."""
    size = np.array([1, 2, 3, 3, MOST_ROWS + 1])
    start = np.append(0, np.cumsum(size))
    owner = np.repeat(np.arange(len(size)), size)
    codes = {"a": owner, "b": 10 * owner}
    two = TwoRows.of(codes, ["a", "b"], start, 3, 1)
    assert len(two.tables) == 3
    rows = RowTables.of(two.codes, two.tables, two.sizes)
    for table, cells in zip(two.tables, rows.counts(start, 1 / np.maximum(size - 1.0, 1.0))):
        one, other = (two.sizes[name] for name in table)
        counted = cells.reshape(one, other)
        told = counted[:, : other - 1]
        assert (told[~np.eye(*told.shape, dtype=bool)] == 0).all(), table
        assert sorted(told[told > 0]) == [1.0, 1.0, 1.0], table
        assert counted[1:, -1].sum() == 0


def test_different_values_meet_in_every_order():
    """The two rows of a user of two are left out alike often, so that either value comes first."""
    users = 4_000
    start = np.arange(0, 2 * users + 1, 2)
    codes = {"a": np.tile([0, 1], users)}
    two = TwoRows.of(codes, ["a"], start, 1, 2)
    counted = RowTables.of(two.codes, two.tables, two.sizes).counts(start, np.ones(users))[0]
    told = counted.reshape(2, 3)[:, :2]
    assert told[0, 0] == told[1, 1] == 0
    assert abs(told[0, 1] - users / 2) < 6 * np.sqrt(users / 4)
