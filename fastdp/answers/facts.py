"""Everything released that answers depend on, gathered from a run."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from .._util.lazy import pa
from ..domain import Clique
from ..measurement import Measurement
from ..model.graphical_model import Model
from ..model.marginals import marginals as cells_of
from ..schema import Schema
from .best_linear import Table, estimate, map_between
from .clipping import Clipping, clipping_of
from .evidence import Contrasts, Marginal, code_maps, contrasts_of, marginals_of
from .misfit import empirical_bayes, expected_sizes, misfit

MOST_CELLS = 1 << 22
"""Cells of the largest table that an answer is made from."""


@dataclass(frozen=True, eq=False)
class Facts:
    """`codes`: code -> merged code of columns with merged values. `distances`: L1 distance of the
    finished model from the data, in rows that count, by set of columns (see `misfit.empirical_bayes`).
    `sums`: noise of the sums inside the bins of a column, in rows, where the run released them.
    `missing`: (share of the rows outside the domain that the run found, standard error) by column.
    `contrasts`: those of columns with two values, by set.
    """

    schema: Schema
    marginals: Sequence[Marginal]
    clipping: Clipping
    model: Model | None = None
    codes: Mapping[str, np.ndarray] = field(default_factory=dict)
    distances: Mapping[frozenset[str], float] = field(default_factory=dict)
    sums: Mapping[str, float] = field(default_factory=dict)
    missing: Mapping[str, Sequence[float]] = field(default_factory=dict)
    contrasts: Contrasts = field(default_factory=dict)
    _tables: dict[Clique, Table | None] = field(default_factory=dict, repr=False)

    @classmethod
    def of(
        cls,
        statement: Mapping[str, Any],
        schema: Schema,
        measurements: Sequence[Measurement],
        tables: Mapping[str, pa.Table],
        model: Model | None,
    ) -> Facts:
        """The facts of a run, from its statement, measurements and further released tables."""
        codes = code_maps(tables.get("codes"))
        marginals = marginals_of(measurements, schema.modelled, codes)
        every = estimate(marginals, ())
        total = (
            None if every is None else (float(every.x[0]), float(every.cell_variances()[0]) ** 0.5)
        )
        clipping = clipping_of(statement, schema, measurements, total)
        own = set(schema.modelled)
        signed = tables.get("contrasts")
        measured = [m.clique for m in measurements]
        measured += [] if signed is None else signed["columns"].to_pylist()
        apart = frozenset(a for c in measured if not own.issuperset(c) for a in own.intersection(c))
        released = _distances(tables.get("distances"))
        sizes = expected_sizes(released, marginals, codes)
        distances = empirical_bayes({s: d for s, d in released.items() if s <= own}, sizes)
        near = empirical_bayes({s: d for s, d in released.items() if not s <= own}, sizes)
        groups = [] if model is None else _groups(model, own)
        told = [
            (a, *groups) for a in schema.modelled if a in apart or frozenset((a, *groups)) in near
        ]
        fits = model is not None and [model.domain[a] for a in groups] == [len(clipping.factors)]
        cells = cells_of(model, told, 1, MOST_CELLS) if fits and model is not None else {}
        tilts = {c[0]: clipping.tilt_of(x, near.get(frozenset(c), 0.0)) for c, x in cells.items()}
        drifts = {c[0]: clipping.drift_of(x) for c, x in cells.items()}
        clipping = replace(clipping, apart=apart, tilts=tilts, drifts=drifts)
        missing = statement.get("schema", {}).get("found", {}).get("missing", {})
        return cls(
            schema=schema,
            marginals=marginals,
            clipping=clipping,
            model=model,
            codes=codes,
            distances=distances,
            sums=_sums(statement),
            missing=missing,
            contrasts=contrasts_of(signed, schema.modelled, codes),
        )

    def no_limit(self, name: str) -> str:
        """Why means and sums of a column with an open bin have no interval."""
        return f"a bin of {name} has no limit: give the column a `max` or `min`, or a `tail`"

    def mostly_outside(self, name: str) -> bool:
        """Whether most rows of the column lie outside the domain that the run found for it. Numbers
        beyond the bounds count as the nearest one, so no code says it."""
        return self.missing.get(name, (0.0,))[0] > 0.5

    def mostly_clamped(self, name: str) -> bool:
        """Whether most rows of the column count as the nearest of bounds that the run found. Such
        counts say nothing of the column."""
        return self.schema.columns[name].overflow.action == "clamp" and self.mostly_outside(name)

    def table(self, columns: Clique) -> Table | None:
        """The marginal over these columns with its errors; None if nothing says how large they
        are."""
        if columns not in self._tables:
            found = estimate(self.marginals, columns, self.contrasts)
            alone = [a for a in columns if int(self._merged(a).max()) == 0]
            if found is None and alone:
                self._tables[columns] = self._with_single_codes(columns, alone)
            if self._tables.get(columns) is None:
                self._tables[columns] = self._by_groups(
                    self._modelled(columns) if found is None else found
                )
        return self._tables[columns]

    def _by_groups(self, table: Table | None) -> Table | None:
        """The table with its cells times the factor of their rows, relative to that of all. The
        model says how they are divided among groups of users by rows. If this was measured, it has
        noise as the cells of a single column have. In a pair, noise of a code's division is spread
        over many cells."""
        f = np.array(self.clipping.factors)
        model = self.model
        clip = self.clipping
        groups = [] if model is None else _groups(model, self.schema.modelled)
        if (
            table is None
            or model is None
            or not table.axes
            or [model.domain[a] for a in groups] != [f.size]
        ):
            return table
        columns = (*table.axes, *groups)
        cells = cells_of(model, [columns], 1, MOST_CELLS).get(columns)
        places = [
            map_between(m, self._merged(a)) for a, m in zip(table.axes, table.maps, strict=True)
        ]
        if cells is None or any(p is None for p in places):
            return table
        rows = cells.sum(-1)
        whole = np.maximum(cells @ f, rows)  # a cell has the rows that count
        mean = float(whole.sum()) / max(float(rows.sum()), 1e-9)
        f = f / mean
        ratio = np.divide(whole / mean, rows, out=np.ones(rows.shape), where=rows > 1e-6)[
            np.ix_(*places)
        ]
        noise = (
            float(np.square(f - 1).sum()) if rows.ndim == 1 and table.axes[0] in clip.apart else 0.0
        )
        return table.scaled(ratio.reshape(-1), 1 + noise)

    def _merged(self, column: str) -> np.ndarray:
        return self.codes.get(column, np.arange(self.schema.modelled[column]))

    def merged_size(self, column: str) -> int:
        """How many codes the column has, values that were merged counted as one."""
        codes = self.codes.get(column)
        return self.schema.modelled[column] if codes is None else int(codes.max()) + 1

    def _with_single_codes(self, columns: Clique, alone: Sequence[str]) -> Table | None:
        """The table over columns of which some have all values in one code: that of the others."""
        rest = self.table(tuple(a for a in columns if a not in alone))
        if rest is None:
            return None
        maps = tuple(
            self._merged(a) if a in alone else rest.maps[rest.axes.index(a)] for a in columns
        )
        return replace(rest, axes=columns, maps=maps)

    def _modelled(self, columns: Clique) -> Table | None:
        """The model's marginal with errors by its distance from the data, or by that of a larger
        set."""
        near = [d for names, d in self.distances.items() if names >= set(columns)]
        guess = self.guessed(columns) if near and columns else None
        if guess is None or not np.isfinite(guess.x).all():
            return None
        return misfit(guess.x.reshape(guess.shape), guess.maps, columns, min(near), self.marginals)

    def guessed(self, columns: Clique) -> Table:
        """The model's marginal, or nan if there is none: for estimates that get no interval."""
        maps = tuple(self._merged(a) for a in columns)
        shape = tuple(int(m.max()) + 1 for m in maps)
        cells = np.full(shape, np.nan)
        model = self.model
        if model is not None and all(model.domain.get(a) == n for a, n in zip(columns, shape)):
            cells = (
                cells_of(model, [columns], 1, MOST_CELLS).get(columns, cells) if columns else cells
            )
        return Table(columns, maps, cells.reshape(-1), np.zeros(cells.size), basis="unknown")

    def measured_pairs(self) -> set[frozenset[str]]:
        """The pairs of columns that some measurement holds, or of which there is a contrast."""
        held = {frozenset((a, b)) for m in self.marginals for a in m.axes for b in m.axes if a < b}
        return held | {pair for pair in self.contrasts if len(pair) == 2}

    def weight(self, column: str) -> np.ndarray:
        """Rows of each code by the 1-way, above 0: how a merged code is divided among its
        values."""
        one = self.table((column,))
        if one is None:
            return np.ones(self.schema.modelled[column])
        (codes,) = one.maps
        return np.maximum(one.x, 0.0)[codes] / np.bincount(codes)[codes] + 1e-9


def _groups(model: Model, own: Collection[str]) -> list[str]:
    """The model's column of groups of users, if it has one: `own` are the schema's."""
    return [a for a in model.domain if a not in own and a not in model.hidden]


def _distances(table: pa.Table | None) -> dict[frozenset[str], tuple[float, float]]:
    """Noisy distances with standard errors, from the table `distances` that a run releases."""
    rows = [] if table is None else table.to_pylist()
    return {frozenset(r["columns"]): (r["distance"], r["standard_error"]) for r in rows}


def _sums(statement: Mapping[str, Any]) -> dict[str, float]:
    """Noise of the sums inside bins, by column, in rows that count in the run's marginals. Their
    clip may be larger than that of the sums."""
    found: dict[str, float] = {}
    for part in statement.get("parts", ()):
        for release in part.get("releases", ()):
            if release.get("of") == "sums":
                noise = (
                    release["sigma"] / release["unit"] * max(1.0, part["clip"] / release["clip"])
                )
                found[release["attributes"][0]] = noise
    return found
