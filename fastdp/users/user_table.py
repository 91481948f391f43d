"""The table about users, U: which facts it holds, by public definitions, and what a release of it
says. One row per user, so that a user changes one cell of each marginal by 1 (`UserFacts`)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

import numpy as np
from msgspec import Struct

from ..domain import Clique, Domain
from ..numbers.user_features import Feature
from ..schema import Schema
from ..user_views import MOST_VALUE, UserFacts
from .people import Codes
from .rates import Roles
from .user_facts import facts_of

PERIODS = 24
"""Equal periods of the first column of the order, at most, of a user's first and last row."""
COUNTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 1024, 2048, 4096)
"""Lower edges of bins of numbers of rows and distinct values. Periods with rows are counted one by one up
to PERIODS: noise of a cell is the same, rare numbers are counted together, and what lies within a bin is
the pool's (patients at epsilon 1 and 3: .119 and .122 in place of .049 and .032)."""
MOST_CONSTANTS = 3
"""Columns that are constant per user in the table about users, at most: those of most lift."""
MOST_DISTINCT = 2
"""Columns whose distinct values per user are counted, at most: those of most lift."""


def user_facts(
    domain: Domain,
    roles: Roles,
    order: Sequence[str],
    amounts: Mapping[str, np.ndarray],
    bound: int,
    name: str,
    features: Sequence[Feature] = (),
) -> UserFacts:
    """The facts of a run. `amounts`: the number that each code of a column counts as, for columns
    that the owner calls amounts; `bound`: the public bound of rows per user; `name`: the column of
    the number of rows; `features`: what else the owner says of users."""
    facts: list[tuple[str, str, str, tuple, tuple]] = []

    def add(kind: str, column: str, numbers: Sequence = (), edges: Sequence = ()) -> None:
        facts.append((f"{kind} {column}", kind, column, tuple(numbers), tuple(edges)))

    if order:
        parts = min(PERIODS, domain[order[0]])
        add("first", order[0], (parts,))
        add("last", order[0], (parts,))
        size = domain[order[0]]
        add("active", order[0], (size,), _active_edges(min(size, bound)))
    for column, numbers in amounts.items():
        whole = whole_numbers(numbers)
        largest = max(abs(x) for x in whole)
        add("sum", column, whole, octaves(whole, largest * bound))
        add("mean", column, whole, _halves(octaves(whole, largest)))
    facts += [(one.name, "value", one.number.text, (), one.edges) for one in features]
    for column in roles.constant[:MOST_CONSTANTS]:
        add("constant", column)
    free = [n for n in roles.repeated if n not in (*order, *amounts) and n in domain]
    for column in free[:MOST_DISTINCT]:
        add("distinct", column, (), _distinct_edges(min(domain[column], bound)))
    edges = tuple(e for e in COUNTS if e <= bound)
    return UserFacts(edges, name, tuple(facts))


def possible_facts(
    domain: Domain,
    order: Sequence[str],
    amounts: Iterable[str],
    bound: int,
    features: Iterable[str],
) -> dict[str, int | None]:
    """All columns that `user_facts` may choose, whatever the roles, and their numbers of codes. None: as
    many as amounts have bins, which takes their numbers."""
    sizes: dict[str, int | None] = dict.fromkeys(features)
    for column in amounts:
        sizes |= dict.fromkeys((f"sum {column}", f"mean {column}"))
    for column, size in domain.items():
        sizes[f"constant {column}"] = size
        sizes[f"distinct {column}"] = len(_distinct_edges(min(size, bound))) + 1
    if order:
        size = domain[order[0]]
        sizes |= dict.fromkeys((f"first {order[0]}", f"last {order[0]}"), min(PERIODS, size))
        sizes[f"active {order[0]}"] = len(_active_edges(min(size, bound))) + 1
    return sizes


def _active_edges(most: int) -> list[int]:
    """Edges of bins of the number of periods with rows."""
    one_by_one = [*range(2, PERIODS), *(e for e in COUNTS if e >= PERIODS)]
    return [e for e in one_by_one if e <= most]


def _distinct_edges(most: int) -> list[int]:
    """Edges of bins of the number of distinct values."""
    return [e for e in COUNTS[1:] if e <= most]


def whole_numbers(numbers: np.ndarray) -> tuple[int, ...]:
    """The numbers in units of a power of 2 in which the largest is near 2^31; codes without a
    number count as 0."""
    finite = np.where(np.isfinite(numbers), numbers, 0.0)
    largest = float(np.abs(finite).max(initial=0.0))
    unit = 2.0 ** math.floor(math.log2(MOST_VALUE / largest)) if largest else 1.0
    return tuple(int(x) for x in np.rint(finite * unit).clip(-MOST_VALUE, MOST_VALUE))


def octaves(whole: Sequence[int], largest: int) -> list[int]:
    """Edges of bins of sums of such numbers, in octaves on both sides of 0."""
    least = min((abs(x) for x in whole if x), default=1)
    up = [least << k for k in range(max(2, largest // least).bit_length() + 1)]
    return [*(-e for e in reversed(up)), *up] if min(whole) < 0 else up


def _halves(edges: Sequence[int]) -> list[int]:
    """The edges, and one in the middle of each octave."""
    octaves = [(a, b) for a, b in pairwise(edges) if a * b > 0]
    return sorted({*edges, *(math.isqrt(a * b) * (1 if a > 0 else -1) for a, b in octaves)})


class PoolTable:
    """The facts of synthetic users as a public table (`mechanisms.base.Public`): a prior of U."""

    def __init__(self, schema, facts: Codes):
        self.schema = schema
        self._facts = facts

    def marginals(self, cliques: Sequence[Clique], recode=None) -> dict[Clique, np.ndarray]:
        """int64 counts of users."""
        domain = self.schema.domain.recoded(recode) if recode else self.schema.domain
        codes = dict(self._facts)
        for name in recode or ():
            codes[name] = np.asarray(recode[name])[codes[name]]
        out = {}
        for clique in cliques:
            shape = domain.shape(clique)
            cells = np.ravel_multi_index([codes[n] for n in clique], shape)
            counts = np.bincount(cells, minlength=math.prod(shape)).astype(np.int64)
            out[clique] = counts.reshape(shape)
        return out


class Marginal(Struct, frozen=True, eq=False):
    """Users in the cells of `clique`, and the standard error of each. `positions`: by column, the
    place of each code; codes of the same place were counted together."""

    clique: Clique
    positions: tuple[np.ndarray, ...]
    users: np.ndarray
    error: np.ndarray

    def cells(self, facts: Codes) -> np.ndarray:
        """The cell of each user with these facts."""
        cells = np.zeros(1, np.int64)
        for name, place in zip(self.clique, self.positions, strict=True):
            cells = cells * (int(place.max()) + 1) + place.astype(np.int64)[facts[name]]
        return cells


def combined(answers: Sequence[Marginal]) -> list[Marginal]:
    """The same, where answers to one question are one: their mean by precision."""
    found: dict[tuple, list[Marginal]] = {}
    for one in answers:
        asked = (one.clique, *(place.tobytes() for place in one.positions))
        found.setdefault(asked, []).append(one)
    out = []
    for same in found.values():
        precision = sum(1 / np.square(one.error) for one in same)
        users = sum(one.users / np.square(one.error) for one in same) / precision
        out.append(Marginal(same[0].clique, same[0].positions, users, 1 / np.sqrt(precision)))
    return out


def pool_facts(
    view: UserFacts, schema: Schema, codes: Codes, start: np.ndarray
) -> dict[str, np.ndarray]:
    """The facts of synthetic users, whose rows lie one user after the other."""
    return facts_of(view, schema, start, codes.__getitem__, lambda name: codes[name][start[:-1]])
