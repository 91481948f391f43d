"""The fixed tables of the simulated 1940 census: states, cities, counties, occupations, origins.

Code values are those of the public code book; which of them occur, how often, and in which combinations is
made up.
"""

from __future__ import annotations

import numpy as np

from fastdp.simulate._draw import lookup

# The 48 states of 1940 by their code in the birthplace and migration columns (birthplace detail: code x 100).
STATES = {
    "Alabama": 1, "Arizona": 4, "Arkansas": 5, "California": 6, "Colorado": 8, "Connecticut": 9,
    "Delaware": 10, "Florida": 12, "Georgia": 13, "Idaho": 16, "Illinois": 17, "Indiana": 18,
    "Iowa": 19, "Kansas": 20, "Kentucky": 21, "Louisiana": 22, "Maine": 23, "Maryland": 24,
    "Massachusetts": 25, "Michigan": 26, "Minnesota": 27, "Mississippi": 28, "Missouri": 29,
    "Montana": 30, "Nebraska": 31, "Nevada": 32, "New Hampshire": 33, "New Jersey": 34,
    "New Mexico": 35, "New York": 36, "North Carolina": 37, "North Dakota": 38, "Ohio": 39,
    "Oklahoma": 40, "Oregon": 41, "Pennsylvania": 42, "Rhode Island": 44, "South Carolina": 45,
    "South Dakota": 46, "Tennessee": 47, "Texas": 48, "Utah": 49, "Vermont": 50, "Virginia": 51,
    "Washington": 53, "West Virginia": 54, "Wisconsin": 55, "Wyoming": 56,
}  # fmt: skip
COUNTIES = 63
FOREIGN = (15000, 20000, 41000, 41400, 45300, 45500, 45700, 46500, 43400, 40500, 40400, 40000, 50100)
# Mother tongue of each foreign birthplace above: English, Spanish, English, Italian, German, Polish, ...
TONGUES = (100, 1200, 100, 100, 200, 1500, 600, 1800, 1300, 500, 500, 400, 4800)


def census_cities() -> dict[int, str]:
    """The public table of cities: CITY code -> state. Simulated: about eight cities in every state."""
    names = list(STATES)
    return {10 + 20 * i: names[i % len(names)] for i in range(383)}


def _steps(*ranges: tuple[int, int, int]) -> np.ndarray:
    return np.concatenate([np.arange(a, b + 1, s) for a, b, s in ranges])


# Occupations by group: professional, farmers, managers, clerks and sales, craftsmen, operatives, service,
# labour.
OCC_GROUPS = (
    _steps((1, 45, 1)),
    _steps((98, 100, 1)),
    _steps((102, 136, 2)),
    _steps((200, 220, 10), (222, 226, 2), (240, 258, 2), (270, 286, 2)),
    _steps((300, 326, 2), (328, 358, 2), (362, 398, 2)),
    _steps((400, 420, 2), (430, 488, 2)),
    _steps((500, 520, 10), (600, 614, 2), (710, 714, 2), (720, 730, 10)),
    _steps((844, 888, 22), (900, 902, 2)),
)
OCC = np.concatenate(OCC_GROUPS)
OCC_GROUP = np.repeat(np.arange(len(OCC_GROUPS)), [len(g) for g in OCC_GROUPS])
OCC_NONE, OCC1950_NONE, IND_NONE, IND1950_NONE = 997, 999, 997, 0
_OCC1950 = _steps(
    (0, 10, 1), (12, 19, 1), (23, 29, 1), (31, 36, 1), (41, 49, 1), (51, 59, 1), (67, 79, 1),
    (100, 123, 23), (200, 200, 1), (210, 290, 20), (300, 300, 1), (310, 390, 40), (400, 490, 10),
    *((d, d + 5, 1) for d in range(500, 600, 10)), *((d, d + 5, 1) for d in range(600, 650, 10)),
    (670, 675, 1), (680, 685, 1), (700, 720, 10), (760, 764, 1), (780, 785, 1), (810, 840, 10),
    (910, 970, 10),
)  # fmt: skip
IND = np.arange(1, 132)
_IND1950 = _steps(
    (105, 105, 1), (116, 126, 10), (206, 246, 10), (306, 309, 1), (316, 319, 1), (346, 348, 1),
    (376, 379, 1), (406, 409, 1), (416, 419, 1), (456, 459, 1), (506, 526, 10), (606, 609, 1),
    (616, 619, 1), (656, 659, 1), (686, 689, 1), (716, 756, 10), (806, 808, 1), (826, 846, 10),
    (896, 899, 1), (906, 946, 10),
)  # fmt: skip


class World:
    """The fixed facts of one state: tables that map codes to codes, and lookup tables of probabilities."""

    def __init__(self, state: str) -> None:
        rng = np.random.default_rng((1940, STATES[state]))
        self.state = STATES[state]
        self._geography(rng, state)
        self._work()
        self._origins(rng)

    def _geography(self, rng: np.random.Generator, state: str) -> None:
        cities = [code for code, where in census_cities().items() if where == state]
        weight = np.sort(rng.pareto(0.9, COUNTIES) + 0.3)[::-1]
        self.county = lookup(weight)
        self.county_value = 10 + 20 * rng.permutation(COUNTIES)
        # Six economic areas and four supervisor's districts; each is a union of counties.
        self.sea = 48 + (np.arange(COUNTIES) * 6 // COUNTIES)
        self.sea[:2] = (48, 53)
        self.supdist = 10 * (1 + (np.arange(COUNTIES) * 7 % 4))
        self.metarea = np.zeros(COUNTIES, dtype=np.int64)
        self.metarea[:3], self.metarea[3] = 2080, 6560
        self.city_value = np.array([0, *cities])
        places = len(self.city_value)
        inside = np.zeros((COUNTIES, places))
        inside[:, 0] = 1.0
        for c in range(1, places):
            inside[(c - 1) % 6, c] = 6.0 / c
        self.city = lookup(inside)
        population = np.sort(rng.integers(110, 520, places))[::-1]
        population[0], population[1] = 0, 3224
        self.citypop = population
        towns = np.sort(rng.integers(25, 99, (COUNTIES, 4)), axis=1)
        towns[:, 0] = 0  # rural
        self.town = towns
        self.wards = np.where(np.arange(places) % 3 == 1, 5, 0)
        # Enumeration districts are numbered consecutively, county by county; a county has districts in
        # proportion to its population.
        share = np.maximum(1, np.floor(weight / weight.sum() * 2900)).astype(np.int64)
        self.first_district = np.concatenate([[1], 1 + np.cumsum(share)])[:-1]
        self.districts = share

    def _work(self) -> None:
        """Sets the tables of occupations, industries and scores, which are the same in every state."""
        fixed = np.random.default_rng(1950)
        jobs = len(OCC)
        pay = np.array([1500, 700, 1900, 1150, 1400, 950, 650, 600])[OCC_GROUP]
        self.pay = pay * np.exp(fixed.normal(0.0, 0.3, jobs))
        self.occ1950 = _OCC1950[np.sort(fixed.choice(len(_OCC1950), jobs, replace=jobs > len(_OCC1950)))]
        main = np.sort(fixed.integers(0, len(IND), jobs))
        industry = np.full((jobs, len(IND)), 0.004)
        industry[np.arange(jobs), main] = 8.0
        for step in (1, 2, 40):
            industry[np.arange(jobs), (main + step) % len(IND)] += 1.2 / step
        self.ind = lookup(industry)
        self.ind1950 = _IND1950[np.arange(len(IND)) * len(_IND1950) // len(IND)]
        rank = np.argsort(np.argsort(self.pay)) / max(1, jobs - 1)
        spread = fixed.normal(0.0, 0.06, (6, jobs))
        score = np.clip(rank + spread, 0.0, 1.0)
        self.scores = {
            "OCCSCORE": np.rint(4 + 76 * score[0]),
            "SEI": np.rint(3 + 93 * score[1]),
            "PRESGL": np.rint(93 + 722 * score[2]),
            "ERSCOR50": np.rint(20 + 980 * score[3]),
            "EDSCOR50": np.rint(10 + 990 * score[4]),
            "NPBOSS50": np.rint(15 + 980 * score[5]),
        }
        base = np.exp(fixed.normal(0.0, 1.0, jobs))
        by_group = {
            0: [0.07, 0.17, 0.09, 0.12, 0.15, 0.17, 0.07, 0.16],  # men, little schooling
            1: [0.16, 0.12, 0.14, 0.20, 0.15, 0.11, 0.05, 0.07],
            2: [0.10, 0.02, 0.03, 0.16, 0.02, 0.22, 0.42, 0.03],  # women, little schooling
            3: [0.30, 0.01, 0.05, 0.38, 0.01, 0.08, 0.16, 0.01],
        }
        weights = []
        for shares in by_group.values():
            inside = base * np.exp(fixed.normal(0.0, 0.5, jobs))
            sums = np.bincount(OCC_GROUP, inside)
            weights.append(inside / sums[OCC_GROUP] * np.array(shares)[OCC_GROUP])
        self.occ = lookup(weights)
        own = np.array([0.2, 0.85, 0.4, 0.08, 0.12, 0.03, 0.06, 0.03])[OCC_GROUP]
        public = np.array([0.35, 0.0, 0.08, 0.12, 0.04, 0.02, 0.05, 0.12])[OCC_GROUP]
        unpaid = np.where(OCC_GROUP == 1, 0.1, 0.005)
        private = np.maximum(0.02, 1.0 - own - public - unpaid)
        self.class_value = np.array([10, 11, 12, 20, 22, 24, 28, 29])
        self.classwkr = lookup(np.stack([own * 0.02, own * 0.3, own * 0.7, private * 0.02, private,
                                         public * 0.6, public * 0.4, unpaid], axis=1))  # fmt: skip

    def _origins(self, rng: np.random.Generator) -> None:
        others = [c for c in STATES.values() if c != self.state]
        self.birth_value = np.array([self.state * 100, *(c * 100 for c in others), *FOREIGN])
        home = np.exp(rng.normal(0.0, 1.0, len(others)))
        foreign = np.exp(rng.normal(0.0, 0.8, len(FOREIGN)))
        foreign[1] *= 3.0
        weights = []
        for native, moved, abroad in ((0.86, 0.135, 0.005), (0.5, 0.45, 0.05), (0.25, 0.55, 0.2)):
            weights.append(
                np.concatenate([[native], moved * home / home.sum(), abroad * foreign / foreign.sum()])
            )
        self.birth = lookup(weights)  # by age: child, adult, old
        parents = np.zeros((len(self.birth_value), len(self.birth_value)))
        parents[:, 1:] = 0.6 * np.concatenate([home / home.sum(), 0.5 * foreign / foreign.sum()])
        parents[:, 0] = 0.25
        parents[len(others) + 1 :] *= 0.04
        np.fill_diagonal(parents, 1.0)
        self.parent = lookup(parents)
        self.natives = 1 + len(others)
        self.tongue = np.array([100] * self.natives + list(TONGUES))
        self.moved_from = lookup(np.concatenate([[0.0], home / home.sum()]))
