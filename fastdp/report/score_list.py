"""Scores for the page: one flat list from any result of `fastdp.evaluate`, whatever metrics it holds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

# keys in a result -> (title, explanation), in page order; of a title with "↓" a low score is better
_KNOWN = {
    "deid2.overall": ("overall deid2 score", "mean of the three below, as in the 2020 challenge"),
    "deid2.k_marginal_score": ("k-marginal", "4-way counts within each pickup area and shift"),
    "deid2.pickup_dropoff_score": ("pickup and dropoff", "counts of trips between areas"),
    "deid2.higher_order_conjunction": ("higher-order conjunction", "how often users resemble a given user"),
    "sprint1.score": ("sprint 1 score", "mean over place and month"),
    "nist2018.score": ("NIST 2018 score", "3-way marginals, conjunctions and income inequality"),
    "kmarginal.score": ("k-way marginals", "closeness of counts over sets of k columns, whole table"),
    "tv1.mean": ("1-way total variation ↓", "share of rows in a wrong value, mean over columns"),
    "tv2.mean": ("2-way total variation ↓", "share of rows in a wrong cell, mean over pairs"),
    "correlation.mean": ("correlation difference ↓", "mean absolute difference over pairs of numbers"),
    "association.mean": ("association difference ↓", "mean absolute difference over pairs"),
    "coverage.missing": ("values missing ↓", "share of true values that never occur"),
    "coverage.invented": ("values invented ↓", "share of synthetic values that never occur in truth"),
    "users.rows": ("rows per user ↓", "share of users with a wrong number of rows, in octaves"),
    "users.agreement": ("agreement of users' rows ↓", "how often two rows of a user agree, mean difference"),
    "users.constant": ("users with one value ↓", "difference of their share, mean over columns"),
    "users.distinct": ("values per user ↓", "share of users with a wrong number of values, in octaves"),
    "utility.score": ("downstream task", "trained on synthetic, tested on truth"),
}


def _find(scores: Mapping[str, Any], keys: str) -> float | None:
    value: Any = scores
    for key in keys.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return value if value is not None and math.isfinite(value) else None


def normalise(scores: Sequence[Mapping[str, Any] | None]) -> list[dict]:
    """`[{name, about, values (one per table), baselines: {name: value}}]`.

    `scores[i]` is the dict of table i; its `baselines` maps a name ("1 % sample") to a dict of the same
    shape. Only scores for which the page has an explanation are kept.
    """
    samples: Mapping[str, Mapping] = next((s["baselines"] for s in scores if s and s.get("baselines")), {})
    out = []
    for keys, (name, about) in _KNOWN.items():
        values = [_find(s or {}, keys) for s in scores]
        if any(v is not None for v in values):
            base = {n: v for n, s in samples.items() if (v := _find(s, keys)) is not None}
            out.append({"name": name, "about": about, "values": values, "baselines": base})
    return out
