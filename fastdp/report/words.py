"""Explanations of the numbers on the page, as text. All are pure functions of the page's data.

`promise` is the facts of a privacy statement, as `runs.promise` gives them. `data` is that of a
page with the private data, as `page_data` makes it; errors in it are shares of rows, 0 to 1.
"""

import math
import tomllib

from .blocks import page_file
from .svg import big, percent


def attacker_success(promise: dict) -> float | None:
    """The best probability with which an attacker can guess right whether a user is in the data, at
    even prior odds; None if unknown.

    For mu-GDP the trade-off curve gives exactly Phi(mu / 2); for (epsilon, delta) alone the
    probability is at most (e^epsilon + delta) / (1 + e^epsilon).
    """
    bounds = []
    mu = promise.get("mu")
    epsilon = promise.get("epsilon")
    delta = promise.get("delta") or 0.0
    if mu is not None:
        bounds.append(0.5 * math.erfc(-mu / 2 / math.sqrt(2)))
    if epsilon is not None:
        bounds.append(min(1.0, (1 + delta * math.exp(-epsilon)) / (1 + math.exp(-epsilon))))
    return min(bounds) if bounds else None


def one_unit(promise: dict) -> str:
    """The protected unit as a noun phrase."""
    unit = promise.get("unit") or {}
    column = unit.get("column")
    kind = unit.get("kind", "user")
    if kind == "event":
        return "any single record"
    if column is None or kind == "row":
        return "any single row"
    if kind == "user-period":
        return f"any one {_who(column)} with all of its records of one {unit.get('period')}"
    return f"any one {_who(column)} with all of its records"


def promise_words(promise: dict) -> list[str]:
    """The privacy statement as a few plain sentences."""
    rate = attacker_success(promise)
    if rate is not None:
        known = next(said for limit, said in CERTAIN.items() if rate < limit)
    else:
        known = UNSURE
    out = [
        f"Whoever studies the released table {known} whether {one_unit(promise)} was in the true"
        " data."
    ]
    if rate is not None:
        shown = math.ceil(100 * rate) if rate <= 0.99 else f"{math.ceil(10_000 * rate) / 100:.2f}"
        out.append(
            "Even someone who knows everything else and is told that the odds are even would guess"
            f" right at most {shown} times in 100; a coin is right 50 times."
        )
    bound = promise.get("bound")
    unit = promise.get("unit") or {}
    if bound and unit.get("kind") in ("user", "user-period"):
        who = _who(unit.get("column") or "person")
        each = f" of one {unit['period']}" if unit.get("period") else ""
        rows = f"{big(bound)} row{'s' if bound != 1 else ''}{each}"
        out.append(f"No {who} counts for more than {rows}.")
    out += _over_periods(promise, unit)
    if promise.get("asked") is not None:
        out.append(
            f"This table was made with ε = {promise['asked']:.4g}; the figures above cover all "
            f"{promise['parts']} tables of the run together."
        )
    if promise.get("alone") is True:
        out.append("Other releases from the same data are not counted here; their losses add up.")
    return out


def _over_periods(promise: dict, unit: dict) -> list[str]:
    """Sentences on what a guarantee for one period of a user does not cover; none if it covers the
    user."""
    if not unit.get("period"):
        return []
    who = _who(unit.get("column") or "person")
    each = unit["period"]
    out = [
        f"This is about one {each}. It does not hide what a {who}'s {each}s show together: habits"
        f" from {each} to {each}, and whether the {who} is in the series at all."
    ]
    if promise.get("user_epsilon") is not None:
        out.append(
            f"A {who} who is in every {each} released so far is protected with"
            f" ε = {promise['user_epsilon']:.4g}; that number grows with every release."
        )
    return out


def _who(column: str) -> str:
    """What the page calls one user: the user column's name without "_id"."""
    who = column.removesuffix("_id").replace("_", " ")
    return "user" if who.casefold() in ("id", "uid") else who


def strength(promise: dict) -> str:
    """Words for how strong the guarantee is, by its epsilon; empty if there is none."""
    epsilon = promise.get("epsilon")
    if epsilon is None:
        return ""
    return next(word for most, word in STRENGTH.items() if epsilon <= most)


SAID = tomllib.loads(page_file("words.toml"))
MADE = SAID["made"]
NO_STATEMENT = SAID["no_statement"]
QUOTE = SAID["quote"]
TABLE_KINDS = SAID["kinds"]
"""What the page calls each kind of comparison in original values."""
CLOSE = {
    0.03: "close to the truth",
    0.1: "near the truth",
    0.3: "off in places",
    math.inf: "far off",
}
"""Words for a worst error, a share of rows, below these limits."""
CERTAIN = {
    0.6: "can hardly tell",
    0.75: "can guess, but not tell,",
    0.95: "may become fairly, but not fully, sure",
    math.inf: "may well find out",
}
"""How certain an attacker may become, by limits on `attacker_success`. The words never claim more
protection than the rate shows."""
UNSURE = "should not be able to tell"
"""The same where the rate is unknown."""
STRENGTH = {
    1: "strong",
    5: "moderate",
    12: "weak against a determined attacker",
    math.inf: "nominal only",
}
"""Words for epsilons up to these. The thresholds follow common practice; no theorem gives them."""


def original(data: dict, i: int) -> dict | None:
    """The scores of table i in original values; None if only codes were compared."""
    return (data.get("original") or [None] * (i + 1))[i]


def distance(data: dict, table: int = 0) -> tuple[str, str]:
    """`(headline, explanation)`: the largest error of one table, in words, and where it is.
    Original values are compared if there are any, else codes."""
    if data["truth"]["rows"] == 0 or data["tables"][table]["rows"] == 0:
        return "Nothing to compare", "One of the tables has no rows."
    found = original(data, table)
    if found:
        wrong = found["worst"]["wrong"]
        kinds = found["kinds"]
        means = [
            f"{TABLE_KINDS[k]} {percent(kinds[k]['mean'])}"
            for k in ("column", "pair")
            if k in kinds
        ]
        rest = f" On average: {', '.join(means)} of the rows in a wrong place." if means else ""
        why = f"Worst: {found['worst']['what']}.{rest}"
    else:
        ranked = [(c["tables"][table]["tv"], c["name"]) for c in data["columns"]]
        wrong, name = max(ranked + [(tv, f"{a} with {b}") for tv, a, b in pair_list(data, table)])
        why = (
            f"{name}: {percent(wrong)} of the rows are in a wrong place. Only codes of the schema"
            " were compared: what the schema lost is not seen here."
        )
    return f"At worst: {next(word for limit, word in CLOSE.items() if wrong < limit)}", why


def pair_list(data: dict, table: int) -> list[tuple[float, str, str]]:
    """All pairs of the heat map as (total variation distance, name, name), smallest first."""
    pairs = data.get("pairs")
    if not pairs:
        return []
    names = pairs["names"]
    rows = pairs["tables"][table]
    return sorted(
        (tv, names[j], names[i]) for i, row in enumerate(rows) for j, tv in enumerate(row)
    )
