"""Generated tables of the classes that single rules about synthetic users are for.

`bench.users_without` leaves one rule after the other out. A rule that changes nothing on common tables
may be for others: users who repeat nothing, who take each value once, whose constants go with their
number of rows, who differ by it, or whose rows follow each other. There is one table for each of these.
"""

from __future__ import annotations

import numpy as np

Table = dict[str, np.ndarray]


def strangers(rng: np.random.Generator) -> Table:
    """3,000 users whose rows have nothing in common."""
    user = np.repeat(np.arange(3_000), rng.geometric(0.25, 3_000))
    sizes = {"month": 12, "shop": 30, "kind": 8, "paid": 2, "branch": 5}
    columns = {n: rng.choice(k, len(user), p=rng.dirichlet(np.ones(k))) for n, k in sizes.items()}
    return {"user": user} | columns


def habits(rng: np.random.Generator) -> Table:
    """The same, but that half of a user's rows have its shop."""
    table = strangers(rng)
    own = rng.permutation(table["shop"])[table["user"]]
    again = rng.random(len(own)) < 0.5
    return table | {"shop": np.where(again, own, table["shop"])}


def courses(rng: np.random.Generator) -> Table:
    """4,000 students who take each of 30 courses once at most, common ones more often."""
    students = 4_000
    count = rng.integers(2, 13, students)
    liked = np.log(np.arange(1, 31) ** -0.7) + rng.gumbel(size=(students, 30))
    ranked = np.argsort(-liked, axis=1)
    user = np.repeat(np.arange(students), count)
    place = np.arange(len(user)) - np.repeat(np.cumsum(count) - count, count)
    course = ranked[user, place]
    degree = rng.integers(0, 6, students)[user]
    able = rng.normal(0, 1, students)[user]
    grade = np.clip(np.round(3 + able + rng.normal(0, 0.7, len(user))), 1, 5).astype(int) - 1
    return {"user": user, "month": place // 2, "course": course, "grade": grade, "degree": degree}


def fleets(rng: np.random.Generator) -> Table:
    """2,000 vans with a heavy tail of rows. Large fleets have vans with many rows, which serve more zones
    and go on more often where they were."""
    vans = 2_000
    rows = np.minimum(np.ceil(3 * (1 + rng.pareto(1.3, vans))), 600).astype(np.int64)
    octave = np.log2(rows).astype(np.int64)
    fleet = np.clip(octave + rng.integers(-2, 3, vans), 0, 9)
    depot = (3 * fleet + rng.integers(0, 4, vans)) % 20
    user = np.repeat(np.arange(vans), rows)
    size = octave[user]
    served = (depot[user] * 7 + rng.integers(0, 1 << 30, len(user)) % (1 + size)) % 40
    zone = np.where(rng.random(len(user)) < 0.2, rng.integers(0, 40, len(user)), served)
    goes_on = (rng.random(len(user)) < 0.05 * size) & (np.diff(user, prepend=-1) == 0)
    for at in np.flatnonzero(goes_on):
        zone[at] = zone[at - 1]
    place = np.arange(len(user)) - np.repeat(np.cumsum(rows) - rows, rows)
    day = np.minimum(place * 90 // rows[user] + rng.integers(0, 2, len(user)), 89)
    load = np.clip(rng.normal(depot[user] % 5 * 2, 1.5), 0, 9).astype(np.int64)
    constant = {"fleet": fleet[user], "depot": depot[user]}
    return {"user": user, **constant, "day": day, "zone": zone, "load": load}


TABLES = {f.__name__: f for f in (strangers, habits, courses, fleets)}
"""The order of their rows is by month or day, but for ties."""
