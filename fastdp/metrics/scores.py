"""Every metric by name, for one pair of tables: what `fastdp.evaluate` returns."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..errors import UsageError
from ..schema import Schema
from . import baselines
from .causes import Released
from .compare import Comparison
from .inputs import Pair
from .metric import METRICS, ranked

Asked = str | Callable[..., Any]
"""The name of a metric, or a function of a `Pair` (two coded tables)."""
FACTS = ("private", "rows", "columns", "baselines", "seconds", "plugins")
"""Keys of a result that are not metrics."""


def score(
    truth: Any,
    synthetic: Any,
    schema: Schema | None,
    metrics: Asked | Sequence[Asked] | None,
    reporting: bool,
    fractions: Sequence[float],
    options: dict[str, Any],
    released: Released | None = None,
    note: Callable[[float, str], None] = lambda done, metric: None,
) -> dict[str, Any]:
    """The value of each metric, its value on samples of the truth, and the seconds each took.
    `metrics`: by name, group or as functions; None: the default ones. `reporting`: also those of
    the page. `note` is told before each metric what part is done, and its name."""
    comparison = Comparison(truth, synthetic, schema, **options, released=released)
    wanted = _wanted(metrics, comparison, reporting)
    out: dict[str, Any] = {"private": False, "rows": comparison.rows}
    seconds: dict[str, float] = {}
    values: dict[str, Any] = {}
    for metric in wanted:
        name = metric if isinstance(metric, str) else metric.__name__
        note(len(seconds) / (len(wanted) + 1), name)
        start = time.perf_counter()
        if isinstance(metric, str):
            value = METRICS.get(metric).score(comparison)
        else:
            value = metric(comparison.pair)
        seconds[name] = time.perf_counter() - start
        if value is not None:
            values[name] = value
    note(len(wanted) / (len(wanted) + 1), "samples of the truth")
    start = time.perf_counter()
    samples = _baselines(comparison, [n for n in values if n in wanted], fractions)
    seconds["baselines"] = time.perf_counter() - start
    out["columns"] = comparison.columns()
    out |= values
    if samples:
        out["baselines"] = samples
    out["seconds"] = seconds
    if plugins := [p for name in wanted if isinstance(name, str) and (p := METRICS.plugin(name))]:
        out["plugins"] = plugins
    return out


def _wanted(
    metrics: Asked | Sequence[Asked] | None, comparison: Any, reporting: bool
) -> list[Asked]:
    """The metrics that are asked for, by name or as functions; UsageError for one that there is
    not."""
    known = ranked()
    if metrics is None:
        kinds = ("yes", "report") if reporting else ("yes",)
        return [one.name for one in known if one.default in kinds and one.applies(comparison)]
    names = [metrics] if isinstance(metrics, str) or callable(metrics) else list(metrics)
    asked: list[Asked] = []
    for name in names:
        if callable(name):
            asked.append(_named(name))
        elif name == "all":
            asked += [one.name for one in known if one.applies(comparison)]
        elif grouped := [one.name for one in known if name in one.groups]:
            asked += grouped
        elif name in METRICS or METRICS.outside(name):
            METRICS.get(name)
            asked.append(name)
        else:
            listed = ", ".join([*(one.name for one in known), *_groups(), "all"])
            raise UsageError(f"metrics: there is no metric {name!r}; choose from {listed}")
    if not asked:
        raise UsageError("metrics: name at least one")
    return list(dict.fromkeys(asked))


def _groups() -> list[str]:
    return list(dict.fromkeys(group for one in ranked() for group in one.groups))


def _baselines(
    comparison: Comparison, names: Sequence[str], fractions: Sequence[float]
) -> dict[str, dict[str, Any]]:
    """Scores of random samples of the truth, by those of the named metrics that are cheap to
    repeat."""
    chosen = [one for name in names if (one := METRICS.get(name)).of_sample is not None]
    out: dict[str, dict[str, Any]] = {}
    for fraction in fractions if chosen else ():
        coded = not all(one.in_values for one in chosen)
        rows = comparison.pair.rows[0] if coded else comparison.rows["truth"]
        sample = baselines.rows_of_sample(rows, fraction, comparison.seed)
        scores = {one.name: one.of_sample(comparison, sample) for one in chosen if one.of_sample}
        out[baselines.label(fraction)] = scores
    return out


def _named(metric: Callable[[Pair], Any]) -> Callable[[Pair], Any]:
    """A metric of the caller's own, whose name is a key of the result."""
    name = getattr(metric, "__name__", "")
    if not name.isidentifier() or name in (*METRICS.names(), *_groups(), *FACTS, "all"):
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
