"""Every metric by name, for one pair of tables: what `fastdp.evaluate` returns."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..errors import UsageError
from ..schema import Schema
from .compare import Comparison
from .inputs import Pair

Metric = str | Callable[..., Any]
"""The name of a built-in metric, or a function of a `Pair` (two coded tables)."""
_CHALLENGES = ("deid2", "sprint1", "nist2018")
_TABLES = ("kmarginal", "tv1", "tv2", "correlation", "association", "coverage", "constraints")
METRICS = ("original", *_CHALLENGES, *_TABLES, "users", "utility")
FACTS = ("private", "rows", "columns", "baselines", "seconds")
"""Keys of a result that are not metrics."""
GROUPS = {"pairwise": ("tv1", "tv2", "correlation", "association")}


def score(
    truth: Any,
    synthetic: Any,
    schema: Schema | None,
    metrics: Metric | Sequence[Metric] | None,
    reporting: bool,
    fractions: Sequence[float],
    options: dict[str, Any],
) -> dict[str, Any]:
    comparison = Comparison(truth, synthetic, schema, **options)
    wanted = _wanted(metrics, comparison, reporting)
    out: dict[str, Any] = {"private": False, "rows": comparison.rows}
    seconds: dict[str, float] = {}
    values: dict[str, Any] = {}
    for metric in wanted:
        name = metric if isinstance(metric, str) else metric.__name__
        start = time.perf_counter()
        value = comparison.score(metric) if isinstance(metric, str) else metric(comparison.pair)
        seconds[name] = time.perf_counter() - start
        if value is not None:
            values[name] = value
    start = time.perf_counter()
    samples = comparison.baselines([n for n in values if n in wanted], fractions)
    seconds["baselines"] = time.perf_counter() - start
    out["columns"] = comparison.columns()
    out |= values
    if samples:
        out["baselines"] = samples
    out["seconds"] = seconds
    return out


def _wanted(
    metrics: Metric | Sequence[Metric] | None, comparison: Any, reporting: bool
) -> list[Metric]:
    if metrics is None:
        default = [*comparison.applicable(("original", "deid2", "sprint1")), "kmarginal"]
        default += comparison.applicable(("constraints",))
        return default + (
            ["tv1", "tv2", "coverage", *comparison.applicable(("users",))] if reporting else []
        )
    names = [metrics] if isinstance(metrics, str) or callable(metrics) else list(metrics)
    asked: list[Metric] = []
    for name in names:
        if callable(name):
            asked.append(_named(name))
        elif name == "all":
            asked += comparison.applicable(METRICS)
        elif name in GROUPS:
            asked += GROUPS[name]
        elif name in METRICS:
            asked.append(name)
        else:
            listed = ", ".join([*METRICS, *GROUPS, "all"])
            raise UsageError(f"metrics: there is no metric {name!r}; choose from {listed}")
    if not asked:
        raise UsageError("metrics: name at least one")
    return list(dict.fromkeys(asked))


def _named(metric: Callable[[Pair], Any]) -> Callable[[Pair], Any]:
    """A metric of the caller's own, whose name is a key of the result."""
    name = getattr(metric, "__name__", "")
    if not name.isidentifier() or name in (*METRICS, *GROUPS, *FACTS, "all"):
        raise UsageError(
            f"metrics: {name!r} is taken, or no name; `def` the function with another name"
        )
    return metric


def several(synthetic: Any) -> bool:
    """Whether this is a mapping from names to tables, not one table given as a mapping of
    columns."""
    if not isinstance(synthetic, Mapping) or not synthetic:
        return False
    return not any(isinstance(v, list | tuple | range | np.ndarray) for v in synthetic.values())
