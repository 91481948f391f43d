"""The clip's criterion: exact on known sizes, the same on any machine, and robust against a noisy
histogram."""

import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from fastdp.errors import UsageError
from fastdp.privacy import clip as clip_rules
from fastdp.rows_per_user import last_bin
from fastdp.schema import Schema


def slow_error(sizes, users, noise, clip, displaced, alone):
    """The docstring's formula, marginal by marginal."""
    rows = sum(r * u for r, u in zip(sizes, users, strict=True))
    kept = sum(min(r, clip) * u for r, u in zip(sizes, users, strict=True))
    lost = 1 - kept / rows
    followed = [displaced * lost + n * clip / kept for n in noise]
    return np.mean([y and 1 / (1 / y + 1 / alone) for y in followed])


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 300), st.floats(0.01, 1e4)), min_size=1, max_size=12),
    st.lists(st.floats(0, 1e6), min_size=1, max_size=6),
    st.floats(0, 1),
    st.floats(0.01, 1),
)
def test_the_choice_is_the_least_by_the_slow_formula(histogram, noise, displaced, alone):
    sizes, users = zip(*histogram, strict=True)
    clips = clip_rules.candidates(300)
    choice = clip_rules.choose(sizes, users, noise, clips, displaced=displaced, alone=alone)
    slow = {c: slow_error(sizes, users, noise, c, displaced, alone) for c in clips}
    assert slow[choice.clip] <= min(slow.values()) + 1e-9
    for line in choice.lines:
        assert line.error == pytest.approx(slow[line.clip], abs=1e-9)
        assert 0 <= line.lost < 1
    assert choice.clip_correction >= 1


@pytest.mark.parametrize("bound", [1, 2, 3, 5, 7, 200, 1000, 1 << 40])
def test_candidates_and_bins_lie_within_the_bound(bound):
    clips = clip_rules.candidates(bound)
    edges = clip_rules.size_edges(bound)
    assert {*clips} == {c for c in (round(2 ** (i / 4)) for i in range(200)) if c < bound} | {bound}
    assert clips[0] == 1 and clips[-1] == bound and list(clips) == sorted(set(clips))
    assert edges[0] == 1 and edges[-1] <= bound and list(edges) == sorted(set(edges))
    sizes, users = clip_rules.from_histogram([2.0] * len(edges), bound, 0.01)
    assert min(sizes) == 1 and max(sizes) <= bound
    assert sum(users) == pytest.approx(2 * len(edges), rel=0.05), "and a tail, where there is room"


@settings(max_examples=30, deadline=None)
@given(st.lists(st.floats(-1e3, 1e3), min_size=15, max_size=15))
def test_a_noisy_histogram_becomes_the_nearest_one_that_can_be(values):
    """Least squares with sum and sign fixed: the residual is the same number wherever users are
    left, and no larger elsewhere."""
    nearest = np.array(clip_rules.nonnegative(values))
    assert (nearest >= 0).all()
    if math.fsum(values) <= 0:
        assert not nearest.any()
        return
    assert nearest.sum() == pytest.approx(math.fsum(values), abs=1e-8)
    gap = np.array(values) - nearest
    assert np.ptp(gap[nearest > 0]) < 1e-8
    assert (gap[nearest == 0] <= gap[nearest > 0].max() + 1e-8).all()


@pytest.mark.parametrize("noise", [0.0, 1.0, 30.0, 1e4])
def test_groups_of_users_allow_for_a_lower_clip_that_leaves_out_not_too_much(noise):
    values = [40.0] * len(clip_rules.size_edges(200))
    rules = (clip_rules.TV_PER_LOST_ROW, clip_rules.TV_PER_LOST_ROW_GROUPED)
    plain, grouped = (clip_rules.from_release(values, [noise], 200, 1.0, d) for d in rules)
    assert grouped.clip <= plain.clip and grouped.line.lost <= max(
        clip_rules.MAX_LOST_SHARE, plain.line.lost
    )
    assert noise != 30.0 or grouped.clip < plain.clip


def test_an_empty_table_has_a_clip_too():
    choice = clip_rules.from_release([-3.0] * 15, [5.0], 200, 1.0)
    assert (
        1 <= choice.clip <= 200 and choice.clip_correction == 1 and math.isfinite(choice.line.error)
    )


def test_unit_noise_is_half_the_expected_l1_norm():
    rng = np.random.default_rng(0)
    (unit,) = clip_rules.unit_noise(0.5, [(40, 0.25)])
    drawn = np.abs(rng.normal(0, 1 / (0.5 * 0.5), (4000, 40))).sum(axis=1).mean() / 2
    assert unit == pytest.approx(drawn, rel=0.02)


@pytest.mark.parametrize(("clip", "rows"), [(20, 20), (None, 60), ("private", 60), (90, 90)])
def test_where_the_clip_comes_from(clip, rows):
    sizes = {
        "user": {"column": "id", "max_rows": 60},
        "columns": {"a": {"kind": "integer", "max": 3}},
    }
    schema = Schema.from_dict(sizes)
    assert clip_rules.resolve(clip, schema) == rows
    assert clip_rules.resolve(clip, Schema.from_domain({"a": 4})) == 1, "each row is its own user"


def test_a_clip_needs_a_number_or_a_bound_unless_it_is_chosen():
    schema = Schema.from_domain({"a": 4}, user="id")
    with pytest.raises(
        UsageError, match=r"number of rows of one user .column 'id'.*set `clip` in the recipe"
    ):
        clip_rules.resolve(None, schema)
    assert clip_rules.resolve("private", schema) == clip_rules.MAX_CHOSEN


def test_noise_in_the_bins_of_many_rows_is_not_taken_for_users():
    """20,000 users of one to four rows; noise of 30 users a bin over bins up to 16,384 rows. Over
    200 draws fewer than 1 in 10 may count a bin beyond what stands out (the bar is made for 1 in
    20)."""
    rng = np.random.default_rng(3)
    edges = clip_rules.size_edges(clip_rules.MAX_CHOSEN)
    exact = np.array([5000.0 if e <= 4 else 0.0 for e in edges])
    far = 0
    for _ in range(200):
        noisy = exact + rng.normal(0, 30, len(edges))
        last = last_bin(noisy, 30.0)
        assert last >= 3
        far += last > 3
        choice = clip_rules.from_release(noisy.tolist(), [50.0], clip_rules.MAX_CHOSEN, 30.0)
        assert last > 3 or choice.clip_correction < 1.3
    assert far < 20
