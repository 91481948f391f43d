"""Tables of docs/ about numbers asked beforehand, from bench/results/numbers_asked.json
(`python -m bench.numbers_asked`), for `bench.blocks`."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial

from .machine import RESULTS
from .markdown import bare, table

WANTED = {
    "sum": (1.0, 0.03, 0.12),
    "sum by month": (3.0, 0.1, 0.2),
    "sum capped": (1.0, 0.05, 0.05),
}
"""By kind, the epsilon of a target, and how far intervals may reach below and above."""


def lines() -> dict[tuple, dict]:
    kept = json.loads((RESULTS / "numbers_asked.json").read_text("utf-8"))["lines"]
    return {(x["kind"], x["shape"], x["users"], x["epsilon"]): x for x in kept if _own_share(x)}


def _own_share(row: dict) -> bool:
    return row["share"] == (0.2 if row["kind"].startswith(("sum", "mean", "median", "q")) else 0.1)


def reached() -> str:
    """Totals and months of 24,000 people beside what no mechanism with the same claim reaches."""
    found = lines()
    shapes = [s for kind, s, users, eps in found if (kind, users, eps) == ("sum", 24_000, 1.0)]
    shapes = [s for s in shapes if "least" in found["sum", s, 24_000, 1.0]]
    shapes.sort(key=lambda s: found["sum", s, 24_000, 1.0]["least"])
    return table(
        ["shape", "total, epsilon 1, wanted -.03 +.12: least, measured", MONTHS],
        [
            [
                s,
                *(
                    _beside_least(found.get((kind, s, 24_000, WANTED[kind][0])), kind)
                    for kind in KINDS
                ),
            ]
            for s in shapes
        ],
    )


MONTHS = "month, epsilon 3, wanted -.1 +.2"
KINDS = ("sum", "sum by month")


def _beside_least(row: dict | None, kind: str) -> str:
    if row is None:
        return "not measured"
    _, below, above = WANTED[kind]
    least = bare(row["least"])
    impossible = row["least"] > above
    verdict = "impossible" if impossible else "not met"
    if row["low"] <= below and row["high"] <= above:
        verdict = "met"
    least = f"**{least}**" if impossible else least
    return f"{least}, -{bare(row['low'])} +{bare(row['high'])}: {verdict}"


def capped() -> str:
    """Capped sums of 2,400 people beside the least half-width at a cap that keeps nine tenths."""
    rows = [row for row in lines().values() if "bound" in row]
    rows.sort(key=lambda row: (row["bound"] > WANTED["sum capped"][1], row["bound"]))
    return table(
        ["shape", "bound at 90 %", "measured ±", "cap keeps", "covers", "runs"],
        [
            [
                row["shape"],
                f"**{bare(row['bound'])}**" if row["bound"] > 0.05 else bare(row["bound"]),
                bare(row["high"]),
                f"{row['keeps']:.2f}",
                f"{100 * row['cover']:.1f}",
                f"{row['runs']}",
            ]
            for row in rows
        ],
    )


def by_shape(kind: str, epsilon: float) -> str:
    """Totals or means by shape: coverage, where the claim is true too, and reach."""
    found = lines()
    shapes = sorted({s for k, s, u, e in found if (k, u, e) == (kind, 24_000, epsilon)})
    cells = [[_total(found.get((kind, s, u, epsilon))) for u in (2400, 24_000)] for s in shapes]
    return table(
        ["shape", "2,400 people", "24,000 people"],
        [[shape, *pair] for shape, pair in zip(shapes, cells)],
    )


def _total(row: dict | None) -> str:
    if row is None:
        return "not measured"
    if row["cover"] is None:
        return f"all {row['withheld']} withheld"
    held = f", {row['withheld']} withheld" if row["withheld"] else ""
    cover = f"{100 * row['cover']:.0f}"
    inside = row.get("inside", row["intervals"])
    claim = ""
    if inside < row["intervals"]:
        there = f": {100 * row['cover inside']:.0f}" if inside else ""
        claim = f" [{inside}{there}]"
    reach = f"-{row['low']:.2g} +{row['high']:.2g}".replace("-0.", "-.").replace("+0.", "+.")
    return f"{cover} ({row['below']}/{row['above']}{held}){claim}, {reach}"


BLOCKS: dict[str, Callable[[], str]] = {
    "numbers_capped": capped,
    "numbers_reached": reached,
    "numbers_sums": partial(by_shape, "sum", 1.0),
    "numbers_sums_at_3": partial(by_shape, "sum", 3.0),
    "numbers_means": partial(by_shape, "mean", 1.0),
    "numbers_means_at_3": partial(by_shape, "mean", 3.0),
}
