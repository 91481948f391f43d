"""The distribution of a run's synthetic rows given evidence about some of their columns.

A run's rows have more than its model: values that share a code, columns that are drawn given
another one, and groups of users in released proportions (`model.row_facts`). Evidence about a row
is translated into evidence about the model's codes, exactly. A value that shares a code gives that
code. A column drawn given another one gives a likelihood of its source. Groups are tried one by
one, each with its own probability of the evidence. Then rows are drawn and translated back.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import numpy as np

from ..codec.draws import stream_key
from ..codec.possible import compiled_constraints
from ..domain import Domain
from ..errors import UsageError
from ..mechanisms.shared.code_compression import Compression, Expansion, equivalent_codes
from ..model.conditional_model import ConditionalModel, Evidence, no_evidence
from ..model.graphical_model import Model
from ..model.row_facts import RowFacts
from ..schema import Schema
from .exchange import Exchange
from .known_rows import Codes, Known, uniform_of


class RowLaw:
    """The rows of a run by its schema and its model, with evidence. It may be used by several
    threads."""

    def __init__(self, schema: Schema, model: Model):
        self.schema = schema
        self.model = model
        self.facts = model.facts or RowFacts()
        self.columns = tuple(a for a in model.domain if a in schema.modelled)
        missing = [a for a in schema.modelled if a not in model.domain]
        if missing:
            raise UsageError(
                f"the model of this run does not have the columns {', '.join(missing)}, so rows cannot "
                "be drawn from it; use the run's own rows (run.data)"
            )
        self._maps = {a: model.merged[a] for a in self.columns if a in model.merged}
        self._tables = {item.column: item.table() for item in self.facts.drawn}

    @cached_property
    def _tree(self) -> ConditionalModel:
        compression = self._compression
        masks = {c: m for c, m in self._impossible.items() if set(c) <= set(self.columns)}
        return ConditionalModel(self.model, None, compression.zeros(masks))

    @cached_property
    def _impossible(self) -> Mapping[tuple[str, ...], np.ndarray]:
        return compiled_constraints(self.schema).impossible

    @cached_property
    def _compression(self) -> Compression:
        full = Domain({a: self.size(a) for a in self.columns})
        return Compression(full, self._maps)

    @cached_property
    def _joint(self) -> Expansion | None:
        """How merged codes are expanded where constraints do not treat the merged values alike."""
        uneven = False
        for a, codes in self._maps.items():
            classes = equivalent_codes(self._impossible, a)
            if classes is not None:
                uneven |= len(np.unique(codes)) < len(
                    np.unique(np.stack([codes, classes]), axis=1).T
                )
        if not uneven:
            return None
        return Expansion(self._compression, self.facts.within, self._impossible)

    @cached_property
    def _exchange(self) -> Exchange | None:
        return Exchange(self._tree, self.facts) if self.facts.trends else None

    def size(self, column: str) -> int:
        return len(self._maps[column]) if column in self._maps else self.model.domain[column]

    def within(self, column: str) -> np.ndarray:
        """Weights of a column's codes among those that share a code of the model."""
        weights = self.facts.within.get(column)
        return np.ones(self.size(column)) if weights is None else weights

    def draw(
        self,
        known: Known,
        seed: int,
        stream: str = "",
        threads: int | None = None,
        soften: bool = True,
    ) -> tuple[Codes, np.ndarray]:
        """(codes of all modelled columns, log probability of each row's evidence). Row i depends on
        what is known of it, on (seed, stream) and on its number alone. A row whose evidence has no
        rows in the model, but that no constraint excludes, is drawn from a model with a little
        independence (`soften`). Evidence that constraints exclude has -inf, and its codes have no
        meaning."""
        group = self.group(known, seed, stream, threads)
        evidence, full = self._evidence(known, group)
        own = _seed(seed, stream)
        numbers = np.arange(known.rows) if known.numbers is None else known.numbers
        drawn, logs = self._tree.draw(evidence, own, numbers, threads)
        lost = np.flatnonzero(~np.isfinite(logs)) if soften else np.empty(0, np.int64)
        if len(lost):
            soft = self._tree.softened()
            again, found = soft.draw(evidence.of_rows(lost), own, numbers[lost], threads)
            drawn[lost] = again
            logs[lost] = found
        if self._exchange is not None:
            self._exchange(evidence, drawn, own, numbers, threads)
        number = {a: i for i, a in enumerate(self.model.domain)}
        merged = {a: drawn[:, number[a]] for a in self.columns}
        return self._expanded(merged, full, seed, stream), logs

    def log_probability(self, known: Known, threads: int | None = None) -> np.ndarray:
        """The logarithm of each row's evidence; -inf: the model has no such rows."""
        logs, weights = self._by_group(known, threads)
        return _log_sum(logs + weights)

    def chances(self, column: str, known: Known, threads: int | None = None) -> np.ndarray:
        """float64 [rows, codes]: the distribution of a modelled column given what is known. Rows of
        impossible evidence get that of a model with a little independence, or of all rows."""
        if column in self._tables:
            item = next(d for d in self.facts.drawn if d.column == column)
            return self._chances_at(item.source, known, threads) @ self._tables[column]
        return self._chances_at(column, known, threads)

    def _chances_at(self, column: str, known: Known, threads: int | None) -> np.ndarray:
        """[rows, codes]: the chance of each code of a column in each row; of columns with merged
        values by groups of users."""
        if column in self._tables:
            return self.chances(column, known, threads)
        logs, weights = self._by_group(known, threads)
        part = logs + weights
        top = part.max(axis=1, keepdims=True)
        part = np.exp(part - np.where(np.isfinite(top), top, 0.0))
        part[~np.isfinite(top[:, 0])] = 1.0
        part /= part.sum(axis=1, keepdims=True)
        out = np.zeros((known.rows, self.size(column)))
        for g in range(part.shape[1]):
            group = None if self._groups == 1 else np.full(known.rows, g)
            evidence, full = self._evidence(known, group)
            merged, found = self._tree.posterior(column, evidence, threads)
            lost = np.flatnonzero(~np.isfinite(found))
            if len(lost):
                soft = self._tree.softened()
                merged[lost], _ = soft.posterior(column, evidence.of_rows(lost), threads)
            out += part[:, g, None] * self._spread(column, merged, full)
        sums = out.sum(axis=1, keepdims=True)
        overall = self._spread_one(column, self.model.marginal((column,)))
        return np.where(sums > 0, out / np.where(sums > 0, sums, 1.0), overall)

    def _spread_one(self, column: str, merged: np.ndarray) -> np.ndarray:
        codes = self._maps.get(column)
        if codes is None:
            return merged / merged.sum()
        weights = self.within(column)
        mass = np.bincount(codes, weights, len(merged))
        out = merged[codes] * weights / mass[codes]
        return out / out.sum()

    def _spread(self, column: str, merged: np.ndarray, full: Known) -> np.ndarray:
        """Chances of the model's codes [rows, codes] as chances of the schema's."""
        codes = self._maps.get(column)
        if codes is None:
            return merged
        out = np.empty((len(merged), len(codes)))
        ids, matrix = full.likelihood.get(column, (np.full(len(merged), -1, np.int32), None))
        for kind in np.unique(ids):
            weights = self.within(column) * (1.0 if kind < 0 or matrix is None else matrix[kind])
            mass = np.bincount(codes, weights, merged.shape[1])
            share = np.divide(
                weights, mass[codes], out=np.zeros_like(weights), where=mass[codes] > 0
            )
            rows = ids == kind
            out[rows] = merged[rows][:, codes] * share
        given = full.codes.get(column)
        if given is not None:
            some = np.flatnonzero(given >= 0)
            out[some] = np.eye(len(codes))[given[some]]
        return out

    # Groups of users.

    @property
    def _groups(self) -> int:
        """Groups that evidence is tried with; 1: none, or in the model's own proportions."""
        if not self.facts.group or self.facts.shares is None:
            return 1
        return self.model.domain[self.facts.group]

    def _by_group(self, known: Known, threads: int | None) -> tuple[np.ndarray, np.ndarray]:
        """(log probability of the evidence [rows, groups], log weight of each group)."""
        each_of = []
        for g in range(self._groups):
            group = None if self._groups == 1 else np.full(known.rows, g)
            evidence, _ = self._evidence(known, group)
            each_of.append(evidence)
        root = None if self._groups == 1 else self.facts.group
        return self._tree.log_probabilities(each_of, threads, root), self._weights

    @cached_property
    def _weights(self) -> np.ndarray:
        """The logarithm of each group's share of the rows, less that of its rows in the model."""
        if self._groups == 1:
            return np.zeros(1)
        nothing = Known(1)
        own = []
        for g in range(self._groups):
            evidence, _ = self._evidence(nothing, np.full(1, g))
            own.append(float(self._tree.log_probability(evidence)[0]))
        with np.errstate(divide="ignore"):
            shares = np.asarray(self.facts.shares, float)
            shares = np.log(shares / shares.sum())
        return np.where(np.isfinite(own), shares - np.where(np.isfinite(own), own, 0.0), -np.inf)

    def group(
        self, known: Known, seed: int, stream: str = "", threads: int | None = None
    ) -> np.ndarray | None:
        """A group for each row, by the probability of its evidence; None: groups are not told
        apart."""
        if self._groups == 1 or known.group is not None:
            return known.group
        logs, weights = self._by_group(known, threads)
        part = logs + weights
        top = part.max(axis=1, keepdims=True)
        shares = np.asarray(self.facts.shares, float)
        chance = np.where(
            np.isfinite(top), np.exp(part - np.where(np.isfinite(top), top, 0)), shares
        )
        ends = np.cumsum(chance, axis=1)
        uniform = uniform_of(seed, f"{stream} group", known) * ends[:, -1]
        return np.minimum((ends <= uniform[:, None]).sum(axis=1), self._groups - 1)

    # Evidence, from the schema's codes to the model's.

    def _evidence(self, known: Known, group: np.ndarray | None) -> tuple[Evidence, Known]:
        """(evidence about the model's codes, all that is known about the schema's)."""
        full = Known(known.rows, dict(known.codes), dict(known.likelihood), known.numbers)
        for item in reversed(self.facts.drawn):
            self._push(item.column, item.source, full)
        evidence = no_evidence(self.model.domain, known.rows)
        likelihood = {}
        for i, a in enumerate(self.model.domain):
            if a == self.facts.group and group is not None:
                evidence.hard[:, i] = group
            if a not in self.columns or a in self._tables:
                continue
            codes = self._maps.get(a)
            if a in full.codes:
                given = full.codes[a]
                own = given if codes is None else np.where(given < 0, -1, codes[given])
                evidence.hard[:, i] = own
            if a in full.likelihood:
                ids, matrix = full.likelihood[a]
                evidence.soft[:, i] = ids
                likelihood[a] = matrix if codes is None else self._merged(a, matrix)
        return Evidence(evidence.hard, evidence.soft, likelihood), full

    def _merged(self, column: str, matrix: np.ndarray) -> np.ndarray:
        codes = self._maps[column]
        weights = self.within(column)
        size = self.model.domain[column]
        mass = np.bincount(codes, weights, size)
        sums = np.stack([np.bincount(codes, weights * row, size) for row in matrix])
        return sums / np.where(mass > 0, mass, 1.0)

    def _push(self, column: str, source: str, full: Known) -> None:
        """What is known of a column as a likelihood of the one that it is drawn from."""
        table = self._tables[column]
        given = full.codes.get(column)
        if given is not None and (given >= 0).any():
            values, ids = np.unique(given, return_inverse=True)
            skip = int((values < 0).sum())
            full.multiply_rows(
                source, (ids.reshape(-1) - skip).astype(np.int32), table[:, values[skip:]].T
            )
        if column in full.likelihood:
            ids, matrix = full.likelihood[column]
            if given is not None:
                ids = np.where(given >= 0, -1, ids)
            full.multiply_rows(source, ids, matrix @ table.T)

    # Rows, from the model's codes to the schema's.

    def _expanded(self, merged: Codes, full: Known, seed: int, stream: str) -> Codes:
        """Codes of all columns from merged ones: values inside merged codes, and columns drawn
        given others."""
        out: Codes = {}
        if self._joint is not None:
            known = {a: c for a, c in full.codes.items() if a in self.columns and (c >= 0).any()}
            made = self._joint.reseeded(_seed(seed, stream))(merged, 0, None, known)
        for a in self.columns:
            if a in self._tables:
                continue
            if a not in self._maps:
                own = merged[a]
            elif self._joint is not None:
                own = made[a]
            else:
                uniform = uniform_of(seed, f"{stream} {a}", full)
                own = self._inside(a, merged[a], full, uniform)
            out[a] = _given_or(full, a, own)
        for item in self.facts.drawn:
            uniform = uniform_of(seed, f"{stream} {item.column}", full)
            own = self._drawn(item.column, out[item.source], full, uniform)
            out[item.column] = _given_or(full, item.column, own)
        return {a: out[a].astype(np.int32) for a in self.columns}

    def _inside(self, a: str, merged: np.ndarray, full: Known, uniform: np.ndarray) -> np.ndarray:
        """A code for each code of the model, by weights and likelihood."""
        codes = self._maps[a]
        order = np.argsort(codes, kind="stable")
        begins = np.searchsorted(codes[order], np.arange(self.model.domain[a] + 1))
        ids, matrix = full.likelihood.get(a, (np.full(len(merged), -1, np.int32), None))
        out = np.empty(len(merged), np.int64)
        for kind in np.unique(ids):
            weights = self.within(a) * (1.0 if kind < 0 or matrix is None else matrix[kind])
            rows = np.flatnonzero(ids == kind)
            out[rows] = order[_pick(weights[order], begins, merged[rows], uniform[rows])]
        return out

    def _drawn(self, a: str, source: np.ndarray, full: Known, uniform: np.ndarray) -> np.ndarray:
        """A code of a column for each code of its source."""
        table = self._tables[a]
        ids, matrix = full.likelihood.get(a, (np.full(len(source), -1, np.int32), None))
        begins = np.arange(table.shape[0] + 1) * table.shape[1]
        out = np.empty(len(source), np.int64)
        for kind in np.unique(ids):
            weights = table if kind < 0 or matrix is None else table * matrix[kind]
            rows = np.flatnonzero(ids == kind)
            picked = _pick(weights.reshape(-1), begins, source[rows], uniform[rows])
            out[rows] = picked % table.shape[1]
        return out


def _given_or(full: Known, column: str, drawn: np.ndarray) -> np.ndarray:
    given = full.codes.get(column)
    return drawn if given is None else np.where(given >= 0, given, drawn)


def _pick(
    weights: np.ndarray, begins: np.ndarray, cell: np.ndarray, uniform: np.ndarray
) -> np.ndarray:
    """A place between begins[c] and begins[c + 1] for each cell c, by the weights; evenly where a
    cell has none."""
    sums = np.add.reduceat(np.append(weights, 0.0), begins[:-1])
    sums[np.diff(begins) == 0] = 0.0
    empty = np.repeat(sums <= 0, np.diff(begins))
    # Each cell's weights add up to 1, so that one cell's rounding does not reach the next.
    parts = np.where(empty, 1.0, weights) / np.repeat(
        np.where(sums > 0, sums, np.maximum(np.diff(begins), 1)), np.diff(begins)
    )
    total = np.cumsum(parts)
    low = np.where(begins[cell] > 0, total[begins[cell] - 1], 0.0)
    high = total[begins[cell + 1] - 1]
    at = np.searchsorted(total, low + uniform * (high - low), side="right")
    at = np.clip(at, begins[cell], begins[cell + 1] - 1)
    zero = parts[at] <= 0
    if zero.any():  # rounding met a cell's end: its last place that has weight
        back = np.maximum.accumulate(np.where(parts > 0, np.arange(len(parts)), -1))
        at = np.where(zero, np.maximum(back[at], begins[cell]), at)
    return at


def _log_sum(part: np.ndarray) -> np.ndarray:
    top = part.max(axis=1)
    some = np.isfinite(top)
    out = np.full(len(part), -np.inf)
    out[some] = top[some] + np.log(np.exp(part[some] - top[some, None]).sum(axis=1))
    return out


def _seed(seed: int, stream: str) -> int:
    return stream_key(seed, "", f"rows on demand {stream}")
