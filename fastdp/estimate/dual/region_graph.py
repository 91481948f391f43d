"""Measured marginals as regions, and the constraints under which their tables agree, for the dual
(`dual.py`).

A *region* is a measured marginal: every single cell of a clique, or of its codes merged into bins,
attribute by attribute. The bins of an attribute are a partition of its codes. A region is a choice
of one partition per attribute (one block: the attribute is left out). The finest marginal that two
regions both determine takes, per attribute, the finest partition that is coarser than both: their
*meet*. Regions agree everywhere they can if they agree on all meets, and that holds if they do
along the covering pairs of the set of all meets. Each covering pair is a constraint with one
multiplier per cell of the meet.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from msgspec import Struct, field

from ..._core.tables import packed
from ..._core.team import Team
from ...domain import Clique, Domain
from ...queries import Binned, Identity, as_query

Set = frozenset[tuple[str, int]]
"""A region's or meet's partitions: (attribute, number of the partition) of every attribute it does
not leave out."""

MOST_SETS = 4000
"""With more regions and meets than this, their bookkeeping would cost more than the fit; such
problems are fitted by mirror descent."""


class Partitions(Struct):
    """The partitions of the attributes' codes in use; number 0 of every attribute keeps all codes
    apart."""

    domain: Domain
    first: str | None = None
    bins: dict[str, list[np.ndarray]] = field(default_factory=dict)
    _number: dict[tuple[str, bytes], int] = field(default_factory=dict)
    _joined: dict[tuple[str, int, int], int | None] = field(default_factory=dict)
    _lifts: dict[tuple[str, int, int], np.ndarray] = field(default_factory=dict)

    def __post_init__(self):
        for a, n in self.domain.items():
            self.number(a, np.arange(n))

    def number(self, a: str, bins: np.ndarray) -> int | None:
        """The number of a partition given as code -> bin, bins numbered by first code; None for a
        single bin."""
        if bins.size and bins.max() == 0 and self.domain[a] > 1:
            return None
        key = (a, bins.tobytes())
        if key not in self._number:
            self._number[key] = len(self.bins.setdefault(a, []))
            self.bins[a].append(bins)
        return self._number[key]

    def size(self, a: str, number: int) -> int:
        return int(self.bins[a][number].max()) + 1

    def cells(self, names: Set) -> int:
        return int(np.prod([self.size(a, p) for a, p in names], dtype=np.int64)) if names else 1

    def join(self, a: str, p: int, q: int) -> int | None:
        """The finest partition coarser than both; None if that is a single bin."""
        if p == q or 0 in (p, q):
            return max(p, q)
        key = (a, min(p, q), max(p, q))
        if key not in self._joined:
            label = self.bins[a][p].copy()
            # spread the least label through the bins of each partition in turn until nothing
            # changes
            while True:
                before = label.copy()
                for bins in (self.bins[a][q], self.bins[a][p]):
                    least = np.full(bins.max() + 1, label.size)
                    np.minimum.at(least, bins, label)
                    label = least[bins]
                if (label == before).all():
                    break
            self._joined[key] = self.number(a, numbered_by_first(label))
        return self._joined[key]

    def lift(self, a: str, fine: int, coarse: int) -> np.ndarray:
        """Bin of the finer partition -> bin of the coarser one."""
        key = (a, fine, coarse)
        if key not in self._lifts:
            out = np.zeros(self.size(a, fine), np.int64)
            out[self.bins[a][fine]] = self.bins[a][coarse]
            self._lifts[key] = out
        return self._lifts[key]

    def meet(self, x: Set, y: Set) -> Set:
        if self.plain:
            return x & y
        own_cells = dict(x)
        joined = ((a, self.join(a, own_cells[a], q)) for a, q in y if a in own_cells)
        return frozenset((a, number) for a, number in joined if number is not None)

    def within(self, x: Set, y: Set) -> bool:
        """Whether x is a marginal of y (or y itself)."""
        if self.plain:
            return x <= y
        finer = dict(y)
        return all(a in finer and self.join(a, p, finer[a]) == p for a, p in x)

    def maps(self, region: Region) -> list[np.ndarray | None]:
        """Code -> bin of each axis of a region; None if all codes are apart."""
        numbers = dict(region.names)
        return [self.bins[a][numbers[a]] if numbers[a] else None for a in region.clique]

    def shape(self, names: Set) -> tuple[int, ...]:
        """Bins of each of the `axes`."""
        return tuple(self.size(a, dict(names)[a]) for a in self.axes(names))

    def axes(self, names: Set) -> Clique:
        """The attributes `axis_order`: a meet's cells lie side by side in its regions' rows."""
        return axis_order(self.domain, (a for a, _ in names), self.first)

    @property
    def plain(self) -> bool:
        """No codes are merged anywhere: meets are intersections."""
        return len(self._number) == len(self.domain)


def axis_order(domain: Domain, attributes: Iterable[str], first: str | None) -> Clique:
    """Axes of a table: by their number of codes, so that the longest is last; but `first` comes
    first."""
    order = list(domain)
    return tuple(sorted(attributes, key=lambda a: (a != first, domain[a], order.index(a))))


def split_by(domain: Domain, cliques: Iterable[Sequence[str]]) -> str | None:
    """The attribute that comes first: one that most cliques have, and none as its longest axis.
    Parts of a table with different codes of it add to different cells of the marginals that have it
    too, so that threads share none of these."""
    several = [axis_order(domain, clique, None) for clique in cliques if len(clique) > 1]
    held = Counter(a for clique in several for a in clique[:-1])
    inside = [a for a in held if all(clique[-1] != a for clique in several)]
    return max(inside, key=lambda a: (held[a], domain[a]), default=None)


def numbered_by_first(labels: np.ndarray) -> np.ndarray:
    """The same partition with bins numbered 0, 1, ... in the order of their first code."""
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    rank = np.empty(first.size, np.int64)
    rank[np.argsort(first)] = np.arange(first.size)
    return rank[inverse.reshape(-1)]


class Region(Struct):
    """All measurements of one marginal together: `y` with standard error `sigma` per cell (a number
    where all are alike). Axes are in `clique` order, the longest last; bins are numbered as in the
    partitions. `rows` answers lie behind it; `constant` is the loss that no table can avoid."""

    names: Set
    clique: Clique
    shape: tuple[int, ...]
    y: np.ndarray
    sigma: float | np.ndarray
    rows: int
    constant: float

    @property
    def order(self) -> int:
        return len(self.clique)

    @property
    def cells(self) -> int:
        return self.y.size

    @property
    def variance(self) -> float:
        """The mean of its cells'."""
        if isinstance(self.sigma, float):
            return self.sigma**2
        return float(np.mean(np.square(self.sigma)))


class Constraint(Struct, frozen=True):
    """Region `left` and region `right` agree on `names`; without a right region: `left` sums to the
    total there."""

    left: int
    right: int | None
    names: Set


class Regions(Struct, dict=True):
    partitions: Partitions
    regions: list[Region]
    constraints: list[Constraint]

    def about(self, a: str) -> Sequence[int]:
        """The numbers of the regions that have an attribute, ascending."""
        return self._by_attribute.get(a, ())

    @cached_property
    def _by_attribute(self) -> dict[str, list[int]]:
        out: dict[str, list[int]] = {}
        for i, r in enumerate(self.regions):
            for b in r.clique:
                out.setdefault(b, []).append(i)
        return out


def make_regions(
    domain: Domain, measurements: Sequence[Any], threads: int | Team = 1
) -> Regions | None:
    """The regions and constraints of checked measurements; None if some measurement is not of a
    whole marginal, or if the meets are too many."""
    partitions = Partitions(domain, split_by(domain, [m.clique for m in measurements]))
    groups: dict[Set, list[tuple[np.ndarray, np.ndarray, int, float]]] = {}
    queries = (as_query(m.query, domain.cells(m.clique)) for m in measurements)
    if not all(isinstance(query, Identity | Binned) for query in queries):
        return None
    laid = [_as_table(domain, partitions, m) for m in measurements]
    copies = iter(
        packed([table for _, table, _, _ in laid if not table.flags.c_contiguous], threads)
    )
    for m, (names, table, variance, constant) in zip(measurements, laid):
        y = (table if table.flags.c_contiguous else next(copies)).reshape(-1)
        groups.setdefault(names, []).append((y, variance, m.values.size, constant))
    if frozenset() in groups:
        return None  # all codes merged: an answer about the total alone
    regions = [_combined(partitions, names, group) for names, group in groups.items()]
    sets = with_meets(partitions, [r.names for r in regions])
    if sets is None:
        return None
    return Regions(partitions, regions, _constraints(partitions, regions, sets))


def restrict(problem: Regions, numbers: Sequence[int]) -> Regions:
    """The problem of some of the regions."""
    regions = [problem.regions[i] for i in numbers]
    sets = with_meets(problem.partitions, [r.names for r in regions])
    return Regions(
        problem.partitions, regions, _constraints(problem.partitions, regions, sets or [])
    )


def _as_table(
    domain: Domain, partitions: Partitions, m: Any
) -> tuple[Set, np.ndarray, np.ndarray, float]:
    """A measurement's answers as a table over its partitions, axes in the region's order, their
    variances, flat, and the loss of answers about bins that hold no code."""
    query = as_query(m.query, domain.cells(m.clique))
    y = np.asarray(m.values, np.float64)
    variance = np.asarray(m.sigma, np.float64) ** 2
    shape = query.bins if isinstance(query, Binned) else domain.shape(m.clique)
    cube = y.reshape(shape)
    spread = np.broadcast_to(variance, y.shape).reshape(shape)
    constant = 0.0
    names = []
    for axis, a in enumerate(m.clique):
        number: int | None = 0
        if isinstance(query, Binned):
            merge = np.asarray(query.maps[axis])
            bins = numbered_by_first(merge)
            number = partitions.number(a, bins)
            old = np.zeros(bins.max() + 1, np.int64)  # the given number of every bin
            old[bins] = merge
            if old.size < cube.shape[axis]:
                empty = np.delete(np.arange(cube.shape[axis]), old)
                constant += 0.5 * float(
                    (cube.take(empty, axis) ** 2 / spread.take(empty, axis)).sum()
                )
            cube = cube.take(old, axis)
            spread = spread.take(old, axis)
        if number is not None:
            names.append((a, number))
    kept = frozenset(names)
    order = [a for a in m.clique if a in dict(kept)]
    # merged into a single bin: no axis
    lone = tuple(i for i, a in enumerate(m.clique) if a not in dict(kept))
    turn = [order.index(a) for a in partitions.axes(kept)]
    table = cube.squeeze(lone).transpose(turn)
    if variance.ndim == 0:
        return kept, table, np.broadcast_to(variance, table.size), constant
    return kept, table, spread.squeeze(lone).transpose(turn).reshape(-1), constant


def _combined(partitions: Partitions, names: Set, group) -> Region:
    """The region of one marginal: its measurements, averaged with weights 1 / variance. group: (answers,
    variances, number of answers, loss that no table can avoid) of each."""
    clique = partitions.axes(names)
    shape = partitions.shape(names)
    rows = sum(g[2] for g in group)
    constant = sum(g[3] for g in group)
    y = group[0][0]
    variance = group[0][1]
    if len(group) > 1:
        weight = sum(1 / v for _, v, _, _ in group)
        y = sum(t / v for t, v, _, _ in group) / weight
        constant += sum(0.5 * float(((t - y) ** 2 / v).sum()) for t, v, _, _ in group)
        variance = 1 / weight
    alike = variance.size == 0 or variance.strides == (0,)
    alike = alike or float(np.ptp(variance)) <= 1e-12 * float(variance[0])
    sigma = float(np.sqrt(variance[0])) if alike else np.sqrt(variance)
    return Region(
        names=names,
        clique=clique,
        shape=shape,
        y=np.ascontiguousarray(y),
        sigma=sigma,
        rows=rows,
        constant=constant,
    )


class SetIndex:
    """Finds sets by their attributes, in the order in which they were given. Sets that share no
    attribute have no meet."""

    def __init__(self, sets: Sequence[Set]):
        self._sets = sets
        self._by_attribute: dict[str, list[int]] = {}
        for place, names in enumerate(sets):
            for a in {a for a, _ in names}:
                self._by_attribute.setdefault(a, []).append(place)

    def sharing(self, names: Set, first: int = 0) -> list[Set]:
        """The sets from place `first` on that share an attribute with this one."""
        places = {i for a, _ in names for i in self._by_attribute.get(a, ()) if i >= first}
        return [self._sets[i] for i in sorted(places)]

    def candidates_above(self, names: Set) -> list[Set]:
        """Sets that may contain this one: those with its rarest attribute."""
        rarest = min((self._by_attribute.get(a, []) for a, _ in names), key=len, default=None)
        return list(self._sets) if rarest is None else [self._sets[i] for i in rarest]


def with_meets(partitions: Partitions, sets: list[Set]) -> list[Set] | None:
    """All meets of the sets, the sets included; None if they are too many."""
    seen = dict.fromkeys(sets)
    if len(seen) > MOST_SETS:
        return None
    fresh = list(seen)
    while fresh:
        added: dict[Set, None] = {}
        new = set(fresh)
        among = SetIndex(fresh)
        before = SetIndex([s for s in seen if s not in new])
        pairs = [(x, y) for i, x in enumerate(fresh) for y in among.sharing(x, i + 1)]
        pairs += [(x, y) for x in fresh for y in before.sharing(x)]
        for x, y in pairs:
            meet = partitions.meet(x, y)
            if meet and meet not in seen:
                added[meet] = None
        seen.update(added)
        if len(seen) > MOST_SETS:
            return None
        fresh = list(added)
    return list(seen)


def _constraints(
    partitions: Partitions, regions: list[Region], sets: list[Set]
) -> list[Constraint]:
    """One per covering pair of sets whose tables are different regions, and the total for every
    least set."""
    measured = {r.names: i for i, r in enumerate(regions)}
    holding = SetIndex(sets)
    above = {
        s: [t for t in holding.candidates_above(s) if t != s and partitions.within(s, t)]
        for s in sets
    }

    def variance_from(i: int, s: Set) -> float:
        """The mean variance of the cells of s if they are sums of cells of region i."""
        return regions[i].variance * regions[i].cells / partitions.cells(s)

    owner = {}
    for s in sets:
        around = [measured[t] for t in above[s] if t in measured]
        owner[s] = (
            measured[s] if s in measured else min(around, key=lambda i: (variance_from(i, s), i))
        )
    out: dict[Constraint, None] = {}
    least = set(sets)
    for s in sets:
        up = above[s]
        least.difference_update(up)
        inner = {t for u in up for t in above[u]}
        for t in up:
            if t not in inner and owner[t] != owner[s]:
                out[Constraint(owner[t], owner[s], s)] = None
    out |= dict.fromkeys(Constraint(owner[s], None, s) for s in sets if s in least)
    return list(out)


def layout_within(
    partitions: Partitions, region: Region, names: Set
) -> tuple[np.ndarray | None, Any]:
    """How the cells of a meet lie in a region: (offset per row or None, "row", "cell" or the offset
    per column)."""
    number = dict(names)
    order = partitions.axes(names)
    stride = {}
    step = 1
    for a in reversed(order):
        stride[a] = step
        step *= partitions.size(a, number[a])
    here = dict(region.names)
    base = np.zeros(1, np.int64)
    for a in region.clique[:-1]:
        offset = np.zeros(partitions.size(a, here[a]), np.int64)
        if a in stride:
            offset = stride[a] * partitions.lift(a, here[a], number[a])
        base = (base[:, None] + offset).reshape(-1)
    last = region.clique[-1]
    along: Any = "row"
    if last in stride:
        lift = partitions.lift(last, here[last], number[last])
        plain = stride[last] == 1 and lift.size == partitions.size(last, number[last])
        along = "cell" if plain else (stride[last] * lift).astype(np.int32)
    return (None if not base.any() else base.astype(np.int32)), along
