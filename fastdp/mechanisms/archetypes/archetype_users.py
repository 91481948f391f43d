"""Makes synthetic users: the number of each kind, their rows, and the assignment of a model's rows
to users that resemble public ones.

Everything here is post-processing of released numbers and public data; results are a function of
the arguments and the seed.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from msgspec import Struct

from ...model.table_ops import rake, ratio
from ...public import ids
from ...public.ids import Habits
from .model import PublicModel

Codes = dict[str, np.ndarray]
ROUNDS = 200
"""The most rounds of raking: each brings sums closer, and the tolerance ends most calls long
before."""


def generator(seed: int, stream: int) -> np.random.Generator:
    return np.random.Generator(np.random.Philox(key=np.array([seed, stream], np.uint64)))


def cross_table(start: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """The table nearest to `start` in relative entropy with row sums `rows` and column sums
    `columns` (both have the same total).

    Before, a table of independent rows and columns with total 1 is added to `start`. So
    combinations which do not occur in the public data remain possible.
    """
    total = float(rows.sum())
    if total <= 0:
        return np.zeros(start.shape)
    table = start + np.outer(rows / total, columns / total)
    row, column = np.indices(start.shape).reshape(2, -1)
    margins = [(row, rows), (column, columns)]
    return rake(table.reshape(-1), margins, ROUNDS, tolerance=1e-9 * total).reshape(start.shape)


def systematic_round(weights: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Random whole numbers by systematic sampling: each is within 1 of its weight, its expectation
    is the weight, and the sum is within 1 of the sum of weights."""
    return np.diff(
        np.floor(np.concatenate([[0.0], np.cumsum(weights)]) + rng.random()).astype(np.int64)
    )


class Cast(Struct, frozen=True, eq=False):
    """Synthetic users: archetype, trait and number of rows of each; `ends` are running sums of the
    rows."""

    archetype: np.ndarray
    trait: np.ndarray
    ends: np.ndarray


def cast(
    model: PublicModel, users: np.ndarray, limit: int, bound: int | None, mean: bool, seed: int
) -> Cast:
    """Draw users, `users` [archetype, trait] of each kind; all numbers are scaled down by one
    factor if the expected number of rows exceeds `limit`.

    Each user has as many rows as a random public user of its archetype or, with `mean`, the mean
    number of rows. Users are in random order, and those beyond `limit` rows in total are cut off.
    """
    rng = generator(seed, 0)
    width = users.shape[1]
    expected = float((users.sum(axis=1) * model.mean_rows).sum())
    scale = min(1.0, limit / expected) if expected > 0 else 0.0
    kind = np.repeat(np.arange(users.size), systematic_round(users.ravel() * scale, rng))
    rng.shuffle(kind)
    archetype, trait = np.divmod(kind, width)
    if mean:
        rows = np.maximum(1, np.rint(model.mean_rows[archetype])).astype(np.int64)
    else:
        rows = model.sizes.draw(archetype, rng).astype(np.int64)
    if bound is not None:
        rows = np.minimum(rows, bound)
    ends = np.cumsum(rows)
    enough = int(np.searchsorted(ends, limit, side="right"))
    return Cast(archetype[:enough], trait[:enough], ends[:enough])


class CastRows:
    """The rows of drawn users: features are drawn from the archetype's public counts, the trait is
    that of the user, and the other columns are drawn by the chain."""

    columns: tuple[str, ...] | None = None

    def __init__(self, public: PublicModel, people: Cast, seed: int, shard_rows: int = 1 << 20):
        self.public = public
        self.people = people
        self._seed = seed
        self.shard_rows = shard_rows
        self.total = int(people.ends[-1]) if people.ends.size else 0

    def owners(self, i: int) -> np.ndarray:
        """User number of every row of shard i."""
        start = i * self.shard_rows
        stop = min((i + 1) * self.shard_rows, self.total)
        ends = self.people.ends
        first = np.searchsorted(ends, start, side="right")
        last = np.searchsorted(ends, stop, side="left")
        edges = np.minimum(ends[first : last + 1], stop)
        return np.repeat(np.arange(first, last + 1, dtype=np.uint32), np.diff(edges, prepend=start))

    def shard(self, i: int) -> Codes:
        public = self.public
        rng = generator(self._seed, i + 1)
        owner = self.owners(i)
        features = public.options.features
        cell = public.places.draw(self.people.archetype[owner], rng)
        codes = dict(
            zip(features, np.unravel_index(cell.astype(np.int64), public.domain.shape(features)))
        )
        if public.options.trait is not None:
            codes[public.options.trait] = self.people.trait[owner]
        codes = {name: column.astype(np.uint32) for name, column in codes.items()}
        for link in public.links:
            codes[link.target] = link.draw(codes, owner.shape[0], rng)
        return {name: codes[name] for name in public.domain}


class DealtRows:
    """Rows of a model, shard by shard, each assigned to a synthetic user that is modelled on a
    public user. The user has the trait of the row and, if possible, asks for a row in its cell of
    the habit columns. All rows of a user are in one shard."""

    columns: tuple[str, ...] | None = None

    def __init__(
        self, rows: Any, public: PublicModel, users: np.ndarray, bound: int | None, seed: int
    ):
        self.total = rows.total
        self.shard_rows = rows.shard_rows
        self._rows = rows
        self._public = public
        self._bound = bound
        self._seed = seed
        self._wanted = models(public, users, generator(seed, 0))
        self._kept: dict[int, np.ndarray] = {}

    def shard(self, i: int) -> Codes:
        codes = self._rows.shard(i)
        self._kept[i] = self._deal(codes, i)
        return codes

    def owners(self, i: int) -> np.ndarray:
        """User number of every row of shard i, which was drawn before."""
        return self._kept.pop(i)

    def _deal(self, codes: Mapping[str, np.ndarray], i: int) -> np.ndarray:
        """The user of each row of shard i, by the habits of public users with the row's trait."""
        columns = self._public.habits.columns
        trait = self._public.options.trait
        rows = next(iter(codes.values())).shape[0]
        owner = np.empty(rows, np.uint32)
        traits = np.zeros(rows, np.int64) if trait is None else codes[trait]
        order = np.argsort(traits, kind="stable")
        edges = np.searchsorted(traits[order], np.arange(len(self._wanted) + 1))
        # First user number of the shard. A call of `deal` may use one or two more user numbers than
        # rows.
        first = i * (self.shard_rows + 4 * len(self._wanted))
        for value, habits in enumerate(self._wanted):
            at = order[edges[value] : edges[value + 1]]
            if at.size == 0:
                continue
            part = {c: codes[c][at] for c in columns}
            seed = int(generator(self._seed, (i + 1) << 20 | value).integers(2**62))
            dealt, there = ids.deal(part, at.size, habits, bound=self._bound, seed=seed)
            owner[at] = dealt + np.uint32(first)
            first += there
        return owner


def models(public: PublicModel, users: np.ndarray, rng: np.random.Generator) -> list[Habits]:
    """For each value of the trait, the habits of the public users that synthetic users are modelled
    on. A public user is repeated in proportion to `users` [archetype, trait] of its kind. If no
    public user has the trait, all public users are taken, in proportion to `users` of their
    archetype."""
    out = []
    for value in range(users.shape[1]):
        there = public.users[:, value]
        if there.sum() > 0:
            share = ratio(users[:, value], there.astype(float))
            weight = np.where(_has(public, value), share[public.archetype], 0.0)
        else:
            weight = ratio(users.sum(axis=1), public.members.astype(float))[public.archetype]
        if not weight.sum() > 0:
            weight = _has(public, value).astype(float) if there.sum() > 0 else np.ones(weight.shape)
        # At least 300 entries, so that the users of a small shard are not all modelled on the same
        # public user.
        weight = weight * max(1.0, 300.0 / weight.sum())
        out.append(
            _select(public.habits, np.repeat(np.arange(weight.size), systematic_round(weight, rng)))
        )
    return out


def _has(public: PublicModel, value: int) -> np.ndarray:
    return np.ones(public.archetype.shape, bool) if public.trait is None else public.trait == value


def _select(habits: Habits, chosen: np.ndarray) -> Habits:
    """The habits of the users numbered `chosen`, in this order; a number may occur more than
    once."""
    lengths = np.diff(habits.indptr)[chosen]
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    entry = np.arange(indptr[-1]) + np.repeat(habits.indptr[:-1][chosen] - indptr[:-1], lengths)
    return Habits(habits.columns, habits.shape, indptr, habits.cells[entry], habits.counts[entry])
