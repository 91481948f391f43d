"""Trips of taxis that follow each other: the next one starts after the last has ended, and often
where it ended."""

import numpy as np

from fastdp.simulate import city
from fastdp.simulate._draw import pick

WEEKS = 26
"""The span of the trips; a taxi makes its last ones in the last quarter of an hour if it has more.
"""
STAYS = 0.4
"""Probability that a trip in the same shift starts where the last one ended."""
WAITS = 0.45
"""Probability of each further quarter of an hour of waiting."""
ENDS = 0.1
"""Probability that the next trip is in another shift."""
_SHIFT = 32  # quarters of an hour
_WEEK = 21 * _SHIFT


def trips(world, rng, sizes, zone, roster, home_area, home_shift, kind, zones):
    """(quarters of an hour since the start, pickup, dropoff) of all trips, taxi after taxi in order
    of time. kind: the kind of each shift of the week; zones: how many zones of work there are."""
    first = np.cumsum(sizes) - sizes
    quarter = np.empty(int(sizes.sum()), np.int64)
    pickup, dropoff = np.empty((2, len(quarter)), np.uint8)
    now = np.zeros(len(sizes), np.int64)
    here = np.zeros(len(sizes), np.uint8)
    for k in range(int(sizes.max(initial=0))):
        at = np.flatnonzero(sizes > k)
        another = rng.random(len(at)) < (1.0 if k == 0 else ENDS)
        shift = np.where(
            rng.random(len(at)) < 0.25, home_shift[at], pick(world.shift, roster[at], rng)
        )
        start = shift * _SHIFT + rng.integers(0, _SHIFT, len(at))
        ahead = now[at] + (start - now[at] - 1) % _WEEK + 1  # the next time that lies in the shift
        time = np.where(
            another, start if k == 0 else ahead, now[at] + rng.geometric(1 - WAITS, len(at))
        )
        now[at] = time = np.minimum(time, WEEKS * _WEEK - 1)
        shift = time // _SHIFT % 21
        area = pick(world.pickup, shift.astype(np.int32) * zones + zone[at], rng)
        area = np.where(rng.random(len(at)) < 0.22, home_area[at], area)
        area = np.where(~another & (rng.random(len(at)) < STAYS), here[at], area)
        here[at] = pick(world.dropoff, kind[shift].astype(np.int32) * city.AREAS + area, rng)
        quarter[first[at] + k] = time
        pickup[first[at] + k] = area
        dropoff[first[at] + k] = here[at]
    return quarter, pickup, dropoff
