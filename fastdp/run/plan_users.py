"""Users as a plan imagines them: rows per user spread by chance, and what a clip would do to them."""

from __future__ import annotations

import math

import numpy as np
from msgspec import Struct

from ..answers.clipping import Clipping, from_histogram
from ..mechanisms.base import Config
from ..privacy.clip import (
    MAX_LOST_SHARE,
    PRIVATE,
    TV_PER_LOST_ROW,
    TV_PER_LOST_ROW_GROUPED,
    choice_bound,
    from_release,
    unit_noise,
)
from ..rows_per_user import size_edges
from ..schema import Schema

ALMOST_EXACT = 0.01
"""Standard error of imagined numbers of users: no tail of users hides in their noise."""


class ImaginedUsers(Struct, frozen=True):
    """The clip of a run on such users, what it does to counts, and whether the run chose it."""

    clip: int
    clipping: Clipping
    chosen: bool


def imagined_users(
    config: Config,
    schema: Schema,
    mu: float,
    bound: int,
    rows: int,
    users: int | None,
) -> ImaginedUsers:
    """What a run on `rows` rows of `users` users would do if rows per user were spread by chance
    (geometric). It chooses its clip by the rule of the run. If nobody says how many users there
    are, each has one row."""
    chosen = schema.user is not None and config.clip == PRIVATE
    if schema.user is None or not users or config.unit == "event":
        return ImaginedUsers(1 if chosen else bound, Clipping(), chosen)
    most = min(max(bound, choice_bound(schema)), most_rows(rows / users, users))
    histogram = geometric_histogram(rows / users, users, most)
    clip = min(bound, most)
    if chosen:
        criteria = config.clip_criteria(schema.modelled, user=True)
        noise = unit_noise(mu, ((p.cells, p.weight) for p in criteria))
        grouped = config.traits.users_by_default
        displaced = TV_PER_LOST_ROW_GROUPED if grouped else TV_PER_LOST_ROW
        choice = from_release(histogram, noise, most, ALMOST_EXACT, displaced)
        # Where all is noise, any clip is as good: a run on real users then hardly loses more.
        kept = [line.clip for line in choice.lines if line.lost <= MAX_LOST_SHARE]
        clip = max(choice.clip, min(kept, default=choice.clip))
    return ImaginedUsers(clip, from_histogram(clip, histogram, most, ALMOST_EXACT), chosen)


def most_rows(mean: float, users: int) -> int:
    """The rows that less than one of these users is expected to exceed."""
    more = 1 - 1 / max(mean, 1.0)
    return 2 if more == 0 else max(2, math.ceil(1 + math.log(max(users, 2)) / -math.log(more)))


def counted_rows(rows: int, users: int | None, clip: int) -> float:
    """How many of the rows count under a clip, of so many users (geometric); all of them if nobody
    says how many users there are."""
    return rows * (1 - (1 - min(1.0, users / max(rows, 1))) ** clip) if users else float(rows)


def geometric_histogram(mean: float, users: int, bound: int) -> list[float]:
    """Users expected in each bin of rows per user (`size_edges`), by a geometric distribution of
    this mean. Users above the bound are in the last bin."""
    edges = np.array(size_edges(bound), float)
    more = 1 - 1 / max(mean, 1.0)
    at_least = more ** (edges - 1)
    return (users * (at_least - np.append(at_least[1:], 0.0))).tolist()
