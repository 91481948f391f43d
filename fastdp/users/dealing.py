"""Deals synthetic rows to synthetic users: constant columns decide which rows a user may get, urns
which of these it gets.

Each row goes to one user. A segment is users with the same constants; a few leftover rows at its
end change their constants. So all marginals stay those of the row model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from ..errors import UsageError
from ..significance import SURE
from .levels import COARSE, LEVEL_GROUPS, Level, levels_of
from .order import TRIES, Dealt, Goal, Order
from .people import ALL, Codes, Groups, People
from .rates import GROUPS, Feature, Rates, Roles, chance, shrunk, urn
from .user_choice import Choice

CHUNK_ROWS = 1 << 14
"""Rows that are dealt together. Chunks are independent of each other: threads share them, and
memory is 4 bytes for each of their rows in each list of csrc/deal.c, of a thread at a time."""
SAMPLE_ROWS = 1 << 18
"""Rows of the model that are laid out as they will be dealt."""
LEAST_TRIAL_ROWS = 1 << 15
"""Rows of them, in whole chunks, that trial dealings deal at least. So trials find as many rows of
each kind as the dealing itself will."""
MOST_TRIAL_ROWS = 1 << 16
"""Rows that trial dealings deal at most. Between the two, as many as it takes until the rates that a
trial sees vary by no more than the released ones."""
SPREAD = 0.3
"""Standard deviation of a user's agreement between users (at most .5), by which errors of trials are
judged."""
TRIALS = 4
"""How often parts are dealt to find the urns' parameters."""
MOST_MOVED = 1.5
"""How far the logarithm of a parameter moves in one trial, at most."""
FARTHEST = 1.5
"""How far it moves from the urn's formula in all. Where rows that agree are not there, wanting them
more only drives out what else is wanted."""
CANDIDATES = 8
"""Rows that are looked at for each place and earlier row (`bench.users`, seed 300: with 16, a quarter
slower, same values .045, .075 and .051 in place of .047, .076 and .051 of cohorts, events and
patients)."""
MOST_JOINT = 3
"""Pairs of columns that get urns of their own, at most."""
MOST_NEAR = 4
"""Groups of neighbouring codes that get urns of their own, at most."""
FREE = 1e9
"""The parameter of an urn that likes all values the same."""
MOST_ROOM = 4
"""Keys are numbered without sorting where they are at most so many times as large as their number."""
DENSE = 1 << 20
"""Combinations of codes are numbered without gaps from this number on."""


class Places(Struct, frozen=True, eq=False):
    """Who may get which rows. `wanted`: rows of each user; `take`: the rows, chunk after chunk, whose
    first users and places in `take` are `user_start` and `row_start`. `of_row`, `of_user`: segments of
    rows and users; `first`: a row of each segment."""

    wanted: np.ndarray
    take: np.ndarray
    user_start: np.ndarray
    row_start: np.ndarray
    of_row: np.ndarray
    of_user: np.ndarray
    first: np.ndarray

    def part(self, rows: int) -> Places:
        """Whole chunks with about so many rows, of users of all sizes alike."""
        of_chunk = np.diff(self.row_start)
        users = np.diff(self.user_start)
        order = np.argsort(of_chunk / np.maximum(users, 1), kind="stable")
        upto = np.cumsum(of_chunk[order])
        count = max(1, round(rows / max(1.0, float(of_chunk.mean()))))
        turns = np.arange(0.5, count) / count
        chosen = np.unique(order[np.searchsorted(upto, turns * upto[-1], "right")])
        return Places(
            _pieces(self.wanted, self.user_start, chosen),
            _pieces(self.take, self.row_start, chosen),
            np.append(0, np.cumsum(users[chosen])),
            np.append(0, np.cumsum(of_chunk[chosen])),
            self.of_row,
            self.of_user,
            self.first,
        )


def _pieces(of: np.ndarray, start: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    return np.concatenate([of[start[i] : start[i + 1]] for i in chosen])


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

    def places(self, codes: Codes, seed: int) -> Places:
        """Users for so many rows, and which of the rows each of them may get."""
        column, edges = self.groups
        names = (*self.roles.constant, *([column] if column else ()))
        generator = np.random.Generator(np.random.Philox(key=[seed, 1]))
        wanted = self.people.draw(len(next(iter(codes.values()))), generator)
        group = np.searchsorted(edges, wanted, "right") - 1
        fixed = self.people.constants(wanted, generator) | {column: group}
        of_row, of_user, first = _segments(names, codes, fixed, len(wanted))
        groups = codes[column][first] if column else np.zeros(len(first), np.int64)
        of_user = _with_rows(np.bincount(of_row), wanted, of_user, (groups, group), generator)
        # small users first, so that large ones leave enough of each value to them
        order = np.lexsort((wanted, of_user))
        wanted = wanted[order]
        of_user = of_user[order]
        take = _chosen(of_row, np.bincount(of_user, wanted, len(first)).astype(np.int64))
        ends = np.cumsum(np.bincount(of_user, minlength=len(first)))
        return Places(wanted, take, *_chunks(wanted, ends), of_row, of_user, first)

    def _dealt(
        self, codes: Codes, seed: int, threads: int
    ) -> tuple[dict[str, np.ndarray], np.ndarray]:
        at = self.places(codes, seed)
        owner, _ = self.urns(codes, at, seed, threads)
        sequence = None
        if self.order is not None:
            sequence = self._in_order(codes, at, owner, seed, threads, TRIES)[0]
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
        owners = np.empty(len(at.take), np.uint32)
        # numbers of users do not follow their constants
        numbers = np.random.Generator(np.random.Philox(key=[seed, 2])).permutation(len(at.wanted))
        owners[at.take] = numbers[owner]
        if sequence is not None:
            rows = at.take[sequence]
            out = {name: column[rows] for name, column in out.items()}
            owners = owners[rows]
        return out, owners

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
        self, codes: Codes, at: Places, seed: int, threads: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """(the user of each row of `at.take`, sums of agreement [groups, features])."""
        from .._core import deal as core

        values = self.features(codes, at.take)
        size = values.max(axis=1, initial=0).astype(np.uint32) + np.uint32(1)
        group = np.maximum(np.searchsorted(GROUPS, at.wanted, "right") - 1, 0).astype(np.uint32)
        alpha = np.full((len(GROUPS), len(values)), FREE)
        alpha[:, : self.alpha.shape[1]] = self.alpha
        level, between, cuts = self._levels(len(at.wanted), seed)
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
            between=between,
            cuts=cuts,
            seed=seed,
            threads=threads,
        )

    def _in_order(
        self, codes: Codes, at: Places, owner: np.ndarray, seed: int, threads: int, tries: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """(rows of `at.take`, user after user, each user's in order; sums of the order before rows were
        exchanged). Rows are exchanged between users: `owner` is changed in place."""
        from .._core import deal as core

        assert self.order is not None
        values = self.features(codes, at.take)
        if self.levels:
            values[-len(self.levels) :] //= COARSE
        of = (*((n,) for n in self.roles.dealt), *self.joint, *((x.column,) for x in self.levels))
        wanted = at.wanted.astype(np.uint32)
        dealt = Dealt(at.row_start, at.user_start, values, of or ((),), wanted)
        plan = self.order.plan(codes, at.take, dealt, tries)
        sequence, before, _ = core.order_rows(plan, owner, seed, threads)
        return sequence, before

    def _levels(self, users: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(each user's level, parts of the variance between users, cuts of the groups)."""
        generator = np.random.Generator(np.random.Philox(key=[seed, 4]))
        between = np.array([level.between for level in self.levels])
        drawn = np.sqrt(between)[:, None] * generator.standard_normal((len(between), users))
        cuts = np.array([level.cuts for level in self.levels]).reshape(
            len(between), LEVEL_GROUPS + 1
        )
        return drawn, between, cuts


def dealer(
    people: People,
    rates: Rates,
    roles: Roles,
    codes: Codes,
    seed: int,
    threads: int,
    groups: Groups = ALL,
    order: tuple[Order, Goal] | None = None,
    numbers: Sequence[str] = (),
) -> Dealer:
    """The dealer whose users agree as the rates say, and whose rows follow each other as `order`
    says. Parameters come from the urn's formula. Trial dealings then correct them, on a part of the
    rows `codes`, which are as many as will be dealt at once. `numbers`: columns of numbers, in
    whose level users may differ."""
    made = Dealer(people, roles, np.full((len(GROUPS), len(roles.dealt)), FREE), groups)
    if not len(next(iter(codes.values()))):
        return made
    places = made.places(codes, seed)
    trial = _Trial(codes, places.part(_trial_rows(rates, places)), seed, threads)
    if roles.dealt or rates.pairs:
        made = _repeating(made, rates, trial, numbers)
    if order is None:
        return made
    made = replace(made, order=order[0])
    owner, _ = made.urns(codes, trial.places, seed, threads)
    _, before = made._in_order(codes, trial.places, owner, seed, threads, 0)
    return replace(made, order=order[0].aimed(before, trial.places.wanted, order[1]))


def _trial_rows(rates: Rates, places: Places) -> int:
    """Rows of a trial dealing: see MOST_TRIAL_ROWS."""
    error = float(rates.error.min(initial=np.inf))
    users = (SPREAD / max(error, 1e-9)) ** 2
    rows = users * float(places.wanted.mean())
    return int(np.clip(rows, LEAST_TRIAL_ROWS, MOST_TRIAL_ROWS))


class _Trial(Struct, frozen=True, eq=False):
    """A part of the rows and their places, which is dealt again and again."""

    codes: Codes
    places: Places
    seed: int
    threads: int

    def agreement(self, made: Dealer, number: int) -> tuple[np.ndarray, np.ndarray]:
        """(agreement [groups, features], users [groups, 1] with two rows or more)."""
        _, equal = made.urns(self.codes, self.places, self.seed + number, self.threads)
        wanted = self.places.wanted
        group = np.searchsorted(GROUPS, wanted, "right") - 1
        users = np.bincount(group[wanted > 1], minlength=len(GROUPS))[:, None]
        return np.clip(equal / np.maximum(users, 1) / (1 << 20), 1e-3, 1 - 1e-3), users


def _goal(roles: Roles, rates: Rates, some) -> tuple[np.ndarray, np.ndarray]:
    """(agreement, the urns' parameters to start with) [groups, columns] of the columns that are
    dealt."""
    place = [rates.columns.index(name) for name in roles.dealt]
    by_chance = chance(some, roles.dealt).two
    lift = rates.overall[place] - by_chance
    drawn = shrunk(lift, rates.error[place]) / np.where(lift == 0, 1.0, lift)
    goal = np.clip(by_chance + drawn * (rates.by_group[:, place] - by_chance), 1e-3, 1 - 1e-3)
    repeats = np.arange(len(place)) < len(roles.repeated)
    return goal, np.where(repeats, urn(goal, by_chance), -0.5)


def _repeating(made: Dealer, rates: Rates, trial: _Trial, numbers: Sequence[str]) -> Dealer:
    """The dealer with urns for the rates and for what users repeat together, and levels of
    `numbers`."""
    goal, alpha = _goal(made.roles, rates, trial.codes)
    made = _tuned(replace(made, alpha=alpha), goal, trial)
    if not rates.pairs:
        return made
    joint, aims, starts, levels = _together(made, rates, trial, numbers)
    if not joint and not levels:
        return made
    roles = made.roles
    tuned = dict(zip(made.roles.dealt, made.alpha.T))
    # else who repeats weeks would repeat days
    beside = dict.fromkeys(f[0] for f in joint if isinstance(f[1], int) and f[0] not in tuned)
    roles = replace(roles, avoided=(*roles.avoided, *beside))
    goal, alpha = _goal(roles, rates, trial.codes)
    for i, name in enumerate(roles.dealt):
        alpha[:, i] = tuned.get(name, alpha[:, i])
    more = np.append(alpha, starts, axis=1)
    made = replace(made, roles=roles, joint=joint, alpha=more, levels=levels)
    return _tuned(made, np.append(goal, aims, axis=1), trial)


def _tuned(made: Dealer, goal: np.ndarray, trial: _Trial) -> Dealer:
    """The dealer with the parameters by which trial dealings come nearest to the goal. An urn adds
    the lift 1 / (1 + alpha) to the agreement of rows that are dealt at random. So a trial moves the
    logarithm of alpha by the log-odds of the lift, at most by MOST_MOVED. The mean over the second
    half of the trials counts."""
    at_random = replace(made, alpha=np.full_like(made.alpha, FREE), levels=())
    own = made.alpha.shape[1]
    base = trial.agreement(at_random, 0)[0][:, :own]
    strength = _log_odds(np.array([x.between for x in made.levels]))
    strengths = []
    sign = np.sign(made.alpha)
    start = np.log(np.abs(made.alpha))
    log_alpha = start
    tried = []
    least = np.where(sign > 0, start - FARTHEST, -5.0)
    most = np.where(sign > 0, np.minimum(start + FARTHEST, 9.0), 0.0)
    for number in range(TRIALS):
        every, users = trial.agreement(made, number)
        now = every[:, :own]
        if made.levels:
            together = (every[:, own:] * users).sum(axis=0) / max(users.sum(), 1)
            strength = np.clip(strength + _stronger(made.levels, together), -5, 3.5)
            strengths.append(strength)
            made = replace(made, levels=_with_strength(made.levels, strength))
        more = _log_odds((now - base) / (1 - base)) - _log_odds((goal - base) / (1 - base))
        move = np.clip(np.where(sign > 0, more, np.log(goal / now)), -MOST_MOVED, MOST_MOVED)
        log_alpha = np.where(users > 0, np.clip(log_alpha + move, least, most), log_alpha)
        tried.append(log_alpha)
        made = replace(made, alpha=sign * np.exp(log_alpha))
    made = replace(made, alpha=sign * np.exp(np.mean(tried[TRIALS // 2 :], axis=0)))
    if made.levels:
        strength = np.mean(strengths[TRIALS // 2 :], axis=0)
        made = replace(made, levels=_with_strength(made.levels, strength))
    return made


def _stronger(levels: Sequence[Level], now: np.ndarray) -> np.ndarray:
    """By how much the log-odds of each level's part between users should change, at most by 1."""
    chance = np.array([level.chance for level in levels])
    goal = np.array([level.goal for level in levels])
    lifts = [(x - chance) / (1 - chance) for x in (goal, now)]
    return np.clip(_log_odds(lifts[0]) - _log_odds(lifts[1]), -1, 1)


def _with_strength(levels: Sequence[Level], log_odds: np.ndarray) -> tuple[Level, ...]:
    parts = 1 / (1 + np.exp(-log_odds))
    return tuple(replace(x, between=float(part)) for x, part in zip(levels, parts))


def _together(made: Dealer, rates: Rates, trial: _Trial, numbers: Sequence[str]):
    """(features, goals [groups, features], parameters to start with, levels). Features are pairs of
    columns and groups of neighbouring codes that users repeat more often than urns of single columns
    bring about, by more than noise. Groups of `numbers` are levels."""
    free = np.full((len(GROUPS), len(rates.pairs)), FREE)
    watched = replace(made, joint=rates.pairs, alpha=np.append(made.alpha, free, axis=1))
    now, users = trial.agreement(watched, 0)
    now = now[:, made.alpha.shape[1] :]
    mean = (now * users).sum(axis=0) / max(users.sum(), 1)
    levels = levels_of(rates, mean, numbers, trial.codes)
    of_level = {level.column for level in levels}
    known = np.array([p[0] in of_level and isinstance(p[1], int) for p in rates.pairs], bool)
    excess = np.where(known, 0.0, rates.together - mean)
    of_trial = SPREAD / np.sqrt(max(users.sum(), 1))
    likely = np.flatnonzero(excess > SURE * np.hypot(rates.pairs_error, of_trial))
    best = likely[np.argsort(-excess[likely], kind="stable")]
    near = np.array([isinstance(rates.pairs[i][1], int) for i in best], bool)
    chosen = np.append(best[near][:MOST_NEAR], best[~near][:MOST_JOINT])
    odds = _log_odds(now[:, chosen]) + _log_odds(rates.together[chosen]) - _log_odds(mean[chosen])
    goals = np.clip(1 / (1 + np.exp(-odds)), 1e-3, 1 - 1e-3)
    return tuple(rates.pairs[i] for i in chosen), goals, urn(goals, now[:, chosen]), levels


def _log_odds(p: np.ndarray) -> np.ndarray:
    p = np.clip(p, 1e-3, 1 - 1e-3)
    return np.log(p / (1 - p))


def _segments(names, codes: Codes, fixed: Codes, users: int):
    """(segment of each row, segment of each user, -1 where no row has its constants, a row of each
    segment). A segment: rows with the same codes in the columns `names`."""
    of_row, of_user = (np.zeros(n, np.int64) for n in (len(next(iter(codes.values()))), users))
    first = np.zeros(min(1, len(of_row)), np.int64)
    for name in names:
        size = int(max(x[name].max(initial=0) for x in (codes, fixed))) + 1
        key = np.where(of_user < 0, -1, of_user * size + fixed[name])
        there, first, of_row = _numbered(of_row * size + codes[name])
        at = np.minimum(np.searchsorted(there, key), len(there) - 1)
        of_user = np.where(there[at] == key, at, -1)
    return of_row, of_user, first


def _numbered(key: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(the different keys in order, where each is first, the number of each key among them). Without
    sorting where keys are no larger than there are many."""
    most = int(key.max(initial=-1)) + 1
    if most > MOST_ROOM * max(len(key), 1):
        return np.unique(key, return_index=True, return_inverse=True)
    first = np.full(most, -1, np.int64)
    first[key[::-1]] = np.arange(len(key) - 1, -1, -1)
    there = np.flatnonzero(first >= 0)
    number = np.empty(most, np.int64)
    number[there] = np.arange(len(there))
    return there, first[there], number[key]


def _with_rows(rows, wanted, segment, group, generator: np.random.Generator) -> np.ndarray:
    """The segment of each user. Users for whom their segment has no rows left get one of their own
    group that has some; `group`: that of each segment, that of each user."""
    left = rows.astype(float)
    found = segment.copy()
    order = np.lexsort(
        (wanted, segment)
    )  # small users first: few large ones would take the rows of many
    before = np.cumsum(wanted[order]) - wanted[order]
    before -= before[np.searchsorted(segment[order], segment[order])]
    fits = before + generator.random(len(order)) * wanted[order] < left[segment[order]]
    taken = order[fits & (segment[order] >= 0)]
    left -= np.bincount(segment[taken], wanted[taken], len(left))
    waiting = np.delete(np.arange(len(wanted)), taken)
    for kind in np.unique(group[1][waiting]):
        here = np.flatnonzero(group[0] == kind)
        mine = waiting[group[1][waiting] == kind]
        # what a segment lacks is taken from the next ones, which have most of its constants
        ends = np.maximum.accumulate(np.cumsum(left[here]))
        at = np.searchsorted(ends, np.cumsum(wanted[mine]) - wanted[mine] / 2)
        found[mine] = np.append(here, np.argmax(left))[np.minimum(at, len(here))]
    return found


def _joined(codes: Codes, feature: tuple) -> np.ndarray:
    """One code for the combination of each row's codes, or for its group of neighbouring codes."""
    if isinstance(feature[-1], int):
        return codes[feature[0]] // feature[-1]
    columns = [codes[name] for name in feature]
    if len(columns) == 1:
        return columns[0]
    size = int(columns[1].max(initial=0)) + 1
    both = columns[0].astype(np.int64) * size + columns[1]
    return both if both.max(initial=0) < DENSE else _numbered(both)[2]


def _chosen(segment: np.ndarray, need: np.ndarray) -> np.ndarray:
    """The rows, segment after segment as many as its users need: its own, then those that others
    leave."""
    order = np.argsort(_narrow(segment, len(need)), kind="stable")
    of = segment[order]
    count = np.bincount(segment, minlength=len(need))
    rank = np.arange(len(order)) - (np.cumsum(count) - count)[of]
    own = rank < need[of]
    take = np.full(len(order), -1, np.int64)
    take[(np.cumsum(need) - need)[of[own]] + rank[own]] = order[own]
    take[take < 0] = order[~own]
    return take


def _narrow(numbers: np.ndarray, size: int) -> np.ndarray:
    """The same numbers below `size`, in 16 bits where they fit, which are sorted in one pass."""
    return numbers.astype(np.uint16) if size <= 1 << 16 else numbers


def _chunks(wanted: np.ndarray, ends: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(first user, first row) of each chunk: segments, large ones in parts of about CHUNK_ROWS
    rows."""
    rows = np.concatenate([[0], np.cumsum(wanted)]).astype(np.int64)
    if rows[-1] >= 1 << 32:
        raise UsageError("users can be assigned to fewer than 2^32 rows at once")
    cuts = [0]
    for end in ends.tolist():
        while cuts[-1] < end:
            part = int(np.searchsorted(rows, rows[cuts[-1]] + CHUNK_ROWS))
            cuts.append(end if rows[end] - rows[cuts[-1]] < 2 * CHUNK_ROWS else min(part, end))
    users = np.array(cuts, np.int64)
    return users, rows[users]
