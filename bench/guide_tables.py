"""Tables of the pages for users that are made from stored results; see `bench.blocks`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from .machine import kept
from .markdown import bare, table

ORDERED = ("chicago", "flights", "simulated", "chained", "purchases", "events", "patients")
"""Tables of docs/guide/order.md."""
ORDER_MEASURES = {
    "next": "next",
    "gap": "gap",
    "first": "first",
    "rows": "rows (pairs)",
    "same": "same column",
    "cross": "cross",
    "distinct": "distinct values",
}
OF_PEOPLE = ("cohorts", "few", "tiny")
"""Tables of docs/guide/people.md."""
PEOPLE_MEASURES = {
    "cohort": "repeat share by cohort, mean error",
    "first": "period of the first row",
    "outside": "people in cohorts that do not exist, share",
    "span": "first period and span",
    "active": "periods with rows",
    "sum": "sum per user, octaves",
    "top10": "share of the top tenth, error",
    "level": "variance of amounts between users, lacking",
    "gap": "gaps between rows",
    "same": "same column in two rows of a user",
    "distinct": "distinct values of a user",
    "rows": "pairs of columns of rows",
}


def users_order() -> str:
    """Users' rows without and with a declared order."""
    from .users import TITLES

    found = kept("users")["found"]
    rows = []
    for name in ORDERED:
        for epsilon in ("10", "1"):
            sides = [found.get(f"{name}, epsilon {epsilon}, {way}") for way in ("auto", "order")]
            if None in sides:
                continue
            follows = f"{bare(sides[0]['follows'])} / {bare(sides[1]['follows'])}"
            cells = [" / ".join(bare(side[m]) for side in sides) for m in ORDER_MEASURES]
            truth = bare(sides[0]["truth"])
            rows.append([f"{TITLES[name]}, {epsilon}", f"{follows} ({truth})", *cells])
    return table(["table, epsilon", "follows (truth)", *ORDER_MEASURES.values()], rows)


def people() -> str:
    """What a user's rows say together, where users are chosen by what was released of them."""
    from .users import TITLES

    found = kept("users")["found"]
    cases = []
    for name in OF_PEOPLE:
        of_name = [key.split(", ") for key in found if key.startswith(f"{name}, epsilon")]
        epsilons = sorted({float(one[1].removeprefix("epsilon ")) for one in of_name})
        cases += [(name, f"{epsilon:g}") for epsilon in epsilons]
    head = [
        f"{TITLES[name].removeprefix('cohorts (').removesuffix(')')}, epsilon {epsilon}"
        for name, epsilon in cases
    ]
    runs = [found[f"{name}, epsilon {epsilon}, order"] for name, epsilon in cases]
    rows = [[title, *(bare(run[m]) for run in runs)] for m, title in PEOPLE_MEASURES.items()]
    return table(["", *head], rows)


GUESSES = {
    "model": "`run.classifier`, no training",
    "boosting on synthetic rows": "boosting on the synthetic rows",
}


def on_demand_guesses() -> str:
    """Right guesses of a column and their logarithmic loss."""
    record = kept("on-demand")

    def cell(one: dict) -> str:
        return f"{100 * one['right']:.1f} %, {one['log loss']:.2f}"

    ways = ("mst", "cliquetree")
    rows = [
        [title, *(cell(record[way]["prediction"][key]) for way in ways)]
        for key, title in GUESSES.items()
    ]
    truth = cell(record["boosting on true rows"])
    rows.append(["boosting on the true rows, which protects nobody", truth, ""])
    return table(["", *(f"`{way}`" for way in ways)], rows)


def around(values: Sequence[float]) -> str:
    """The mean, and the standard deviation of several runs."""
    return f"{np.mean(values):.2f} ± {np.std(values, ddof=1):.2f}"


def customers() -> str:
    """Habits of customers: the truth, and users dealt in three ways."""
    found = kept("customers")["found"]
    ways = ("in order", "no order", "at random")
    rows = [
        [habit, f"{truth[0]:.2f}", *(around(found[way][habit]) for way in ways)]
        for habit, truth in found["truth"].items()
    ]
    return table(["per customer", "truth", *ways], rows)


PARITIES = {"xor3": "3 of 8", "xor4": "4 of 8", "xor4of15": "4 of 15", "xor3of30": "3 of 30"}


def parities() -> str:
    """How much of a parity is kept, and what a forest learns from it."""
    found = kept("hard")["found"]

    def spread(values: Sequence[float]) -> str:
        middle = bare(float(np.mean(values)))
        low, high = min(values), max(values)
        wide = high - low > 0.01
        return f"{middle} ({bare(low)} to {bare(high)})" if wide else middle

    rows = []
    for name, title in PARITIES.items():
        runs = found[f"{name}, epsilon 1"]
        kept_part = bare(float(np.mean(runs["parity kept"])))
        rows.append([title, kept_part, spread(runs["accuracy"]), spread(runs["true rows"])])
    return table(["parity of", "kept", "synthetic rows", "true rows"], rows)


def households() -> str:
    """Households and persons made together, and made apart."""
    found = kept("linked")["found"]
    together, apart = (found[f"households, epsilon 2, {way}"] for way in ("together", "apart"))

    def row(title: str, truth: str, key: str, form: Callable[[float], str]) -> list[str]:
        return [title, truth, form(together[key]), form(apart[key])]

    def share(value: float) -> str:
        return f"{100 * value:.0f} %"

    rows = [
        row("persons with a household (`integrity`)", "100 %", "integrity", share),
        row("persons per household, total variation (`children`)", "", "children", bare),
        row(
            "a column of the household and one of the person, mean total variation (`pairs`)",
            "",
            "pairs",
            bare,
        ),
        row("households with exactly one head", "100 %", "head", share),
    ]
    return table(["", "truth", "linked", "tables made apart"], rows)


INSIDE = {
    "shop, hours = 40": "share of hours = 40 (48,842 rows)",
    "shop, mean hours": "mean of hours",
    "shop, price ends in .99": "prices that end in .99",
    "prices, twenty prices": "twenty frequent prices, found by the run",
    "large, sum sales": "sum of skewed sales (300,000 rows)",
    "shop, sum sales": "sum of skewed sales (48,842 rows)",
    "flights, sum distance": "sum of distances of drawn flights (300,000 rows)",
    "flights, sum air_time": "sum of their air time",
    "flights, correlation": "correlation of distance and air time",
    "taxi, sum fare": "sum of fares, 6,506 taxis (300,000 trips)",
    "taxi, sum trip_total": "sum of trip totals, made of fare, tips and extras",
    "taxi, total < fare": "trips whose total is below the fare",
}


def numbers_inside() -> str:
    """Numbers of synthetic rows with even bins, and with what was released of their inside."""
    found = kept("numbers_inside")["found"]

    def span(values: Sequence[float]) -> str:
        low, high = bare(min(values)), bare(max(values))
        return low if low == high else f"{low} to {high}"

    rows = [
        [title, f"{found[key]['truth']:.3g}".removeprefix("0") or "0"]
        + [span(found[key][way]) for way in ("even bins", "inside")]
        for key, title in INSIDE.items()
    ]
    return table(["figure", "truth", "even bins", "with `means`, `atoms`, `follows`"], rows)


POSTERIOR = {
    "regret": "regret of the clip (error over that of the best clip, less 1)",
    "rows": "error of the number of rows, by the histogram alone",
    "counted": "error of the number of rows, with a count",
    "tv": "total variation distance of drawn rows per user",
    "covers": "part of the intervals of the number of rows that hold it (of .95)",
    "upper": "their upper end over the truth",
    "people": "the same part for intervals of synthetic users' number of rows",
}


def rows_per_user() -> str:
    """Means over all cases of medians over repeats."""
    cases = list(kept("rows_per_user").values())
    rows = [
        [title, bare(float(np.nanmean([case[name] for case in cases])))]
        for name, title in POSTERIOR.items()
    ]
    return table([f"{len(cases)} cases", "mean"], rows)


BLOCKS: dict[str, Callable[[], str]] = {
    "customers": customers,
    "households": households,
    "numbers_inside": numbers_inside,
    "on_demand_guesses": on_demand_guesses,
    "parities": parities,
    "people": people,
    "rows_per_user": rows_per_user,
    "users_order": users_order,
}
