"""Deals synthetic rows to synthetic users: constant columns decide which rows a user may get, urns
which of these it gets.

Every row is used once, by users who have its constants but for a few rows at the end of each
segment (users with the same constants), so all marginals stay those of the row model.
"""

from collections.abc import Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from ..errors import UsageError
from .levels import COARSE, LEVEL_GROUPS, Level, levels_of
from .order import TRIES, Order
from .people import ALL, Codes, Groups, People
from .rates import GROUPS, Feature, Rates, Roles, chance, shrunk, urn
from .user_choice import Choice

CHUNK_ROWS = 1 << 14
"""Rows that are dealt together. Chunks are independent of each other: threads share them, and
memory is about 16 (features + 1) bytes for each row of a chunk and thread."""
TRIAL_ROWS = 1 << 17
"""Rows of the trial dealings that set the urns' parameters."""
TRIALS = 6
CANDIDATES, MORE_CANDIDATES, MOST_LOOKED_AT = 16, 64, 1 << 25
"""Rows that are proposed for each place (chosen on flights and Chicago trips). Where users fall
short of their agreement by more than MOST_SHORT, MORE_CANDIDATES are proposed, but not more than
MOST_LOOKED_AT for all rows together (chosen on panels of patients, players and counties,
docs/research/users.md)."""
MOST_JOINT, MOST_NEAR, LEAST_EXCESS, SURE = 3, 4, 0.25, 3.0
"""Pairs of columns, and groups of neighbouring codes, that get urns of their own: how many at most,
and by which part, and by how many standard errors, users repeat them more often than urns of single
columns bring about (chosen on flights and Chicago trips; groups of codes without an order have a
tenth at most)."""
MOST_SHORT, MIXED_COST = 0.1, 0.05
"""Rows of the smallest users are dealt together with those of the next group of users, where users
of a group fall short of their agreement by more than MOST_SHORT of it for want of rows that agree,
and if the shortfall becomes smaller by MIXED_COST (chosen on events and patients,
docs/guide/users.md, at epsilon 10)."""
FREE = 1e9
"""The parameter of an urn that likes all values the same."""
DENSE = 1 << 20
"""Combinations of codes are numbered without gaps from this number on."""


class Dealer(Struct, frozen=True, eq=False):
    """`alpha` [groups of users, features]: the parameters of the urns, one for each repeated column
    and for each pair of columns in `joint`, which users repeat together. `groups`: the rows' column
    of groups of users by their number of rows, which decides as constants do which rows a user may
    get ("": none), and the groups' lower edges. `mixed`: so many groups are not told apart from the
    one after them, counted from the smallest users. `candidates`: rows that are proposed for each
    place."""

    people: People
    roles: Roles
    alpha: np.ndarray
    groups: Groups = ALL
    joint: tuple[Feature, ...] = ()
    order: Order | None = None
    mixed: int = 0
    candidates: int = CANDIDATES
    choice: Choice | None = None
    levels: tuple[Level, ...] = ()

    @property
    def times(self) -> int:
        """How many times as many rows are dealt as are wanted."""
        return 1 if self.choice is None else self.choice.times

    def deal(
        self, codes: Codes, seed: int, threads: int
    ) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """(codes, uint32 user number of each row): the rows of `codes`, where a few have their
        user's constants in place of their own; with an order, user after user and each user's in
        order. With a choice, one in `times` of the rows: those of whole users. Depends on rows and
        seed alone."""
        tries = max(TRIES // self.times, 1)
        made, owner = self._dealt(codes, seed, threads, tries)[:2]
        if self.choice is None:
            return made, owner
        wanted = len(owner) // self.times
        return self.choice({n: made[n] for n in made}, owner, wanted, seed)

    def _dealt(self, codes, seed: int, threads: int, tries: int = TRIES):
        column, edges = self.groups
        names = (*self.roles.constant, *([column] if column else ()))
        generator = np.random.Generator(np.random.Philox(key=[seed, 1]))
        wanted = self.people.draw(len(next(iter(codes.values()))), generator)
        group = np.maximum(np.searchsorted(edges, wanted, "right") - 1 - self.mixed, 0)
        if column:
            codes = {**codes, column: np.maximum(codes[column].astype(np.int64) - self.mixed, 0)}
        fixed = self.people.constants(wanted, generator) | {column: group}
        of_row, of_user, first = _segments(names, codes, fixed, len(wanted))
        groups = codes[column][first] if column else np.zeros(len(first), np.int64)
        of_user = _with_rows(np.bincount(of_row), wanted, of_user, (groups, group), generator)
        order = np.lexsort(
            (wanted, of_user)
        )  # so that large users leave enough of each value to small ones
        wanted, of_user = wanted[order], of_user[order]
        take = _chosen(of_row, np.bincount(of_user, wanted, len(first)).astype(np.int64))
        ends = np.cumsum(np.bincount(of_user, minlength=len(first)))
        owner, equal, sequence, sums = self._urns(codes, take, wanted, ends, seed, threads, tries)
        moved = np.flatnonzero(of_row[take] != of_user[owner])
        out = {
            name: codes[name] for name in codes if name in self.roles.constant or name not in names
        }
        fixed_here = [n for n in (*self.roles.constant, *self.roles.following) if n in codes]
        for name in fixed_here if len(moved) else ():
            out[name] = codes[name].copy()
            out[name][take[moved]] = codes[name][first[of_user[owner[moved]]]]
        owners = np.empty(len(take), np.uint32)
        numbers = np.random.Generator(np.random.Philox(key=[seed, 2])).permutation(len(wanted))
        owners[take] = numbers[owner]  # so that numbers of users do not follow their constants
        if sequence is not None:
            rows = take[sequence]
            out, owners = {name: column[rows] for name, column in out.items()}, owners[rows]
        return out, owners, (wanted, equal, sums)

    def _urns(self, codes, take, wanted, ends, seed, threads, tries):
        from .._core import deal as core

        user_start, row_start = _chunks(wanted, ends)
        names = (*((n,) for n in self.roles.dealt), *self.joint)
        own = [level.groups(codes[level.column]) for level in self.levels]
        count = len(names) + len(own)
        values = np.empty((max(count, 1), len(take)), np.uint32)
        values[0] = 0  # without repeated columns: any row
        for i, feature in enumerate(names):
            values[i] = _joined(codes, feature)[take]
        for i, groups in enumerate(own, len(names)):
            values[i] = groups[take]
        size = values.max(axis=1, initial=0).astype(np.uint32) + np.uint32(1)
        group = np.maximum(np.searchsorted(GROUPS, wanted, "right") - 1, 0).astype(np.uint32)
        alpha = np.full((len(GROUPS), max(count, 1)), 1e4)
        alpha[:, : len(names)] = self.alpha
        sizes = wanted.astype(np.uint32)
        urns = (values, size, sizes, group, alpha, self.candidates)
        of_users = self._levels(len(wanted), seed)
        owner, equal = core.deal(row_start, user_start, *urns, *of_users, seed, threads)
        if self.order is None:
            return owner, equal, None, None
        held = values[:count]
        for i, level in enumerate(self.levels, len(names)):
            held[i] = level.groups(codes[level.column])[take] // COARSE
        chunks, users = (user_start, row_start), (sizes, group)
        sequence, *sums = self.order.exchanged(
            codes, take, chunks, held, users, owner, seed, threads, tries
        )
        return owner, equal, sequence, sums

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
    seed,
    threads,
    groups=ALL,
    order=None,
    rows=0,
    numbers: Sequence[str] = (),
) -> Dealer:
    """The dealer of `rows` rows whose users agree as the rates say, and whose rows follow each
    other as `order`, an (Order, Goal) or None, says: parameters by the urn's formula, then
    corrected by trial dealings of the rows `codes` (more of them than TRIAL_ROWS are not used).
    `numbers`: columns of numbers, in whose level users may differ."""
    some = {name: column[:TRIAL_ROWS] for name, column in codes.items()}
    made = Dealer(people, roles, np.full((len(GROUPS), len(roles.dealt)), FREE), groups)
    if not len(next(iter(some.values()))):
        return made
    if roles.dealt or rates.pairs:
        most = int(np.clip(MOST_LOOKED_AT // max(rows, 1), CANDIDATES, MORE_CANDIDATES))
        made = _agreeing(made, rates, some, seed, threads, most, numbers)
    if order is None:
        return made
    made = replace(made, order=order[0])
    wanted, _, (before, _) = made._dealt(some, seed, threads, tries=0)[2]
    return replace(made, order=order[0].aimed(before, wanted, order[1]))


def _agreeing(
    made: Dealer, rates: Rates, some, seed: int, threads: int, most: int, numbers: Sequence[str]
) -> Dealer:
    least, found = np.inf, made
    for mixed in range(len(made.groups[1])):
        tried, short = _repeating(replace(made, mixed=mixed), rates, some, seed, threads, numbers)
        if short > MOST_SHORT and most > made.candidates:
            made, some = (
                replace(made, candidates=most),
                {n: c[: TRIAL_ROWS // 2] for n, c in some.items()},
            )
            tried, short = _repeating(
                replace(made, mixed=mixed), rates, some, seed, threads, numbers
            )
        cost = max(short, MOST_SHORT) + MIXED_COST * mixed
        if cost < least:
            least, found = cost, tried
        if short <= MOST_SHORT or cost > least:
            break
    return found


def _goal(roles: Roles, rates: Rates, some) -> tuple[np.ndarray, np.ndarray]:
    """(agreement, the urns' parameters to start with) [groups, columns] of the columns that are
    dealt."""
    place, by_chance = (
        [rates.columns.index(name) for name in roles.dealt],
        chance(some, roles.dealt),
    )
    lift = rates.overall[place] - by_chance
    drawn = shrunk(lift, rates.error[place]) / np.where(lift == 0, 1.0, lift)
    goal = np.clip(by_chance + drawn * (rates.by_group[:, place] - by_chance), 1e-3, 1 - 1e-3)
    repeats = np.arange(len(place)) < len(roles.repeated)
    return goal, np.where(repeats, urn(goal, by_chance), -0.5)


def _repeating(made: Dealer, rates, some, seed, threads, numbers=()) -> tuple[Dealer, float]:
    """The dealer with urns for the rates and for what users repeat together, levels of `numbers`,
    and its shortfall."""
    goal, alpha = _goal(made.roles, rates, some)
    made, short = _tuned(replace(made, alpha=alpha), goal, some, seed, threads)
    if not rates.pairs:
        return made, short
    joint, aims, levels = _together(made, rates, some, seed, threads, numbers)
    if not joint and not levels:
        return made, short
    roles, tuned = made.roles, dict(zip(made.roles.dealt, made.alpha.T))
    beside = dict.fromkeys(f[0] for f in joint if isinstance(f[1], int) and f[0] not in tuned)
    roles = replace(
        roles, avoided=(*roles.avoided, *beside)
    )  # else who repeats weeks would repeat days
    goal, alpha = _goal(roles, rates, some)
    alpha = np.stack([tuned.get(n, start) for n, start in zip(roles.dealt, alpha.T)], axis=1)
    more = np.append(alpha, np.full(aims.shape, 100.0), axis=1)
    made = replace(made, roles=roles, joint=joint, alpha=more, levels=levels)
    return _tuned(made, np.append(goal, aims, axis=1), some, seed + TRIALS, threads)


def _tuned(made: Dealer, goal: np.ndarray, some, seed: int, threads: int) -> tuple[Dealer, float]:
    """The dealer with the parameters by which trial dealings come nearest to the goal, and the part
    of the agreement beyond chance by which columns fall short of it. An urn adds the lift 1 / (1 +
    alpha) to the agreement of rows that are dealt at random, so a trial moves the logarithm of
    alpha by the log-odds of the lift, at most by 1; the mean over the second half of the trials
    counts."""
    at_random = replace(made, alpha=np.full_like(made.alpha, FREE))
    own = made.alpha.shape[1]
    base = _agreement(at_random, some, seed, threads)[0][:, :own]
    strength, strengths = _log_odds(np.array([x.between for x in made.levels])), []
    sign, log_alpha, tried = np.sign(made.alpha), np.log(np.abs(made.alpha)), []
    for trial in range(TRIALS):
        every, users = _agreement(made, some, seed + trial, threads)
        now = every[:, :own]
        if made.levels:
            together = (every[:, own:] * users).sum(axis=0) / max(users.sum(), 1)
            strength = np.clip(strength + _stronger(made.levels, together), -5, 3.5)
            strengths.append(strength)
            made = replace(made, levels=_with_strength(made.levels, strength))
        more = _log_odds((now - base) / (1 - base)) - _log_odds((goal - base) / (1 - base))
        move = np.clip(np.where(sign > 0, more, np.log(goal / now)), -1, 1)
        log_alpha = np.where(
            users > 0, np.clip(log_alpha + move, -5, np.where(sign > 0, 9, 0)), log_alpha
        )
        tried.append(log_alpha)
        made = replace(made, alpha=sign * np.exp(log_alpha))
    single = [True] * len(made.roles.dealt) + [isinstance(f[1], int) for f in made.joint]
    weight = users * (sign > 0) * single
    short, wanted = ((weight * np.maximum(x, 0.0)).sum() for x in (goal - now, goal - base))
    made = replace(made, alpha=sign * np.exp(np.mean(tried[TRIALS // 2 :], axis=0)))
    if made.levels:
        strength = np.mean(strengths[TRIALS // 2 :], axis=0)
        made = replace(made, levels=_with_strength(made.levels, strength))
    return made, float(short / max(wanted, 1e-9))


def _stronger(levels: Sequence[Level], now: np.ndarray) -> np.ndarray:
    """By how much the log-odds of each level's part between users should change, at most by 1."""
    chance = np.array([level.chance for level in levels])
    goal = np.array([level.goal for level in levels])
    lifts = [(x - chance) / (1 - chance) for x in (goal, now)]
    return np.clip(_log_odds(lifts[0]) - _log_odds(lifts[1]), -1, 1)


def _with_strength(levels: Sequence[Level], log_odds: np.ndarray) -> tuple[Level, ...]:
    parts = 1 / (1 + np.exp(-log_odds))
    return tuple(replace(x, between=float(part)) for x, part in zip(levels, parts))


def _agreement(made: Dealer, some, seed: int, threads: int) -> tuple[np.ndarray, np.ndarray]:
    """(agreement [groups, features], users [groups, 1] with two rows or more) of a trial
    dealing."""
    _, _, (wanted, equal, _) = made._dealt(some, seed, threads)
    group = np.searchsorted(GROUPS, wanted, "right") - 1
    users = np.bincount(group[wanted > 1], minlength=len(GROUPS))[:, None]
    return np.clip(equal / np.maximum(users, 1) / (1 << 20), 1e-3, 1 - 1e-3), users


def _together(
    made: Dealer, rates: Rates, some, seed: int, threads: int, numbers: Sequence[str] = ()
):
    """(pairs of columns and groups of neighbouring codes, goals [groups, pairs], levels): those that
    users repeat more often than urns of single columns bring about, by more than noise. Groups of
    `numbers` are levels."""
    free = np.full((len(GROUPS), len(rates.pairs)), FREE)
    watched = replace(made, joint=rates.pairs, alpha=np.append(made.alpha, free, axis=1))
    now, users = _agreement(watched, some, seed, threads)
    now = now[:, made.alpha.shape[1] :]
    mean = (now * users).sum(axis=0) / max(users.sum(), 1)
    levels = levels_of(rates, mean, numbers, some)
    of_level = {level.column for level in levels}
    known = np.array([p[0] in of_level and isinstance(p[1], int) for p in rates.pairs], bool)
    excess = np.where(known, 0.0, rates.together - mean)
    likely = np.flatnonzero(excess > np.maximum(SURE * rates.pairs_error, LEAST_EXCESS * mean))
    best = likely[np.argsort(-excess[likely], kind="stable")]
    near = np.array([isinstance(rates.pairs[i][1], int) for i in best], bool)
    chosen = np.append(best[near][:MOST_NEAR], best[~near][:MOST_JOINT])
    odds = _log_odds(now[:, chosen]) + _log_odds(rates.together[chosen]) - _log_odds(mean[chosen])
    goals = np.clip(1 / (1 + np.exp(-odds)), 1e-3, 1 - 1e-3)
    return tuple(rates.pairs[i] for i in chosen), goals, levels


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
        there, first, of_row = np.unique(
            of_row * size + codes[name], return_index=True, return_inverse=True
        )
        at = np.minimum(np.searchsorted(there, key), len(there) - 1)
        of_user = np.where(there[at] == key, at, -1)
    return of_row, of_user, first


def _with_rows(rows, wanted, segment, group, generator: np.random.Generator) -> np.ndarray:
    """The segment of each user. Users for whom their segment has no rows left get one of their own
    group that has some; `group`: that of each segment, that of each user."""
    left, found = rows.astype(float), segment.copy()
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
        here, mine = np.flatnonzero(group[0] == kind), waiting[group[1][waiting] == kind]
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
    return both if both.max(initial=0) < DENSE else np.unique(both, return_inverse=True)[1]


def _chosen(segment: np.ndarray, need: np.ndarray) -> np.ndarray:
    """The rows, segment after segment as many as its users need: its own, then those that others
    leave."""
    order = np.argsort(segment, kind="stable")
    of = segment[order]
    rank = np.arange(len(order)) - np.searchsorted(of, of)
    own = rank < need[of]
    take = np.full(len(order), -1, np.int64)
    take[(np.cumsum(need) - need)[of[own]] + rank[own]] = order[own]
    take[take < 0] = order[~own]
    return take


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
