"""Encodings: whole numbers that add up, norms that never exceed their bound, and slow twins."""

from fractions import Fraction
from math import isqrt

import msgspec
import numpy as np
import pytest

from fastdp.errors import UsageError
from fastdp.numbers.encoding_grid import UNIT, ceil_root, octaves, rounded_cap
from fastdp.numbers.encodings import (
    PROVED,
    CappedGroups,
    CappedSum,
    Centred,
    CentredGroups,
    DirectionHats,
    GroupCounts,
    GroupsPerUser,
    Hats,
    Histogram,
    Users,
    VectorLengths,
)
from fastdp.numbers.user_values import UserValues

TOP = 1 << 40
GROUPS = 7
EVERY = [
    Users(),
    Centred(),
    GroupCounts(groups=GROUPS, most=GROUPS),
    GroupCounts(groups=GROUPS, most=2),
    CentredGroups(groups=GROUPS, most=3),
    GroupsPerUser(edges=(1, 2, 3, 5)),
    Histogram(edges=(-5, 0, 3, 100)),
    CappedSum(cap=1),
    CappedSum(cap=1000, signed=True),
    CappedSum(cap=TOP, signed=True),
    CappedSum(cap=512, of="residual", rough=35_003, shift=10, signed=True),
    CappedGroups(cap=100, groups=GROUPS),
    CappedGroups(cap=1 << 30, groups=GROUPS, signed=True),
    Hats(corners=octaves(1)),
    Hats(corners=octaves(1000)),
    Hats(corners=octaves(TOP), signed=True),
    Hats(corners=octaves(1 << 31), of="weight"),
    Hats(corners=octaves(1 << 50), of="residual", rough=-77, shift=3, signed=True),
    DirectionHats(corners=octaves(TOP), groups=GROUPS),
    DirectionHats(corners=octaves(777), groups=GROUPS, signed=True),
    DirectionHats(corners=octaves(1 << 50), groups=GROUPS, of="residual", rough=9, signed=True),
    CappedSum(cap=512, of="residual", rough=9, signed=True, largest=777, refunds=False),
    CappedGroups(cap=512, groups=GROUPS, of="residual", rough=9, signed=True, largest=1 << 40),
    CappedGroups(cap=2 << 10, groups=GROUPS, of="residual", shift=10),
    VectorLengths(edges=(5, 1000, TOP), groups=GROUPS),
    VectorLengths(edges=(77,), groups=GROUPS, of="residual", rough=9, signed=True),
]
names = [f"{type(e).__name__}-{i}" for i, e in enumerate(EVERY)]


def users_of(rng, users, groups=GROUPS, most=TOP):
    """Users with 0 to `groups` entries; values from 0 to the largest, of both signs."""
    entries = rng.integers(0, groups + 1, users)
    group = [np.sort(rng.permutation(groups)[:n]) for n in entries]
    group = np.concatenate([*group, np.zeros(0, int)]).astype(np.int32)
    value = np.exp(rng.uniform(0, np.log(most), len(group))).astype(np.int64)
    edge = rng.random(len(group))
    value[edge < 0.1] = most
    value[(edge > 0.1) & (edge < 0.2)] = 1
    value[edge > 0.9] = 0
    value *= rng.choice([-1, 1], len(group))
    offsets = np.concatenate([[0], np.cumsum(entries)]).astype(np.int64)
    weight = np.exp(rng.uniform(0, 20, len(group))).astype(np.int64)
    return UserValues(offsets, group, value, weight)


@pytest.mark.parametrize("encoding", EVERY, ids=names)
def test_no_user_exceeds_the_sensitivity(encoding):
    """The proof's bound, checked in whole numbers of any size, user by user."""
    rng = np.random.default_rng(1)
    largest = 0
    for _ in range(200):
        vector = encoding.add_up(users_of(rng, 1))
        assert vector.dtype == np.int64 and vector.shape == (encoding.size,)
        largest = max(largest, sum(int(x) ** 2 for x in vector))
    assert largest <= encoding.sensitivity2
    if not isinstance(encoding, CentredGroups | GroupCounts):  # those need a user of every group
        assert largest > 0.99 * encoding.sensitivity2, "the bound is never met"
    assert encoding.norm2 == float(Fraction(encoding.sensitivity2) / Fraction(encoding.unit) ** 2)


@pytest.mark.parametrize("encoding", EVERY, ids=names)
def test_sums_over_any_partition_are_equal(encoding):
    """The sum of two sets of users is the sum of both, across blocks too."""
    rng = np.random.default_rng(2)
    values = users_of(rng, 300)
    cut = int(values.offsets[120])
    first = UserValues(
        values.offsets[:121], values.group[:cut], values.value[:cut], values.weight[:cut]
    )
    second = UserValues(
        values.offsets[120:] - cut, values.group[cut:], values.value[cut:], values.weight[cut:]
    )
    whole = encoding.add_up(values)
    assert (encoding.add_up(first) + encoding.add_up(second) == whole).all()


def test_blocks_do_not_matter(monkeypatch):
    rng = np.random.default_rng(3)
    values = users_of(rng, 200)
    whole = [encoding.add_up(values) for encoding in EVERY]
    monkeypatch.setattr("fastdp.numbers.user_encoding.BLOCK", 7)
    for encoding, expected in zip(EVERY, whole, strict=True):
        assert (encoding.add_up(values) == expected).all()


def slow_hats(encoding, values):
    """Exact fractions, one user at a time."""
    grid = [0, *encoding.corners]
    out = [Fraction(0)] * encoding.size
    zero = len(encoding.corners) if encoding.signed else 0
    for start, stop in zip(values.offsets, values.offsets[1:], strict=False):
        x = int(values.value[start]) if stop > start else 0
        x = x if encoding.signed else max(x, 0)
        side = -1 if x < 0 else 1
        x = min(abs(x), grid[-1])
        k = max(i for i in range(len(grid) - 1) if grid[i] <= x)
        o = Fraction(x - grid[k], grid[k + 1] - grid[k])
        out[zero + side * k] += 1 - o
        out[zero + side * (k + 1)] += o
    return np.array([float(x) for x in out])


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("top", [1, 2, 1000, TOP, 12_345_678_901])
def test_hats_are_those_of_the_definition(signed, top):
    """Each weight is rounded towards zero by at most two units in 2^24."""
    values = users_of(np.random.default_rng(4), 300)
    encoding = Hats(corners=octaves(top), signed=signed)
    gap = slow_hats(encoding, values) - encoding.add_up(values) / encoding.unit
    assert (gap >= -1e-9).all() and (gap <= 300 * 2 / UNIT).all()


def test_hats_give_sums_and_capped_sums_back():
    """Piecewise linear functions with kinks at corners are exact in hat weights."""
    values = users_of(np.random.default_rng(5), 2000, groups=1)
    corners = octaves(TOP)
    hats = Hats(corners=corners, signed=True)
    c = hats.add_up(values) / hats.unit
    places = np.array([-x for x in reversed(corners)] + [0, *corners], np.float64)
    assert c @ places == pytest.approx(float(values.value.sum()), rel=1e-4)
    capped = CappedSum(cap=1 << 20, signed=True)
    (s,) = capped.add_up(values) / capped.unit
    assert c @ np.clip(places, -(1 << 20), 1 << 20) == pytest.approx(s, abs=2000 * 2.0)
    assert s == pytest.approx(np.clip(values.value, -(1 << 20), 1 << 20).sum(), abs=1)


@pytest.mark.parametrize("groups", [1, 2, 40, 3000])
def test_direction_hats_give_group_sums_back(groups):
    """The error of a user is at most its norm times what rounding takes: 2^-19."""
    rng = np.random.default_rng(6)
    values = users_of(rng, 60, groups)
    hats = DirectionHats(corners=octaves(1 << 50), groups=groups, signed=True)
    c = hats.add_up(values).reshape(-1, 2, groups) / hats.unit
    found = np.tensordot(np.array(hats.corners, np.float64), c[:, 0] - c[:, 1], 1)
    truth = np.bincount(values.group, values.value, groups)
    norms = np.sqrt(np.bincount(owners(values), values.value.astype(float) ** 2, 60))
    assert np.abs(found - truth).max() <= norms.sum() * 2.0**-19
    capped = CappedGroups(cap=1 << 35, groups=groups, signed=True)
    scale = np.minimum(1, 2.0**35 / np.maximum(norms, 1))[owners(values)]
    wanted = np.bincount(values.group, values.value * scale, groups)
    assert np.abs(capped.add_up(values) / capped.unit - wanted).max() <= 60 * 2.0**35 * 2.0**-19


@pytest.mark.parametrize("signed", [False, True])
def test_users_are_counted_by_the_exact_length_of_their_vectors(signed):
    """Slow twin in whole numbers. Lengths are rounded up by at most 2^-20 of themselves."""
    values = users_of(np.random.default_rng(7), 300)
    edges = (1, 40, 3_000, 1 << 25)
    found = VectorLengths(edges=edges, groups=GROUPS, signed=signed).add_up(values) / UNIT
    bins = [0] * 5
    for start, stop in zip(values.offsets, values.offsets[1:], strict=False):
        amounts = [int(v) for v in values.value[start:stop]]
        square = sum(a * a for a in amounts if signed or a > 0)
        bins[sum(square >= edge * edge for edge in edges)] += 1
        assert not any(1 - 2**-19 < square / edge**2 < 1 for edge in edges), "not a clear case"
    assert found.tolist() == bins


def owners(values):
    return np.repeat(np.arange(values.users), np.diff(values.offsets))


def test_residuals_saturate_and_never_wrap():
    values = UserValues(
        np.array([0, 1, 2]), np.zeros(2, np.int32), np.array([TOP, -TOP]), np.array([TOP, TOP])
    )
    for rough in (1, 1 << 40, 1 << 50, -(1 << 50)):
        encoding = CappedSum(cap=TOP, of="residual", rough=rough, shift=10, signed=True)
        read = encoding.read(values)
        assert (np.abs(read) <= 1 << 50).all()
        assert np.sign(read).tolist() == np.sign([-rough, -rough]).tolist() or rough == 1


@pytest.mark.parametrize("largest", [777, 1 << 30, rounded_cap((1 << 40) - 5)])
@pytest.mark.parametrize("refunds", [True, False])
def test_residuals_are_of_amounts_that_were_cut(largest, refunds):
    """Slow twin: a user's amounts are cut to the declared maximum, by group in proportion, and only
    then is the rough mean taken away. Of a cut amount 2^-18 may be lost to rounding."""
    values = users_of(np.random.default_rng(4), 200)
    reading = {"of": "residual", "rough": 7, "shift": 2, "signed": True}
    encoding = CappedGroups(cap=TOP, groups=GROUPS, largest=largest, refunds=refunds, **reading)
    read = encoding.read(encoding._within(values))
    for u in range(values.users):
        entries = range(values.offsets[u], values.offsets[u + 1])
        amounts = [int(values.value[e]) for e in entries]
        amounts = amounts if refunds else [max(a, 0) for a in amounts]
        norm2 = sum(a * a for a in amounts)
        for e, amount in zip(entries, amounts):
            exact = Fraction(amount)
            if norm2 > largest**2:
                exact = Fraction(amount * largest, isqrt(norm2))
            residual = 4 * exact - 7 * int(values.weight[e])
            wanted = max(min(residual, 1 << 50), -(1 << 50))
            assert abs(int(read[e]) - wanted) <= 4 * (1 + largest / 2**18)
    alone = CappedSum(cap=TOP, largest=largest, refunds=refunds, **reading)
    cut = np.clip(values.value, -largest if refunds else 0, largest)
    wanted = np.clip(4 * cut - 7 * values.weight, -(1 << 50), 1 << 50)
    assert (alone.read(values) == wanted).all()


def test_each_person_with_a_row_counts_once():
    values = UserValues(
        np.array([0, 1, 1, 3, 4]),
        np.array([0, 0, 2, 1], np.int32),
        np.array([1, 0, 1, 5]),
        np.ones(4, np.int64),
    )
    assert Users().add_up(values).tolist() == [4 * UNIT]
    assert Centred().add_up(values).tolist() == [0]  # two of four
    assert GroupCounts(groups=3, most=1).add_up(values).tolist() == [UNIT, UNIT, UNIT]
    shares = CentredGroups(groups=3, most=3).add_up(values) / UNIT
    assert shares.tolist() == [0.0, 0.5, 0.5, 1.0, 0.5, 0.5]
    assert (GroupsPerUser(edges=(1, 2)).add_up(values) / UNIT).tolist() == [1, 3, 0]
    counts = Histogram(edges=(1, 5)).add_up(values) / UNIT
    assert counts.tolist() == [1, 1, 1], "a value at an edge is in the bin that it starts"


def test_two_entries_of_a_group_are_refused():
    """They would add up: the norm of the user's vector would be larger than its bound."""
    twice = UserValues(
        np.array([0, 2]), np.array([3, 3], np.int32), np.array([9, 9]), np.ones(2, np.int64)
    )
    for encoding in EVERY:
        if getattr(encoding, "groups", 1) > 1:
            with pytest.raises(UsageError, match="ascend"):
                encoding.add_up(twice)


def test_whole_roots_are_exact_up_to_the_largest():
    whole = np.array([0, 1, 2, 3, 4, (1 << 31) - 1, 94906267], np.int64)
    squares = np.concatenate([whole * whole, whole * whole + 1, np.maximum(whole * whole - 1, 0)])
    expected = [isqrt(x - 1) + 1 if x else 0 for x in squares.tolist()]
    assert ceil_root(squares).tolist() == expected


def test_every_encoding_is_proved_and_travels():
    assert {type(e) for e in EVERY} == set(PROVED)
    digests = set()
    for encoding in EVERY:
        again = msgspec.json.decode(msgspec.json.encode(encoding), type=type(encoding))
        assert again == encoding and again.digest() == encoding.digest()
        digests.add(encoding.digest())
    assert len(digests) == len(EVERY)


@pytest.mark.parametrize(
    "make",
    [
        lambda: CappedSum(cap=0),
        lambda: CappedSum(cap=(1 << 24) + 1),
        lambda: Hats(corners=()),
        lambda: Hats(corners=(4, 2)),
        lambda: Hats(corners=(1 << 51,)),
        lambda: DirectionHats(corners=(2, 4), groups=3),
        lambda: GroupCounts(groups=3, most=4),
        lambda: CentredGroups(groups=3, most=0),
        lambda: Histogram(edges=(1, 1)),
        lambda: VectorLengths(edges=(0, 1), groups=3),
        lambda: Hats(corners=(1,), of="residual", shift=11),
        lambda: Hats(corners=(1,), of="residual", largest=0),
    ],
)
def test_facts_without_a_proof_are_refused(make):
    with pytest.raises(UsageError):
        make()


def test_caps_have_24_bits():
    assert rounded_cap((1 << 24) + 1) == 1 << 24
    assert rounded_cap(12_345) == 12_345
    assert octaves(1000) == (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1000)
