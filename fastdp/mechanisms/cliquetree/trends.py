"""Trends: what pairs of ordered columns say over three groups of neighbouring codes each.

A fit draws cells towards independence as far as noise explains them. With them go trends that show
in no cell by itself; in sums of many cells they stand out of the noise. So the last fit also sees
the sums of measured pairs (`summed`). Pairs that were not worth measuring, or that do not fit into
the model, may have weak trends. Over three groups they cost little: a part of the last batch pays
for those of the pairs that seem furthest off (`affordable`). What the model's cliques can hold of
them goes into the last fit; the rows follow the others (`shared/steering.py`). Everything here is a
function of released numbers and public facts."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from ..._util.threads import resolve
from ...division import TRENDS
from ...domain import Clique, Columns
from ...measurement import Measurement, Request
from ...model.graphical_model import Model
from ...model.junction_tree import NO_LIMIT, junction_tree
from ...model.marginals import marginals
from ...queries import Binned
from ...release.gateway import Session
from ...significance import drawn_towards
from ..shared.code_partitions import Partition
from ..shared.merged_codes import Merged
from ..shared.one_ways import part_mu
from ..shared.steering import Steering
from .resolutions import ModelCodes, neighbour_groups

FEW = 3
"""Groups of a column. The same trend costs 1.6 times as much over four groups. Chosen, like the
constants below, on tables of eight columns of 20 and of 32 bins, adult and ma2019, epsilon 1."""
FINEST = 0.003
"""The least noise of a sum, as a part of all rows. A correlation then has an error of .01."""
COARSEST = 0.006
"""The most noise of a sum, as a part of all rows. A correlation then has an error of .02."""


class Trends:
    """The trends of a run: released with its last batch, then followed by its last fit and its rows.

    groups : the model's code -> group, of each column that has trends
    released : the answers; none before `release`
    """

    def __init__(self, groups: Mapping[str, np.ndarray] | None = None):
        self.groups = dict(groups or {})
        self.released: list[Measurement] = []

    def release(
        self,
        session: Session,
        codes: ModelCodes,
        distances: Mapping[Clique, float],
        share: float,
        unit: float,
        total: float,
    ) -> float:
        """Release the trends of the pairs that seem furthest off, as far as a part of `share` pays for
        them; returns the share of mu^2 that they cost. `distances`, `share`, `unit`: see `affordable`.
        """
        asked, each = affordable(distances, share, unit, total)
        three = Partition("three groups", self.groups)
        mu = part_mu(session, each)
        requests = [Request(p, mu, three.query(p, codes.domain.shape(p))) for p in asked]
        if requests:
            self.released = session.measure(requests, "trends", recode=codes.final().codes)
        return each * len(requests)

    def in_cliques(self, codes: ModelCodes, cliques: Sequence[Clique]) -> list[Measurement]:
        """The released trends that a model of these cliques can hold."""
        if not self.released:
            return []
        tree = junction_tree(codes.domain, cliques, NO_LIMIT)
        return [m for m in self.released if contained(m.clique, tree.cliques)]

    def steering(
        self,
        final: Merged,
        merged: Merged,
        alone: Columns,
        model: Model,
        threads: int | None,
    ) -> Steering:
        """What a finished model lacks of the trends that its cliques do not hold. `merged`: the codes
        that were measured, `final`: those of the model."""
        full = merged.compression.code_map
        every = {a: np.minimum(np.arange(g.size), 255) for a, g in self.groups.items()}
        coarse, fine = (
            {a: group_scores(final, a, g, alone[a][full(a)]) for a, g in groups.items()}
            for groups in (self.groups, every)
        )
        alike = {
            a: final.ones_shape[a] @ (coarse[a][g] * fine[a][every[a]])
            for a, g in self.groups.items()
        }
        outside = [m for m in self.released if not contained(m.clique, model.cliques)]
        tables = marginals(model, [m.clique for m in outside], resolve(threads))
        lacks = {}
        for m in outside:
            kept = max(0.5, math.prod(alike[a] / merged.total for a in m.clique))
            weights = np.multiply.outer(*(coarse[a] for a in m.clique)).reshape(-1) / kept
            lacks[m.clique] = lacking(m, tables[m.clique], weights, merged.total)
        return Steering(fine, drawn_to_zero(lacks))


def contained(clique: Clique, cliques: Sequence[Clique]) -> bool:
    """Whether one of the cliques has all of this clique's columns."""
    return any(set(clique) <= set(c) for c in cliques)


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
        if np.sum(~apart) >= 2 * FEW:
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
    not followed where others are right. Without it, correlations of ten columns with weak trends are 15 ± 4 %
    further off at epsilon 10 (`python -m bench.tune --without "shrunk trends" --epsilon 10 --tables
    weak`)."""
    change, variance = np.array(list(lacks.values())).reshape(-1, 2).T
    return dict(zip(lacks, drawn_towards(0.0, change, variance).tolist()))
