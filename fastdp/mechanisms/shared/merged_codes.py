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
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from ...domain import Clique, Domain
from ...measurement import Measurement
from ...model.graphical_model import Model
from ...model.row_facts import DrawnColumn
from ...schema import Schema
from ...significance import drawn_towards, onto_simplex
from ..base import Job
from .code_compression import (
    Compression,
    Expansion,
    equivalent_codes,
    merge_classes,
    merge_neighbours,
    merge_outside,
    numberless,
)
from .code_partitions import LEAST_GROUPS, MOST_GROUPS
from .column_sums import sums_of_columns, with_sums_of_groups
from .expanded_rows import ExpandedRows
from .expected_counts import expected_counts
from .halving import Halving
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
"""The least part of the rows with rare numbers for which these share codes with their neighbours. With
one code in place of them, correlations of .8 of ten columns of 1,000 codes become .06 (`python -m
bench.tune --epsilon 1 --without "groups of rare numbers" --tables fine-ten`)."""
NAMED = 5
"""Pairs that a note names."""

LEAST_ROWS = 1e-6
"""Total used for a model when noise leaves no rows."""


class Merged(Struct, frozen=True, eq=False, dict=True):
    """`ones`: the 1-ways over merged codes; `shape`: over all codes, rows >= 0 that add up to
    `total`; `merged_for_size`: values of each column that were merged, though not rare, to keep all
    pairs within `PAIR_CELLS`; `neighbours`: columns whose rare numbers share codes with neighbours;
    `zeros`: impossible combinations of merged codes; `released`: the 1-ways over all codes that all
    this comes from; `in_bins`: `number_tails.numbers_in_bins`; `ordered`: columns whose codes have an
    order; `unlisted`: by column, which codes are those of missing values and of values outside the domain.
    Values are merged only with values
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
    unlisted: Mapping[str, np.ndarray] = field(default_factory=dict)

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
        expected = expected_counts(ones, total, self.ordered, self.unlisted)
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
    columns = {} if schema is None else schema.columns
    ordered = frozenset(a for a in domain if a in columns and not columns[a].is_text)
    unlisted = {
        a: np.arange(columns[a].size) >= columns[a].base
        for a in domain
        if a in columns and columns[a].size == domain[a]
    }
    total = estimate_total(ones)
    near = expected_counts(ones, total, ordered, unlisted) if expected else ones
    in_bins = {} if schema is None else numbers_in_bins(schema)
    codes = _KeptCodes(total, {}, {}, {}, {})
    classes = {}
    for one, e in zip(ones, near):
        a = one.clique[0]
        keep = one.values >= rare * np.sqrt(one.variances)
        values = e.values if expected else None
        codes.shape[a] = shape_of(one, ~keep, total, in_bins.get(a), values)
        if a in dependent:
            alike = equivalent_codes(impossible, a)
            keep[:] = False
        else:
            alike = merge_classes(schema, impossible, a)
        classes[a] = alike
        codes.keep[a] = keep
        codes.others[a] = 1 if alike is None else int(alike.max()) + 1
        if a in ordered and a not in dependent and equivalent_codes(impossible, a) is None:
            numbers = ~keep & ~numberless(columns[a])
            codes.groups[a] = rare_groups(e, codes.shape[a], numbers, rare)
            codes.others[a] += codes.groups[a]
    limit = largest_within({a: codes.size(a) for a in codes.keep}, most)
    merged_for_size = codes.cut(limit)
    maps = {a: merge_outside(keep, classes[a]) for a, keep in codes.keep.items()}
    neighbours = set()
    for a, count in codes.groups.items():
        room = min(count, limit - codes.size(a) + count)
        if room >= LEAST_GROUPS:
            numbers = ~codes.keep[a] & ~numberless(columns[a])
            maps[a] = merge_neighbours(maps[a], numbers, codes.shape[a], room)
            neighbours.add(a)
    compression = Compression(domain, maps)
    return Merged(
        compression=compression,
        ones=tuple(compression.measurement(m) for m in near),
        shape=codes.shape,
        total=total,
        merged_for_size=merged_for_size,
        zeros=compression.zeros(impossible),
        released=tuple(ones),
        neighbours=frozenset(neighbours),
        in_bins=in_bins,
        ordered=ordered,
        unlisted=unlisted,
    )


class _KeptCodes(Struct):
    """Which codes of each column stay apart, while it is decided. `shape`: rows of every code;
    `keep`: whether a code stays apart; `groups`: of how many neighbours' groups the rare numbers are;
    `others`: how many codes all that is merged gets, these groups included."""

    total: float
    shape: dict[str, np.ndarray]
    keep: dict[str, np.ndarray]
    groups: dict[str, int]
    others: dict[str, int]

    def size(self, a: str) -> int:
        """How many codes the column has once it is merged."""
        return int(self.keep[a].sum()) + self.others[a]

    def cut(self, limit: int) -> dict[str, int]:
        """Merge also what is not rare, until each column has at most `limit` codes: its most frequent
        ones stay. How many were merged, by column. Where they have many rows, numbers among them
        share codes with their neighbours."""
        merged = {}
        for a, keep in self.keep.items():
            if self.size(a) <= limit:
                continue
            order = np.argsort(-self.shape[a], kind="stable")
            frequent = order[keep[order]]
            lost = frequent[max(0, limit - self.others[a]) :]
            many = self.shape[a][lost].sum() >= RARE_ROWS * self.total
            if many and self.groups.get(a) == 0:
                self.groups[a] = min(MOST_GROUPS, limit // 2)
                self.others[a] += self.groups[a]
                lost = frequent[max(0, limit - self.others[a]) :]
            keep[lost] = False
            merged[a] = len(lost)
        return merged


def rare_groups(one: Measurement, rows: np.ndarray, numbers: np.ndarray, rare: float) -> int:
    """Into how many groups of neighbours rare numbers are merged: as many as have counts of `rare`
    standard errors each. It is 0 where rare numbers have few of the rows, or where groups are few:
    then they share one code.

    k values with noise sigma each and M rows, in G groups of M / G rows and noise sigma sqrt(k / G):
    G is at most (M / (rare sigma))^2 / k."""
    count = int(numbers.sum())
    mass = float(rows[numbers].sum())
    if count <= LEAST_GROUPS or mass < RARE_ROWS * rows.sum() or not rare > 0:
        return 0
    noise = float(np.broadcast_to(one.variances, numbers.shape)[numbers].sum())
    groups = min(MOST_GROUPS, count, int(mass**2 / max(rare**2 * noise, 1e-300)))
    return groups if groups >= LEAST_GROUPS else 0


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
