"""Sets of a target and three or four columns that no smaller set explains, as a parity is.

Such a set shows in none of its pairs and triples, so no screening round can grow towards it. There
are too many sets for a vector of distances. The exponential mechanism picks one: its error grows
with the logarithm of their number. Each column is cut in two at the median of its released 1-way.
The model's counts come from rows drawn of it, so they are public.

A pick costs `PICK` of mu^2. A second release, for `CHECK`, says how far the pick and its subsets
are from the model. The pick is measured if its distance stands out and exceeds those of its subsets
by far. After it, another pick is made. The number of picks is bounded by `most_picks`, and their
share is set aside before the first. What is not used goes to the last batch. The sensitivities are
those of `Session.select_l1` and `Session.distances` (docs/explain/target-sets.md)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

import numpy as np
from msgspec import Struct

from ...domain import Clique, Domain
from ...model.graphical_model import Model
from ...privacy import gdp
from ...release.gateway import Session
from ..shared.one_ways import part_mu
from ..shared.significance import chance_distance, threshold

PICK, CHECK = 0.0025, 0.001
"""Shares of mu^2 of one pick and of its check. Twice as much loses 1 % of adult's pairs."""
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
    """The search for sets with one target. `halves`: merged code -> 0 or 1 of each column;
    `recode`: the same of the schema's codes; `bits`: rows of the model over these."""

    def __init__(
        self,
        session: Session,
        domain: Domain,
        target: str,
        halves: Mapping[str, np.ndarray],
        recode: Mapping[str, np.ndarray],
        bits: BitRows,
    ):
        self.session = session
        self.domain = domain
        self.target = target
        self.others = [a for a in domain if a in halves and a != target]
        self.recode = recode
        self.bits = bits
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
        sets = [self.domain.canonical((self.target, *c)) for c in combinations(self.others, order)]
        expected = self.bits.tables(sets)
        chance = [chance_distance(expected[c]) for c in sets]
        allowed = list(range(len(sets)))
        while len(self.found) < MOST_FOUND and allowed:
            label = f"sets of {order + 1}, pick {len(self.found) + 1}"
            epsilon = gdp.range_epsilon_from(part_mu(self.session, PICK))
            picked = self.session.select_l1(
                sets,
                expected,
                epsilon=epsilon,
                label=label,
                penalties=chance,
                allowed=allowed,
                recode=self.recode,
            )
            self.spent += PICK
            beyond = self._stands_out(sets[picked], len(allowed), label)
            if beyond is None:
                return
            self.found.append(TargetSet(sets[picked], beyond, expected[sets[picked]]))
            members = set(sets[picked])
            allowed = [i for i in allowed if len(members & set(sets[i])) < order]

    def _stands_out(self, clique: Clique, looks: int, label: str) -> float | None:
        """How far the pick is from the model beyond chance; None if it does not stand out, or if a
        subset with the target is as far."""
        others = [a for a in clique if a != self.target]
        subsets = [
            self.domain.canonical((self.target, *c)) for c in combinations(others, len(others) - 1)
        ]
        asked = [clique, *subsets]
        expected = self.bits.tables(asked)
        released = self.session.distances(
            asked,
            expected,
            mu=part_mu(self.session, CHECK),
            label=f"{label}, checked",
            recode=self.recode,
        )
        self.spent += CHECK
        beyond = [v - chance_distance(expected[c]) for c, v in zip(asked, released.values.tolist())]
        clear = beyond[0] > threshold(looks) * float(released.sigma[0])
        return beyond[0] if clear and beyond[0] > BEYOND_SUBSETS * max(beyond[1:]) else None


def halves(rows: np.ndarray) -> np.ndarray:
    """Code -> 0 or 1: neighbouring codes together, with as equal parts of the released rows as can
    be."""
    mass = np.maximum(np.asarray(rows, np.float64), 0.0) + 1e-9
    below = np.cumsum(mass) / mass.sum()
    cut = int(np.argmin(np.abs(below[:-1] - 0.5))) if mass.size > 1 else 0
    return (np.arange(mass.size) > cut).astype(np.int64)


class BitRows:
    """Rows of columns of two codes, 64 in a word, and their marginals scaled to `total`."""

    def __init__(self, rows: Mapping[str, np.ndarray], total: float):
        self._count = len(next(iter(rows.values())))
        self._scale = total / max(1, self._count)
        self._words = {a: _packed(bits) for a, bits in rows.items()}
        self._ones: dict[Clique, int] = {(): self._count}

    @classmethod
    def drawn(
        cls,
        model: Model | None,
        ones: Mapping[str, np.ndarray],
        codes: Mapping[str, np.ndarray],
        total: float,
        seed: int,
    ) -> BitRows:
        """`SAMPLE` rows of the model, or of independent columns with these 1-ways. `codes`: the
        model's code -> 0 or 1."""
        if model is not None:
            drawn = model.sample(SAMPLE, seed=seed)
        else:
            rng = np.random.default_rng(seed)
            shares = {a: np.maximum(ones[a], 0.0) + 1e-12 for a in codes}
            drawn = {a: rng.choice(p.size, SAMPLE, p=p / p.sum()) for a, p in shares.items()}
        return cls({a: codes[a][np.asarray(drawn[a])] for a in codes}, total)

    def tables(self, cliques: Sequence[Clique]) -> dict[Clique, np.ndarray]:
        """The marginals of these cliques."""
        for subset, count in self._counted(cliques):
            self._ones[subset] = count
        return {c: self._table(c) for c in cliques}

    def _counted(self, cliques: Sequence[Clique]) -> Iterator[tuple[Clique, int]]:
        """(columns, rows in which all of them are 1) of every subset that is not counted yet. Sets
        with the same columns but the last share their words."""
        missing = {
            s for c in cliques for k in range(1, len(c) + 1) for s in combinations(c, k)
        } - self._ones.keys()
        by_head: dict[Clique, list[str]] = {}
        for subset in sorted(missing):
            by_head.setdefault(subset[:-1], []).append(subset[-1])
        for head, lasts in by_head.items():
            words = np.bitwise_and.reduce([self._words[a] for a in head]) if head else None
            for last in lasts:
                both = self._words[last] if words is None else words & self._words[last]
                yield (*head, last), int(np.bitwise_count(both).sum(dtype=np.int64))

    def _table(self, clique: Clique) -> np.ndarray:
        """Cells from counts of ones: what has 0 in a column is what leaves it open less what has 1
        there."""
        table = np.empty((2,) * len(clique))
        for open_columns in np.ndindex(table.shape):
            held = tuple(a for a, one in zip(clique, open_columns) if one)
            table[open_columns] = self._ones[held]
        for axis in range(len(clique)):
            zero, one = (np.take(table, code, axis) for code in (0, 1))
            table = np.stack([zero - one, one], axis)
        return table * self._scale


def _packed(bits: np.ndarray) -> np.ndarray:
    """Bits, 64 in a word; the last word is filled with zeros."""
    padded = np.zeros(-(-len(bits) // 64) * 64, np.uint8)
    padded[: len(bits)] = bits
    return np.packbits(padded).view(np.uint64)
