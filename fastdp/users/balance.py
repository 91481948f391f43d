"""Constants of users and of rows, brought into line. The table of users says how many users of each
size have a constant, with much noise. The model of rows says how many of their rows have it, with
little noise. But of large users it has only as many rows as the clip lets count."""

import math
from collections.abc import Container

import numpy as np
from msgspec.structs import replace

from .people import Codes, Groups, People

MOST = 8.0
"""The most by which a constant's share is changed in one turn over all constants."""
MOST_KEPT = 3.0
"""How much more often than the mean a row is kept, at most."""
SWEEPS = 10
"""Turns over all constants."""
LEAST = 1e-5
"""A share that counts as nothing."""


def balanced(
    people: People,
    rows: Codes,
    clip: int,
    groups: Groups,
    sigma: float,
    measured: Container[str] = (),
) -> tuple[People, dict[str, np.ndarray]]:
    """(people, how often rows are kept). Users are reweighted so that clipped counts per constant
    match `rows`, the model of rows. For each constant [groups of rows, codes], rows are kept so
    often that its share is the one of all rows of these users, as far as it stands out of noise.
    `groups`: those of users that rows tell apart; `sigma`: standard error of the table of users;
    `measured`: constants of which the model knows how many rows each group has."""
    table = people.table
    group = people.group
    name, edges = groups
    if not table:
        return people, {}
    users, capped, whole = (
        people.sizes.rows_by(people.groups, edges, m) for m in (1, clip, np.inf)
    )
    of_group = np.maximum(users.sum(axis=1), 1e-9)
    count = len(users)
    capped, whole = (x / of_group[:, None] for x in (capped, whole))
    size = {c: max(int(x[c].max(initial=0)) + 1 for x in (table, rows)) for c in table}
    part = rows.get(name, np.zeros(len(next(iter(rows.values()))), np.int64))
    weight = people.weight
    kept = np.ones(len(part))
    goal = {c: _tally(part, rows[c], kept, len(edges), n) for c, n in size.items()}
    for _ in range(SWEEPS):
        weight = weight * (of_group / np.maximum(np.bincount(group, weight, count), 1e-9))[group]
        for c, n in size.items():
            if c in measured:
                to = (capped, goal[c])
            else:
                to = (capped.sum(1)[:, None], goal[c].sum(0)[None])
            weight = (
                weight * _tilted(_tally(group, table[c], weight, count, n), *to)[group, table[c]]
            )
    for c, n in size.items():
        there = _tally(group, table[c], weight, count, n)
        seen, all_rows = (np.maximum(x.T @ there, 1e-9) for x in (capped, whole))
        doubt = (
            np.square(whole[:, :, None] / all_rows - capped[:, :, None] / seen).sum(axis=0)
            * sigma**2
        )
        lift = np.log(_ratio(all_rows, goal[c]))
        goal[c] = goal[c] * np.exp(lift * np.maximum(1 - doubt / np.maximum(lift**2, 1e-9), 0.0))
    keep = {c: np.ones(goal[c].shape) for c in size}
    for _ in range(SWEEPS):
        for c in size:
            factor = _ratio(goal[c], _tally(part, rows[c], kept, *keep[c].shape))
            keep[c] = keep[c] * factor
            kept = kept * factor[part, rows[c]]
    keep[c] /= min(float(kept.max()), MOST_KEPT * float(kept.mean()))
    return replace(people, weight=weight), keep


def _tally(at: np.ndarray, codes: np.ndarray, weight: np.ndarray, *shape: int) -> np.ndarray:
    """[groups, codes] sums of weights."""
    return np.bincount(at.astype(np.int64) * shape[1] + codes, weight, math.prod(shape)).reshape(
        shape
    )


def _ratio(wanted: np.ndarray, there: np.ndarray) -> np.ndarray:
    """The factors by which shares along the last axis become those wanted, as far as MOST
    allows."""
    one, other = (
        x / np.maximum(x.sum(axis=-1, keepdims=True), 1e-9) + LEAST for x in (wanted, there)
    )
    return np.where(there > 0, np.clip(one / other, 1 / MOST, MOST), 1.0)


def _tilted(there: np.ndarray, rows: np.ndarray, goal: np.ndarray) -> np.ndarray:
    """Factors [groups, codes] for users by which their codes come nearer to the shares of `goal` [groups
    of rows, codes].

    `there` [groups, codes]: how many users there are. `rows` [groups, groups of rows]: how many rows
    each of them has. The factors change users least in relative entropy. They are a step of Newton,
    which changes users the more the more rows they have. Where users of a group are in several groups
    of rows, each of these counts by its part of their rows."""
    out = np.ones(there.shape)
    own = rows / np.maximum(rows.sum(axis=1, keepdims=True), 1e-9)
    for x, part, wanted in zip((rows / np.maximum(rows.max(axis=0), 1e-9)).T, own.T, goal):
        now = x @ (there * out)
        step = np.log(_ratio(wanted, now)) * now / np.maximum(np.square(x) @ (there * out), 1e-9)
        out *= np.exp(np.outer(x * part, np.clip(step, -1, 1)))
    return out
