"""Deals synthetic rows to synthetic users: constant columns decide which rows a user may get, urns
which of these it gets.

Each row goes to one user. A segment is users with the same constants; a few leftover rows at its
end change their constants. So all marginals stay those of the row model.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
from msgspec import Struct

from .levels import COARSE, LEVEL_GROUPS, Level
from .order import TRIES, Dealt, Order
from .people import ALL, Codes, Groups, People
from .rates import GROUPS, Feature, Roles
from .segments import Segments, numbered, segments_of
from .user_choice import Choice

CANDIDATES = 8
"""Rows that are looked at for each place and earlier row (`bench.users`, seed 300: with 16, a quarter
slower, same values .045, .075 and .051 in place of .047, .076 and .051 of cohorts, events and
patients)."""
FREE = 1e9
"""The parameter of an urn that likes all values the same."""
SCORES = 1 << 10
"""Parts of the normal law from which scores of rows around their user's level are drawn (FDP_SCORES of
csrc/deal.h)."""
DENSE = 1 << 20
"""Combinations of codes are numbered without gaps from this number on."""


DEALT = 0.6
"""The part of the time that dealing takes, where users are chosen afterwards (`bench.pool`)."""


class Dealer(Struct, frozen=True, eq=False):
    """Deals rows to users.

    alpha : [groups of users, features], the parameters of the urns: one for each repeated column, and
        for each pair of columns in `joint`, which users repeat together
    groups : (the rows' column of groups of users by their number of rows, lower edges of the groups).
        It decides, as constants do, which rows a user may get; "": none
    levels : columns of numbers in whose mean users differ
    """

    people: People
    roles: Roles
    alpha: np.ndarray
    groups: Groups = ALL
    joint: tuple[Feature, ...] = ()
    order: Order | None = None
    choice: Choice | None = None
    levels: tuple[Level, ...] = ()

    @property
    def times(self) -> int:
        """How many times as many rows are dealt as are wanted."""
        return 1 if self.choice is None else self.choice.times

    def deal(
        self,
        codes: Codes,
        seed: int,
        threads: int,
        tell: Callable[[float, str], None] | None = None,
    ) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """(codes, uint32 user number of each row): the rows of `codes`, where a few have their
        user's constants in place of their own. With an order, they come user after user, each
        user's in order. With a choice, one in `times` of the rows: those of whole users. Depends on
        rows and seed alone. `tell` is called with the part that is done, and what comes next."""
        if tell is not None:
            tell(0.0, "dealing rows to users")
        made, owner = self._dealt(codes, seed, threads)
        if self.choice is None:
            return made, owner
        if tell is not None:
            tell(DEALT, "choosing users")
        return self.choice.choose(made, owner, len(owner) // self.times, seed, threads)

    def segments(self, codes: Codes, seed: int) -> Segments:
        """Users for so many rows, and which of the rows each of them may get."""
        return segments_of(self.people, self.roles.constant, self.groups, codes, seed)

    def _dealt(
        self, codes: Codes, seed: int, threads: int
    ) -> tuple[dict[str, np.ndarray], np.ndarray]:
        at = self.segments(codes, seed)
        values = self.features(codes, at.take)
        owner, _ = self.urns(values, at, seed, threads)
        sequence = None
        if self.order is not None:
            sequence = self._in_order(codes, values, at, owner, seed, threads, TRIES)[0]
        del values
        names = (*self.roles.constant, self.groups[0])
        moved = np.flatnonzero(at.of_row[at.take] != at.of_user[owner])
        out = {n: codes[n] for n in codes if n in self.roles.constant or n not in names}
        fixed_here = [n for n in (*self.roles.constant, *self.roles.following) if n in codes]
        row = at.take[moved]
        segment = at.of_user[owner[moved]]
        like = at.first[segment]
        for name in fixed_here if len(moved) else ():
            column = codes[name].copy()
            column[row] = codes[name][like]
            out[name] = column
        # numbers of users do not follow their constants
        drawn = np.random.Generator(np.random.Philox(key=[seed, 2])).permutation(len(at.wanted))
        numbers = drawn.astype(np.uint32)
        if sequence is None:
            owners = np.empty(len(at.take), np.uint32)
            owners[at.take] = numbers[owner]
            return out, owners
        rows = at.take[sequence]
        return {name: column[rows] for name, column in out.items()}, numbers[owner[sequence]]

    def features(self, codes: Codes, take: np.ndarray) -> np.ndarray:
        """uint32 [features, rows]: of urns, then of levels; one without values where there are none."""
        names = (*((n,) for n in self.roles.dealt), *self.joint)
        values = np.zeros((max(len(names) + len(self.levels), 1), len(take)), np.uint32)
        for i, feature in enumerate(names):
            values[i] = _joined(codes, feature)[take]
        for i, level in enumerate(self.levels, len(names)):
            values[i] = level.groups(codes[level.column])[take]
        return values

    def urns(
        self, values: np.ndarray, at: Segments, seed: int, threads: int, counted: bool = False
    ) -> tuple[np.ndarray, np.ndarray]:
        """(the user of each row of `at.take`, whose features are `values`; sums of agreement [groups,
        features], if they are to be `counted`)."""
        from .._core import deal as core

        size = values.max(axis=1, initial=0).astype(np.uint32) + np.uint32(1)
        group = np.maximum(np.searchsorted(GROUPS, at.wanted, "right") - 1, 0).astype(np.uint32)
        alpha = np.full((len(GROUPS), len(values)), FREE)
        alpha[:, : self.alpha.shape[1]] = self.alpha
        level, spread, cuts = self._levels(len(at.wanted), seed)
        return core.deal(
            row_start=at.row_start,
            user_start=at.user_start,
            codes=values,
            size=size,
            wanted=at.wanted.astype(np.uint32),
            group=group,
            alpha=alpha,
            candidates=CANDIDATES,
            level=level,
            spread=spread,
            cuts=cuts,
            scores=_normal_scores(),
            seed=seed,
            threads=threads,
            counted=counted,
        )

    def _in_order(
        self,
        codes: Codes,
        values: np.ndarray,
        at: Segments,
        owner: np.ndarray,
        seed: int,
        threads: int,
        tries: int,
    ) -> tuple[np.ndarray, np.ndarray]:
        """(rows of `at.take`, user after user, each user's in order; sums of the order before rows were
        exchanged). Rows are exchanged between users: `owner` is changed in place. So are their features
        `values`: groups of levels become coarse."""
        from .._core import deal as core

        assert self.order is not None
        if self.levels:
            values[-len(self.levels) :] //= COARSE
        of = (*((n,) for n in self.roles.dealt), *self.joint, *((x.column,) for x in self.levels))
        wanted = at.wanted.astype(np.uint32)
        dealt = Dealt(at.row_start, at.user_start, values, of or ((),), wanted)
        plan = self.order.plan(codes, at.take, dealt, tries)
        sequence, before, _ = core.order_rows(plan, owner, seed, threads)
        return sequence, before

    def _levels(self, users: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(each user's level, the spread of its rows around it, cuts of the groups)."""
        generator = np.random.Generator(np.random.Philox(key=[seed, 4]))
        between = np.array([level.between for level in self.levels])
        drawn = np.sqrt(between)[:, None] * generator.standard_normal((len(between), users))
        cuts = np.array([level.cuts for level in self.levels]).reshape(
            len(between), LEVEL_GROUPS + 1
        )
        return drawn, np.sqrt(1 - between), cuts


@cache
def _normal_scores() -> np.ndarray:
    """Quantiles of the normal law in the middles of equal parts."""
    from scipy.special import ndtri

    return ndtri((np.arange(SCORES) + 0.5) / SCORES)


def _joined(codes: Codes, feature: tuple) -> np.ndarray:
    """One code for the combination of each row's codes, or for its group of neighbouring codes."""
    if isinstance(feature[-1], int):
        return codes[feature[0]] // feature[-1]
    columns = [codes[name] for name in feature]
    if len(columns) == 1:
        return columns[0]
    size = int(columns[1].max(initial=0)) + 1
    both = columns[0].astype(np.int64) * size + columns[1]
    return both if both.max(initial=0) < DENSE else numbered(both)[2]
