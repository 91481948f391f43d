"""Merged codes: rare values, by the noisy 1-ways, share a code in all later measurements and in the
model.

A value whose noisy count is below `rare` standard errors shares one code with the other such values
of its column. Where many rows of a column of numbers have such values, these share codes with their
neighbours instead, so many together that they stand out of the noise. Rare nulls and values outside
the domain share another one, apart from numbers. Pairs are compared, measured and fitted over the
merged codes, so that neither budget nor time is spent on empty cells. Synthetic rows of a merged code
get one of its values by the 1-way. The code maps are functions of released answers, hence public.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from copy import copy
from functools import cached_property
from itertools import combinations
from typing import Any, Self

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from ...domain import Clique, Domain
from ...measurement import Measurement
from ...model.graphical_model import Model
from ...model.row_facts import DrawnColumn, RowFacts
from ...schema import Schema
from ...significance import drawn_towards, onto_simplex
from ..base import Job
from .code_compression import (
    Compression,
    Expansion,
    equal_rows,
    equivalent_codes,
    merge_classes,
    merge_neighbours,
    merge_outside,
    numberless,
)
from .expected_counts import expected_counts
from .halving import Halving
from .model_rows import ModelRows
from .number_tails import numbers_in_bins, with_tails
from .one_ways import averaged, estimate_total, independent, noise_tv
from .steering import Steering

MAX_CANDIDATES = 1 << 14
"""The most marginals that one screening round asks for."""
PAIR_CELLS = 1 << 24
"""The most cells of all pairs together over merged codes. Where needed, more than the rare values
of a column are merged, and only its most frequent ones keep codes of their own. Where the others have
many rows, numbers among them share codes with their neighbours, as rare ones do."""

RARE_ROWS = 0.1
"""The least part of the rows with rare numbers for which these share codes with their neighbours."""
MOST_RARE_GROUPS = 64
"""The most codes that they then have. With one code in place of them, correlations of .8 of ten columns
of 1,000 codes become .06 (`python -m bench.tune --epsilon 1 --without "groups of rare numbers" --tables
fine-ten`)."""
LEAST_RARE_GROUPS = 4
"""The least. With fewer, they share one code."""
NAMED = 5
"""Pairs that a note names."""

LEAST_ROWS = 1e-6
"""Total used for a model when noise leaves no rows."""

HALVING = 1 << 31
"""The stream of randomness that halvings use, in addition to those of `Expansion`, one per column.
"""


class Merged(Struct, frozen=True, eq=False, dict=True):
    """`ones`: the 1-ways over merged codes; `shape`: over all codes, rows >= 0 that add up to
    `total`; `merged_for_size`: values of each column that were merged, though not rare, to keep all
    pairs within `PAIR_CELLS`; `neighbours`: columns whose rare numbers share codes with neighbours;
    `zeros`: impossible combinations of merged codes; `released`: the 1-ways over all codes that all
    this comes from; `in_bins`: `number_tails.numbers_in_bins`; `ordered`: columns whose codes have an
    order. Values are merged only with values
    that all constraints treat alike, so that the zeros are exact and each column can be expanded
    separately.
    """

    compression: Compression
    ones: tuple[Measurement, ...]
    shape: Mapping[str, np.ndarray]
    total: float
    merged_for_size: Mapping[str, int]
    zeros: Mapping[Clique, np.ndarray] = field(default_factory=dict)
    released: tuple[Measurement, ...] = ()
    neighbours: frozenset[str] = frozenset()
    in_bins: Mapping[str, np.ndarray] = field(default_factory=dict)
    ordered: frozenset[str] = frozenset()

    @property
    def domain(self) -> Domain:
        return self.compression.domain

    @property
    def codes(self) -> Mapping[str, np.ndarray]:
        """Code -> merged code of each column that shrinks: the `recode` of the session's calls."""
        return self.compression.codes

    @property
    def fitted_total(self) -> float:
        """The rows of a model: `total`, or nearly none where noise left nothing; a fit needs more
        than 0."""
        return max(self.total, LEAST_ROWS)

    def fit(self, job: Job, measurements: Sequence[Measurement], **options: Any) -> Model:
        """The model of these measurements with the merged total and zeros."""
        total = self.fitted_total
        zeros = self.zeros
        return job.fit(self.domain, measurements, total=total, zeros=zeros, **options)

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for the statement on values that were merged though not rare."""
        why = "values were merged with its rare ones, or all pairs together would be too large"
        return tuple(f"{name}: {count} {why}" for name, count in self.merged_for_size.items())

    @cached_property
    def ones_shape(self) -> dict[str, np.ndarray]:
        """`shape` over merged codes."""
        codes = self.compression.code_map
        return {
            a: np.bincount(codes(a), self.shape[a], self.domain[a]) for a in self.compression.full
        }

    @property
    def noise_tv(self) -> dict[str, float]:
        """The total variation distance that noise causes in each 1-way over merged codes."""
        return {m.clique[0]: noise_tv(m, self.total) for m in self.ones}

    def with_ones(self, again: Sequence[Measurement]) -> Merged:
        """The same codes, after the 1-ways were measured `again`."""
        return self._of(averaged(self.released, again))

    def with_sums(self, answers: Sequence[Measurement]) -> Merged:
        """The same codes, with what answers over merged codes say about single columns: their sums.
        A fit takes these in by itself."""
        sums = sums_of_columns(answers, self.compression)
        return self._of([with_sums_of_groups(m, sums.get(m.clique[0], ())) for m in self.released])

    def _of(self, ones: Sequence[Measurement]) -> Merged:
        """The same codes with these 1-ways over all codes."""
        total = estimate_total(ones)
        expected = expected_counts(ones, total, self.ordered)
        shape = {}
        for m, near in zip(ones, expected):
            codes = self.compression.code_map(m.clique[0])
            numbers = self.in_bins.get(m.clique[0])
            rare = np.bincount(codes)[codes] > 1
            shape[m.clique[0]] = shape_of(m, rare, total, numbers, near.values)
        merged = tuple(self.compression.measurement(m) for m in expected)
        return replace(self, ones=merged, shape=shape, total=total, released=tuple(ones))

    def independent(self, cliques: Iterable[Clique]) -> dict[Clique, np.ndarray]:
        """What the marginal of each set of columns would be if its columns were independent."""
        return independent(cliques, self.ones_shape, self.total)

    def rows(
        self,
        model: Model,
        total: int,
        seed: int,
        spread: Mapping[str, Sequence[str]] | None = None,
        halving: Callable[[int], Halving | None] | None = None,
        drawn: Sequence[DrawnColumn] = (),
        steering: Steering | None = None,
    ) -> ExpandedRows:
        """Rows of the model with merged codes expanded. `spread`, `drawn`: see `Expansion`.
        `halving`, `steering`: see `ExpandedRows`."""
        expansion = Expansion(self.compression, self.shape, seed=seed, spread=spread, drawn=drawn)
        return ExpandedRows(model, total, seed, expansion, halving, steering)


class ExpandedRows(ModelRows):
    """Rows of a model of merged codes, in the schema's codes. `steering`: trends that they follow
    besides. `halving`: how many rows are drawn several times over and halved, shard by shard, so
    that the marginals of a workload, or all pairs, are closer to the model's (see `halving`); None:
    no halving. Rows do not have the model's hidden columns."""

    def __init__(
        self,
        model: Model,
        total: int,
        seed: int,
        expansion: Expansion,
        halving: Callable[[int], Halving | None] | None = None,
        steering: Steering | None = None,
    ):
        super().__init__(model, total, seed)
        self._expansion = expansion
        self._halving_of = halving
        self._steering = steering or Steering()

    @property
    def facts(self) -> RowFacts:
        scores = self._steering.scores
        trends = self._steering.changes
        within = self._expansion.within()
        drawn = self._expansion.drawn_columns()
        return RowFacts(within, drawn, scores=scores, trends=trends)

    def again(self, total: int, seed: int) -> Self:
        other = super().again(total, seed)
        other._expansion = self._expansion.reseeded(seed)
        return other

    def given(self, known: Mapping[str, np.ndarray], seed: int) -> dict[str, np.ndarray]:
        merged = {name: self._expansion.code_map(name)[codes] for name, codes in known.items()}
        drawn = super().given(merged, seed)
        made = self._expansion.reseeded(seed)(drawn, 0, known)
        return self._shown({name: made[name] for name in drawn})

    def _shown(self, rows: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The rows without hidden columns."""
        return {name: codes for name, codes in rows.items() if name not in self.model.hidden}

    def plain(self) -> Self:
        other = super().plain()
        other._halving_of = None
        return other

    @property
    def halving(self) -> Halving | None:
        return None if self._halving_of is None else self._halving_of(self.total)

    @property
    def shard_rows(self) -> int:
        """Several times as many rows are in memory at once."""
        return super().shard_rows if self.halving is None else 1 << 18

    def shard(self, i: int) -> dict[str, np.ndarray]:
        halving = self.halving
        levels = 0 if halving is None else halving.levels
        shard_rows = self.shard_rows << levels
        drawn = self.model.sample(
            self.total << levels, seed=self._seed, shard=i, shard_rows=shard_rows
        )
        rng = np.random.Generator(
            np.random.Philox(np.random.SeedSequence([self._seed, i, HALVING]))
        )
        rows = self._expansion(self._steering(self.model, drawn, rng), i)
        return self._shown(rows if halving is None else halving(rows, rng, self._exchanging))

    def _exchanging(
        self, name: str, rows: Mapping[str, np.ndarray]
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """See `halving.Groups`."""
        if name in self._expansion.fixed:
            return None
        near = sorted({a for q in self.model.cliques if name in q for a in q} - {name})
        codes = [self._expansion.code_map(a)[rows[a]] for a in near] or [
            np.zeros_like(rows[name], np.int64)
        ]
        return equal_rows(codes, self.model.domain.shape(near) or (1,))

    def some(self, count: int, seed: int) -> dict[str, np.ndarray]:
        """Independent rows: they serve trials, or are chosen from, and 2^levels times as many cost
        time."""
        plain = copy(self)
        plain._halving_of = None
        return super(ExpandedRows, plain).some(count, seed)


def merge(
    domain: Domain,
    ones: Sequence[Measurement],
    rare: float,
    most: int = PAIR_CELLS,
    impossible: Mapping[Clique, np.ndarray] | None = None,
    expected: bool = False,
    dependent: Collection[str] = (),
    schema: Schema | None = None,
) -> Merged:
    """Merge what is rare in the 1-ways (one measurement per column, over all its codes).
    `impossible`: public constraints over the codes. `expected`: counts are those of
    `expected_counts`. `dependent`: columns that the model leaves out: all their values are
    merged. `schema`: nulls and values outside the domain are not merged with its numbers."""
    impossible = impossible or {}
    classes = {}
    for a in domain:
        if a in dependent:
            classes[a] = equivalent_codes(impossible, a)
        else:
            classes[a] = merge_classes(schema, impossible, a)
    total = estimate_total(ones)
    released = tuple(ones)
    keep = {m.clique[0]: m.values >= rare * np.sqrt(m.variances) for m in ones}
    columns = {} if schema is None else schema.columns
    ordered = frozenset(a for a in domain if a in columns and not columns[a].is_text)
    near = expected_counts(ones, total, ordered) if expected else ones
    in_bins = {} if schema is None else numbers_in_bins(schema)
    shape = {}
    for m, e in zip(ones, near):
        a = m.clique[0]
        values = e.values if expected else None
        shape[a] = shape_of(m, ~keep[a], total, in_bins.get(a), values)
    for a in dependent:
        keep[a][:] = False
    others = {a: 1 if c is None else int(c.max()) + 1 for a, c in classes.items()}
    groups = {}
    for m in near:
        a = m.clique[0]
        free = a not in dependent and equivalent_codes(impossible, a) is None
        if free and a in columns and not columns[a].is_text:
            numbers = ~keep[a] & ~numberless(columns[a])
            groups[a] = rare_groups(m, shape[a], numbers, rare)
            others[a] += groups[a]
    limit = largest_within({a: int(k.sum()) + others[a] for a, k in keep.items()}, most)
    merged_for_size = {}
    for a, kept in keep.items():
        if kept.sum() + others[a] > limit:
            order = np.argsort(-shape[a], kind="stable")
            frequent = order[kept[order]]
            lost = frequent[max(0, limit - others[a]) :]
            many = shape[a][lost].sum() >= RARE_ROWS * total
            if many and groups.get(a) == 0:  # numbers share codes with neighbours
                groups[a] = min(MOST_RARE_GROUPS, limit // 2)
                others[a] += groups[a]
                lost = frequent[max(0, limit - others[a]) :]
            kept[lost] = False
            merged_for_size[a] = len(lost)
    maps = {a: merge_outside(k, classes[a]) for a, k in keep.items()}
    neighbours = set()
    for a, count in groups.items():
        room = min(count, limit - int(keep[a].sum()) - others[a] + count)
        if schema is not None and room >= LEAST_RARE_GROUPS:
            numbers = ~keep[a] & ~numberless(schema.columns[a])
            maps[a] = merge_neighbours(maps[a], numbers, shape[a], room)
            neighbours.add(a)
    compression = Compression(domain, maps)
    merged = tuple(compression.measurement(m) for m in near)
    return Merged(
        compression=compression,
        ones=merged,
        shape=shape,
        total=total,
        merged_for_size=merged_for_size,
        zeros=compression.zeros(impossible),
        released=released,
        neighbours=frozenset(neighbours),
        in_bins=in_bins,
        ordered=ordered,
    )


def rare_groups(one: Measurement, rows: np.ndarray, numbers: np.ndarray, rare: float) -> int:
    """Into how many groups of neighbours rare numbers are merged: as many as have counts of `rare`
    standard errors each. It is 0 where rare numbers have few of the rows, or where groups are few.

    k values with noise sigma each and M rows, in G groups of M / G rows and noise sigma sqrt(k / G):
    G is at most (M / (rare sigma))^2 / k."""
    count = int(numbers.sum())
    mass = float(rows[numbers].sum())
    if count <= LEAST_RARE_GROUPS or mass < RARE_ROWS * rows.sum() or not rare > 0:
        return 0
    noise = float(np.broadcast_to(one.variances, numbers.shape)[numbers].sum())
    groups = min(MOST_RARE_GROUPS, count, int(mass**2 / max(rare**2 * noise, 1e-300)))
    return groups if groups >= LEAST_RARE_GROUPS else 0


def shape_of(
    one: Measurement,
    rare: np.ndarray,
    total: float,
    numbers: np.ndarray | None = None,
    expected: np.ndarray | None = None,
) -> np.ndarray:
    """A 1-way as row counts >= 0 that add up to `total`: the projection of the answers, or of their
    `expected_counts`. Where only answers are given and most rows have rare values, the counts of these
    are first shrunk towards their mean, as far as noise explains their differences. Otherwise the
    values with the largest noise would get the rows of the others. `numbers`: the codes of a column's
    bins of numbers, whose rare values beyond the others are tails (`number_tails`)."""
    drawn = np.array(one.values, np.float64)
    count = int(rare.sum()) if expected is None else 0
    if numbers is not None:
        errors = np.sqrt(np.broadcast_to(one.variances, drawn.shape))
        tails = np.array(drawn)
        tails[numbers] = with_tails(drawn[numbers], errors[numbers])
        in_tail = rare & (tails != drawn)
        drawn = np.where(in_tail, tails, drawn if expected is None else expected)
    elif expected is not None:
        drawn = np.array(expected)
    if count > 3 and 2 * drawn[~rare].sum() < total:
        noise = np.broadcast_to(one.variances, drawn.shape)[rare]
        drawn[rare] = drawn_towards(drawn[rare].mean(), drawn[rare], noise)
    return onto_simplex(drawn, total)


class Sums(Struct, frozen=True, eq=False):
    """Noisy rows of groups of one column's codes. `groups`: code -> group."""

    groups: np.ndarray
    values: np.ndarray
    variances: np.ndarray


def sums_of_columns(
    answers: Sequence[Measurement], compression: Compression
) -> dict[str, list[Sums]]:
    """What answers over compressed codes say about the codes of each column, by column. Sums over the
    same groups are averaged by precision; the finest groups come first."""
    parts: dict[tuple[str, bytes], list[Sums]] = {}
    for m in answers:
        shape = compression.domain.shape(m.clique) if m.query is None else m.query.bins
        values = m.values.reshape(shape)
        variances = np.broadcast_to(m.variances, m.values.shape).reshape(shape)
        for axis, a in enumerate(m.clique):
            codes = compression.code_map(a)
            if m.query is not None and m.query.maps[axis] is not None:
                codes = m.query.maps[axis][codes]
            others = tuple(i for i in range(len(shape)) if i != axis)
            own = Sums(codes, values.sum(axis=others), variances.sum(axis=others))
            parts.setdefault((a, codes.tobytes()), []).append(own)
    out: dict[str, list[Sums]] = {}
    for (a, _), same in parts.items():
        precision = np.sum([1 / s.variances for s in same], axis=0)
        values = np.sum([s.values / s.variances for s in same], axis=0) / precision
        out.setdefault(a, []).append(Sums(same[0].groups, values, 1 / precision))
    return {a: sorted(sums, key=lambda s: -s.values.size) for a, sums in out.items()}


def with_sums_of_groups(one: Measurement, sums: Sequence[Sums]) -> Measurement:
    """A 1-way with noisy sums over groups of its codes: the least squares of both. A group's codes
    share the change of its sum by their variances. They then have errors in common, which are left
    out: coarser groups count a little too much."""
    if not sums:
        return one
    values = one.values
    variances = np.broadcast_to(one.variances, values.shape)
    for s in sums:
        size = s.values.size
        gain = 1 / (np.bincount(s.groups, variances, size) + s.variances)
        change = gain * (s.values - np.bincount(s.groups, values, size))
        values = values + variances * change[s.groups]
        variances = variances * (1 - variances * gain[s.groups])
    return Measurement(one.clique, values, np.sqrt(variances), label=one.label)


def largest_within(sizes: Mapping[str, int], most: int) -> int:
    """The largest n such that all pairs of columns cut to n codes have at most `most` cells
    together; at least 2."""

    def cells(n: int) -> int:
        cut = [min(size, n) for size in sizes.values()]
        return (sum(cut) ** 2 - sum(c * c for c in cut)) // 2

    return max(2, 1 + bisect_right(range(2, 1 + max(sizes.values(), default=2)), most, key=cells))


def left_out_notes(pairs: Sequence[Clique], limit: int) -> tuple[str, ...]:
    """A note on pairs of columns whose joint distribution was not looked at; none where there are
    none."""
    if not pairs:
        return ()
    named = "; ".join(" and ".join(p) for p in pairs[:NAMED]) + (
        "; ..." if len(pairs) > NAMED else ""
    )
    return (
        (
            f"{len(pairs)} pairs of columns were not considered, so they are related only through"
            f" other columns: {named}. Each has more cells than the model may have ({limit:,};"
            " raise max_cells or memory, or use coarser bins), or there are too many pairs"
        ),
    )


def all_pairs(domain: Domain, most: int, largest: int) -> list[Clique]:
    """Pairs of columns that have more than one code, up to `largest` cells each. At most `most`
    pairs: those with the most codes in their smaller column, which bounds how far a pair can be
    from independence."""
    columns = [a for a in domain if domain[a] > 1]
    pairs: list[Clique] = [p for p in combinations(columns, 2) if domain.cells(p) <= largest]
    chosen = set(sorted(pairs, key=lambda p: -min(domain.shape(p)))[:most])
    return [p for p in pairs if p in chosen]
