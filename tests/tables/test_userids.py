"""Ids to user numbers: the same users whatever form the ids come in."""

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from fastdp.tables.userids import UserIndex

VALUES = {
    "text": st.sampled_from(["", "a", "b", "ab", "\u00e4"]),
    "whole": st.integers(-3, 3),
    "float": st.sampled_from([0.0, -0.0, 1.5, float("nan")]),
}
TYPES = {"text": pa.string(), "whole": pa.int64(), "float": pa.float64()}


def numbered(*arrays) -> tuple[list[int], dict[int, int]]:
    """(user number of each id, number -> public hash)."""
    index = UserIndex()
    numbers = [n for array in arrays for n in index.add(index.prepare(array)).tolist()]
    return numbers, dict(enumerate(index.hashes().tolist()))


def partition(numbers) -> list[list[int]]:
    """Positions of the ids by user, users in the order of their first id."""
    users: dict[int, list[int]] = {}
    for position, number in enumerate(numbers):
        users.setdefault(number, []).append(position)
    return list(users.values())


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(sorted(VALUES)), st.data())
def test_a_dictionary_gives_the_users_of_its_plain_values(kind, data):
    """Indices may be null, a dictionary value may be null or NaN, values may be repeated or not occur: the
    users, and the hash of each, are those of the values written out. Each null or NaN is a user alone."""
    values = data.draw(st.lists(st.none() | VALUES[kind], min_size=1, max_size=6))
    indices = data.draw(st.lists(st.none() | st.integers(0, len(values) - 1), max_size=12))
    cut = data.draw(st.integers(0, len(indices)))
    plain = [None if i is None else values[i] for i in indices]
    dictionary = pa.DictionaryArray.from_arrays(pa.array(indices, pa.int32()), pa.array(values, TYPES[kind]))
    coded, coded_hashes = numbered(dictionary.slice(0, cut), dictionary.slice(cut))
    straight, hashes = numbered(pa.array(plain, TYPES[kind]))
    assert partition(coded) == partition(straight)
    for i, value in enumerate(plain):
        if value is not None and value == value:
            assert coded_hashes[coded[i]] == hashes[straight[i]]
    assert sorted(set(coded)) == list(range(len(coded_hashes)))
    alone = [i for i, value in enumerate(plain) if value is None or value != value]
    assert all([i] in partition(straight) for i in alone)


def test_nulls_and_nans_among_floats_are_all_users_of_their_own():
    """Whatever word stands at a null in the buffer: here that of an id that occurs."""
    words = pa.array([0.0, float("nan"), 0.0, 0.0, float("nan"), 1.5])
    nulls = pa.py_buffer(bytes([0b111010]))
    ids = pa.Array.from_buffers(pa.float64(), 6, [nulls, words.buffers()[1]])
    assert ids.null_count == 2
    assert len(partition(numbered(ids)[0])) == 6 and len(partition(numbered(ids.slice(1))[0])) == 5
