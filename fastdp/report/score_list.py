"""Scores for the page: one flat list from any result of `fastdp.evaluate`, whatever metrics it holds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

# dotted name -> (title, explanation, upper end of its axis, whether high or low is better), in page order
_KNOWN: dict[str, tuple[str, str, float, str]] = {
    "deid2.overall": (
        "overall deid2 score",
        "mean of the three below, as in the 2020 challenge",
        1000,
        "high",
    ),
    "deid2.k_marginal": ("k-marginal", "4-way counts within each pickup area and shift", 1, "high"),
    "deid2.pickup_dropoff": ("pickup and dropoff", "counts of trips between areas", 1, "high"),
    "deid2.higher_order_conjunction": (
        "higher-order conjunction",
        "how often users resemble a given user",
        1,
        "high",
    ),
    "sprint1": ("sprint 1 score", "mean over place and month", 1, "high"),
    "nist2018": ("NIST 2018 score", "3-way marginals, conjunctions and income inequality", 1, "high"),
    "kmarginal": ("k-way marginals", "closeness of counts over sets of k columns, whole table", 1000, "high"),
    "tv1": ("1-way total variation", "share of rows in a wrong value, mean over columns", 1, "low"),
    "tv2": ("2-way total variation", "share of rows in a wrong cell, mean over pairs", 1, "low"),
    "correlation": ("correlation difference", "mean absolute difference over pairs of numbers", 1, "low"),
    "association": ("association difference", "mean absolute difference over pairs", 1, "low"),
    "coverage.missing": ("values missing", "share of true values that never occur", 1, "low"),
    "coverage.invented": ("values invented", "share of synthetic values that never occur in truth", 1, "low"),
    "users.rows": ("rows per user", "share of users with a wrong number of rows, in octaves", 1, "low"),
    "users.agreement": (
        "agreement of users' rows",
        "difference in how often two rows of one user agree, mean over columns",
        1,
        "low",
    ),
    "users.constant": ("users with one value", "difference of their share, mean over columns", 1, "low"),
    "users.distinct": (
        "values per user",
        "share of users with a wrong number of values, in octaves, mean over columns",
        1,
        "low",
    ),
    "utility": ("downstream task", "trained on synthetic, tested on truth", 1, "high"),
}
_ORDER = list(_KNOWN)
_SAME = {
    "k_marginal_score": "k_marginal",
    "pickup_dropoff_score": "pickup_dropoff",
}
_SUMMARY = ("score", "overall", "mean", "value")
_SKIP = {"baselines", "rows", "columns", "seconds"}


def flatten(scores: Mapping[str, Any], prefix: str = "", depth: int = 0) -> dict[str, float]:
    """All numbers in nested scores by dotted name; a summary of a known metric (`score`, `mean`, ...) has the
    name of its metric."""
    out: dict[str, float] = {}
    for key, value in scores.items():
        name = _SAME.get(str(key), str(key))
        if name in _SKIP:
            continue
        dotted = f"{prefix}.{name}" if prefix else name
        if isinstance(value, Mapping):
            if depth < 2:
                out |= flatten(value, dotted, depth + 1)
        elif isinstance(value, bool) or value is None:
            continue
        else:
            number = _finite(value)
            if number is not None:
                summary = name in _SUMMARY and prefix in _KNOWN
                out[prefix if summary else dotted] = number
    return out


def _finite(value: Any) -> float | None:
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None


def normalise(scores: Sequence[Mapping[str, Any] | None]) -> list[dict]:
    """`[{key, name, about, top, better, values (one per table), baselines: [{name, value}], main}]`.

    `scores[i]` is the dict of table i; its `baselines` maps a name ("1 % sample") to a dict of the same
    shape. Only scores for which the page has an explanation are kept. `main` marks the score that leads the
    page: the first one that has baselines, else the first.
    """
    flat = [flatten(s or {}) for s in scores]
    lead = next((s for s in scores if s and s.get("baselines")), None)
    samples = {
        str(n): flatten(b) for n, b in (lead or {}).get("baselines", {}).items() if isinstance(b, Mapping)
    }
    out = []
    for key in _ORDER:
        values = [f.get(key) for f in flat]
        if all(v is None for v in values):
            continue
        name, about, top, better = _KNOWN[key]
        seen = [v for v in [*values, *(s.get(key) for s in samples.values())] if v is not None]
        if top == 1000 and max(seen) <= 1:
            top = 1
        elif max(seen) > top:
            top = max(seen)
        if better == "low":  # a short axis, so that small errors can be distinguished
            top = next((t for t in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0) if max(seen) <= t), top)
        out.append(
            {
                "key": key,
                "name": name,
                "about": about,
                "top": float(top),
                "better": better,
                "values": values,
                "baselines": [
                    {"name": n, "value": s.get(key)} for n, s in samples.items() if s.get(key) is not None
                ],
                "main": False,
            }
        )
    lead = next((s for s in out if s["baselines"]), out[0] if out else None)
    if lead is not None:
        lead["main"] = True
    return out
