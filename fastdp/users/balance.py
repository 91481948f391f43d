"""Constants of users and of rows, brought into line. The table of users says how many users of each size
have a constant, with much noise; the model of rows says how many of their rows have it, with little noise,
but of large users only as many rows as the clip lets count."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from .people import MODEL_SAMPLE, People

MOST, SWEEPS = 8.0, 10
"""The most by which a constant's share is changed, and turns over all constants (the shares of three
constants move by less than 0.001 after that)."""


def balanced(
    people: People,
    rows: Mapping[str, np.ndarray],
    clip: int,
    groups: tuple[str, tuple[int, ...]] | None,
    seed: int,
) -> tuple[People, dict[str, np.ndarray]]:
    """(`people` whose constants have as many rows, of each user up to the clip, as `rows` of the model of rows
    say; for each constant [groups of rows, codes] how often a row is kept so that its share is the one of all
    rows of these users). `groups`: column and lower edges of the groups of users that the rows tell apart."""
    if people.source is None:
        return people, {}
    name, edges = groups or ("", (1,))
    drawn, count = people.source.some(MODEL_SAMPLE, seed), len(people.groups)
    group, first = drawn[people.name].astype(np.int64), rows[people.constant[0]]
    part = rows[name].astype(np.int64) if name else np.zeros(len(first), np.int64)
    share, capped, whole = (
        people.sizes.crossed(people.groups, edges, most) for most in (1, clip, people.sizes.bound)
    )
    users = np.maximum(share.sum(axis=1, keepdims=True), 1e-9)
    sizes = {c: int(max(drawn[c].max(initial=0), rows[c].max(initial=0))) + 1 for c in people.constant}
    goal = {c: _tally(part, rows[c], None, (len(edges), n)) for c, n in sizes.items()}
    weight, of_group = np.ones(len(group)), np.ones(count)
    tilt = {c: np.ones((count, n)) for c, n in sizes.items()}
    for _ in range(SWEEPS):
        factor = _ratio(users[:, 0], np.bincount(group, weight, count))
        of_group, weight = of_group * factor, weight * factor[group]
        for c, n in sizes.items():
            factor = _tilted(_tally(group, drawn[c], weight, (count, n)), capped / users, goal[c])
            tilt[c], weight = tilt[c] * factor, weight * factor[group, drawn[c]]
    goal = {c: (whole / users).T @ _tally(group, drawn[c], weight, (count, n)) for c, n in sizes.items()}
    kept, keep = np.ones(len(part)), {c: np.ones((len(edges), n)) for c, n in sizes.items()}
    for _ in range(SWEEPS):
        for c, n in sizes.items():
            factor = _ratio(goal[c], _tally(part, rows[c], kept, (len(edges), n)))
            keep[c], kept = keep[c] * factor, kept * factor[part, rows[c]]
    keep[people.constant[0]] /= min(float(kept.max(initial=1e-9)), MOST * float(kept.mean()))
    of_group /= min(float(weight.max()), MOST * float(weight.mean()))
    return replace(people, weight=of_group, tilt=tilt), keep


def _tally(
    at: np.ndarray, codes: np.ndarray, weight: np.ndarray | None, shape: tuple[int, int]
) -> np.ndarray:
    return np.bincount(at * shape[1] + codes, weight, shape[0] * shape[1]).reshape(shape)


def _ratio(wanted: np.ndarray, there: np.ndarray) -> np.ndarray:
    """The factors by which shares along the last axis become those wanted, as far as MOST allows."""
    wanted, there = (x / np.maximum(x.sum(axis=-1, keepdims=True), 1e-9) + 1e-9 for x in (wanted, there))
    return np.clip(wanted / there, 1 / MOST, MOST)


def _tilted(there: np.ndarray, rows: np.ndarray, goal: np.ndarray) -> np.ndarray:
    """Factors for users `there` [groups, codes], the more changed the more rows [groups, groups of rows] they
    have, so that in each group of rows each code has the share of rows that `goal` says: the least change in
    relative entropy, by one step of Newton."""
    out = np.ones(there.shape)
    for x, wanted in zip((rows / np.maximum(rows.max(axis=0), 1e-9)).T, goal):
        now = x @ (there * out)
        step = np.log(_ratio(wanted, now)) * now / np.maximum(np.square(x) @ (there * out), 1e-9)
        out *= np.exp(np.outer(x, np.clip(step, -1, 1)))
    return np.clip(out, 1 / MOST, MOST)
