"""Tie numbers: the kernels follow docs/explain/ties.md, and no key is preferred."""

import hashlib

import numpy as np
from hypothesis import given, settings, strategies as st

from fastdp._core import bound
from fastdp.domain import Domain
from fastdp.userkeys import tie_blocks

from ..reference import counting as slow


def packed(texts: list[bytes]):
    ends = np.cumsum([0, *map(len, texts)])
    return ends.astype(np.int64), np.frombuffer(b"".join(texts) or b"\0", np.uint8)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.binary(max_size=200), min_size=1, max_size=5))
def test_ids_are_hashed_by_sha256(texts):
    wanted = [int.from_bytes(hashlib.sha256(text).digest()[:8], "big") for text in texts]
    assert bound.string_hashes(*packed(texts)).tolist() == wanted


def test_every_length_of_an_id_is_padded_as_sha256_says():
    texts = [b"x" * n for n in range(140)]
    wanted = [int.from_bytes(hashlib.sha256(text).digest()[:8], "big") for text in texts]
    assert bound.string_hashes(*packed(texts)).tolist() == wanted


def test_numbers_are_hashed_by_their_digits():
    numbers = [0, 7, -1, 10**18, -(1 << 63), (1 << 63) - 1]
    words = np.array(numbers, np.int64).view(np.uint64)
    assert bound.word_hashes(words, True).tolist() == [slow.id_hash(n) for n in numbers]
    unsigned = words.tolist()
    assert bound.word_hashes(words, False).tolist() == [slow.id_hash(n) for n in unsigned]


@settings(max_examples=20, deadline=None)
@given(
    st.lists(st.lists(st.integers(0, 1 << 62), min_size=1, max_size=6), min_size=1, max_size=6),
    st.integers(0, 2**64 - 1),
)
def test_keys_of_any_size_are_chosen_as_the_twin_says(users, hashed):
    start = np.cumsum([0, *map(len, users)])
    keys = np.array([key for own in users for key in own], np.uint64)
    hashes = np.array([hashed ^ i for i in range(len(users))], np.uint64)
    told = bound.modes(start, keys, hashes, 1 << 63, 1)
    for own, hash_of_user, chosen in zip(users, hashes.tolist(), told.tolist(), strict=True):
        best = min(set(own), key=lambda k: (-own.count(k), slow.tie(hash_of_user, k), k))
        assert chosen == best


def test_no_key_is_preferred():
    """Of five tied keys each user takes one; over 50,000 users each key is taken by a fifth. The
    statistic is chi-squared with 4 degrees of freedom: above 47 with probability 1e-9. It is asked
    for neighbours, for keys far apart, and for keys of more than one digit."""
    users = 50_000
    hashes = bound.word_hashes(np.arange(users, dtype=np.uint64), True)
    start = np.arange(users + 1) * 5
    for keys in ([0, 1, 2, 3, 4], [3, 1000, 70_000, 1 << 29, (1 << 30) - 1], [1 << 40, 5, 6, 7, 8]):
        sorted_keys = np.tile(np.array(sorted(keys), np.uint64), users)
        chosen = bound.modes(start, sorted_keys, hashes, 1 << 62, 1)
        counts = np.array([(chosen == key).sum() for key in keys])
        assert ((counts - users / 5) ** 2 / (users / 5)).sum() < 47


def test_a_preferred_key_would_be_noticed():
    """A linear tie number prefers the ends of three neighbours: 3/8, 1/4, 3/8."""
    rng = np.random.default_rng(1)
    p = (1 << 31) - 1
    a, b = rng.integers(0, p, (2, 50_000))
    chosen = np.argmin([(a * key + b) % p for key in range(3)], axis=0)
    counts = np.bincount(chosen)
    assert ((counts - 50_000 / 3) ** 2 / (50_000 / 3)).sum() > 47


def test_blocks_of_columns_are_words_of_at_most_31_bits():
    domain = Domain({"a": 1 << 20, "b": 1 << 10, "c": 2, "d": 1 << 31, "e": 3})
    assert tie_blocks(domain, ("a", "b", "c", "d", "e")) == [("a", "b"), ("c",), ("d",), ("e",)]
