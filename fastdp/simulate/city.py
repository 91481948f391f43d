"""A city of 77 areas: their positions and popularity. Positions are in miles east and north of the
centre.

The layout follows the published community areas of Chicago (numbers and rough centroids are public
geography).
"""

import numpy as np

from ._draw import WORLD

AREAS = 78  # code 0: outside the city or unknown (value -1); code a: area a

CENTRE = (8, 28, 32, 33)  # areas with offices and hotels
AIRPORTS = (76, 56)  # the areas of O'Hare and Midway
NORTH_SIDE = (1, 2, 3, 4, 5, 6, 7, 14, 16, 21, 22, 24, 77)  # areas; more taxis start there
SOUTH_SIDE = tuple(range(34, 56)) + tuple(range(60, 76))


def positions() -> np.ndarray:
    """float64 [77, 2]: miles east and north of area 1, 2, ... 77."""
    return np.stack([WORLD["city"]["east"], WORLD["city"]["north"]], axis=1)


def distances() -> np.ndarray:
    """float64 [78, 78]: driving distance in miles between area codes; code 0 is seven miles from
    all areas."""
    where = positions()
    straight = np.hypot(*(where[:, None] - where[None]).transpose(2, 0, 1))
    miles = np.full((AREAS, AREAS), 7.0)
    miles[1:, 1:] = 1.2 * straight
    np.fill_diagonal(miles, 0.9)
    miles[0, 0] = 3.0
    return miles


def busyness() -> np.ndarray:
    """float64 [78]: the popularity of each area code, which decreases steeply from the centre; the
    sum is 1."""
    where = positions()
    noise = np.random.default_rng(77).normal(0.0, 0.7, AREAS)
    weight = np.empty(AREAS)
    weight[1:] = 0.05 * np.exp(-np.hypot(*where.T) / 2.6) + 0.00025
    weight[[a for a in NORTH_SIDE]] *= 2.0
    weight *= np.exp(noise)
    for area, share in ((0, 0.17), (8, 0.26), (32, 0.22), (28, 0.09), (33, 0.035), (6, 0.04)):
        weight[area] = share
    for area, share in ((76, 0.26), (56, 0.05), (7, 0.03), (24, 0.02), (3, 0.01), (41, 0.005)):
        weight[area] = share
    return weight / weight.sum()
