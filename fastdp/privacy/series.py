"""Series of releases: one table a period, under a budget that lasts for a stated number of periods.

A series is a data set of the ledger whose unit is one user in one period, and whose budget is for
one *user over all periods*. So it carries two numbers. A release of one period reads rows of that
period alone:

* one user-period is in the releases of its own period, so those alone compose for it;
* one user may be in all periods, so all releases compose for it.

Every release takes at most an equal share of the lifetime budget's mu^2. Proof:
docs/explain/user-periods.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from ..errors import UsageError, is_whole
from . import gdp
from .accountant import Event, Gaussian, event_from_dict
from .budget import Budget, Totals, combined_mu, epsilon_at, root_down, root_up

DIGITS = 6
"""Significant digits of a period's epsilon, which is rounded down to them: figures to quote."""


def lifetime_budget(period_epsilon: float, delta: float, periods: int) -> Budget:
    """The budget of a series each of whose periods may spend this epsilon at this delta."""
    check_periods(periods)
    each = gdp.mu_from(float(period_epsilon), float(delta))
    needed = Fraction(each) ** 2 * periods
    epsilon = epsilon_at([Gaussian(root_up(needed))], delta)
    while True:
        budget = Budget.of(epsilon=epsilon, delta=delta)
        if budget.mu is not None and Fraction(budget.mu) ** 2 >= needed:
            return budget
        epsilon *= 1 + 2.0**-40


def check_periods(periods: Any) -> int:
    """The number of periods; UsageError unless it is a whole number of at least 1."""
    if not is_whole(periods, 1):
        raise UsageError(f"periods must be a whole number >= 1, got {periods!r}")
    return int(periods)


def check_series(budget: Budget) -> None:
    """Raise UsageError if a series cannot have such a budget."""
    if budget.epsilon is None or not budget.delta or budget.mu is None or budget.pure:
        raise UsageError(
            "periods: a series needs a lifetime budget of epsilon and delta > 0, without pure"
        )


def fits_share(budget: Budget, periods: int, parts: Sequence[Event]) -> bool:
    """Whether a release costs at most an equal share of the lifetime budget; exact."""
    assert budget.mu is not None
    asked = Totals.of(parts)
    within = asked.mu2 * periods <= Fraction(budget.mu) ** 2
    return within and asked.delta * periods <= Fraction(budget.keys)


def period_epsilon(budget: Budget, periods: int) -> float:
    """The epsilon, at the budget's delta, that every period may spend; rounded down."""
    assert budget.mu is not None and budget.delta is not None
    mu = root_down(Fraction(budget.mu) ** 2 / periods)
    epsilon = epsilon_at([Gaussian(mu)], budget.delta)
    step = 10.0 ** (math.floor(math.log10(epsilon)) + 1 - DIGITS)
    number = math.floor(epsilon / step * (1 + 2.0**-40))
    while not _spends_at_most(number * step, budget, periods):
        number -= 1
    return float(f"{number * step:.{DIGITS}g}")


def _spends_at_most(epsilon: float, budget: Budget, periods: int) -> bool:
    rounded = float(f"{epsilon:.{DIGITS}g}")
    return fits_share(budget, periods, [Gaussian(gdp.mu_from(rounded, budget.delta or 0.0))])


def composed(releases: Sequence[Mapping[str, Any]], delta: float) -> dict[str, Any]:
    """What the releases of a series compose to, by their upper bounds."""
    events = [event_from_dict(event) for one in releases for event in one["events"]]
    return {
        "epsilon": epsilon_at(events, delta),
        "delta": delta,
        "mu": combined_mu(events),
        "releases": len(releases),
        "periods": len({one["period"] for one in releases}),
    }


def protection(
    parts: Sequence[Mapping[str, Any]], delta: float, series: Mapping[str, Any] | None
) -> dict[str, Any]:
    """The two numbers of a statement: what protects one user-period, and what protects one user
    over all periods released so far. The second is None if the run is of no series: a user in k
    periods of one table is protected k times less."""
    if series is None:
        own = {"period": None, "events": [part["event"] for part in parts]}
        return {"user_period": composed([own], delta) | {"periods": None}, "user": None}
    releases = series["releases"]
    same = [one for one in releases if one["period"] == series["period"]]
    return {"user_period": composed(same, delta), "user": composed(releases, delta)}
