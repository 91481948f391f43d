"""Codes beyond the two values of a column: nulls and values outside the domain, where there are almost none.

Drafted schemas have such codes. Where noise hides all rows with further codes, a column has two values
for every later release: further codes have the sign 0 in its contrasts. The model is of the two values,
in all rows. In the end a row gets one of the further codes with the chance that the 1-way says,
whatever its values are. The values that it had are then hidden columns of the model."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from statistics import NormalDist

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from ...domain import Clique, Domain
from ...measurement import Measurement
from ...model.graphical_model import Model, Node
from ...model.marginals import marginals
from ...significance import SURE, drawn_towards, stands_out
from ..shared.code_compression import Compression
from ..shared.merged_codes import Merged

FALSE_ALARMS = NormalDist().cdf(-SURE)
"""The chance that a table without further codes seems to have some."""


def have_two_values(merged: Merged, names: Sequence[str]) -> bool:
    """Whether noise hides all rows with other codes than the first two, in every column. Merged codes
    that stand out of noise come first, so a column with two values has these there."""
    rows, errors = _noisy_rows(merged, names)
    z = np.divide(rows, errors, out=np.zeros(rows.size), where=errors > 0)
    return not stands_out(z, len(names), FALSE_ALARMS).any()


class FurtherCodes(Struct, frozen=True):
    """`parts`: the part of the rows with each code beyond the first two, by column."""

    parts: Mapping[str, np.ndarray]

    @classmethod
    def of(cls, merged: Merged, names: Sequence[str]) -> FurtherCodes:
        """By the released 1-ways: each column's rows are drawn towards the mean of all columns. That mean is
        taken for 0 where it is smaller than its standard error, since its error is larger then."""
        rows, errors = _noisy_rows(merged, names)
        there = errors > 0
        part = np.zeros(len(names))
        if there.any():
            precision = 1 / np.square(errors[there])
            mean = float(rows[there] @ precision / precision.sum())
            if mean * math.sqrt(precision.sum()) > 1:
                near = drawn_towards(mean, rows[there], 1 / precision)
                part[there] = near / merged.fitted_total
        parts = {}
        for a, own in zip(names, np.clip(part, 0.0, 0.5)):
            shape = merged.ones_shape[a][2:]
            even = np.full(shape.size, 1 / max(shape.size, 1))
            parts[a] = own * (shape / shape.sum() if shape.sum() > 0 else even)
        return cls(parts)

    def without(self, sets: Iterable[Clique]) -> np.ndarray:
        """The part of the rows without further codes, by set of columns."""
        return np.array([math.prod(1 - float(self.parts[a].sum()) for a in c) for c in sets])

    def left_out(self, one: Measurement) -> Measurement:
        """A 1-way over merged codes as one of the two values, in all rows."""
        (a,) = one.clique
        if one.values.size <= 2:
            return one
        part = 1 - float(self.parts[a].sum())
        return Measurement((a,), one.values[:2] / part, np.sqrt(one.variances[:2]) / part)

    def added(self, model: Model, merged: Merged) -> tuple[Model, Merged]:
        """(the model over all merged codes, these with the hidden columns that it has)."""
        hidden: dict[str, str] = {}
        for a, part in self.parts.items():
            if part.size:
                hidden[a] = _unused(f"{a}, one of two", {*merged.domain, *hidden.values()})
        if not hidden:
            return model, merged
        nodes = [
            Node(_renamed(n.sep, hidden), _renamed(n.res, hidden), n.table) for n in model.nodes
        ]
        rows = marginals(model, [(a,) for a in hidden])
        for a, name in hidden.items():
            part = self.parts[a]
            given = np.concatenate([np.eye(2) * (1 - part.sum()), np.tile(part, (2, 1))], axis=1)
            nodes.append(Node((name,), (a,), given * rows[(a,)][:, None]))
        sizes = dict.fromkeys(hidden.values(), 2)
        made = Model(
            Domain({**merged.domain, **sizes}),
            nodes,
            total=model.total,
            loss=model.loss,
            iterations=model.iterations,
            ended=model.ended,
            trace=model.trace,
            measured={m.clique: np.sqrt(m.variances) for m in merged.ones},  # and no larger sets
        )
        made.hidden = tuple(hidden.values())
        full = Domain({**merged.compression.full, **sizes})
        shape = {**merged.shape, **{a: np.full(2, merged.total / 2) for a in sizes}}
        compression = Compression(full, merged.compression.codes)
        return made, replace(merged, compression=compression, shape=shape)


def _noisy_rows(merged: Merged, names: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """(noisy rows with other codes than the first two, their standard errors), by column."""
    ones = {m.clique[0]: merged.compression.measurement(m) for m in merged.released}
    rows = [float(np.sum(ones[a].values[2:])) for a in names]
    errors = [math.sqrt(float(np.sum(ones[a].variances[2:]))) for a in names]
    return np.array(rows), np.array(errors)


def _renamed(columns: Clique, names: Mapping[str, str]) -> Clique:
    return tuple(names.get(a, a) for a in columns)


def _unused(name: str, taken: Collection[str]) -> str:
    """The name, or a longer one that no column has."""
    while name in taken:
        name += "_"
    return name
