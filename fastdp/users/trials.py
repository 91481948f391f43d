"""The parameters of urns: from a formula, corrected by trial dealings of a part of the rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from ..significance import SURE
from .dealing import FREE, Dealer
from .levels import Level, levels_of
from .order import Goal, Order
from .people import ALL, Codes, Groups, People
from .rates import GROUPS, Rates, Roles, chance, urn
from .segments import Segments

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
MOST_JOINT = 3
"""Pairs of columns that get urns of their own, at most."""
MOST_NEAR = 4
"""Groups of neighbouring codes that get urns of their own, at most."""


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
    segments = made.segments(codes, seed)
    trial = _Trial(codes, segments.part(_trial_rows(rates, segments)), seed, threads)
    if roles.dealt or rates.pairs:
        made = _repeating(made, rates, trial, numbers)
    if order is None:
        return made
    made = replace(made, order=order[0])
    values = made.features(codes, trial.segments.take)
    owner, _ = made.urns(values, trial.segments, seed, threads)
    _, before = made._in_order(codes, values, trial.segments, owner, seed, threads, 0)
    return replace(made, order=order[0].aimed(before, trial.segments.wanted, order[1]))


def _trial_rows(rates: Rates, segments: Segments) -> int:
    """Rows of a trial dealing: see MOST_TRIAL_ROWS."""
    error = float(rates.error.min(initial=np.inf))
    users = (SPREAD / max(error, 1e-9)) ** 2
    rows = users * float(segments.wanted.mean())
    return int(np.clip(rows, LEAST_TRIAL_ROWS, MOST_TRIAL_ROWS))


class _Trial(Struct, frozen=True, eq=False):
    """A part of the rows and their places, which is dealt again and again."""

    codes: Codes
    segments: Segments
    seed: int
    threads: int

    def agreement(self, made: Dealer, number: int) -> tuple[np.ndarray, np.ndarray]:
        """(agreement [groups, features], users [groups, 1] with two rows or more)."""
        values = made.features(self.codes, self.segments.take)
        _, equal = made.urns(values, self.segments, self.seed + number, self.threads, counted=True)
        wanted = self.segments.wanted
        group = np.searchsorted(GROUPS, wanted, "right") - 1
        users = np.bincount(group[wanted > 1], minlength=len(GROUPS))[:, None]
        return np.clip(equal / np.maximum(users, 1) / (1 << 20), 1e-3, 1 - 1e-3), users


def _goal(roles: Roles, rates: Rates, some) -> tuple[np.ndarray, np.ndarray]:
    """(agreement, the urns' parameters to start with) [groups, columns] of the columns that are
    dealt."""
    place = [rates.columns.index(name) for name in roles.dealt]
    by_chance = chance(some, roles.dealt).two
    goal = np.clip(rates.by_group[:, place], 1e-3, 1 - 1e-3)
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
