"""A metric is one object, registered in the module that computes it with `@metric(NAME, ...)`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from msgspec import Struct

from .._util.registries import Registry
from .compare import Comparison

Score = Callable[[Comparison], Any]


def always(comparison: Comparison) -> bool:
    """The `applies` of a metric for any two tables."""
    return True


class Metric(Struct, frozen=True, kw_only=True):
    """A metric of two tables.

    score: the number, or the numbers by name; None where it is not defined. applies: whether both
    tables have what it needs. default: computed where nobody names metrics; "report": only for a
    report. of_sample: the score of rows of the truth, given by their numbers, as a baseline; None:
    no baseline. in_values: `of_sample` does not use the coded tables. groups: names that stand for
    several metrics. rank: its place in results; those of one rank come by name.
    """

    name: str
    score: Score
    applies: Callable[[Comparison], bool] = always
    default: Literal["yes", "report", "no"] = "no"
    of_sample: Callable[[Comparison, np.ndarray], Any] | None = None
    in_values: bool = False
    groups: tuple[str, ...] = ()
    rank: int = 100

    def __post_init__(self) -> None:
        for option in ("applies", "of_sample"):
            given = getattr(self, option)
            if given is not None and not callable(given):
                raise TypeError(
                    f"metric {self.name!r}: {option} is a function, got {given!r}"
                    " (docs/contributing/adding-a-metric.md)"
                )


METRICS: Registry[Metric] = Registry("metric", __package__, "fastdp.metrics")


def metric(name: str, **about: Any) -> Callable[[Score], Score]:
    """A decorator that registers a function of a `Comparison` as a metric; about: `Metric`."""

    def register(score: Score) -> Score:
        METRICS.add(name, score.__module__)(Metric(name=name, score=score, **about))
        return score

    return register


def ranked() -> list[Metric]:
    """Every metric, in the order of results."""
    return sorted(METRICS, key=lambda one: one.rank)
