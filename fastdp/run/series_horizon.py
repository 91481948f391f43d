"""The whole horizon of a series: what each period spends, what one user has used up by then, and
when the budget ends. Everything here is public."""

import math
from collections.abc import Mapping
from typing import Any

from ..privacy.accountant import Gaussian
from ..privacy.budget import Budget, epsilon_at
from ..privacy.calibrate import mu_of_method
from ..privacy.series import check_periods, check_series, period_epsilon

BAR = 30
"""Characters of the bar that stands for the lifetime budget."""
SHOWN = 3
"""Coming periods that are listed one by one; of later ones, only the last."""


def horizon(facts: Mapping[str, Any], budget: Budget) -> list[dict[str, Any]]:
    """One entry for each release: `period` (None of those to come), `epsilon` of the period alone,
    and `user_epsilon` of one user in all periods so far. Coming periods end where the horizon or
    the budget does."""
    assert budget.mu is not None and budget.delta is not None
    rows = [dict(one) for one in facts["releases"]]
    each = mu_of_method(facts["epsilon"], budget.delta, "gdp")
    spent = sum(mu_of_method(one["epsilon"], budget.delta, "gdp") ** 2 for one in rows)
    while len(rows) < facts["left"] + len(facts["releases"]):
        spent += each**2
        if spent > budget.mu**2 * (1 + 1e-9):
            break
        user = min(epsilon_at([Gaussian(math.sqrt(spent))], budget.delta), budget.epsilon or 0.0)
        rows.append({"period": None, "epsilon": facts["epsilon"], "user_epsilon": user})
    return rows


def planned_series(
    epsilon: float, delta: float, periods: int | None
) -> tuple[dict[str, Any], Budget]:
    """(facts, budget) of a series that is not open yet, as `Ledger.series` gives them."""
    budget = Budget.of(epsilon, delta)
    check_series(budget)
    count = check_periods(periods)
    facts = {
        "periods": count,
        "period": "period",
        "epsilon": period_epsilon(budget, count),
        "delta": delta,
        "releases": [],
        "left": count,
    }
    return facts, budget


def horizon_lines(facts: Mapping[str, Any], budget: Budget) -> list[str]:
    """The horizon as text, a bar for each release."""
    rows = horizon(facts, budget)
    done = len(facts["releases"])
    length = facts["period"]
    lines = [
        f"series: {facts['periods']} {length}s, epsilon {facts['epsilon']:g} each at delta "
        f"{facts['delta']:g}; one user in all: at most {budget.epsilon:.4g}"
    ]
    for number, row in enumerate(rows):
        hidden = done + SHOWN <= number < len(rows) - 1
        if hidden:
            if number == done + SHOWN:
                lines.append(f"  {'...':<12}")
            continue
        lines.append(_line(row, number, done, budget.epsilon or 1.0))
    coming = len(rows) - done
    if coming == 0:
        lines.append(f"  the budget ends here: no further {length} can be released")
    else:
        last = f"{length}s" if coming > 1 else length
        lines.append(f"  the budget ends after {coming} more {last}")
    return lines


def _line(row: Mapping[str, Any], number: int, done: int, lifetime: float) -> str:
    name = row["period"] or f"to come {number - done + 1}"
    name += " (late)" if row.get("late") else ""
    filled = min(BAR, round(BAR * row["user_epsilon"] / lifetime))
    bar = ("#" if number < done else "-") * filled + "." * (BAR - filled)
    return (
        f"  {name:<15} {row['epsilon']:>8.4g}  one user so far {row['user_epsilon']:>7.4g}  {bar}"
    )
