"""Compression and expansion: inverse on kept values, within the public list, never against a
constraint."""

import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from fastdp.domain import Domain
from fastdp.errors import UsageError
from fastdp.measurement import Measurement
from fastdp.mechanisms.shared import merged_codes
from fastdp.mechanisms.shared.code_compression import (
    Compression,
    Expansion,
    merge_outside,
    merge_rare,
    row_keys,
)

keeps = st.lists(st.booleans(), min_size=1, max_size=12)


def compressed(**keep):
    full = Domain({name: len(k) for name, k in keep.items()})
    return Compression(full, {name: merge_outside(np.array(k)) for name, k in keep.items()})


def shrink(compression, rows):
    return {name: compression.code_map(name)[codes] for name, codes in rows.items()}


@given(keeps, keeps, st.integers(0, 2**32))
@settings(max_examples=30, deadline=None)
def test_expansion_undoes_compression_on_kept_values(a, b, seed):
    compression = compressed(a=a, b=b)
    rng = np.random.default_rng(seed)
    rows = {name: rng.integers(0, n, 50) for name, n in compression.full.items()}
    small = shrink(compression, rows)
    back = Expansion(compression, seed=seed)(small)
    for name, keep in (("a", np.array(a)), ("b", np.array(b))):
        assert small[name].max() < compression.domain[name]
        assert (back[name][keep[rows[name]]] == rows[name][keep[rows[name]]]).all()
        assert (back[name] < compression.full[name]).all()
    # What was merged comes back as something that was merged: compressing again changes nothing.
    again = shrink(compression, back)
    assert all((again[name] == small[name]).all() for name in small)


def test_values_below_the_noise_are_merged_into_one_code():
    measured = Measurement(("a",), [100.0, 2.0, -1.0, 50.0, 29.9], 10.0)
    assert merge_rare(measured, 3.0).tolist() == [0, 2, 2, 1, 2]
    everything = merge_rare(Measurement(("a",), [1.0, 2.0], 10.0), 3.0)
    assert everything.tolist() == [0, 0]
    assert merge_rare(Measurement(("a",), [90.0, 80.0], 10.0), 3.0).tolist() == [0, 1]
    assert Compression(Domain({"a": 2}), {"a": everything}).domain["a"] == 1
    single = Compression(Domain({"a": 1}), {"a": merge_rare(Measurement(("a",), [0.0], 1.0), 3.0)})
    assert single.codes == {} and single.domain["a"] == 1


def test_merged_measurements_add_values_and_variances():
    compression = Compression(Domain({"a": 4, "b": 2}), {"a": np.array([0, 2, 1, 2])})
    merged = compression.measurement(
        Measurement(("a",), [5.0, 1.0, 7.0, 2.0], [1.0, 3.0, 2.0, 4.0])
    )
    assert merged.values.tolist() == [5.0, 7.0, 3.0]
    assert merged.sigma.tolist() == [1.0, 2.0, 5.0]
    kept = Measurement(("b",), [1.0, 2.0], 1.0)
    assert compression.measurement(kept) is kept
    assert compression.table().num_rows == 4


def test_uniform_and_public_frequencies():
    compression = compressed(a=[True, False, False, False])
    rows = {"a": np.full(60_000, 1)}
    even = np.bincount(Expansion(compression, seed=1)(rows)["a"], minlength=4)
    # Each of three has mean 20,000 and standard deviation 115; 700 is 6 of them (false alarms below
    # 1e-8).
    assert even[0] == 0 and (abs(even[1:] - 20_000) < 700).all()
    frequencies = {"a": np.array([9, 3, 0, 1])}
    public = np.bincount(Expansion(compression, frequencies, seed=1)(rows)["a"], minlength=4)
    assert public[2] == 0 and abs(public[1] - 45_000) < 700
    nothing = np.bincount(
        Expansion(compression, {"a": np.array([9, 0, 0, 0])})(rows)["a"], minlength=4
    )
    assert (nothing[1:] > 19_000).all()
    for wrong in ([1, 2], [1, -1, 1, 1], [1, np.nan, 1, 1]):
        with pytest.raises(UsageError, match="frequencies"):
            Expansion(compression, {"a": np.array(wrong, float)})


@given(
    st.lists(st.booleans(), min_size=4, max_size=4),
    st.lists(st.booleans(), min_size=20, max_size=20),
    st.integers(0, 2**32),
)
@settings(max_examples=30, deadline=None)
def test_constraints_hold_after_expansion(keep_general, keep_detailed, seed):
    compression = compressed(g=keep_general, d=keep_detailed)
    mask = np.arange(4)[:, None] != np.arange(20) // 5
    zeros = compression.zeros({("g", "d"): mask}).get(("g", "d"))
    rng = np.random.default_rng(seed)
    cells = np.ones(compression.domain.shape(("g", "d")), bool) if zeros is None else ~zeros
    possible = np.argwhere(cells)
    pick = possible[rng.integers(0, len(possible), 300)]
    small = {"g": pick[:, 0], "d": pick[:, 1]}
    full = Expansion(compression, impossible={("g", "d"): mask}, seed=seed)(small)
    assert not mask[full["g"], full["d"]].any()
    again = shrink(compression, full)
    assert (again["g"] == small["g"]).all() and (again["d"] == small["d"]).all()


def test_joint_constraints_that_no_pair_shows():
    """a = b and b = c and a != c: possible pair by pair for merged codes, never together."""
    compression = compressed(a=[True, False, False], b=[True, False, False], c=[True, False, False])
    same = ~np.eye(3, dtype=bool)
    impossible = {("a", "b"): same, ("b", "c"): same, ("a", "c"): np.diag([False, True, True])}
    rows = {n: np.array([0, 1, 1]) for n in "abc"}
    full = Expansion(compression, impossible=impossible, seed=3)(rows)
    assert [full[n].tolist() for n in "abc"] == [[0, 0, 0]] * 3
    lone = {n: np.array([1]) for n in "abc"}
    full = Expansion(compression, impossible=impossible)(lone)
    assert all(not mask[full[c[0]], full[c[1]]].any() for c, mask in impossible.items())
    never = {("a",): np.ones(3, bool)}
    with pytest.raises(UsageError, match="exclude every combination"):
        Expansion(compression, impossible=never)(lone)


def one(values, sigma):
    return Measurement(("a",), np.asarray(values, float), sigma)


def test_rare_values_are_shrunk_as_far_as_noise_explains_their_differences():
    """All of it, and they are equal; none, and they stay; in between they keep their order."""
    values = np.array([10.0, 25.0, 40.0, 90.0, 35.0, 5.0])
    rare = np.arange(6) < 5
    equal, some, same = (
        merged_codes.shape_of(one(values, s), rare, values.sum()) for s in (1e3, 20.0, 1e-6)
    )
    assert np.allclose(equal[:5], values[:5].mean()) and np.allclose(same, values)
    assert (np.argsort(some[:5]) == np.argsort(values[:5])).all() and np.ptp(some[:5]) < np.ptp(
        values[:5]
    )
    for shape in (equal, some, same):
        assert math.isclose(shape.sum(), values.sum())


@pytest.mark.parametrize("shape", [(3, 4), (2**31, 2**31, 5), (2**62, 7), (2**61, 2, 3)])
def test_rows_have_the_same_number_where_they_agree_and_only_there(shape):
    """Also where all combinations together have more than 64 bits."""
    rng = np.random.default_rng(0)
    values = [rng.choice([0, 1, n // 2, n - 1], 300) for n in shape]
    keys = row_keys(values, shape, 300)
    assert len(set(zip(keys.tolist(), *(v.tolist() for v in values)))) == len(set(keys.tolist()))
    assert len(set(keys.tolist())) == len(set(zip(*(v.tolist() for v in values))))
