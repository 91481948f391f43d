"""Scores for the page: one flat list from any result of `fastdp.evaluate`, whatever metrics it
holds."""

import math
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

from .blocks import page_file

_KNOWN = tomllib.loads(page_file("scores.toml"))
"""By path of a score in the result ("deid2.overall"): its name and its explanation on the page."""


def _find(scores: Mapping[str, Any], keys: str) -> float | None:
    """The finite number at a path of keys such as "deid2.overall"; None if there is none."""
    value: Any = scores
    for key in keys.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return value if value is not None and math.isfinite(value) else None


def normalise(scores: Sequence[Mapping[str, Any] | None]) -> list[dict]:
    """`[{name, about, values (one per table), baselines: {name: value}}]`.

    `scores[i]` is the dict of table i; its `baselines` maps a name ("1 % sample") to a dict of the
    same shape. Only scores for which the page has an explanation are kept.
    """
    samples: Mapping[str, Mapping] = next(
        (s["baselines"] for s in scores if s and s.get("baselines")), {}
    )
    out = []
    for keys, (name, about) in _KNOWN.items():
        values = [_find(s or {}, keys) for s in scores]
        if any(v is not None for v in values):
            base = {n: v for n, s in samples.items() if (v := _find(s, keys)) is not None}
            out.append({"name": name, "about": about, "values": values, "baselines": base})
    return out
