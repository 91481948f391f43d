"""Every metric by name, for one pair of tables: what `fastdp.evaluate` returns."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..errors import UsageError
from .baselines import FRACTIONS
from .compare import Comparison

if TYPE_CHECKING:
    from ..schema import Schema

METRICS = (
    "deid2",
    "sprint1",
    "nist2018",
    "kmarginal",
    "tv1",
    "tv2",
    "correlation",
    "association",
    "coverage",
    "constraints",
    "utility",
)
GROUPS = {"pairwise": ("tv1", "tv2", "correlation", "association")}


def score(
    truth: Any,
    synthetic: Any,
    schema: Schema | None,
    metrics: str | Sequence[str] | None,
    reporting: bool,
    fractions: Sequence[float],
    options: dict[str, Any],
) -> dict[str, Any]:
    comparison = Comparison(truth, synthetic, schema, **options)
    wanted = _wanted(metrics, comparison, reporting)
    out: dict[str, Any] = {"private": False, "rows": comparison.rows}
    seconds: dict[str, float] = {}
    values: dict[str, Any] = {}
    for name in wanted:
        start = time.perf_counter()
        value = comparison.score(name)
        seconds[name] = time.perf_counter() - start
        if value is not None:
            values[name] = value
    start = time.perf_counter()
    samples = comparison.baselines([n for n in wanted if n in values], fractions)
    seconds["baselines"] = time.perf_counter() - start
    out["columns"] = comparison.columns()
    out |= values
    if samples:
        out["baselines"] = samples
    out["seconds"] = seconds
    return out


def _wanted(metrics: str | Sequence[str] | None, comparison: Any, reporting: bool) -> list[str]:
    if metrics is None:
        asked = [*comparison.applicable(("deid2", "sprint1")), "kmarginal"]
        asked += comparison.applicable(("constraints",))
        return asked + (["tv1", "tv2", "coverage"] if reporting else [])
    names = [metrics] if isinstance(metrics, str) else list(metrics)
    asked = []
    for name in names:
        if name == "all":
            asked += comparison.applicable(METRICS)
        elif name in GROUPS:
            asked += GROUPS[name]
        elif name in METRICS:
            asked.append(name)
        else:
            listed = ", ".join([*METRICS, *GROUPS, "all"])
            raise UsageError(f"metrics: there is no metric {name!r}; there are {listed}")
    if not asked:
        raise UsageError("metrics: at least one must be named")
    return list(dict.fromkeys(asked))


def fractions_of(baselines: Sequence[float] | None) -> Sequence[float]:
    return FRACTIONS if baselines is None else tuple(baselines)


def several(synthetic: Any) -> bool:
    """Whether this is a mapping from names to tables, not one table given as a mapping of columns."""
    if not isinstance(synthetic, Mapping) or not synthetic:
        return False
    import numpy as np

    return not any(isinstance(v, list | tuple | range | np.ndarray) for v in synthetic.values())
