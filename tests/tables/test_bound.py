"""Weights, caps and histograms of users: exact bounds, and nobody's contribution depends on anybody
else."""

import struct

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from fastdp._core import bound as core
from fastdp.engines.local import local
from fastdp.tables import bound
from fastdp.tables.bound import SCALE
from fastdp.tables.table import Table
from fastdp.tables.userids import number_ids
from fastdp.userkeys import Groups, MostCommon

from ..engines.helpers import tables
from ..reference import counting as slow


def without(domain, codes, ids, user) -> Table:
    keep = ids != user
    return Table.from_codes(domain, {n: c[keep] for n, c in codes.items()}, user=ids[keep])


def value_hashes(ids) -> dict:
    numbers, hashes, _ = number_ids(ids, None)
    return {u: int(hashes[n]) for u, n in zip(ids.tolist(), numbers.tolist(), strict=True)}


@given(
    st.lists(st.integers(0, 60), max_size=120) | st.lists(st.integers(0, 2**32 - 1), max_size=3),
    st.sampled_from([1, 7, 10**6, bound.MAX_CLIP]) | st.integers(1, 10**6),
)
def test_rows_of_a_user_weigh_the_clip_together_at_most_rounded_down(rows, clip):
    """With more users than numbers of rows they are divided once for each number."""
    weights = bound.weights(np.array(rows, np.uint32), clip)
    assert weights.dtype == np.uint32
    assert weights.tolist() == [min(SCALE, clip * SCALE // max(1, r)) for r in rows]


@settings(max_examples=30, deadline=None)
@given(tables(users=True), st.booleans(), st.integers(1, 3))
def test_most_common_equals_the_slow_twin(made, labelled, threads):
    table, domain, codes, ids = made
    columns = tuple(domain)[:2]
    cells = slow.cells_of(domain, codes, columns)
    size = int(np.prod([domain[c] for c in columns]))
    if size > 1 << 21:
        return
    labels = np.arange(size) % 4 - 1 if labelled else None
    keys = [int(labels[c]) for c in cells] if labelled else cells
    key = MostCommon(columns, labels).bind(table.domain)
    counts = local(table, threads).user_histogram(key, 1)
    want = slow.most_common(ids.tolist(), keys, value_hashes(ids), key.size)
    assert np.array_equal(counts, want)


@settings(max_examples=30, deadline=None)
@given(
    tables(users=True),
    st.integers(1, 3),
    st.integers(1, 4),
    st.booleans(),
    st.integers(1, 3),
    st.data(),
)
def test_groups_equal_the_slow_twin_and_neighbours_differ_by_the_cap(
    made, t_max, cap, search, threads, data
):
    table, domain, codes, ids = made
    columns = tuple(domain)[:2]
    grid = int(np.prod([domain[c] for c in columns])) * t_max
    if grid > 1 << 21:
        return
    keys = slow.cells_of(domain, codes, columns)
    cells = None
    if data.draw(st.booleans()):
        rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
        cells = np.flatnonzero(rng.random(grid) < 0.7)
    key = Groups(columns, t_max, cells)
    with pytest.MonkeyPatch.context() as patch:
        if search:
            patch.setattr("fastdp.engines.user_histograms.POSITION_TABLE", 0)
        counts = local(table, threads).user_histogram(key, cap)
        if table.rows:
            rest = local(without(domain, codes, ids, ids[0])).user_histogram(key, cap)
            assert (counts - rest).min(initial=0) >= 0 and (counts - rest).max(initial=0) <= 1
            assert (counts - rest).sum() <= cap
    listed = list(range(grid)) if cells is None else cells.tolist()
    want = slow.groups(ids.tolist(), keys, value_hashes(ids), t_max, listed, cap)
    assert np.array_equal(counts, want)


def siphash(text, key, often, last):
    """128 bits of SipHash (Aumasson and Bernstein 2012), as published."""
    words = struct.unpack(">4Q", b"somepseudorandomlygeneratedbytes")
    v = [word ^ key[i % 2] for i, word in enumerate(words)]
    v[1] ^= 0xEE
    padded = text + bytes(-(len(text) + 1) % 8) + bytes([len(text) % 256])

    def mix(times):
        for _ in range(times):
            for a, b, left, turned in ((0, 1, 13, 1), (2, 3, 16, 0), (0, 3, 21, 0), (2, 1, 17, 1)):
                v[a] = (v[a] + v[b]) % 2**64
                v[b] = (v[b] << left | v[b] >> 64 - left) % 2**64 ^ v[a]
                v[a] = (v[a] << 32 | v[a] >> 32) % 2**64 if turned else v[a]
        return v[0] ^ v[1] ^ v[2] ^ v[3]

    for (word,) in struct.iter_unpack("<Q", padded):
        v[3] ^= word
        mix(often)
        v[0] ^= word
    v[2] ^= 0xEE
    first = mix(last)
    v[1] ^= 0xDD
    return struct.pack("<2Q", first, mix(last))


@given(st.lists(st.binary(max_size=40), min_size=1), st.tuples(*[st.integers(0, 2**64 - 1)] * 2))
def test_texts_are_told_apart_by_a_keyed_hash_that_nobody_can_aim_at(texts, key):
    """SipHash-1-3 with 128 bits. The twin gives the published answer for no
    text under the key 0, 1, ..., 15 (SipHash-2-4)."""
    vector = siphash(b"", (0x0706050403020100, 0x0F0E0D0C0B0A0908), 2, 4)
    assert vector.hex() == "a3817f04ba25a8e66df67214c7550293"
    offset = np.cumsum([0, *map(len, texts)])
    hashed = core.hash_strings(
        offset, np.frombuffer(b"".join(texts), np.uint8), np.array(key, np.uint64)
    )
    assert hashed.tobytes() == b"".join(siphash(text, key, 1, 3) for text in texts)
