"""Constants of users and of rows, brought into line. The table of users says how many users of each size
have a constant, with much noise; the model of rows says how many of their rows have it, with little noise,
but of large users only as many rows as the clip lets count."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from .people import MODEL_SAMPLE, People

MOST, MOST_KEPT, SWEEPS = 8.0, 3.0, 10
"""The most by which a constant's share is changed in one turn over all constants, how many turns there are,
and how much more often than the mean a row is kept at most."""
LEAST = 1e-5
"""A share that counts as nothing, about one draw of MODEL_SAMPLE."""


def balanced(
    people: People,
    rows: Mapping[str, np.ndarray],
    clip: int,
    groups: tuple[str, tuple[int, ...]] | None,
    seed: int,
) -> tuple[People, dict[str, np.ndarray]]:
    """(`people` whose constants have as many rows, of each user up to the clip, as `rows` of the model of
    rows say; for each constant [groups of rows, codes] how often a row is kept so that its share is the one
    of all rows of these users). `groups`: column and lower edges of the groups of users that rows tell apart.
    """
    if people.source is None:
        return people, {}
    name, edges = groups or ("", (1,))
    drawn, count, first = people.source.some(MODEL_SAMPLE, seed), len(people.groups), people.constant[0]
    group, part = drawn[people.name].astype(np.int64), np.zeros(len(rows[first]), np.int64)
    part = rows[name].astype(np.int64) if name else part
    of_users, capped, whole = (people.sizes.crossed(people.groups, edges, m) for m in (1, clip, 1 << 40))
    users = np.maximum(of_users.sum(axis=1), 1e-9)
    per_user, whole = capped.sum(axis=1) / users, whole / users[:, None]
    shape = {c: (count, int(max(drawn[c].max(), rows[c].max(initial=0))) + 1) for c in people.constant}
    goal = {c: np.bincount(rows[c], minlength=n).astype(float) for c, (_, n) in shape.items()}
    weight, of_group = np.ones(len(group)), np.ones(count)
    tilt = {c: np.ones(s) for c, s in shape.items()}
    for _ in range(SWEEPS):
        factor = _ratio(users, np.bincount(group, weight, count))
        of_group, weight = of_group * factor, weight * factor[group]
        for c in shape:
            factor = _tilted(_tally(group, drawn[c], weight, shape[c]), per_user, goal[c])
            tilt[c], weight = tilt[c] * factor, weight * factor[group, drawn[c]]
    goal = {c: whole.T @ _tally(group, drawn[c], weight, s) for c, s in shape.items()}
    kept, keep = np.ones(len(part)), {c: np.ones(goal[c].shape) for c in shape}
    for _ in range(SWEEPS):
        for c in shape:
            factor = _ratio(goal[c], _tally(part, rows[c], kept, goal[c].shape))
            keep[c], kept = keep[c] * factor, kept * factor[part, rows[c]]
    keep[first] /= min(float(kept.max(initial=1e-9)), MOST_KEPT * float(kept.mean()))
    of_group /= min(float(weight.max()), MOST * float(weight.mean()))
    return replace(people, weight=of_group, tilt=tilt), keep


def _tally(at: np.ndarray, codes: np.ndarray, weight: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    return np.bincount(at * shape[1] + codes, weight, shape[0] * shape[1]).reshape(shape)


def _ratio(wanted: np.ndarray, there: np.ndarray) -> np.ndarray:
    """The factors by which shares along the last axis become those wanted, as far as MOST allows."""
    one, other = (x / np.maximum(x.sum(axis=-1, keepdims=True), 1e-9) + LEAST for x in (wanted, there))
    return np.where(there > 0, np.clip(one / other, 1 / MOST, MOST), 1.0)


def _tilted(there: np.ndarray, rows: np.ndarray, goal: np.ndarray) -> np.ndarray:
    """Factors for users `there` [groups, codes], whose groups have so many rows each, by which each code
    comes nearer to the share of rows that `goal` says, with the least change in relative entropy: a step of
    Newton, which changes users the more the more rows they have."""
    x = rows / rows.max()
    now = x @ there
    step = np.log(_ratio(goal, now)) * now / np.maximum(np.square(x) @ there, 1e-9)
    return np.exp(np.outer(x, np.clip(step, -1, 1)))
