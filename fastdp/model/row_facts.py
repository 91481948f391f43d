"""From a model's codes to rows of the schema's codes: what a run knows in addition to its model.

Values that share a code of the model, columns that are drawn given another one, and groups of users
whose rows come in released proportions. All of it is released or follows from released numbers. It
is stored with the model, so that a run that is loaded from its folder can draw rows like the run
that made it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from msgspec import Struct, field

from ..errors import DataError


class DrawnColumn(Struct, frozen=True, eq=False):
    """A column that is drawn given the codes of `source`: codes[start[s]:start[s + 1]] by the
    differences of `ends`. Where there are none, any code by the differences of `rest`."""

    column: str
    source: str
    codes: np.ndarray
    start: np.ndarray
    ends: np.ndarray
    rest: np.ndarray

    def table(self) -> np.ndarray:
        """p(column | source) [codes of source, codes of column]."""
        sources = len(self.start) - 1
        rows = np.diff(self.ends, prepend=0.0)
        of = np.repeat(np.arange(sources), np.diff(self.start))
        out = np.zeros((sources, len(self.rest)))
        np.add.at(out, (of, self.codes), rows)
        out[np.diff(self.start) == 0] = np.diff(self.rest, prepend=0.0)
        sums = out.sum(axis=1, keepdims=True)
        return np.divide(out, sums, out=np.full_like(out, 1 / out.shape[1]), where=sums > 0)

    def draw(self, given: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """A value for each value of the source."""
        given = np.asarray(given, np.int64)
        uniform = rng.random(len(given))
        out = np.minimum(
            np.searchsorted(self.rest, uniform * self.rest[-1], "right"), len(self.rest) - 1
        )
        known = np.flatnonzero(self.start[given] < self.start[given + 1])
        first = self.start[given[known]]
        last = self.start[given[known] + 1]
        ends = np.concatenate([[0.0], self.ends])
        at = ends[first] + uniform[known] * (ends[last] - ends[first])
        out[known] = self.codes[np.clip(np.searchsorted(self.ends, at, "right"), first, last - 1)]
        return out


class RowFacts(Struct, frozen=True, eq=False):
    """`within`: weights of a column's codes, among those that share a code of the model. `drawn`:
    columns outside the model, each after its source. `group`: the model's column of groups of users
    ("": none); `shares`: the part of all rows in each group (None: as the model has it). `trends`: by
    pair of columns, what rows have more of the mean product of the columns' `scores` than the model."""

    within: Mapping[str, np.ndarray] = field(default_factory=dict)
    drawn: tuple[DrawnColumn, ...] = ()
    group: str = ""
    shares: np.ndarray | None = None
    scores: Mapping[str, np.ndarray] = field(default_factory=dict)
    trends: Mapping[tuple[str, ...], float] = field(default_factory=dict)

    def stored(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """(arrays, manifest) for the model's file."""
        arrays = {f"within{i}": np.asarray(w, float) for i, w in enumerate(self.within.values())}
        used = sorted({a for pair in self.trends for a in pair})
        arrays |= {f"score{i}": np.asarray(self.scores[a], float) for i, a in enumerate(used)}
        for i, item in enumerate(self.drawn):
            parts = {"codes": item.codes, "start": item.start}
            arrays |= {f"drawn{i}_{k}": np.asarray(v, np.int64) for k, v in parts.items()}
            arrays |= {f"drawn{i}_ends": item.ends, f"drawn{i}_rest": item.rest}
        if self.shares is not None:
            arrays["shares"] = np.asarray(self.shares, float)
        about: dict[str, Any] = {"within": list(self.within), "group": self.group}
        about["drawn"] = [[item.column, item.source] for item in self.drawn]
        if self.trends:
            about["scores"] = used
            about["trends"] = [[*pair, float(change)] for pair, change in self.trends.items()]
        return arrays, about

    @classmethod
    def loaded(
        cls, arrays: Mapping[str, np.ndarray], about: Mapping[str, Any], sizes: Mapping[str, int]
    ) -> RowFacts:
        """The facts of a model's file; DataError if they do not fit columns of these sizes."""
        within = {a: arrays[f"within{i}"] for i, a in enumerate(about["within"])}
        drawn = tuple(
            DrawnColumn(
                column,
                source,
                *(arrays[f"drawn{i}_{k}"] for k in ("codes", "start", "ends", "rest")),
            )
            for i, (column, source) in enumerate(about["drawn"])
        )
        group = str(about["group"])
        shares = arrays.get("shares")
        scores = {a: arrays[f"score{i}"] for i, a in enumerate(about.get("scores", ()))}
        trends: dict[tuple[str, ...], float] = {
            (a, b): float(change) for a, b, change in about.get("trends", ())
        }
        made = cls(
            within=within,
            drawn=drawn,
            group=group,
            shares=shares,
            scores=scores,
            trends=trends,
        )
        made._check(sizes)
        return made

    def _check(self, sizes: Mapping[str, int]) -> None:
        """Raise unless all facts fit the columns' sizes."""
        groups = sizes.get(self.group, 1)
        good = not self.group or self.group in sizes
        good &= all(w.shape == (sizes[a],) and _weights(w) for a, w in self.within.items())
        if self.shares is not None:
            good &= self.shares.shape == (groups,) and _weights(self.shares)
        good = good and all(_fits(item, sizes) for item in self.drawn)
        good = good and all(
            s.ndim == 1 and 0 < len(s) <= sizes[a] and np.isfinite(s).all()
            for a, s in self.scores.items()
        )
        good = good and all(
            a != b and a in self.scores and b in self.scores and np.isfinite(change)
            for (a, b), change in self.trends.items()
        )
        if not good:
            raise DataError("the facts about rows do not fit the model's columns")


def _weights(array: np.ndarray) -> bool:
    return bool(np.isfinite(array).all() and (array >= 0).all() and array.sum() > 0)


def _fits(item: DrawnColumn, sizes: Mapping[str, int]) -> bool:
    """Whether a column drawn given others has a distribution for each of their cells."""
    codes, start = item.codes, item.start
    return bool(
        start.shape == (sizes[item.source] + 1,)
        and start[0] == 0
        and start[-1] == len(codes) == len(item.ends)
        and (np.diff(start) >= 0).all()
        and (codes.size == 0 or (codes.min() >= 0 and codes.max() < sizes[item.column]))
        and item.rest.shape == (sizes[item.column],)
        and _weights(np.diff(item.rest, prepend=0.0))
        and np.isfinite(item.ends).all()
        and (np.diff(item.ends, prepend=0.0) >= 0).all()
    )
