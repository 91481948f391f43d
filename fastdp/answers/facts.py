"""Everything released that answers depend on, gathered from a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ..domain import Clique
from ..errors import ModelTooLargeError
from ..measurement import Measurement
from ..schema import Schema
from .best_linear import Table, estimate
from .clipping import Clipping, clipping_of
from .evidence import Marginal, code_maps, marginals_of

if TYPE_CHECKING:
    import pyarrow as pa

    from ..model import Model

MOST_CELLS = 1 << 22
"""Cells of the largest table that an answer is made from."""


@dataclass(frozen=True, eq=False)
class Facts:
    """`codes`: code -> merged code of columns with merged values."""

    schema: Schema
    marginals: Sequence[Marginal]
    clipping: Clipping
    model: Model | None = None
    codes: Mapping[str, np.ndarray] = field(default_factory=dict)
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
        return cls(schema, marginals, clipping_of(statement, schema, measurements), model, codes)

    def table(self, columns: Clique) -> Table | None:
        """The marginal over these columns with its errors; None where nothing says how large they are."""
        if columns not in self._tables:
            self._tables[columns] = estimate(self.marginals, columns)
        return self._tables[columns]

    def guessed(self, columns: Clique) -> Table:
        """The model's marginal, or nan where there is none: for estimates that get no interval."""
        maps = tuple(self.codes.get(a, np.arange(self.schema.modelled[a])) for a in columns)
        shape = tuple(int(m.max()) + 1 for m in maps)
        cells = np.full(shape, np.nan)
        model = self.model
        if model is not None and all(model.domain.get(a) == n for a, n in zip(columns, shape)):
            try:
                cells = model.marginal(columns, MOST_CELLS)
            except ModelTooLargeError:
                pass
        return Table(columns, maps, cells.reshape(-1), np.zeros(cells.size), basis="unknown")

    def weight(self, column: str) -> np.ndarray:
        """Rows of each code by the 1-way, above 0: how a merged code is divided among its values."""
        one = self.table((column,))
        if one is None:
            return np.ones(self.schema.modelled[column])
        (codes,) = one.maps
        return np.maximum(one.x, 0.0)[codes] / np.bincount(codes)[codes] + 1e-9
