"""Sets of a target and three or four columns that no smaller set explains, as a parity is.

Such a set shows in none of its pairs and triples, so no screening round can grow towards it. There
are too many sets for a vector of distances. The exponential mechanism picks one: its error grows
with the logarithm of their number. Each column is cut in two at the median of its released 1-way.
The model's counts come from rows drawn of it, so they are public.

A pick costs `PICK` of mu^2. A second release, for `CHECK`, says how far the pick and its subsets
are from the model. The pick is measured if its distance stands out and exceeds those of its subsets
by far. After it, another pick is made. The number of picks is bounded by `most_picks`, and their
share is set aside before the first. What is not used goes to the last batch. The sensitivities are
those of `Session.select_half_set` and `Session.distances` (docs/explain/target-sets.md)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np
from msgspec import Struct

from ..._util.bit_rows import BitRows
from ...division import CHECK, PICK
from ...domain import Clique, Domain
from ...model.graphical_model import Model
from ...privacy import gdp
from ...release.gateway import Session
from ...release.half_sets import HalfSets
from ...significance import chance_distance, chance_distances, threshold
from ..shared.one_ways import part_mu

ORDERS = (3, 4)
"""Columns beside the target. Smaller sets are screened; larger ones would be too many."""
MOST_FOUND = 4
MOST_SETS = 200_000
"""Sets of one order are looked at if they are no more than this."""
SAMPLE = 1 << 17
"""Rows of the model that its counts are taken from."""
BEYOND_SUBSETS = 1.5
"""A set is measured if its distance is this many times the largest of its subsets' with the target.
A set that only contains a subset that is off is as far as that."""


def most_picks() -> int:
    """Picks of a run at most: each that is found, and a last one of each order that is refused."""
    return MOST_FOUND + len(ORDERS)


def reserved() -> float:
    """The share of mu^2 that is set aside."""
    return most_picks() * (PICK + CHECK)


class TargetSet(Struct, frozen=True, eq=False):
    """A set that was found: its distance from the model in rows beyond chance, and what the model
    expects of its two groups a column."""

    clique: Clique
    distance: float
    expected: np.ndarray


class SetsOfTarget:
    """The search for sets with one target. `recode`: 0 or 1 of the schema's codes of each column;
    `rows`: rows of the model over these."""

    def __init__(
        self,
        session: Session,
        domain: Domain,
        target: str,
        recode: Mapping[str, np.ndarray],
        rows: ModelRows,
    ):
        self.session = session
        self.domain = domain
        self.columns = tuple(a for a in domain if a in recode)
        self.target = self.columns.index(target)
        self.others = [i for i in range(len(self.columns)) if i != self.target]
        self.recode = recode
        self.rows = rows
        self.spent = 0.0
        self.found: list[TargetSet] = []

    def search(self) -> list[TargetSet]:
        """The sets found, of the smallest order that has any; `spent` is their share of mu^2."""
        for order in ORDERS:
            if len(self.others) >= order and math.comb(len(self.others), order) <= MOST_SETS:
                self._of_order(order)
            if self.found:
                break
        return self.found

    def _of_order(self, order: int) -> None:
        members = self._with_target(self.others, order)
        sets = HalfSets(self.columns, members)
        expected = self.rows.tables(self.columns, members)
        chance = chance_distances(expected)
        allowed = np.arange(len(members))
        while len(self.found) < MOST_FOUND and allowed.size:
            label = f"sets of {order + 1}, pick {len(self.found) + 1}"
            epsilon = gdp.range_epsilon_from(part_mu(self.session, PICK))
            picked = self.session.select_half_set(
                sets,
                expected,
                epsilon=epsilon,
                label=label,
                penalties=chance,
                allowed=allowed,
                recode=self.recode,
            )
            self.spent += PICK
            beyond = self._stands_out(members[picked], allowed.size, label)
            if beyond is None:
                return
            clique = tuple(self.columns[i] for i in members[picked])
            table = expected[picked].reshape((2,) * len(clique))
            self.found.append(TargetSet(clique, beyond, table))
            shared = np.isin(members[allowed], members[picked]).sum(axis=1)
            allowed = allowed[shared < order]

    def _with_target(self, others: Sequence[int], order: int) -> np.ndarray:
        """The target with each `order` of the others, columns ascending."""
        chosen = np.array(list(combinations(others, order)), np.int64)
        return np.sort(np.column_stack([np.full(len(chosen), self.target), chosen]), axis=1)

    def _stands_out(self, members: np.ndarray, looks: int, label: str) -> float | None:
        """How far the pick is from the model beyond chance; None if it does not stand out, or if a
        subset with the target is as far."""
        others = [int(i) for i in members if i != self.target]
        subsets = self._with_target(others, len(others) - 1)
        expected: dict[Clique, np.ndarray] = {}
        for numbers in (members[None, :], subsets):
            for one, table in zip(numbers, self.rows.tables(self.columns, numbers)):
                clique = tuple(self.columns[i] for i in one)
                expected[clique] = table.reshape((2,) * len(clique))
        released = self.session.distances(
            list(expected),
            expected,
            mu=part_mu(self.session, CHECK),
            label=f"{label}, checked",
            recode=self.recode,
        )
        self.spent += CHECK
        distances = zip(expected.values(), released.values.tolist())
        beyond = [v - chance_distance(table) for table, v in distances]
        clear = beyond[0] > threshold(looks) * float(released.sigma[0])
        return beyond[0] if clear and beyond[0] > BEYOND_SUBSETS * max(beyond[1:]) else None


def halves(rows: np.ndarray) -> np.ndarray:
    """Code -> 0 or 1: neighbouring codes together, with as equal parts of the released rows as can
    be."""
    mass = np.maximum(np.asarray(rows, np.float64), 0.0) + 1e-9
    below = np.cumsum(mass) / mass.sum()
    cut = int(np.argmin(np.abs(below[:-1] - 0.5))) if mass.size > 1 else 0
    return (np.arange(mass.size) > cut).astype(np.int64)


class ModelRows:
    """Rows drawn of the model, each column in two groups, and their marginals scaled to `total`.
    `bits`: 0 or 1 of every row, by column."""

    def __init__(self, bits: Mapping[str, np.ndarray], total: float, threads: int):
        count = len(next(iter(bits.values())))
        self._number = {a: i for i, a in enumerate(bits)}
        self._rows = BitRows(bits.values(), count)
        self._scale = total / max(1, count)
        self._threads = threads

    @classmethod
    def drawn(
        cls,
        model: Model | None,
        ones: Mapping[str, np.ndarray],
        codes: Mapping[str, np.ndarray],
        total: float,
        seed: int,
        threads: int,
    ) -> ModelRows:
        """`SAMPLE` rows of the model, or of independent columns with these 1-ways. `codes`: the
        model's code -> 0 or 1."""
        if model is not None:
            drawn = model.sample(SAMPLE, seed=seed)
        else:
            rng = np.random.default_rng(seed)
            shares = {a: np.maximum(ones[a], 0.0) + 1e-12 for a in codes}
            drawn = {a: rng.choice(p.size, SAMPLE, p=p / p.sum()) for a, p in shares.items()}
        return cls({a: codes[a][np.asarray(drawn[a])] for a in codes}, total, threads)

    def tables(self, columns: Sequence[str], members: np.ndarray) -> np.ndarray:
        """[sets, cells]: marginals of sets of these columns, which are given by number."""
        number = np.array([self._number[a] for a in columns])
        return self._rows.tables(number[members], self._threads) * self._scale
