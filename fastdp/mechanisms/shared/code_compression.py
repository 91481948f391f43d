"""Merging of rare values: a column's codes are compressed before pairs are measured, and synthetic
rows are expanded again.

`merge_rare` decides from noisy counts alone, so the code maps are public. `Compression` holds them;
`Expansion` turns compressed synthetic rows into rows of the schema's codes. A merged code becomes
one of the values merged into it, by weight. It is never one that public constraints exclude
together with the row's other values."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field

import numpy as np

from ..._util.arrow import of_numpy, of_texts
from ..._util.lazy import pa
from ...domain import Clique, Domain
from ...errors import UsageError
from ...measurement import Measurement
from ...model.row_facts import DrawnColumn
from ...queries import Binned
from ...schema import Schema
from ...schema.columns import Column

GOLDEN = (math.sqrt(5) - 1) / 2
"""Multiples of it, without their whole parts, are a sequence of low discrepancy: `spread` rows get
their values from it."""
MAX_TUPLES = 1 << 21
"""The most combinations of merged values tried for one combination of codes; of more, a random part
is."""

DRAWN_STREAM = 1 << 30
"""The first stream of randomness of columns that are drawn given others."""


def merge_rare(measured: Measurement, rare: float, classes: np.ndarray | None = None) -> np.ndarray:
    """Code -> bin: values at or above `rare` standard errors keep a bin of their own, all others
    share the last ones. `classes`: as in `merge_outside`."""
    return merge_outside(measured.values >= rare * np.sqrt(measured.variances), classes)


def merge_outside(keep: np.ndarray, classes: np.ndarray | None = None) -> np.ndarray:
    """Code -> bin. Each code to keep has its own, in order; all others share the last one. With
    `classes` (a number of each code) they share the last ones, one for each class."""
    bins = np.full(keep.size, int(keep.sum()), np.int64)
    bins[keep] = np.arange(int(keep.sum()))
    if classes is not None and not keep.all():
        bins[~keep] += np.unique(classes[~keep], return_inverse=True)[1]
    return bins


def merge_neighbours(
    bins: np.ndarray, numbers: np.ndarray, rows: np.ndarray, count: int
) -> np.ndarray:
    """Code -> bin as in `bins`, but the codes of `numbers` are in about `count` groups of neighbours
    with equally many rows. Bins are in the order of numbers: a group lies at its mean code."""
    place = 2 * (bins.size + bins)  # of codes that stay as they are and are no numbers: at the end
    single = np.bincount(bins)[bins] == 1
    place[single] = 2 * np.flatnonzero(single)
    members = np.flatnonzero(numbers)
    mass = np.maximum(rows[members], 0.0) + 1e-9
    middle = (np.cumsum(mass) - mass / 2) / mass.sum()
    group = np.minimum((middle * count).astype(np.int64), count - 1)
    mean = np.bincount(group, members) / np.maximum(np.bincount(group), 1)
    place[members] = 2 * np.floor(mean).astype(np.int64)[group] + 1
    return np.unique(place, return_inverse=True)[1].reshape(-1)


def numberless(column: Column) -> np.ndarray:
    """bool per code: those of nulls and of values outside the domain, in a column of numbers or
    times. They never share a code with numbers: a sum would count their rows as numbers. All False
    for texts."""
    return np.arange(column.size) >= (column.size if column.is_text else column.base)


def merge_classes(
    schema: Schema | None, impossible: Mapping[Clique, np.ndarray], name: str
) -> np.ndarray | None:
    """A number for each code of a column, equal for codes that may be merged with each other. All
    constraints treat such codes alike, and either all or none are `numberless`. None: any may
    be."""
    classes = equivalent_codes(impossible, name)
    if schema is None or name not in schema.columns:
        return classes
    blank = numberless(schema.columns[name])
    if not blank.any():
        return classes
    return 2 * (0 if classes is None else classes) + blank


def equivalent_codes(impossible: Mapping[Clique, np.ndarray], name: str) -> np.ndarray | None:
    """A number for each code of a column, equal for two codes that every constraint treats alike;
    None if no constraint names the column. The zeros are exact if codes are merged only with codes
    of the same number: either all combinations behind a merged one are impossible, or none is."""
    masks = [(c, m) for c, m in impossible.items() if name in c]
    if not masks:
        return None
    rows = [np.moveaxis(m, c.index(name), 0).reshape(m.shape[c.index(name)], -1) for c, m in masks]
    packed = np.packbits(np.concatenate(rows, axis=1), axis=1)
    return np.unique(packed, axis=0, return_inverse=True)[1].reshape(-1)


@dataclass(frozen=True, eq=False)
class Compression:
    """`codes`: code -> compressed code of each column that shrinks; other columns stay as they
    are."""

    full: Domain
    codes: Mapping[str, np.ndarray]
    domain: Domain = field(init=False)

    def __post_init__(self):
        shrunk = {
            name: np.asarray(c, np.int64) for name, c in self.codes.items() if c.max() + 1 < c.size
        }
        object.__setattr__(self, "codes", shrunk)
        object.__setattr__(self, "domain", self.full.recoded(shrunk))

    def code_map(self, name: str) -> np.ndarray:
        return self.codes[name] if name in self.codes else np.arange(self.full[name])

    def measurement(self, m: Measurement) -> Measurement:
        """A 1-way of the full codes as one of the compressed: sums of the merged values, variances
        added."""
        (name,) = m.clique
        if name not in self.codes:
            return m
        size = self.domain[name]
        codes = self.codes[name]
        values = np.bincount(codes, m.values, size)
        return Measurement(
            m.clique, values, np.sqrt(np.bincount(codes, m.variances, size)), label=m.label
        )

    def zeros(self, impossible: Mapping[Clique, np.ndarray]) -> dict[Clique, np.ndarray]:
        """bool by clique: the compressed combinations behind which every full combination is
        impossible. Cliques without any are left out."""
        out = {}
        for clique, mask in impossible.items():
            binned = Binned(self.full.shape(clique), [self.codes.get(a) for a in clique])
            possible = binned.product((~mask).reshape(-1).astype(np.int64))
            if not possible.all():
                out[clique] = (possible == 0).reshape(self.domain.shape(clique))
        return out

    def table(self):
        """The code maps as an Arrow table: column, code, compressed code."""
        empty = np.empty(0, np.int64)
        codes = np.concatenate([empty, *(np.arange(self.full[n]) for n in self.codes)])
        compressed = np.concatenate([empty, *self.codes.values()])
        names = of_texts(n for n in self.codes for _ in range(self.full[n]))
        return pa.table(
            {"column": names, "code": of_numpy(codes), "compressed": of_numpy(compressed)}
        )


class Expansion:
    """Compressed rows to rows of full codes.

    frequencies: public weights (>= 0) of a column's full codes; a column without them, or a merged
    code whose values all weigh 0, expands uniformly. impossible: public constraints over full
    codes, True if ruled out. Columns that constraints connect are expanded together, to a
    combination of merged values that no constraint rules out. spread: for a column, the other
    columns over whose values its merged values are spread evenly, the most important first. Rows
    sorted by these columns get their values from a sequence of low discrepancy instead of
    independent draws. So among the rows of each of their values, every merged value has its share
    up to about one row. drawn: columns that are drawn given others, in this order. `fixed` names
    these columns and their sources."""

    def __init__(
        self,
        compression: Compression,
        frequencies: Mapping[str, np.ndarray] | None = None,
        impossible: Mapping[Clique, np.ndarray] | None = None,
        seed: int = 0,
        spread: Mapping[str, Sequence[str]] | None = None,
        drawn: Sequence[DrawnColumn] = (),
    ):
        full = compression.full
        self._compression = compression
        self._seed = seed
        self._spread = spread or {}
        self._drawn = drawn
        self.fixed = {name for given in drawn for name in (given.source, given.column)}
        self.code_map = compression.code_map
        masks = {full.check(c): ~np.asarray(m, bool) for c, m in (impossible or {}).items()}
        self._allowed = {c: mask.reshape(full.shape(c)) for c, mask in masks.items()}
        self._groups = {
            name: _Groups(compression, name, (frequencies or {}).get(name)) for name in full
        }
        self._joined = _components(full, self._allowed)
        self._fallback: dict[Clique, np.ndarray] = {}

    def __call__(
        self,
        rows: Mapping[str, np.ndarray],
        shard: int = 0,
        known: Mapping[str, np.ndarray] | None = None,
        partly: Mapping[str, np.ndarray] | None = None,
    ) -> dict[str, np.ndarray]:
        """The rows in full codes (smallest unsigned type); the same for the same rows, seed and
        shard. `known`: full codes of columns that need no expansion. `partly`: full codes of columns
        in some of the rows, -1 in others, which columns that constraints connect have to fit."""
        full = self._compression.full
        out: dict[str, np.ndarray] = dict.fromkeys(full)  # type: ignore[assignment]  # filled below
        out |= known or {}
        joined = {name for group in self._joined for name in group}
        for i, name in enumerate(full):
            if name not in joined and out[name] is None:
                others = [np.asarray(rows[other]) for other in self._spread.get(name, ())]
                codes = self._groups[name].draw(np.asarray(rows[name]), self._rng(shard, i), others)
                out[name] = codes.astype(np.min_scalar_type(full[name] - 1))
        for i, group in enumerate(self._joined):
            table = self._together(group, rows, self._rng(shard, len(full) + i), partly or {})
            for name, codes in zip(group, table.T):
                out[name] = codes.astype(np.min_scalar_type(full[name] - 1))
        for i, given in enumerate(self._drawn):
            codes = given.draw(out[given.source], self._rng(shard, DRAWN_STREAM + i))
            out[given.column] = codes.astype(out[given.column].dtype)
        return out

    def within(self) -> dict[str, np.ndarray]:
        """The weights of the full codes of every column that shrinks."""
        return {name: self._groups[name].weight for name in self._compression.codes}

    def drawn_columns(self) -> tuple[DrawnColumn, ...]:
        """The columns that are drawn given others, in this order."""
        return tuple(self._drawn)

    def reseeded(self, seed: int) -> Expansion:
        """The same expansion with another stream of randomness."""
        other = copy(self)
        other._seed = seed
        return other

    def _rng(self, shard: int, stream: int) -> np.random.Generator:
        return np.random.Generator(
            np.random.Philox(np.random.SeedSequence([self._seed, shard, stream]))
        )

    def _together(
        self,
        group: Clique,
        rows: Mapping[str, np.ndarray],
        rng: np.random.Generator,
        partly: Mapping[str, np.ndarray],
    ) -> np.ndarray:
        """int64 [rows, columns of the group]: one possible combination per row."""
        merged = [np.asarray(rows[name]) for name in group]
        fixed = {i: partly[name] for i, name in enumerate(group) if name in partly}
        sizes = [self._compression.full[group[i]] + 1 for i in fixed]
        shape = (*self._compression.domain.shape(group), *sizes)
        order, ends = equal_rows([*merged, *(codes + 1 for codes in fixed.values())], shape)
        out = np.empty((len(order), len(group)), np.int64)
        stuck: list[np.ndarray] = []
        for start, end in zip([0, *ends[:-1]], ends):
            rows_alike = order[start:end]
            members = [
                self._groups[name].members(codes[rows_alike[0]])
                for name, codes in zip(group, merged)
            ]
            for i, codes in fixed.items():
                if codes[rows_alike[0]] >= 0:
                    members[i] = codes[rows_alike[:1]].astype(np.int64)
            tuples, weight = self._possible(group, members, rng)
            if len(tuples):
                out[rows_alike] = tuples[rng.choice(len(tuples), len(rows_alike), p=weight)]
            else:
                stuck.append(rows_alike)
        if stuck:
            # Each constraint alone allows these codes, but all together do not: copy another row's
            # values.
            lost = np.concatenate(stuck)
            good = np.setdiff1d(np.arange(len(order)), lost)
            pool = out[good] if len(good) else self._any(group, rng)
            out[lost] = pool[rng.integers(0, len(pool), len(lost))]
        return out

    def _possible(
        self, group: Clique, members: Sequence[np.ndarray], rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """Every combination of the members that no constraint rules out, and its probability."""
        tuples = np.zeros((1, 0), np.int64)
        for i, values in enumerate(members):
            room = max(1, MAX_TUPLES // len(values))
            if len(tuples) > room:
                tuples = tuples[np.sort(rng.choice(len(tuples), room, replace=False))]
            tuples = np.column_stack(
                [np.repeat(tuples, len(values), axis=0), np.tile(values, len(tuples))]
            )
            so_far = group[: i + 1]
            for clique, allowed in self._allowed.items():
                if group[i] in clique and set(clique) <= set(so_far):
                    tuples = tuples[allowed[tuple(tuples[:, so_far.index(a)] for a in clique)]]
        if not len(tuples):
            return tuples, np.empty(0)
        weight = np.ones(len(tuples))
        for i, name in enumerate(group):
            weight *= self._groups[name].weight[tuples[:, i]]
        if not weight.sum() > 0:
            weight = np.ones(len(tuples))
        return tuples, weight / weight.sum()

    def _any(self, group: Clique, rng: np.random.Generator) -> np.ndarray:
        """All possible combinations of the group's full codes: for rows whose merged codes allow
        none."""
        if group not in self._fallback:
            every = [np.arange(self._compression.full[name]) for name in group]
            self._fallback[group] = self._possible(group, every, rng)[0]
        if not len(self._fallback[group]):
            raise UsageError(
                f"the constraints on {', '.join(group)} together exclude every combination; "
                "correct one of them"
            )
        return self._fallback[group]


class _Groups:
    """The full codes behind each compressed code of one column, and their weights."""

    def __init__(self, compression: Compression, name: str, frequencies: np.ndarray | None):
        codes = compression.code_map(name)
        size = compression.domain[name]
        self._order = np.argsort(codes, kind="stable")
        self._counts = np.bincount(codes, minlength=size)
        self._starts = np.cumsum(self._counts) - self._counts
        if frequencies is None:
            weight = np.ones(codes.size)
        else:
            weight = np.asarray(frequencies, float).reshape(-1)
        if weight.size != codes.size or not np.isfinite(weight).all() or (weight < 0).any():
            raise UsageError(
                f"frequencies of {name!r}: expected {codes.size} numbers >= 0, one per code"
            )
        mass = np.bincount(codes, weight, size)
        self.weight = np.where(mass[codes] > 0, weight, 1.0)
        self._ends = np.cumsum(self.weight[self._order])
        # of each compressed code: its first full code, whether it has several, and where the weights of
        # those before it and its own end
        upto = np.append(0.0, self._ends)
        head = self._order[np.minimum(self._starts, codes.size - 1)]
        self._one = head.astype(np.min_scalar_type(max(codes.size - 1, 0)))
        self._several = self._counts > 1
        self._low = upto[self._starts]
        self._high = upto[self._starts + self._counts]

    def members(self, code: int) -> np.ndarray:
        return self._order[self._starts[code] : self._starts[code] + self._counts[code]]

    def draw(
        self, codes: np.ndarray, rng: np.random.Generator, spread: Sequence[np.ndarray] = ()
    ) -> np.ndarray:
        out = self._one[codes]
        if not self._several.any():
            return out
        merged = np.flatnonzero(self._several[codes])
        if merged.size:
            own = codes[merged]
            if spread:
                order = np.lexsort([*(c[merged] for c in reversed(spread)), own])
                uniform = np.empty(merged.size)
                uniform[order] = (rng.random() + GOLDEN * np.arange(merged.size)) % 1
            else:
                uniform = rng.random(merged.size)
            low = self._low[own]
            at = low + uniform * (self._high[own] - low)
            spot = np.searchsorted(self._ends, at, side="right")
            first = self._starts[own]
            last = first + self._counts[own] - 1
            out[merged] = self._order[np.clip(spot, first, last)]
        return out


def row_keys(columns: Sequence[np.ndarray], shape: Sequence[int], rows: int) -> np.ndarray:
    """int64: a number of each row, the same for rows that agree in all columns and for no
    others."""
    key = np.zeros(rows, np.int64)
    size = 1
    for codes, n in zip(columns, shape):
        if size * n >= 1 << 62:
            distinct, key = np.unique(key, return_inverse=True)
            size = len(distinct)
        key = key * n + codes
        size = size * n
    return key


def equal_rows(
    columns: Sequence[np.ndarray], shape: Sequence[int]
) -> tuple[np.ndarray, np.ndarray]:
    """(rows in an order that brings equal combinations together, where each combination's rows
    end)."""
    key = row_keys(columns, shape, len(columns[0]))
    order = np.argsort(key, kind="stable")
    edges = np.flatnonzero(np.diff(key[order])) + 1
    return order, np.append(edges, len(order)) if len(order) else edges


def _components(domain: Domain, cliques: Mapping[Clique, np.ndarray]) -> list[Clique]:
    """Columns that constraints join, directly or through others; each next to one it shares a
    constraint with."""
    out: list[Clique] = []
    left = [set(c) for c in cliques]
    while left:
        group = list(domain.canonical(left.pop(0)))
        while touching := next((c for c in left if c & set(group)), None):
            left.remove(touching)
            group += [a for a in domain.canonical(touching) if a not in group]
        out.append(tuple(group))
    return out
