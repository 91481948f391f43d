"""Budgets as filters: exact sums, the three rules, what is left."""

import json
import math
from fractions import Fraction

import pytest
from hypothesis import given, strategies as st

from fastdp.errors import LedgerError, UsageError
from fastdp.privacy import budget, gdp
from fastdp.privacy.accountant import BoundedRange, Gaussian, Pure, Threshold, mu_of
from fastdp.privacy.budget import Budget, Totals

COSTS = st.floats(1e-3, 3.0)
GAUSSIANS = COSTS.map(Gaussian) | st.tuples(COSTS, st.floats(1e-9, 1e-6)).map(
    lambda p: Threshold(*p)
)
PURES = COSTS.map(Pure) | COSTS.map(BoundedRange)
EVENTS = st.lists(GAUSSIANS | PURES, max_size=8)


def decimal_sum(values) -> Fraction:
    return sum((Fraction(repr(v)) for v in values), Fraction(0))


def is_gaussian(event) -> bool:
    return isinstance(event, Gaussian | Threshold)


@given(EVENTS)
def test_pure_epsilons_add_up_as_decimals_unless_something_is_gaussian(events):
    total = budget.pure_epsilon(events)
    if any(map(is_gaussian, events)):
        assert total is None
    else:
        assert total == decimal_sum(e.epsilon for e in events)
    assert budget.pure_epsilon([Pure(0.1)] * 10) == 1
    assert budget.pure_epsilon([]) == 0


@given(EVENTS, EVENTS)
def test_totals_are_exact_sums_that_add_and_subtract(events, more):
    total = Totals.of(events)
    assert (
        total.mu2
        == sum((Fraction(mu_of(e)) ** 2 for e in events), Fraction(0))
        == budget.mu2(events)
    )
    assert total.gaussian2 == budget.mu2(filter(is_gaussian, events))
    assert total.pure == decimal_sum(e.epsilon for e in events if not is_gaussian(e))
    assert total.gaussians == sum(map(is_gaussian, events))
    assert total.delta == sum(
        (Fraction(e.delta) for e in events if isinstance(e, Threshold)), Fraction(0)
    )
    both = total.plus(Totals.of(more))
    assert both == Totals.of(events + more) and both.plus(total, -1) == Totals.of(more)


@given(EVENTS)
def test_events_that_a_gaussian_part_paid_for_are_all_gaussian(events):
    total = Totals.of(events)
    turned = total.all_gaussian()
    assert (turned.mu2, turned.gaussian2, turned.pure, turned.delta) == (
        total.mu2,
        total.mu2,
        0,
        total.delta,
    )
    assert (turned.gaussians > 0) == bool(events)


@given(st.fractions(0, 10**9))
def test_roots_are_rounded_the_safe_way_and_by_little(square):
    up, down = budget.root_up(square), budget.root_down(square)
    assert Fraction(down) ** 2 <= square <= Fraction(up) ** 2
    assert up <= math.sqrt(square) * (1 + 1e-15) and down >= math.sqrt(square) * (1 - 1e-15)


@pytest.mark.parametrize("mu", [5e-324, 1e-300, 1e-200, 1e-150])
def test_roots_of_squares_below_the_smallest_float_are_found_at_once(mu):
    """They once were searched for float by float, from 0: a statement with such a mu never ended
    `verify`."""
    square = Fraction(mu) ** 2
    assert budget.root_up(square) >= mu >= budget.root_down(square)
    assert math.isclose(budget.root_up(square), budget.root_down(square), rel_tol=1e-14)


@given(EVENTS, st.floats(0.1, 4.0))
def test_a_budget_in_mu_admits_what_its_square_covers(events, mu):
    keys = 1e-5
    admitted = Budget.of(mu=mu, keys=keys).admits(events)
    delta = sum((Fraction(e.delta) for e in events if isinstance(e, Threshold)), Fraction(0))
    assert admitted == (budget.mu2(events) <= Fraction(mu) ** 2 and delta <= Fraction(keys))


@given(EVENTS, st.floats(0.1, 8.0), st.sampled_from([0.0, 1e-6]))
def test_a_budget_in_epsilon_admits_by_mu_or_where_all_is_pure_by_the_sum(events, epsilon, delta):
    events = [e for e in events if not isinstance(e, Threshold)]
    given_budget = Budget.of(epsilon=epsilon, delta=delta)
    pure = budget.pure_epsilon(events)
    by_sum = pure is not None and pure <= Fraction(repr(epsilon))
    by_mu = delta > 0 and budget.mu2(events) <= Fraction(gdp.mu_from(epsilon, delta)) ** 2
    assert given_budget.admits(events) == (by_sum or by_mu)


@given(EVENTS)
def test_parts_that_were_set_aside_pay_for_their_own_kind_only(events):
    events = [e for e in events if not isinstance(e, Threshold)]
    parted = Budget.of(epsilon=3.0, delta=1e-6, pure=1.0)
    total = Totals.of(events)
    want = total.pure <= 1 and total.gaussian2 <= Fraction(gdp.mu_from(2.0, 1e-6)) ** 2
    assert parted.admits(events) == want
    left = parted.left(events)
    assert left["pure_epsilon"] == pytest.approx(max(0.0, 1.0 - float(total.pure)), abs=1e-15)
    assert Fraction(left["mu"]) ** 2 <= max(
        0, Fraction(gdp.mu_from(2.0, 1e-6)) ** 2 - total.gaussian2
    )


@pytest.mark.parametrize(
    "filled", [Budget.of(mu=1.0), Budget.of(epsilon=1.0), Budget.of(epsilon=1.0, delta=1e-6)]
)
def test_what_is_left_is_admitted_and_nothing_more(filled):
    for events in ([], [Pure(0.25)], [Gaussian(0.1)] if filled.mu else []):
        left = filled.left(events)
        if left["pure_epsilon"]:
            assert filled.admits([*events, Pure(left["pure_epsilon"])])
            assert not filled.admits([*events, Pure(left["pure_epsilon"] * (1 + 1e-9) + 1e-9)])
        if left["mu"]:
            assert filled.admits([*events, Gaussian(left["mu"])])
            assert not filled.admits([*events, Gaussian(left["mu"] * (1 + 1e-9))])


def test_keys_have_a_delta_of_their_own():
    with_keys = Budget.of(epsilon=1.0, delta=1e-5, keys=4e-6)
    assert with_keys.mu <= gdp.mu_from(1.0, 1e-5 - 4e-6)
    assert with_keys.mu == pytest.approx(gdp.mu_from(1.0, 6e-6), rel=1e-9)
    used = Threshold(with_keys.mu / 2, 3e-6)
    assert with_keys.admits([used]) and not with_keys.admits(
        [used, Threshold(with_keys.mu / 9, 2e-6)]
    )
    left = with_keys.left([used])
    assert left["keys_delta"] == pytest.approx(1e-6)
    assert left["epsilon"] == pytest.approx(gdp.epsilon_of(left["mu"], 6e-6), rel=1e-9)


def test_limits_are_inclusive_and_what_is_left_is_never_below_zero():
    """Every limit is inclusive: pure epsilon, mu, the pure part, and the delta of keys."""
    assert Budget.of(epsilon=1.0).admits([Pure(0.1)] * 10)
    assert not Budget.of(epsilon=1.0).admits([Pure(0.1)] * 10 + [Pure(1e-12)])
    assert Budget.of(mu=0.5).admits([Gaussian(0.5)])
    parted = Budget.of(epsilon=3.0, delta=1e-6, pure=1.0)
    assert parted.admits([Pure(1.0), Gaussian(parted.mu)])
    assert not parted.admits([Pure(1.0 + 1e-12)]) and not parted.admits(
        [Gaussian(parted.mu * (1 + 1e-12))]
    )
    keyed = Budget.of(mu=1.0, keys=2e-6)
    assert keyed.admits([Threshold(0.1, 1e-6)] * 2) and not keyed.admits([Threshold(0.1, 1e-6)] * 3)
    spent = [Pure(5.0), Gaussian(4.0)]
    for over in (Budget.of(epsilon=1.0, delta=1e-6), parted, Budget.of(mu=1.0)):
        left = over.left(spent)
        assert left["mu"] == left["pure_epsilon"] == left["epsilon"] == 0.0
    free = Budget()
    assert free.unlimited and free.admits([Gaussian(100.0), Pure(50.0)])
    assert set(free.left([]).values()) == {None}
    assert not Budget.of(mu=1.0).unlimited and not Budget.of(epsilon=1.0).unlimited


ONE = {"epsilon": 1.0, "delta": 0.0}


@pytest.mark.parametrize(
    "wrong", [{}, ONE | {"mu": 1.0}, {"mu": 1.0, "delta": 1e-6}, ONE | {"pure": 0.5}]
)
def test_budgets_that_make_no_sense_are_refused(wrong):
    with pytest.raises(UsageError):
        Budget.of(**wrong)


@given(EVENTS)
def test_events_survive_json_and_strangers_are_refused(events):
    for event in events:
        assert budget.from_dict(json.loads(json.dumps(event.to_dict()))) == event
    with pytest.raises(LedgerError, match="malformed"):
        budget.from_dict({"law": "unheard of", "mu": 1.0})


@pytest.mark.parametrize("mu", [None, 1.0])
@pytest.mark.parametrize("part", [{"delta": 1e-6}, {"pure": 0.1}])
def test_a_part_of_epsilon_or_delta_needs_an_epsilon(part, mu):
    with pytest.raises(UsageError, match="epsilon and delta, or mu"):
        Budget(mu=mu, **part)
    assert Budget(epsilon=1.0, **{"delta": 1e-6} | part)
