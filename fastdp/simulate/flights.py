"""Simulated departures from three airports, with the columns of a flight table; users are aircraft.

Each aircraft belongs to a carrier and flies its routes; aircraft differ strongly in their number of
flights. The delay of a flight depends on the hour, the season and the carrier; cancelled flights
have no delay.
"""

from __future__ import annotations

import numpy as np

from fastdp.simulate._draw import WORLD, check_int

from .._util.lazy import pa

CARRIERS = ("AA", "B6", "DL", "EV", "MQ", "UA", "US", "WN")
ORIGINS = ("EWR", "JFK", "LGA")
DESTINATIONS = WORLD["destinations"]
"""Airport -> distance in miles."""
_WORLD = 1903
"""The seed of what all tables share: hubs, routes and delays of airlines."""


def flights(rows: int, seed: int = 0, year: int = 2013) -> pa.Table:
    """`rows` departures as a pyarrow.Table: tailnum, carrier, origin, dest, scheduled, dep_delay
    (minutes, null if cancelled), distance (miles). Equal arguments give equal tables."""

    rows = check_int("rows", rows, 0, 20_000_000)
    year = check_int("year", year, 1900, 2200)
    rng = np.random.default_rng((check_int("seed", seed, 0, 2**63 - 1), 0xF117))
    world = np.random.default_rng(_WORLD)
    size = np.array([3, 5, 5, 5, 2, 6, 2, 1.5])
    hub = world.dirichlet([0.7] * len(ORIGINS), len(CARRIERS))
    route = world.dirichlet([0.4] * len(DESTINATIONS), (len(CARRIERS), len(ORIGINS)))
    late = world.normal(0, 4, len(CARRIERS))

    aircraft = max(1, rows // 80)
    fleet = rng.choice(len(CARRIERS), aircraft, p=size / size.sum())
    busy = rng.lognormal(0.0, 1.1, aircraft)
    who = rng.choice(aircraft, rows, p=busy / busy.sum())
    carrier = fleet[who]
    origin = (rng.random(rows)[:, None] > hub.cumsum(1)[carrier]).sum(1).clip(0, len(ORIGINS) - 1)
    upto = route.cumsum(2)[carrier, origin]
    dest = (rng.random(rows)[:, None] > upto).sum(1).clip(0, len(DESTINATIONS) - 1)

    first = np.datetime64(f"{year}-01-01", "D")
    days = int((np.datetime64(f"{year + 1}-01-01", "D") - first).astype(int))
    day = rng.integers(0, days, rows)
    hour = np.rint(np.clip(rng.normal(13.5, 4.6, rows), 5, 23)).astype(int)
    minute = 5 * rng.integers(0, 12, rows)
    scheduled = first.astype("datetime64[m]") + day * 1440 + hour * 60 + minute

    summer = 6 * np.exp(-(((day - 190) / 35.0) ** 2))
    middle = -4 + 0.9 * (hour - 6) + late[carrier] + summer
    delay = np.rint(middle + rng.exponential(14, rows) - 8 + rng.normal(0, 4, rows)).astype(
        np.int64
    )
    cancelled = rng.random(rows) < 0.015 + 0.02 * (origin == 2)
    tails = np.array([f"N{n:05d}" for n in rng.permutation(90_000)[:aircraft] + 10_000])
    miles = np.array(list(DESTINATIONS.values()))
    out = {
        "tailnum": tails[who],
        "carrier": np.array(CARRIERS)[carrier],
        "origin": np.array(ORIGINS)[origin],
        "dest": np.array(list(DESTINATIONS))[dest],
        "scheduled": scheduled.astype("datetime64[s]"),
        "dep_delay": pa.array(delay, mask=cancelled),
    }
    return pa.table(out | {"distance": miles[dest] + np.array([0, 12, 6])[origin]})
