"""Trends: what pairs of ordered columns say over three groups of neighbouring codes each.

A fit draws cells towards independence as far as noise explains them. With them go trends that show
in no cell by itself; in sums of many cells they stand out of the noise. So the last fit also sees
the sums of measured pairs (`summed`). Pairs that were not worth measuring, or that do not fit into
the model, may have weak trends. Over three groups they cost little: a part of the last batch pays
for those of the pairs that seem furthest off (`affordable`). What the model's cliques can hold of
them goes into the last fit; the rows follow the others (`shared/steering.py`). Everything here is a
function of released numbers and public facts."""

from collections.abc import Mapping, Sequence

import numpy as np

from ...division import TRENDS
from ...domain import Clique, Columns
from ...measurement import Measurement
from ...queries import Binned
from ...significance import drawn_towards
from ..shared.merged_codes import Merged
from .resolutions import ModelCodes, neighbour_groups

FEW = 3
"""Groups of a column. The same trend costs 1.6 times as much over four groups. Chosen, like the
constants below, on tables of eight columns of 20 and of 32 bins, adult and ma2019, epsilon 1."""
LEAST_CODES = 8
"""The least codes of a column that is grouped. Chosen on the same tables."""
FINEST = 0.003
"""The least noise of a sum, as a part of all rows. A correlation then has an error of .01."""
COARSEST = 0.006
"""The most noise of a sum, as a part of all rows. A correlation then has an error of .02."""


def few_groups(codes: ModelCodes, alone: Columns, blank: Columns) -> dict[str, np.ndarray]:
    """The model's code -> group, of every ordered column with enough codes. `alone`, `blank`: see
    `resolutions`."""
    rows = codes.final().ones_shape
    out = {}
    for a, apart in alone.items():
        empty = blank[a]
        if a in codes.groups:
            # a merged code stands alone, or is blank, if all of its codes are
            apart = np.bincount(codes.groups[a], ~apart) == 0
            empty = np.bincount(codes.groups[a], ~empty) == 0
        if np.sum(~apart) >= LEAST_CODES:
            out[a] = neighbour_groups(rows[a], apart, FEW, empty)
    return out


def summed(measured: Sequence[Measurement], few: Columns, codes: ModelCodes) -> list[Measurement]:
    """The sums of measured pairs over these groups. They are functions of the answers and no
    further evidence: only the fit sees them."""
    out = []
    for m in map(codes.measurement, measured):
        if len(m.clique) == 2 and m.query is None and few.keys() >= set(m.clique):
            query = Binned(codes.domain.shape(m.clique), [few[a] for a in m.clique])
            sums = query.product(m.values)
            variances = query.product(m.variances)
            out.append(Measurement(m.clique, sums, np.sqrt(variances), query, label=m.label))
    return out


def affordable(
    distances: Mapping[Clique, float], share: float, unit: float, total: float
) -> tuple[list[Clique], float]:
    """(the pairs whose trends are released, the share of mu^2 for each): those with the largest
    distances from the model, by what they matter. `share`: that of the batch; `unit`: 1 / sigma^2
    that all of mu^2 buys.
    """
    finest, coarsest = (1 / (unit * (part * max(total, 1.0)) ** 2) for part in (FINEST, COARSEST))
    pairs = sorted(distances, key=lambda p: -distances[p])[: int(TRENDS * share / coarsest)]
    return pairs, min(finest, TRENDS * share / max(1, len(pairs)))


def group_scores(merged: Merged, name: str, groups: np.ndarray, alone: np.ndarray) -> np.ndarray:
    """The mean code of each group, moved and scaled to mean 0 and variance 1. A group of codes that have
    no place in the order has 0 (`alone`, over all codes)."""
    rows = merged.shape[name]
    group = groups[merged.compression.code_map(name)]
    sums, codes = (
        np.bincount(group, w) for w in (rows * ~alone, rows * ~alone * np.arange(rows.size))
    )
    mean = codes / np.maximum(sums, 1e-9)
    score = (mean - sums @ mean / max(float(sums.sum()), 1e-9)) * (sums > 0)
    return score / max(float(np.sqrt(sums @ score**2 / max(float(rows.sum()), 1e-9))), 1e-9)


def lacking(
    m: Measurement, table: np.ndarray, weights: np.ndarray, total: float
) -> tuple[float, float]:
    """(what a model lacks of a released trend, the variance of that). `table`: the model's
    marginal; `weights`: products of the scores."""
    model = m.query.product(table.reshape(-1))
    known = m.values / total
    variance = float(np.square(weights) @ m.variances) / total**2
    return float(weights @ (known - model / model.sum())), variance


def drawn_to_zero(lacks: Mapping[Clique, tuple[float, float]]) -> dict[Clique, float]:
    """What models lack of trends (with variances), drawn towards 0 as far as noise explains it. The
    spread of what is truly lacking is the likeliest one for all trends together. So a noisy trend is
    not followed where others are right."""
    change, variance = np.array(list(lacks.values())).reshape(-1, 2).T
    return dict(zip(lacks, drawn_towards(0.0, change, variance).tolist()))
