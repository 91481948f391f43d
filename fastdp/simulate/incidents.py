"""Simulated emergency calls with the columns of the 2020 de-identification challenge (sprint 1).

Residents call mostly from the neighbourhood in which they live, and some call repeatedly about the
same type of incident. The type depends on the kind of neighbourhood and on the season; the
distributions of neighbourhoods and of types are heavily skewed.
"""

from __future__ import annotations

import numpy as np

from fastdp.simulate._draw import (
    check_int,
    distinct_ids,
    drift,
    in_chunks,
    lookup,
    pick,
    rows_per_user,
)

from .._util.lazy import pa

NEIGHBORHOODS = 278
TYPES = 174
MONTHS = 12
MAX_CALLS = 20
"""Incidents of one person, at most."""
NEIGHBORHOOD_KINDS = 8  # kinds of neighbourhoods
_WORLD = 911  # the seed of what all tables share: sizes and kinds of neighbourhoods


class World:
    """Probabilities of a year, the same for every seed."""

    def __init__(self, year: int) -> None:
        fixed = np.random.default_rng(_WORLD)
        this_year = np.random.default_rng((_WORLD, year))
        t = drift(year, 2019)
        rank = fixed.permutation(NEIGHBORHOODS)
        size = np.exp(-rank / 70.0) + 0.01
        size *= np.exp(
            t * fixed.normal(0.0, 0.02, NEIGHBORHOODS) + this_year.normal(0, 0.05, NEIGHBORHOODS)
        )
        self.size = lookup(size)
        self.kind = fixed.integers(0, NEIGHBORHOOD_KINDS, NEIGHBORHOODS).astype(np.uint8)
        # Neighbourhoods are arranged in a ring; a resident's second neighbourhood is a few steps
        # from the first.
        self.order = fixed.permutation(NEIGHBORHOODS).astype(np.uint16)
        self.place = np.argsort(self.order).astype(np.int32)
        self.month = lookup(1.0 + 0.18 * np.sin((np.arange(MONTHS) - 3.0) * np.pi / 6.0))
        self.type = lookup(
            self._types(fixed, this_year, t).reshape(NEIGHBORHOOD_KINDS * MONTHS, TYPES)
        )

    @staticmethod
    def _types(fixed: np.random.Generator, this_year: np.random.Generator, t: float) -> np.ndarray:
        """[kind, month, type]: weights that are Zipf-like over types, times a random factor per
        kind and type, times a seasonal factor per type."""
        rank = fixed.permutation(TYPES)
        base = 1.0 / (rank + 3.0) ** 1.3 + 2e-4
        base *= np.exp(t * fixed.normal(0.0, 0.04, TYPES) + this_year.normal(0.0, 0.06, TYPES))
        kind = np.exp(fixed.normal(0.0, 0.7, (NEIGHBORHOOD_KINDS, 1, TYPES)))
        phase = fixed.uniform(0, 2 * np.pi, TYPES)
        depth = fixed.beta(1.0, 4.0, TYPES)
        season = 1.0 + depth * np.sin(np.arange(MONTHS)[:, None] * np.pi / 6.0 + phase)
        return base * kind * season


def _calls_per_resident(rng: np.random.Generator, count: int) -> np.ndarray:
    """int64 numbers of calls, 1 to 20: most residents call once or twice, a few 20 times."""
    return np.clip(np.rint(np.exp(rng.normal(0.55, 0.95, count))), 1, MAX_CALLS).astype(np.int64)


def incidents(
    rows: int, seed: int = 0, year: int = 2019, *, threads: int | None = None
) -> pa.Table:
    """`rows` incidents as a pyarrow.Table: sim_resident, year, month, neighborhood, incident_type.

    Neighbourhoods (0..277) and types (0..173) are the codes of the sprint 1 parameters; a resident
    has at most 20 rows. Equal arguments give equal tables for any number of threads; years drift
    slowly.
    """

    rows = check_int("rows", rows, 0, 200_000_000)
    year = check_int("year", year, 1900, 2200)
    first, rest = np.random.SeedSequence((check_int("seed", seed, 0, 2**63 - 1), 0x911)).spawn(2)
    rng = np.random.Generator(np.random.SFC64(first))
    world = World(year)

    sizes = rows_per_user(rows, rng, _calls_per_resident)
    people = len(sizes)
    ids = distinct_ids(people, 0, max(999_999, 4 * people), rng)
    home = pick(world.size, np.zeros(people, np.int32), rng)
    second = world.order[(world.place[home] + rng.integers(-4, 5, people)) % NEIGHBORHOODS]
    usual_month = pick(world.month, np.zeros(people, np.int32), rng)
    usual_type = pick(world.type, world.kind[home].astype(np.int32) * MONTHS + usual_month, rng)
    insistent = rng.random(people, dtype=np.float32) < 0.3
    who = np.repeat(np.arange(people, dtype=np.uint32), sizes)
    rng.shuffle(who)

    out: dict[str, np.ndarray] = {"sim_resident": np.empty(rows, np.int64)}
    out["year"] = np.full(rows, year, np.int16)
    out |= {"month": np.empty(rows, np.int8)}
    out |= {name: np.empty(rows, np.int16) for name in ("neighborhood", "incident_type")}

    def fill(part: slice, rng: np.random.Generator) -> None:
        residents = who[part]
        size = len(residents)
        habit = rng.random((2, size), dtype=np.float32)
        anywhere = np.zeros(size, np.int32)
        where = np.where(habit[0] < 0.72, home[residents], second[residents])
        where = np.where(habit[0] > 0.9, pick(world.size, anywhere, rng), where)
        again = insistent[residents] & (habit[1] < 0.6)
        month = np.where(
            again & (habit[1] < 0.3), usual_month[residents], pick(world.month, anywhere, rng)
        )
        what = pick(world.type, world.kind[where].astype(np.int32) * MONTHS + month, rng)
        out["sim_resident"][part] = ids[residents]
        out["month"][part] = month + 1
        out["neighborhood"][part] = where
        out["incident_type"][part] = np.where(again, usual_type[residents], what)

    in_chunks(rows, rest, fill, threads)
    return pa.table({name: pa.array(values) for name, values in out.items()})
