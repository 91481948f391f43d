"""The exponential mechanism: exact enclosures, exact law, refusals."""

from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy import stats

from fastdp.privacy import select
from tests.tiers import first

ALARM = 1e-6
UNIT = 1 << 20


@given(st.fractions(0, 400, max_denominator=2**60), st.integers(4, 400), st.booleans())
def test_enclosures_hold_and_are_narrow(x, precision, guarded):
    """Without guard bits an enclosure is wide, but holds: every rounding is counted."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(select, "_GUARD", select._GUARD if guarded else 0)
        low, high = select.exp_enclosure(x, precision)
    with mpmath.workprec(1200):
        exact = mpmath.exp(-mpmath.mpf(x.numerator) / x.denominator) * mpmath.mpf(2) ** precision
        assert low <= exact <= high
    assert high - low <= 2 or not guarded


@given(st.lists(st.integers(0, 60), min_size=2, max_size=9), st.integers(0, 8), st.booleans())
def test_the_shortcut_decides_nothing_within_its_margin(gaps, j, above):
    """Points at both sides of the end of a part, nearer than the margin and further off."""
    rate = Fraction(1, 20)
    j = j % (len(gaps) - 1)
    sums = np.cumsum([np.exp(-g / 20) for g in gaps])
    for distance in (0.9, 1.2):
        point = sums[j] / sums[-1] * (1 + (1 if above else -1) * distance * select._FAST_MARGIN)
        found = select._locate_fast(np.array(gaps, np.uint64), rate, point)
        assert found == (None if distance < 1 else j + above)


def test_the_ends_of_the_law():
    assert select.exp_enclosure(Fraction(0), 50) == (1 << 50, 1 << 50)
    assert select.exp_enclosure(Fraction(10**30), 50) == (0, 1)
    low, high = select.exp_enclosure(Fraction(1, 10**30), 50)
    assert (1 << 50) - 2 <= low <= high <= 1 << 50
    assert select.exponential([3], 1.0, 1) == 0
    # a gap of 1e6 sensitivities: another index has probability exp(-500000)
    assert select.exponential([0, 10**6, 0], 1.0, 1) == 1
    far = np.array([np.iinfo(np.int64).min, np.iinfo(np.int64).max])
    assert select.exponential(far, 1.0, 1) == 1


def probabilities(scores, epsilon: float, sensitivity: int) -> np.ndarray:
    """The stated law."""
    z = epsilon * (np.asarray(scores, dtype=float) - max(scores)) / (2 * sensitivity)
    return np.exp(z) / np.exp(z).sum()


def chi_square(scores, epsilon, sensitivity, law_epsilon=None, draws=3_000):
    counts = np.bincount(
        [select.exponential(scores, epsilon, sensitivity) for _ in range(draws)],
        minlength=len(scores),
    )
    expected = probabilities(scores, law_epsilon or epsilon, sensitivity) * draws
    assert expected.min() >= 20
    statistic = np.sum((counts - expected) ** 2 / expected)
    return statistic, stats.chi2.isf(ALARM, len(scores) - 1)


@pytest.mark.parametrize(
    ("scores", "epsilon", "sensitivity"),
    first(
        2,
        [
            ([0, 1, 2, 3], 1.0, 1),
            ([5 * UNIT, -3 * UNIT, 5 * UNIT, 0], 0.7, 4 * UNIT),
            ([2**62, 2**62 - 150 * UNIT, 2**62 - 7], 2.0, 150 * UNIT),
            ([7, 7, 7, 7, 7], 10.0, 1),
        ],
    ),
)
def test_selections_have_the_distribution_of_the_exponential_mechanism(
    scores, epsilon, sensitivity
):
    statistic, critical = chi_square(scores, epsilon, sensitivity)
    assert statistic <= critical


def test_a_missing_factor_two_is_caught():
    statistic, critical = chi_square([0, 1, 2, 3], 1.0, 1, law_epsilon=2.0)
    assert statistic > critical


def test_an_undecided_draw_is_refined_to_the_same_answer(monkeypatch):
    """Starting with 2 bits instead of 128 uses the same leading bits of U, so the answer cannot
    change."""
    scores = np.arange(40) * UNIT
    monkeypatch.setattr(select, "Bits", Prefix)
    monkeypatch.setattr(select, "_locate_fast", lambda *_: None)
    wide = [select.exponential(scores, 1.0, 5 * UNIT, seed=i) for i in range(60)]
    monkeypatch.setattr(select, "_FIRST_BITS", 2)
    narrow = [select.exponential(scores, 1.0, 5 * UNIT, seed=i) for i in range(60)]
    assert wide == narrow


@given(
    st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(0, 100), min_size=1, max_size=30),
    st.floats(1e-3, 50.0),
    st.integers(1, 2**40) | st.integers(1, 50),
    st.integers(0, 2**32),
)
def test_the_floating_point_shortcut_gives_the_exact_answer(scores, epsilon, sensitivity, seed):
    fast = select.exponential(scores, epsilon, sensitivity, seed=seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(select, "_locate_fast", lambda *_: None)
        assert select.exponential(scores, epsilon, sensitivity, seed=seed) == fast


class Prefix:
    """Bits of one fixed binary fraction, most significant first."""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self._bits = "".join(str(b) for b in rng.integers(0, 2, 4096))

    def take(self, bits: int) -> int:
        head = self._bits[:bits]
        self._bits = self._bits[bits:]
        return int(head, 2)
