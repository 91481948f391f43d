"""Gaussian-DP audit of the whole measuring path: epsilon 10, neighbours that differ in a 200-row user."""

import pytest

from . import checks


def test_audit_in_short():
    """Seeded, so that it cannot fail by chance; the full audit below uses the real randomness."""
    lower, claim = checks.audit(300, seed=1_000_000, tightness=0.75)
    assert claim == pytest.approx(2.0004456, rel=1e-6)
    assert lower > 0


@pytest.mark.slow
def test_audit_in_full():
    """False alarms: 0.1 % that chance lifts the bound above the claim, 0.03 % that it misses 95 % of it."""
    checks.audit(20_000)


def test_noise_has_the_stated_size():
    checks.residuals(seed=50)
    assert abs(checks.residuals(runs=20)).max() > 0.5


def test_draws_are_independent():
    checks.independence()
    checks.independence(seed=5)
