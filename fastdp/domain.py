"""Domains and cliques: which attributes there are, how many codes each has, how cells are numbered.

A clique is a tuple of attribute names. A marginal over it is an array whose axes follow the tuple's
order; flattened, the last attribute varies fastest. This is the order everywhere in fastdp.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations

import numpy as np

from .errors import SchemaError, UsageError, did_you_mean, is_whole

Clique = tuple[str, ...]
Cliques = Sequence[Clique]
Columns = Mapping[str, np.ndarray]
"""An array for each column: its codes, or a number for each of its codes."""
Tables = Mapping[Clique, np.ndarray]
"""A table for each clique: a marginal, or a mask over its cells."""


def code_dtype(size: int) -> np.dtype:
    """The smallest unsigned type that holds the codes 0..size-1."""
    for dtype in (np.uint8, np.uint16, np.uint32):
        if size - 1 <= np.iinfo(dtype).max:
            return np.dtype(dtype)
    raise UsageError(f"a column has {size} codes, the limit is 2^32")


class Domain(Mapping[str, int]):
    """An immutable, ordered mapping from attribute name to its number of codes (at least 1)."""

    __slots__ = ("_sizes",)

    def __init__(self, sizes: Mapping[str, int]):
        for name, n in sizes.items():
            if not isinstance(name, str) or not name:
                raise SchemaError(f"attribute names must be non-empty strings, got {name!r}")
            if not is_whole(n, 1):
                raise SchemaError(
                    f"attribute {name!r}: expected a size that is a whole number >= 1, got {n!r}"
                )
        self._sizes = {name: int(n) for name, n in sizes.items()}

    def __getitem__(self, name: str) -> int:
        return self._sizes[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._sizes)

    def __len__(self) -> int:
        return len(self._sizes)

    def __repr__(self) -> str:
        return f"Domain({self._sizes!r})"

    def check(self, clique: Sequence[str]) -> Clique:
        """The clique as a tuple; SchemaError when an attribute is unknown or named twice. A string
        means a clique of that one attribute."""
        clique = (clique,) if isinstance(clique, str) else tuple(clique)
        for name in clique:
            if name not in self._sizes:
                raise SchemaError(
                    f"columns {clique!r}: there is no column {name!r}{did_you_mean(name, self)}"
                )
        if len(set(clique)) != len(clique):
            raise SchemaError(f"columns {clique!r}: a column is named twice; name each once")
        return clique

    def shape(self, clique: Iterable[str]) -> tuple[int, ...]:
        """Number of codes along each axis of a marginal over the clique."""
        return tuple(map(self._sizes.__getitem__, clique))

    def cells(self, clique: Iterable[str]) -> int:
        """Number of cells of a marginal over the clique (1 for the empty clique); exact, never
        overflows."""
        return math.prod(map(self._sizes.__getitem__, clique))

    def recoded(self, recode: Mapping[str, Sequence[int] | np.ndarray]) -> Domain:
        """The domain after code c of each attribute in `recode` becomes recode[name][c]. Its new
        size is the largest new code + 1; other attributes keep theirs."""
        sizes = dict(self._sizes)
        for name, codes in recode.items():
            if name not in sizes:
                raise SchemaError(
                    f"recoding: there is no column {name!r}{did_you_mean(name, self)}"
                )
            new = np.asarray(codes)
            if len(new) != sizes[name] or new.min() < 0:
                raise SchemaError(
                    f"recoding {name!r}: expected one code >= 0 for each of its {sizes[name]} codes"
                )
            sizes[name] = int(new.max()) + 1
        return Domain(sizes)

    def canonical(self, clique: Iterable[str]) -> Clique:
        """The clique's attributes in the domain's order; SchemaError as in `check`."""
        wanted = set(self.check(tuple(clique)))
        return tuple(name for name in self._sizes if name in wanted)


def downward_closure(cliques: Iterable[Sequence[str]]) -> list[Clique]:
    """Every non-empty subset of every clique, each once, smallest first; attributes keep the order
    of the first clique that brings them together."""
    subsets: dict[frozenset[str], Clique] = {}
    for clique in cliques:
        for k in range(1, len(clique) + 1):
            for subset in combinations(clique, k):
                subsets.setdefault(frozenset(subset), subset)
    return sorted(subsets.values(), key=len)


def maximal(cliques: Iterable[Sequence[str]]) -> list[Clique]:
    """The cliques that no other one contains, in order of appearance. Of cliques with the same
    attributes, one remains, with the attributes in the last one's order."""
    unique = {frozenset(c): tuple(c) for c in cliques}
    kept: set[frozenset[str]] = set()
    holding: dict[str, list[frozenset[str]]] = {}
    for names in sorted(unique, key=len, reverse=True):
        # A clique that contains this one is larger, so it was kept before. It also has this one's
        # rarest attribute: comparing with the holders of that attribute is enough.
        few = len(kept) < 16 or not names
        rivals = kept if few else min((holding.get(name, []) for name in names), key=len)
        if not any(names < other for other in rivals):
            kept.add(names)
            for name in names:
                holding.setdefault(name, []).append(names)
    return [clique for names, clique in unique.items() if names in kept]


def batches(cells: Sequence[int], limit: int = 1 << 25) -> Iterator[tuple[int, int]]:
    """Consecutive ranges (start, stop) of marginals that hold at most `limit` cells together. A
    larger marginal makes a range of its own. `cells`: the cells of each marginal."""
    start = 0
    total = 0
    for i, n in enumerate(cells):
        if i > start and total + n > limit:
            yield start, i
            start = i
            total = 0
        total += n
    if len(cells) > start:
        yield start, len(cells)
