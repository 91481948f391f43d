"""Dense tables: many ordered columns that all depend on each other, as in questionnaires.

A clique tree holds few of their pairs. A model of hidden factors (`hidden_factors`) needs one
contrast of each pair and holds all of them. It is used where released numbers say that it is
better, in the last round:

1. *Skip.* Where sampling explains the mean distance of the pairs from the tree, by the round's
   screening, nothing is asked. Nor where two questions would take more than half of the batch.
2. *Probe.* All contrasts, for QUESTION of mu^2, give a first model of hidden factors.
3. *Test.* Its mean distance from all pairs is released, for QUESTION of mu^2. The noise of a mean of K
   distances is that of a single one at the same mu: each has noise sqrt(K) times as large.
4. *On*, if the distance, with two standard errors, is below the tree's. The rest of the
   last batch then buys the contrasts again and 1-ways, divided so that pairs are off least
   (`part_of_ones`). Otherwise the batch is measured as ever, with what is left.

Columns without an order, if they have more than two codes, hang on the others as in the tree.
Everything here is a function of released numbers and public facts.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from itertools import combinations
from typing import Any, Protocol

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from ..._util.lazy import special
from ..._util.threads import resolve
from ...division import QUESTION, SECOND_PROBE, VARIANCE, portion
from ...domain import Clique, Domain
from ...measurement import Measurement
from ...model.graphical_model import Model, Node
from ...model.marginals import marginals
from ...release.distances import Distances
from ...release.gateway import Session
from ...schema import Schema
from ...significance import LIKELY, chance_distance
from ..base import Job
from ..shared import screening
from ..shared.code_compression import Compression
from ..shared.code_partitions import MOST_GROUPS, Key
from ..shared.expected_counts import parts_kept
from ..shared.merged_codes import MAX_CANDIDATES, Merged
from ..shared.one_ways import NOISE, measure_ones, part_mu
from ..shared.screening import Candidate, ScreeningResult
from . import tied_columns
from .budget_shares import LEAST_AGAIN
from .dense_classes import FIRST_PART, ClassTable, Look
from .hidden_factors import (
    GRID,
    LEAST_FACTOR,
    SEVERAL_FACTORS,
    class_count,
    class_points,
    class_tables,
    correlations,
    denoised,
    loadings,
    step_terms,
)
from .resolutions import ModelCodes, neighbour_groups

LEAST_COLUMNS = 3
"""Two columns have one correlation, which tells no factor from any other."""
LEAST_SIDE = 1e-6
"""Part of the rows on either side of a column's split, so that its normal quantile is finite."""
HIDDEN = "hidden class"


class GrownTree(Protocol):
    """What is read of the tree that stands before its last batch. `held`: what it measured, and
    `measured`: the answers; `beside`: answers that it does not follow; `dependent`: columns that the
    model leaves out."""

    session: Session
    job: Job
    config: Any
    merged: Merged
    model: Model | None
    model_codes: ModelCodes
    held: dict[Key, Candidate]
    measured: list[Measurement]
    ones_at_last: list[Measurement]
    beside: list[Measurement]
    workload: Any
    priors: Any
    dependent: Collection[str]

    @property
    def codes(self) -> ModelCodes: ...
    def after_batch(self, share: float, result: ScreeningResult) -> dict[Clique, float]: ...


class DenseColumn(Struct, frozen=True, eq=False):
    """`groups`: code -> group; `placed`: groups that have a place in the order, which is theirs;
    `rows`: by group; `split`: the part of the placed rows below the change of sign; `below`: groups
    below it."""

    groups: np.ndarray
    placed: np.ndarray
    rows: np.ndarray
    split: float
    below: int

    @property
    def signs(self) -> np.ndarray:
        """-1, 0 or 1 by code."""
        by_group = np.where(np.cumsum(self.placed) <= self.below, -1, 1) * self.placed
        return by_group[self.groups]

    @property
    def part(self) -> float:
        """The part of the rows that have a place in the order."""
        return float(self.rows[self.placed].sum() / self.rows.sum())

    def of_rows(self, shape: np.ndarray) -> DenseColumn:
        """The column with the same signs, by a later estimate of its rows."""
        rows = np.bincount(self.groups, shape, len(self.rows))
        body = rows[self.placed]
        split = float(body[: self.below].sum() / max(float(body.sum()), 1e-300))
        return replace(self, rows=rows, split=min(max(split, LEAST_SIDE), 1 - LEAST_SIDE))


def dense_columns(
    merged: Merged, schema: Schema, dependent: Collection[str], texts: bool = False
) -> dict[str, DenseColumn]:
    """The columns that hidden factors can explain: with an order, or with two values; with `texts` others
    too, whose codes are taken in their own order. `dependent`: columns that the model leaves out."""
    out = {}
    for name in merged.compression.full:
        if name in dependent or name not in schema.columns:
            continue
        column = schema.columns[name]
        rows = merged.shape[name]
        if column.is_text and column.base != 2 and not texts:
            continue
        blank = np.arange(rows.size) >= column.base
        groups = np.arange(rows.size)
        if column.base > MOST_GROUPS:
            groups = neighbour_groups(rows, blank, MOST_GROUPS, blank)
        placed = np.bincount(groups, ~blank) > 0
        if (made := _split(groups, placed, np.bincount(groups, rows))) is not None:
            out[name] = made
    return out


def _split(groups: np.ndarray, placed: np.ndarray, rows: np.ndarray) -> DenseColumn | None:
    """The column with its signs: they change where half of the rows lie, or next to it."""
    body = rows[placed]
    mass = float(body.sum())
    if len(body) < 2 or not mass > 0:
        return None
    ends = np.cumsum(body)[:-1] / mass
    below = int(np.argmin(np.abs(ends - 0.5)))
    if not LEAST_SIDE < ends[below] < 1 - LEAST_SIDE:
        return None
    return DenseColumn(groups, placed, rows, float(ends[below]), below + 1)


class DenseModel(Struct, frozen=True, eq=False):
    """The model that made the rows. `merged`: its codes; `details`: what the statement says."""

    model: Model
    merged: Merged
    details: Mapping[str, float]


class DenseTable:
    """One table's columns, contrasts and decision. `merged`: the single columns, by all that is
    measured; `contrasts`: of all pairs of columns, per row; `noise`: their standard error."""

    def __init__(self, state: GrownTree, merged: Merged, columns: Mapping[str, DenseColumn]):
        self.state = state
        self.merged = merged
        self.columns = columns
        self.names = list(columns)
        self.pairs: list[Clique] = list(combinations(self.names, 2))
        self.signs = {name: column.signs for name, column in columns.items()}
        self.contrasts = np.zeros(len(self.pairs))
        self.noise = math.inf
        self.tied: dict[Clique, np.ndarray] = {}
        self.order = self.names
        self.hidden = HIDDEN
        while self.hidden in state.session.domain:
            self.hidden += "_"

    def take(self, look: Look) -> None:
        """Use the contrasts of these columns among others'."""
        self.contrasts = look.of(self.names).contrasts[np.triu_indices(len(self.names), 1)]
        self.noise = look.noise

    def measure(self, share: float, label: str) -> None:
        """Release all contrasts for a share of mu^2, and average them with those before."""
        session = self.state.session
        total = self.merged.fitted_total
        released: Distances = session.contrasts(
            self.pairs, self.signs, mu=part_mu(session, share), label=label
        )
        noise = float(released.sigma[0]) / total
        weight = 1 / (1 + (noise / self.noise) ** 2)
        self.contrasts += weight * (released.values / total - self.contrasts)
        self.noise = math.sqrt(weight) * noise

    def measure_all(self, share: float) -> None:
        """Release single columns and contrasts for a share of mu^2 in all. What a part of LEAST_AGAIN or
        less would buy is left out, and the other has all: nothing is released for no budget."""
        ones = share * self.part_of_ones(share)
        if ones <= LEAST_AGAIN:
            ones = 0.0
        elif share - ones <= LEAST_AGAIN:
            ones = share
        if ones > 0:
            weight = self.state.workload.weight
            again = measure_ones(self.state.session, ones, "1-ways at last", weight)
            self.state.ones_at_last += again
            self.merged = self.merged.with_ones(again)
            shape = self.merged.shape
            self.columns = {a: c.of_rows(shape[a]) for a, c in self.columns.items()}
        if ones < share:
            self.measure(share - ones, "contrasts again")

    def part_of_ones(self, share: float) -> float:
        """The part of `share` that single columns get, such that pairs are off least.

        Two errors of a pair count alike: the part of its rows that is elsewhere, and its correlation.
        Noise of two single columns puts rows elsewhere. Noise of e in a contrast moves each cell by the
        part e, so NOISE e / 2 of the rows, and a correlation by about pi / 2 NOISE e. Of r factors, few
        numbers of all contrasts are kept, and as little of the variance of their noise. Squared errors
        add up. They fall as precision grows, and it grows with the share. The part is a multiple of
        1 / GRID, as loadings are."""
        session = self.state.session
        d = len(self.names)
        noise = self.merged.noise_tv
        released = self.merged.released
        kept = parts_kept(released, [self.merged.shape[m.clique[0]] for m in released])
        ones = 2 * float(np.mean([math.sqrt(kept[a]) * noise[a] for a in self.names])) ** 2
        rank = max(1, self.loadings().shape[1])
        numbers = d * rank - rank * (rank - 1) / 2
        moved = (NOISE * self.noise / 2) ** 2
        contrasts = min(1.0, numbers / len(self.pairs)) * moved * (1 + math.pi**2)
        sigma = session.clip / part_mu(session, share)
        known = [kept[m.clique[0]] * np.mean(m.variances) for m in released]
        of_ones = len(session.domain) * sigma**2 / max(float(np.mean(known)), 1e-300)
        total = self.merged.fitted_total
        of_contrasts = len(self.pairs) * (sigma / (total * self.noise)) ** 2
        harms = portion(ones * of_ones, VARIANCE), portion(contrasts * of_contrasts, VARIANCE)
        part = (harms[0] * (of_contrasts + 1) - harms[1] * of_ones) / max(sum(harms), 1e-300)
        return math.floor(min(max(part, 0.0), 1.0) * GRID) / GRID

    def loadings(self) -> np.ndarray:
        """The loadings of all columns that the contrasts give."""
        columns = self.columns.values()
        d = len(self.names)
        part = np.array([c.part for c in columns])
        mean = np.array([1 - 2 * c.split for c in columns]) * part
        matrix = np.zeros((d, d))
        matrix[np.triu_indices(d, 1)] = self.contrasts
        matrix = np.where(np.eye(d, dtype=bool), 0.0, matrix + matrix.T - np.outer(mean, mean))
        terms = step_terms(special.ndtri(np.array([c.split for c in columns])))
        smooth = denoised(matrix, self.noise)
        least = max(LEAST_FACTOR, math.sqrt(d) * self.noise)
        found = correlations(smooth / np.outer(part, part), terms)
        return loadings(found, terms[:, 0] * part, least)

    def model(self, merged: Merged) -> Model:
        """The model of hidden factors by the contrasts so far, over these merged codes."""
        factors = self.loadings()
        sizes = merged.domain
        cells = sum(sizes[a] for a in self.names) + sum(map(sizes.cells, self.tied))
        classes = class_count(factors.shape[1], self.state.config.limit // max(1, cells))
        points = class_points(classes, factors.shape[1])
        total = merged.fitted_total
        by_class = {}
        for loading, (name, c) in zip(factors, self.columns.items()):
            table = class_tables(points, loading, c.rows, c.placed)
            by_class[name] = _recoded(table, c, merged, name) * (total / classes)
        nodes = [Node((), (self.hidden,), np.full((1, classes), total / classes))]
        nodes += self.given_classes(merged, by_class)
        nodes += self.hanging(merged)
        domain = Domain({**{a: sizes[a] for a in self.state.session.domain}, self.hidden: classes})
        model = Model(domain, nodes, total=total, ended="hidden factors")
        model.hidden = (self.hidden,)
        return model

    def tie(self, result: ScreeningResult) -> None:
        """Tie the pairs of these columns that the tree surely knows better than hidden factors do. `result`:
        the last screening, of the tree."""
        own = set(self.names)
        known: dict[Clique, tuple[float, float]] = {
            p: (d, s)
            for p, d, s in zip(result.cliques, result.distances, result.sigma)
            if len(p) == 2 and own >= set(p)
        }
        tables = marginals(self.model(self.merged), list(known), resolve(self.state.job.threads))
        away = np.array([np.abs(t - result.estimates[p]).sum() for p, t in tables.items()])
        distances, noise = (np.array([known[p][k] for p in tables]) for k in (0, 1))
        sizes = self.merged.domain
        room = self.state.config.limit // min(SEVERAL_FACTORS) - sum(sizes[a] for a in own)
        cells = [sizes.cells(p) for p in tables]
        follows = screening.following(result.estimates)
        pairs = list(tables)
        tied = tied_columns.ties(pairs, away, distances, noise, cells, room, follows)
        self.tied = {p: result.estimates[p] for p in tied}
        self.order = tied_columns.by_misfit(self.names, pairs, away)

    def given_classes(self, merged: Merged, by_class: Mapping[str, np.ndarray]) -> list[Node]:
        """The columns given the hidden one and, where they are tied to another, given that too."""
        nodes = []
        for source, own in tied_columns.in_order(self.order, list(self.tied)):
            if source is None:
                nodes.append(Node((self.hidden,), (own,), by_class[own]))
                continue
            known = self.tied.get((source, own))
            table = self.tied[own, source].T if known is None else known
            within, back = (_mixing(self.state.merged, merged, a) for a in (source, own))
            ones = [by_class[a].sum(axis=0) for a in (source, own)]
            pair = _raked(within @ table @ back.T, *ones)
            joint = tied_columns.given_both(by_class[source], by_class[own], pair)
            nodes.append(Node((self.hidden, source), (own,), joint))
        return nodes

    def hanging(self, merged: Merged) -> list[Node]:
        """The other columns. Each hangs on the column that it depends on most, by the measured
        pairs of the tree."""
        state = self.state
        total = merged.fitted_total
        ones = {a: _rows_of(merged, a, total) for a in state.session.domain}
        known = set(self.names)
        left = [a for a in state.session.domain if a not in known]
        tables = self.measured_pairs(left)
        apart = {p: _dependence(table) for p, table in tables.items()}
        nodes = []
        while left:
            ready = [
                (apart[p], p) for p in tables if len(known & set(p)) == 1 and set(p) & set(left)
            ]
            if not ready:
                nodes += [Node((), (a,), ones[a].reshape(1, -1)) for a in left]
                break
            pair = max(ready, key=lambda item: item[0])[1]
            (own,) = set(pair) - known
            (source,) = set(pair) & known
            table = tables[pair] if pair == (source, own) else tables[pair].T
            within = _mixing(self.merged, merged, source)
            back = _mixing(self.merged, merged, own)
            joint = _raked(within @ table @ back.T, ones[source], ones[own])
            nodes.append(Node((source,), (own,), joint))
            known.add(own)
            left.remove(own)
        return nodes

    def measured_pairs(self, wanted: Collection[str]) -> dict[Clique, np.ndarray]:
        """What the tree says about measured pairs with one of these columns, over its merged
        codes."""
        state = self.state
        if state.model is None:
            return {}
        pairs = {c for c, _ in state.held if len(c) == 2 and set(c) & set(wanted)}
        ordered = sorted(pairs)
        tables = marginals(state.model, ordered, resolve(state.job.threads))
        return {c: state.model_codes.expanded(c, table) for c, table in tables.items()}

    def finished(self) -> DenseModel:
        """The model over groups of neighbouring codes, and the codes that it has."""
        before = self.merged
        own = {a: c.groups for a, c in self.columns.items()}
        maps = {a: own.get(a, before.codes.get(a)) for a in before.compression.full}
        known = {a: codes for a, codes in maps.items() if codes is not None}
        merged = replace(before, compression=Compression(before.compression.full, known), ones=())
        model = self.model(merged)
        classes = model.domain[self.hidden]
        factors = self.loadings().shape[1]
        full = Domain({**before.compression.full, self.hidden: classes})
        merged = replace(
            merged,
            compression=Compression(full, known),
            shape={**before.shape, self.hidden: np.full(classes, before.total / classes)},
            merged_for_size={},
        )
        details = {"columns": len(self.names), "factors": factors, "classes": classes}
        if self.tied:
            details["tied"] = len(self.tied)
        return DenseModel(model, merged, details)


def decided(
    state: GrownTree, result: ScreeningResult, share: float
) -> tuple[DenseModel | None, float]:
    """(the model of hidden factors where it is better than the tree, the share of mu^2 that was
    spent). `result`: the last screening; `share`: what is left for the last batch."""
    known = {p: d for p, d in zip(result.cliques, result.distances) if len(p) == 2}
    if not known or share < 4 * QUESTION or not possible(state):
        return None, 0.0
    matters = np.array([state.workload.weight(p) for p in known])
    chance = [chance_distance(result.estimates[p]) for p in known]
    by_chance = float(np.average(chance, weights=matters))
    tree = float(np.average(list(known.values()), weights=matters))
    merged = state.merged.with_sums(state.measured)
    schema = state.session.schema
    columns = dense_columns(merged, schema, state.dependent)
    every = dense_columns(merged, schema, state.dependent, texts=True)
    if tree <= by_chance or len(every) < LEAST_COLUMNS:
        return None, 0.0
    if len(every) * (len(every) - 1) // 2 > MAX_CANDIDATES:
        return None, 0.0
    signs = {a: c.signs for a, c in every.items()}
    look = Look.released(state.session, merged, signs, QUESTION, "contrasts")
    spent = QUESTION
    sizes = sum(len(c.rows) for c in columns.values())
    if len(columns) >= LEAST_COLUMNS and sizes * min(SEVERAL_FACTORS) <= state.config.limit:
        table = DenseTable(state, merged, columns)
        table.take(look)
        table.tie(result)
        far, error = distance(state, table.model(merged), list(known), matters)
        spent += QUESTION
        if far + LIKELY * error < expected_mean(state, share - spent, result, matters):
            table.measure_all(share - spent)
            return table.finished(), share
    wide = {a: c for a, c in every.items() if merged.domain[a] > 1}
    classes = ClassTable(DenseTable(state, merged, wide))
    after = expected_mean(state, share - spent, result, matters)
    to_come = (after - by_chance) / max(tree - by_chance, 1e-9)
    found, more = by_classes(
        classes, look, result, share - spent, tree - by_chance, matters, to_come
    )
    return found, spent + more


def by_classes(
    classes: ClassTable,
    look: Look,
    result: ScreeningResult,
    share: float,
    tree: float,
    matters: np.ndarray,
    to_come: float,
) -> tuple[DenseModel | None, float]:
    """(the model of hidden classes where it is better than the tree, the share of mu^2 that was spent).
    `look`: contrasts of all pairs; `tree`: the mean distance of the tree from all pairs, but for what
    sampling explains.

    Two forecasts have to say so: that of contrasts which are there, and, beyond noise, of others by random
    signs. (Median splits alone take a smooth dependence of ordered columns for classes.) Then a
    part of the batch buys tables of all pairs, and classes that fit them have to be better than the tree
    by released distances, if the rest of the batch takes off as much as is foreseen."""
    names = classes.table.names
    estimates = result.estimates
    rest = share - SECOND_PROBE - QUESTION
    if (
        rest <= 0
        or len(names) < LEAST_COLUMNS
        or any(p not in estimates for p in classes.table.pairs)
    ):
        return None, 0.0
    if not classes.worth(classes.forecast(look, estimates, rest), 0.0, to_come):
        return None, 0.0
    again = classes.look(SECOND_PROBE)
    if not classes.worth(classes.forecast(again, estimates, rest), LIKELY, to_come):
        return None, SECOND_PROBE
    state = classes.state
    pairs = [p for p in result.cliques if len(p) == 2]
    classes.measure(FIRST_PART * rest, "pairs of hidden classes")
    far, error = distance(state, classes.model(), pairs, matters, "distances of hidden classes")
    by_chance = np.average([chance_distance(estimates[p]) for p in pairs], weights=matters)
    far = (far + LIKELY * error - float(by_chance)) * classes.to_come(FIRST_PART)
    if far >= to_come * tree:
        state.beside += classes.answers
        return None, SECOND_PROBE + QUESTION + FIRST_PART * rest
    classes.measure((1 - FIRST_PART) * rest, "pairs of hidden classes again")
    state.beside += classes.answers
    factors = classes.loadings.shape[1]
    details = {"columns": len(names), "factors": factors, "classes": len(classes.weights)}
    return DenseModel(classes.model(), classes.with_classes(), details), share


def possible(state: GrownTree) -> bool:
    """Whether a model of hidden factors can serve this run. It keeps no constraints, starts from no
    public data, and favours no workload or target. It has months outside the span of a timestamp."""
    kept = state.session.schema.constraints
    return not (state.workload.items or kept or state.priors is not None)


def expected_mean(
    state: GrownTree, share: float, result: ScreeningResult, matters: np.ndarray
) -> float:
    """The mean distance of the tree from all pairs when it has the rest of the last batch."""
    after = state.after_batch(share, result)
    return float(np.average(list(after.values()), weights=matters))


def distance(
    state: GrownTree,
    model: Model,
    pairs: Sequence[Clique],
    matters: np.ndarray,
    label: str = "distances of hidden factors",
) -> tuple[float, float]:
    """(the released mean distance of a model from pairs by what each `matters`, its standard
    error)."""
    estimates = marginals(model, pairs, resolve(state.job.threads))
    released = state.session.distances(
        pairs,
        estimates,
        mu=part_mu(state.session, QUESTION),
        label=label,
        recode=state.merged.codes,
    )
    error = float(np.sqrt(np.sum((matters * released.sigma) ** 2)) / matters.sum())
    return float(np.average(released.values, weights=matters)), error


def _recoded(table: np.ndarray, column: DenseColumn, merged: Merged, name: str) -> np.ndarray:
    """A table [classes, groups] over merged codes; rows of a group follow the 1-way."""
    codes = merged.compression.code_map(name)
    sizes = (len(column.rows), merged.domain[name])
    if sizes[0] == sizes[1] and np.array_equal(codes, column.groups):
        return table
    share = _crossed(column.groups, codes, merged.shape[name], sizes)
    return np.einsum("cg,gm->cm", table, share)


def _mixing(old: Merged, new: Merged, name: str) -> np.ndarray:
    """[new codes, old codes]: the part of each old code's rows that has each new code."""
    sizes = (old.domain[name], new.domain[name])
    codes, again = (m.compression.code_map(name) for m in (old, new))
    return _crossed(codes, again, old.shape[name], sizes).T


def _crossed(
    codes: np.ndarray, again: np.ndarray, rows: np.ndarray, sizes: tuple[int, int]
) -> np.ndarray:
    """[one code, another]: of the rows with each code of one map, the part with each of another."""
    weight = np.maximum(rows, 0.0) + 1e-9
    sums = np.bincount(codes * sizes[1] + again, weight, sizes[0] * sizes[1]).reshape(sizes)
    return sums / np.maximum(sums.sum(axis=1, keepdims=True), 1e-300)


def _rows_of(merged: Merged, name: str, total: float) -> np.ndarray:
    """The 1-way over merged codes, with `total` rows."""
    codes = merged.compression.code_map(name)
    rows = np.bincount(codes, np.maximum(merged.shape[name], 0.0), merged.domain[name])
    return rows * (total / max(float(rows.sum()), 1e-300))


def _raked(table: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """The table with these sums, as far as twenty steps go; the last are those of `rows`."""
    made = np.maximum(table, 0.0) + 1e-9 * np.outer(rows, columns) / max(float(rows.sum()), 1e-300)
    for _ in range(20):
        made *= columns / np.maximum(made.sum(axis=0), 1e-300)
        made *= (rows / np.maximum(made.sum(axis=1), 1e-300))[:, None]
    return made


def _dependence(table: np.ndarray) -> float:
    """The L1 distance of a table from independence."""
    table = np.maximum(table, 0.0)
    product = np.outer(table.sum(axis=1), table.sum(axis=0)) / max(float(table.sum()), 1e-300)
    return float(np.abs(table - product).sum())
