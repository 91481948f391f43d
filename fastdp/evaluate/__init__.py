"""How good is a synthetic table? The field's scores at compiled speed. They see the truth: nothing here is private."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ..errors import UsageError

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
    "utility",
)
GROUPS = {"pairwise": ("tv1", "tv2", "correlation", "association")}


def evaluate(
    truth: Any,
    synthetic: Any,
    schema: Schema | None = None,
    metrics: str | Sequence[str] | None = None,
    report: Any = None,
    *,
    user: str | None = None,
    k: int = 3,
    marginals: int = 200,
    target: str | None = None,
    baselines: Sequence[float] | None = None,
    seed: int = 0,
    threads: int | None = None,
    run: Any = None,
    title: str | None = None,
) -> dict[str, Any]:
    """Compare a synthetic table with the truth; gives plain data fit for JSON. NOT private: never release it as such.

    truth, synthetic: path, pyarrow table, polars or pandas frame, anything with `__arrow_c_stream__`, or a
    `fastdp.Table`. `synthetic` may be a mapping from name to table: the result is then a mapping from name to result.
    schema: how columns become codes; without one, the union of both tables' values, and 20 quantile bins of the truth
    for numbers with more than 100 values. `user` names the id column to leave out (with a schema: its own).
    metrics: names of `METRICS`, or "pairwise" (tv1, tv2, correlation, association), or "all" (every one that applies).
    None: kmarginal, and deid2 or sprint1 where their columns are there; with a report also tv1, tv2, coverage.
    A histogram made by the usercounts mechanism counts as the events it stands for.
    report: a path, where the HTML page is written (with `run` and `title` passed on). baselines: fractions of the
    truth whose random sample is scored as well; None: 1 % and 10 %; () none.

    Keys of the result, those of the metrics only where they were asked for:
      private     False, always
      rows        {"truth": n, "synthetic": m}
      columns     {name: {"codes": n, "encoding": "schema" | "values" | "bins"}}
      deid2       k_marginal_score, pickup_dropoff_score, higher_order_conjunction (0..1), overall (0..1000), areas,
                  shifts, grid [area][shift] (k-marginal score of the group, None: no rows), by_area, by_shift
      sprint1     score (0..1), sum, rows, neighborhoods, by_neighborhood, periods, by_period
      nist2018    score, three_way, conjunctions, income (0..1; income may be None)
      kmarginal   score (0..1000), k, marginals, possible, sampled, seed, mean_variation, worst
      tv1         mean, max, by_column
      tv2         mean, max, columns, matrix (total variation of each pair; 1-way on the diagonal)
      correlation mean, max, columns, truth, synthetic, difference (matrices; left out with < 2 ordered columns)
      association the same with Cramer's V
      coverage    missing, invented (shares of distinct values), columns
      utility     score, target, model, measure, synthetic, truth, constant
      baselines   {"1 % sample": {"deid2": {...}, "kmarginal": {...}, "tv1": ..., "tv2": ...}, ...}: the same keys,
                  for random rows of the truth in place of the synthetic table
      seconds     {metric: s}
    """
    options = {
        "user": user,
        "k": k,
        "marginals": marginals,
        "target": target,
        "seed": seed,
        "threads": threads,
    }
    fractions = _fractions(baselines)
    if _several(synthetic):
        out: dict[str, Any] = {
            str(name): _one(truth, table, schema, metrics, report is not None, fractions, options)
            for name, table in synthetic.items()
        }
        scores: Any = list(out.values())
    else:
        scores = out = _one(truth, synthetic, schema, metrics, report is not None, fractions, options)
    if report is not None:
        from .report import write

        write(report, truth, synthetic, schema, scores, run, title=title)
    return out


def _one(
    truth: Any,
    synthetic: Any,
    schema: Schema | None,
    metrics: str | Sequence[str] | None,
    reporting: bool,
    fractions: Sequence[float],
    options: dict[str, Any],
) -> dict[str, Any]:
    from .compare import Comparison

    comparison = Comparison(truth, synthetic, schema, **options)
    wanted = _wanted(metrics, comparison, reporting)
    out: dict[str, Any] = {"private": False, "rows": comparison.rows}
    seconds: dict[str, float] = {}
    found: dict[str, Any] = {}
    for name in wanted:
        start = time.perf_counter()
        value = comparison.score(name)
        seconds[name] = time.perf_counter() - start
        if value is not None:
            found[name] = value
    start = time.perf_counter()
    samples = comparison.baselines([n for n in wanted if n in found], fractions)
    seconds["baselines"] = time.perf_counter() - start
    out["columns"] = comparison.columns()
    out |= found
    if samples:
        out["baselines"] = samples
    out["seconds"] = seconds
    return out


def _wanted(metrics: str | Sequence[str] | None, comparison: Any, reporting: bool) -> list[str]:
    if metrics is None:
        asked = [*comparison.applicable(("deid2", "sprint1")), "kmarginal"]
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
            known = ", ".join([*METRICS, *GROUPS, "all"])
            raise UsageError(f"metrics: there is no metric {name!r}; there are {known}")
    if not asked:
        raise UsageError("metrics: at least one must be named")
    return list(dict.fromkeys(asked))


def _fractions(baselines: Sequence[float] | None) -> Sequence[float]:
    from .baselines import FRACTIONS

    return FRACTIONS if baselines is None else tuple(baselines)


def _several(synthetic: Any) -> bool:
    """A mapping from names to tables, rather than one table given as a mapping from names to columns."""
    if not isinstance(synthetic, Mapping) or not synthetic:
        return False
    import numpy as np

    return not any(isinstance(v, list | tuple | range | np.ndarray) for v in synthetic.values())


class _Callable(ModuleType):
    """`fastdp.evaluate` is the function users call and the package its parts live in; both must keep working."""

    __call__: Callable[..., dict[str, Any]] = staticmethod(evaluate)


sys.modules[__name__].__class__ = _Callable
