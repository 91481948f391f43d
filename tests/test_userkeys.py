"""User keys: what they refuse, how many keys they have, and that their digest says all of it."""

from itertools import combinations

import numpy as np
import pytest

from fastdp.domain import Domain
from fastdp.errors import SchemaError, UsageError
from fastdp.userkeys import Agreement, Groups, MostCommon, RowsPerUser

DOMAIN = Domain({"a": 3, "b": 4, "c": 2})


BY_COLUMNS = [MostCommon(("b", "a")), Groups(["b", "a"], 2)]


def test_rows_per_user_need_no_column():
    assert RowsPerUser((1,)).domain_columns == ()


@pytest.mark.parametrize("key", BY_COLUMNS)
def test_a_bound_key_has_the_sizes_of_its_columns(key):
    assert key.domain_columns == ("b", "a")
    bound = key.bind(DOMAIN)
    assert bound.shape == (4, 3)
    assert bound.bind(DOMAIN).shape == (4, 3)


@pytest.mark.parametrize("key", BY_COLUMNS)
def test_a_bound_key_refuses_another_domain(key):
    with pytest.raises(UsageError, match="different domain"):
        key.bind(DOMAIN).bind(Domain({"a": 3, "b": 5}))


@pytest.mark.parametrize("key", BY_COLUMNS)
def test_a_key_has_no_size_before_it_is_bound(key):
    with pytest.raises(UsageError, match="bind"):
        _ = key.size


@pytest.mark.parametrize("key", [MostCommon(("nobody",)), Groups(("nobody",), 2)])
def test_a_key_over_a_column_that_is_not_there_is_refused(key):
    with pytest.raises(SchemaError):
        key.bind(DOMAIN)


def test_the_largest_grids_fit_into_62_bits():
    assert MostCommon(("x", "y")).bind(Domain({"x": 1 << 31, "y": (1 << 31) - 1})).size < 1 << 62
    assert Groups(("x",), 2).bind(Domain({"x": (1 << 61) - 1})).size < 1 << 62
    Agreement((("x", "y"),)).bind(Domain({"x": 1 << 31, "y": (1 << 31) - 1}))


@pytest.mark.parametrize(
    "key", [MostCommon(("x", "y")), Groups(("x", "y"), 1), Agreement((("x", "y"),))]
)
def test_larger_grids_are_refused(key):
    with pytest.raises(UsageError, match="2\\^62"):
        key.bind(Domain({"x": 1 << 31, "y": 1 << 31}))


def test_a_key_has_one_entry_for_each_label_or_cell_that_it_names():
    assert Groups(("a",), 2, [5]).bind(DOMAIN).size == 1
    assert MostCommon(("a",), [0, 1, 2], keys=3).bind(DOMAIN).size == 3
    assert Groups(("a",), 1).bind(DOMAIN).size == 3


def test_keys_cannot_be_changed_through_what_they_were_made_of():
    labels = np.array([0, 1, 2])
    cells = np.array([0, 3])
    by_label = MostCommon(("a",), labels)
    groups = Groups(("a",), 2, cells)
    labels[0] = 2
    cells[0] = 1
    assert by_label.labels.tolist() == [0, 1, 2] and groups.cells.tolist() == [0, 3]
    for array in (by_label.labels, groups.cells):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 9


def test_two_keys_that_say_different_things_have_different_digests():
    """And the same thing the same digest, in every process."""

    def digests_of_all():
        keys = [RowsPerUser(edges) for edges in ((1, 2), (1, 3), (1, 2, 3))]
        keys += [
            MostCommon(("a", "b")),
            MostCommon(("b", "a")),
            MostCommon(("a", "b")).bind(DOMAIN),
        ]
        keys += [MostCommon(("a",), [0, 1, 2]), MostCommon(("a",), [0, 2, 1])]
        keys += [
            MostCommon(("a",), [0, 1, 2], keys=4),
            Groups(("a", "b"), 2),
            Groups(("a", "b"), 3),
        ]
        keys += [Groups(("a", "b"), 2, cells) for cells in ([0, 1], [0, 2], [])]
        keys += [Agreement((feature,)) for feature in (("a",), ("a", 2), ("a", 3), ("a", "b"))]
        return [key.digest() for key in keys]

    digests = digests_of_all()
    assert digests == digests_of_all()
    assert all(a != b for a, b in combinations(digests, 2))
    assert RowsPerUser((1, 2)).digest() == RowsPerUser(np.array([1, 2])).digest()
