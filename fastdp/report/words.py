"""Explanations of the numbers on the page, as text. All are pure functions of the page's data."""

from __future__ import annotations

import math

from .svg import big, percent


def attacker(promise: dict) -> float | None:
    """The largest possible probability that a guess whether a user is in the data is right, if both cases
    have prior probability 1/2; None if unknown.

    For mu-GDP the trade-off curve gives exactly Phi(mu / 2); for (epsilon, delta) alone the probability is at
    most (e^epsilon + delta) / (1 + e^epsilon).
    """
    odds = []
    mu, epsilon, delta = promise.get("mu"), promise.get("epsilon"), promise.get("delta") or 0.0
    if mu is not None:
        odds.append(0.5 * math.erfc(-mu / 2 / math.sqrt(2)))
    if epsilon is not None:
        odds.append(min(1.0, (1 + delta * math.exp(-epsilon)) / (1 + math.exp(-epsilon))))
    return min(odds) if odds else None


def one_unit(promise: dict) -> str:
    """The protected unit as a noun phrase."""
    unit = promise.get("unit") or {}
    column, kind = unit.get("column"), unit.get("kind", "user")
    if kind == "event":
        return "any single record"
    if column is None or kind == "row":
        return "any single row"
    who = column.removesuffix("_id").replace("_", " ")
    return f"any one {who} with all of its records"


def promise_words(promise: dict) -> list[str]:
    """The privacy statement as a few plain sentences."""
    rate = attacker(promise)
    out = [
        f"Whoever studies the released table {_can_tell(rate)} whether {one_unit(promise)} was in the true "
        "data."
    ]
    if rate is not None:
        shown = f"{100 * rate:.0f}" if rate < 0.995 else f"{100 * rate:.2f}"
        out.append(
            f"Even someone who knows everything else and is told that the odds are even would guess right "
            f"at most {shown} times in 100; a coin is right 50 times."
        )
    bound = promise.get("bound")
    if bound and (promise.get("unit") or {}).get("kind") == "user":
        out.append(f"No {_who(promise)} counts for more than {big(bound)} row{'s' if bound != 1 else ''}.")
    if promise.get("asked") is not None:
        out.append(
            f"This table was made with ε = {promise['asked']:.4g}; the figures above cover all "
            f"{promise['parts']} tables of the run together."
        )
    if promise.get("alone") is True:
        out.append("Other releases from the same data are not counted here; their losses add up.")
    return out


def _can_tell(rate: float | None) -> str:
    """A phrase for the certainty of an attacker whose guesses are right at this rate; it never claims more
    protection than the rate shows."""
    if rate is None:
        return "should not be able to tell"
    steps = (
        (0.6, "can hardly tell"),
        (0.75, "can guess, but not tell,"),
        (0.95, "may become fairly, but not fully, sure"),
    )
    return next((said for limit, said in steps if rate < limit), "may well find out")


def _who(promise: dict) -> str:
    column = (promise.get("unit") or {}).get("column")
    return column.removesuffix("_id").replace("_", " ") if column else "person"


def strength(promise: dict) -> str:
    """A word for the size of epsilon. The thresholds follow common practice; no theorem gives them."""
    epsilon = promise.get("epsilon")
    if epsilon is None:
        return ""
    if epsilon <= 1:
        return "strong"
    if epsilon <= 5:
        return "moderate"
    return "weak against a determined attacker" if epsilon <= 12 else "nominal only"


def main_score(data: dict) -> dict | None:
    """The score that leads the page: the first marked as main, else the first."""
    scores = data.get("scores") or []
    return next((s for s in scores if s.get("main")), scores[0] if scores else None)


def verdict(data: dict, table: int = 0) -> tuple[str, str]:
    """`(headline, explanation)` for one table: its main score compared with those of samples of the truth."""
    score = main_score(data)
    if score is None or score["values"][table] is None:
        return _verdict_by_distance(data, table)
    value, sign = score["values"][table], 1 if score["better"] == "high" else -1
    marks = [b for b in score.get("baselines") or [] if b["value"] is not None]
    if not marks:
        return _verdict_by_distance(data, table)
    marks = sorted(marks, key=lambda b: sign * b["value"])
    beaten = [b for b in marks if sign * value >= sign * b["value"]]
    ahead = [b for b in marks if sign * value < sign * b["value"]]
    if not ahead:
        won, compared = tally(data, table)
        if 2 * won < compared:
            return (
                f"About as close to the truth as a {_bare(beaten[-1])} of it",
                f"Closer than a random {_bare(beaten[-1])} of the true rows on the leading score, but not "
                "on most others; such a sample protects nobody.",
            )
        return f"Closer to the truth than a {_bare(beaten[-1])} of it", _sample_words(
            beaten[-1], "better than"
        )
    if not beaten:
        return f"Less close to the truth than a {_bare(ahead[0])} of it", _sample_words(
            ahead[0], "not as well as"
        )
    return (
        f"Better than a {_bare(beaten[-1])} of the truth, short of a {_bare(ahead[0])}",
        _sample_words(beaten[-1], "better than") + f" A {_bare(ahead[0])} would do better still.",
    )


def _bare(baseline: dict) -> str:
    return baseline["name"]


def _sample_words(baseline: dict, how: str) -> str:
    return (
        f"On the leading score the synthetic table follows the truth {how} a random {_bare(baseline)} of the "
        "true rows would, and such a sample protects nobody."
    )


def _verdict_by_distance(data: dict, table: int) -> tuple[str, str]:
    if data["truth"]["rows"] == 0 or data["tables"][table]["rows"] == 0:
        return "Nothing to compare", "One of the tables has no rows."
    flat = pair_list(data, table)
    kind = "pair of columns" if flat else "column"
    mean = sum(tv for tv, _, _ in flat) / len(flat) if flat else mean_tv(data, table)
    if mean is None:
        return "No score was computed", "Give evaluate a metric to see how close the table is."
    words = ((0.03, "Very close to"), (0.08, "Close to"), (0.2, "Some way from"), (math.inf, "Far from"))
    word = next(w for limit, w in words if mean < limit)
    return f"{word} the truth, by every {kind}", (
        f"An average {kind} has {percent(mean)} of the rows in a wrong place."
    )


def mean_tv(data: dict, table: int) -> float | None:
    values = [c["tables"][table]["tv"] for c in data["columns"] if c["tables"][table]["tv"] is not None]
    return sum(values) / len(values) if values else None


def findings(data: dict, table: int = 0) -> list[str]:
    """Two or three sentences, without HTML, on which columns and pairs are accurate and which are not."""
    if data["truth"]["rows"] == 0 or data["tables"][table]["rows"] == 0:
        return []
    out = _tally_words(data, table)
    ranked = sorted(
        (c["tables"][table]["tv"], c["name"]) for c in data["columns"] if c["tables"][table]["tv"] is not None
    )
    if ranked:
        mean = sum(tv for tv, _ in ranked) / len(ranked)
        text = f"Single columns: {percent(mean)} of the rows sit in a wrong value on average"
        if len(ranked) > 1:
            text += (
                f"; {ranked[-1][1]} is worst ({percent(ranked[-1][0])}), {ranked[0][1]} best "
                f"({percent(ranked[0][0])})"
            )
        out.append(text + ".")
    flat = pair_list(data, table)
    if flat:
        mean = sum(tv for tv, _, _ in flat) / len(flat)
        tv, a, b = flat[-1]
        out.append(f"Pairs of columns: {percent(mean)} on average; worst is {a} with {b} ({percent(tv)}).")
    return out


def tally(data: dict, table: int) -> tuple[int, int]:
    """(number of scores on which the table is better than the largest sample of the truth, number of scores
    that have such a sample)."""
    compared = [s for s in data.get("scores") or [] if s["baselines"] and s["values"][table] is not None]
    won = 0
    for s in compared:
        sign = 1 if s["better"] == "high" else -1
        won += sign * s["values"][table] >= sign * s["baselines"][-1]["value"]
    return won, len(compared)


def _tally_words(data: dict, table: int) -> list[str]:
    """A sentence on how many of all scores are better than the sample's, so that the page does not rely on
    its main score alone."""
    won, compared = tally(data, table)
    if compared < 2:
        return []
    name = next(s for s in data["scores"] if s["baselines"])["baselines"][-1]["name"]
    if not won:
        return [f"On none of the {compared} scores is it closer than a {name}."]
    return [f"It is closer than a {name} on {won} of the {compared} scores."]


def pair_list(data: dict, table: int) -> list[tuple[float, str, str]]:
    """All pairs of the heat map as (total variation, name, name), smallest variation first."""
    pairs = data.get("pairs")
    if not pairs:
        return []
    names, rows = pairs["names"], pairs["tables"][table]
    return sorted(
        (tv, names[j], names[i]) for i, row in enumerate(rows) for j, tv in enumerate(row) if tv is not None
    )


def advice(data: dict, table: int = 0) -> list[str]:
    """Sentences on what a released table can be used for, derived from the noise alone."""
    out = ["Good for: shares, counts and comparisons of large groups, and for trying out code."]
    run = data["runs"][table] if table < len(data["runs"]) else None
    single = [n for n in (run or {}).get("noise") or [] if n["order"] == 1]
    promise = (run or {}).get("promise") or {}
    lost, per_user = promise.get("lost"), (promise.get("unit") or {}).get("kind") == "user"
    per_user = per_user and bool((promise.get("unit") or {}).get("column"))
    if single:
        worst = max(n["sigma"] / math.sqrt(n["copies"]) for n in single) / (1 - min(lost or 0.0, 0.99))
        out.append(
            f"Read with care: differences of less than about {big(round(2 * worst))} rows between values of "
            "one column may be noise, and combinations of columns carry more."
        )
    if lost:
        out.append(
            f"The clip left out about {lost:.0%} of the rows, mostly those of users with many; counts are "
            "scaled up, and a "
            "value that such users prefer may be off by as much."
        )
    elif per_user and lost is None:
        out.append("Rows of users above the clip count in part; nothing says how many rows that left out.")
    quote = "To quote a number use `run.answer`, whose intervals know noise, clip and what was not measured."
    out.append(quote)
    out.append(
        "Not for: facts about one person, rare combinations, or linking with other data by the synthetic ids."
    )
    return out
