"""Simulated taxi trips with the columns of the 2021 de-identification challenge (sprint 3).

Dependences in the data: a taxi belongs to one company and has habits of shift and area. The dropoff
depends on pickup and shift. Miles depend on the distance between the areas, seconds on miles and
traffic, and the fare on both. The payment type depends on taxi and fare, and tips on the payment
type.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fastdp.simulate import chains, city
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

SHIFTS = 21
COMPANIES = 57
MAX_TRIPS = 200
"""Trips of one taxi, at most."""
PAYMENTS = np.array([-1, 0, 1, 2, 3, 5, 6, 7, 8], dtype=np.int8)
# Places in PAYMENTS.
CASH = 1
CARD = 2
MOBILE = 3
# Kinds of areas, of taxis by their shifts, and of taxis by their fares.
ZONES = 6
ROSTERS = 6
FARE_LEVELS = 3
LIMITS = {"fare": 9900, "tips": 407, "trip_total": 9900, "trip_seconds": 86400, "trip_miles": 1428}
DTYPES = {
    "taxi_id": np.int64,
    "shift": np.uint8,
    "company_id": np.int8,
    "pickup_community_area": np.int8,
    "dropoff_community_area": np.int8,
    "payment_type": np.int8,
    "trip_day_of_week": np.int8,
    "trip_hour_of_day": np.int8,
    "fare": np.int16,
    "tips": np.int16,
    "trip_total": np.int16,
    "trip_seconds": np.int32,
    "trip_miles": np.int16,
}
_WORLD = 2020  # seed of the fixed tables, which do not depend on the caller's seed


class World:
    """Everything about a year that is the same for every seed: tables of probabilities and
    prices."""

    def __init__(self, year: int) -> None:
        fixed = np.random.default_rng(_WORLD)
        this_year = np.random.default_rng((_WORLD, year))
        t = drift(year, 2020)
        self.miles = city.distances().astype(np.float32)
        trend = fixed.normal(0.0, 0.03, city.AREAS)
        busy = city.busyness() * np.exp(t * trend + this_year.normal(0.0, 0.08, city.AREAS))
        self.shift = lookup(self._rosters(fixed, t))
        zones = self._zones(fixed, busy)
        self.home = lookup(zones)
        self.pickup = lookup(self._pickups(zones, t).reshape(SHIFTS * ZONES, city.AREAS))
        self.dropoff = lookup(self._dropoffs(busy).reshape(6 * city.AREAS, city.AREAS))
        self._companies(fixed, this_year, t)
        self.payment = lookup(self._payments(t))
        self.extras = lookup([[60, 22, 8, 4, 2, 2, 1, 1], [2, 4, 6, 8, 40, 25, 10, 5]])
        morning = [20, 14, 9, 6, 5, 8, 16, 22]
        midday = [11, 12, 12, 13, 13, 13, 13, 13]
        self.hours = lookup([morning, midday, [15, 16, 16, 14, 12, 10, 9, 8]])
        self.speed = np.array([1.35, 0.92, 1.05, 1.4, 1.1, 1.15], dtype=np.float32)
        self.flag = 3.25 * (1 + 0.03 * t)
        self.per_mile = 2.2 * (1 + 0.028 * t)

    @staticmethod
    def _rosters(fixed: np.random.Generator, t: float) -> np.ndarray:
        """Shift weights of each roster: all shifts, days, evenings, nights, weekends, office
        hours."""
        day, block = np.divmod(np.arange(SHIFTS), 3)
        week = np.array([0.85, 0.9, 1.0, 1.0, 1.05, 1.1, 0.8])[day]
        base = week * np.array([0.62, 1.0, 0.5])[block]
        tilt = np.array(
            [[1, 1, 1], [0.5, 1.6, 0.5], [0.3, 0.8, 2.5], [3, 0.3, 1], [1, 1, 1], [0.2, 2, 0.4]]
        )
        roster = base * tilt[:, block] * np.exp(fixed.normal(0.0, 0.08, (ROSTERS, SHIFTS)))
        weekend = np.isin(day, (0, 6))
        roster[4] *= np.where(weekend, 4.0, 0.6)
        roster[5] *= np.where(weekend, 0.1, 1.0)
        return roster * np.where(weekend, 1.0 - 0.01 * t, 1.0)

    @staticmethod
    def _zones(fixed: np.random.Generator, busy: np.ndarray) -> np.ndarray:
        """Area weights of each zone of work: anywhere, centre, airports, north, west, south."""
        where = city.positions()
        zones = np.tile(busy, (ZONES, 1)) * np.exp(fixed.normal(0.0, 0.2, (ZONES, city.AREAS)))
        zones[1, list(city.CENTRE)] *= 3.5
        zones[2, list(city.AIRPORTS)] *= 5.0
        zones[3, list(city.NORTH_SIDE)] *= 5.0
        zones[4, 1:][(where[:, 0] < -3.0) & (np.abs(where[:, 1]) < 6.0)] *= 8.0
        zones[5, list(city.SOUTH_SIDE)] *= 8.0
        return zones / zones.sum(axis=1, keepdims=True)

    @staticmethod
    def _pickups(zones: np.ndarray, t: float) -> np.ndarray:
        """[shift, zone, area] weights of pickups: more at offices by day, at bars by night, and at
        airports in the early shift and on Sundays."""
        day, block = np.divmod(np.arange(SHIFTS), 3)
        out = np.repeat(zones[None], SHIFTS, axis=0)
        weekend = np.isin(day, (0, 6))

        def scale(when: np.ndarray, areas: Sequence[int], by: float) -> None:
            out[np.ix_(when, np.arange(ZONES), np.array(areas))] *= by

        scale(block == 1, [32], 1.5)
        scale(weekend, [32, 28], 0.55)
        scale(block == 2, [8, 6, 7, 24], 1.5)
        scale(block == 0, [76], 0.7)
        scale(day == 0, city.AIRPORTS, 1.4)
        out[:, :, list(city.AIRPORTS)] *= np.exp(0.02 * t)
        return out

    def _dropoffs(self, busy: np.ndarray) -> np.ndarray:
        """[kind of shift, pickup, dropoff] weights. They increase with the dropoff's popularity and
        decrease with distance. Trips from an airport go mostly to the centre, and those from
        unknown areas to unknown areas."""
        near = np.exp(-self.miles / 2.0).astype(np.float64)
        weight = busy[None] ** 0.9 * (near + 0.004)
        weight[list(city.AIRPORTS)] = busy[None] * (0.1 + near[list(city.AIRPORTS)])
        weight[:, list(city.AIRPORTS)] = 0.06 * weight.sum(axis=1, keepdims=True) * [0.6, 0.15]
        weight[:, 0] = 0.065 * weight[:, 1:].sum(axis=1)
        weight[0] = busy * 0.5
        weight[0, 0] = 2.2 * weight[0, 1:].sum()
        out = np.repeat(weight[None], 6, axis=0)
        out[0][:, list(city.AIRPORTS)] *= 1.8
        out[1][:, [32]] *= 1.5
        out[2][:, list(city.NORTH_SIDE)] *= 1.7
        out[3:][:, :, [32]] *= 0.6
        out[5][:, list(city.NORTH_SIDE)] *= 2.0
        return out

    def _companies(
        self, fixed: np.random.Generator, this_year: np.random.Generator, t: float
    ) -> None:
        """Sets the company weights (a few large fleets, many of one car) and, for each company, the
        weights of zones, rosters and card classes."""
        rank = fixed.permutation(COMPANIES)
        size = 1.0 / (rank + 1.6) ** 1.35 + 0.0008
        size[rank >= 1] *= np.exp(fixed.normal(0.0, 0.25, COMPANIES))[rank >= 1]
        size *= np.exp(
            t * fixed.normal(0.0, 0.05, COMPANIES) + this_year.normal(0.0, 0.1, COMPANIES)
        )
        self.company = lookup(size)
        self.zone_of = lookup(fixed.dirichlet([2.0, 4.0, 0.8, 0.9, 0.3, 0.3], COMPANIES) + 0.01)
        self.roster_of = lookup(fixed.dirichlet([2.5, 2.0, 0.8, 0.7, 0.6, 0.9], COMPANIES) + 0.01)
        self.card_of = lookup(fixed.dirichlet([1.0, 1.2, 1.2, 1.0], COMPANIES) + 0.01)

    @staticmethod
    def _payments(t: float) -> np.ndarray:
        """[card class x fare level, payment code]: card payment is likelier for higher fares and
        later years."""
        score = np.array([-1.3, -0.2, 0.5, 1.6])[:, None] + np.array([-0.25, 0.35, 0.9]) + 0.04 * t
        card = (1.0 / (1.0 + np.exp(-score))).ravel()
        out = np.tile([0.0075, 0.0, 0.0, 0.0, 0.011, 0.003, 0.0008, 0.0001, 0.0001], (card.size, 1))
        rest = 1.0 - out.sum(axis=1)
        out[:, MOBILE] = 0.03 * rest * card
        out[:, CARD] = 0.97 * rest * card
        out[:, CASH] = rest * (1.0 - card)
        return out


def _trips_per_taxi(rng: np.random.Generator, count: int) -> np.ndarray:
    """int64 trips per taxi, 1 to 200, heavy-tailed: half of the taxis have fewer than 25 trips,
    some 200."""
    trips = np.exp(rng.normal(3.2, 1.25, count))
    return np.clip(np.rint(trips), 1, MAX_TRIPS).astype(np.int64)


def taxi(
    rows: int, seed: int = 0, year: int = 2020, *, chained: bool = False, threads: int | None = None
) -> pa.Table:
    """`rows` taxi trips as a pyarrow.Table with the columns and dtypes of the sprint 3 parameters.

    Money is in whole dollars, distance in whole miles, -1 means missing. Equal arguments give equal
    tables, for any number of threads. Areas, companies, fares and card use drift slowly from year
    to year, so that one year can serve as public data for another. Use another seed as well, or
    both tables have the same taxis.

    `chained`: the trips of a taxi follow each other, two in five where the last one ended (schema
    "taxi-chained"). `trip_start` takes the place of shift, day and hour, in quarters of an hour of
    26 weeks from the first Sunday of March.
    """

    rows = check_int("rows", rows, 0, 200_000_000)
    year = check_int("year", year, 1900, 2200)
    streams = np.random.SeedSequence((check_int("seed", seed, 0, 2**63 - 1), 0x7A81))
    first, rest = streams.spawn(2)
    rng = np.random.Generator(np.random.SFC64(first))
    world = World(year)

    sizes = rows_per_user(rows, rng, _trips_per_taxi)
    ids = distinct_ids(len(sizes), 1_000_000, 9_999_999, rng)
    company = pick(world.company, np.zeros(len(sizes), np.int32), rng)
    zone = pick(world.zone_of, company, rng)
    roster = pick(world.roster_of, company, rng)
    card = pick(world.card_of, company, rng)
    home_area = pick(world.home, zone, rng)
    home_shift = pick(world.shift, roster, rng)
    who = np.repeat(np.arange(len(sizes), dtype=np.uint32), sizes)
    made: tuple[np.ndarray, ...] = ()
    if chained:
        mixed = rng.permutation(rows)
        made = chains.trips(
            world=world,
            rng=rng,
            sizes=sizes,
            zone=zone,
            roster=roster,
            home_area=home_area,
            home_shift=home_shift,
            kind=_KIND,
            zones=ZONES,
        )
        who = who[mixed]
        made = tuple(column[mixed] for column in made)
    else:
        rng.shuffle(who)

    out = {name: np.empty(rows, dtype=dtype) for name, dtype in DTYPES.items()}

    def fill(part: slice, rng: np.random.Generator) -> None:
        taxis = who[part]
        size = len(taxis)
        out["taxi_id"][part] = ids[taxis]
        out["company_id"][part] = company[taxis]
        if made:
            quarter, pickup, dropoff = (column[part] for column in made)
            shift = quarter // 32 % SHIFTS
        else:
            habit = np.frombuffer(rng.bytes(2 * size), dtype=np.uint8)
            shift = pick(world.shift, roster[taxis], rng)
            shift = np.where(habit[:size] < 64, home_shift[taxis], shift)
            pickup = pick(world.pickup, shift.astype(np.int32) * ZONES + zone[taxis], rng)
            pickup = np.where(habit[size:] < 56, home_area[taxis], pickup)
        kind = _KIND[shift]
        if not made:
            dropoff = pick(world.dropoff, kind.astype(np.int32) * city.AREAS + pickup, rng)
        out["shift"][part] = shift
        out["pickup_community_area"][part] = _AREA_VALUE[pickup]
        out["dropoff_community_area"][part] = _AREA_VALUE[dropoff]
        out["trip_day_of_week"][part] = shift // 3
        out["trip_hour_of_day"][part] = (shift % 3) * 8 + pick(world.hours, shift % 3, rng)
        numbers = _numbers(world, rng, pickup, dropoff, kind, card[taxis])
        for name, values in numbers.items():
            out[name][part] = values

    in_chunks(rows, rest, fill, threads)
    if made:
        out = _with_start(out, year, made[0])
    return pa.table({name: pa.array(values) for name, values in out.items()})


def _with_start(
    out: dict[str, np.ndarray], year: int, quarter: np.ndarray
) -> dict[str, np.ndarray]:
    """The columns with `trip_start` in place of shift, day and hour. `quarter`: of an hour, from
    the first Sunday of March."""
    march = np.datetime64(f"{year}-03", "D")
    sunday = march + (3 - march.astype(np.int64)) % 7  # day 3 of 1970 was a Sunday
    start = sunday.astype("datetime64[us]") + quarter * np.timedelta64(900_000_000, "us")
    kept = [n for n in out if not n.startswith("trip_") or n in LIMITS]
    return {"trip_start" if n == "shift" else n: start if n == "shift" else out[n] for n in kept}


_AREA_VALUE = np.concatenate([[-1], np.arange(1, city.AREAS)]).astype(np.int8)
_DAY, _BLOCK = np.divmod(np.arange(SHIFTS), 3)
# Block of the day; plus 3 at weekends.
_KIND = (_BLOCK + 3 * np.isin(_DAY, (0, 6))).astype(np.uint8)


def _numbers(world, rng, pickup, dropoff, kind, card) -> dict[str, np.ndarray]:
    """Miles, seconds, payment, fare, tips and total of the trips of one chunk, given pickup,
    dropoff, kind of shift and card class."""
    size = len(pickup)
    noise = rng.standard_normal((3, size), dtype=np.float32)
    miles = world.miles.ravel().take(pickup.astype(np.int32) * city.AREAS + dropoff)
    miles *= np.exp((0.1 + 0.45 / (1.0 + 0.3 * miles)) * noise[0])
    # Speed is lower on short trips and in rush hours; traffic varies more than distance.
    pace = (9.5 + 23.0 * (miles / (miles + 5.0))) * world.speed[kind]
    seconds = (60.0 + 3600.0 * miles / pace) * np.exp(0.35 * noise[1])
    fare = (
        np.float32(world.flag) + np.float32(world.per_mile) * miles + seconds * np.float32(0.0008)
    )
    np.rint(fare, out=fare)
    level = (fare >= 12.0).astype(np.uint8) + (fare >= 28.0)
    payment = pick(world.payment, card * FARE_LEVELS + level, rng)
    paid_by_card = (payment == CARD) | (payment == MOBILE)
    rate = np.float32(0.19) + 0.07 * noise[2]
    tips = np.where(paid_by_card & (rate > 0.05), np.rint(rate * (fare + 1.0)), 0.0)
    airport = (pickup == 76) | (pickup == 56)
    total = fare + tips + pick(world.extras, airport, rng)
    out = {
        "fare": fare,
        "tips": tips,
        "trip_total": total,
        "trip_seconds": np.rint(seconds),
        "trip_miles": np.floor(miles),
    }
    for name, values in out.items():
        np.minimum(values, LIMITS[name], out=values)
        odd = rng.integers(0, size, rng.binomial(size, 3e-5))
        values[odd] = np.rint(LIMITS[name] * rng.random(len(odd), dtype=np.float32) ** 3)
        values[rng.integers(0, size, rng.binomial(size, 2e-4))] = -1.0
    out["payment_type"] = PAYMENTS[payment]
    return out
