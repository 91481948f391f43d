"""Trends that a run's rows have beyond its model, in rows that are drawn given evidence.

A run steers its rows by exchanges. Two rows that agree in the neighbours of a column exchange their
codes of it. How likely they do so depends on what the trends gain (`mechanisms.shared.steering`).
Here each row gets a partner of its own, drawn from the model given these neighbours, and takes over
the partner's code with that probability. All other columns keep their distribution, and the column
gets the one that it has after exchanges, given all others. Where the column itself is given, the
other column of a trend is exchanged in its place, by the same factor.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from msgspec import Struct

from .._core import codes as core
from ..codec.draws import stream_key
from ..mechanisms.shared.steering import exchange_pairs, most_off, neighbours
from ..model.conditional_model import ConditionalModel, Evidence, no_evidence
from ..model.row_facts import RowFacts

SAMPLE = 1 << 15
"""Rows of the model from which the factors of trends are found."""


class Turn(Struct, frozen=True):
    """Codes of `column` are exchanged, by `factors` of the trends with other columns."""

    column: str
    factors: Mapping[str, float]


class Exchange:
    """The exchanges that a run's rows went through, for rows of its model given evidence."""

    def __init__(self, tree: ConditionalModel, facts: RowFacts):
        self._tree = tree
        self._scores = facts.scores
        self._number = {a: i for i, a in enumerate(tree.domain)}
        self._turns = self._found(facts)

    def __call__(
        self,
        evidence: Evidence,
        drawn: np.ndarray,
        seed: int,
        numbers: np.ndarray,
        threads: int | None = None,
    ) -> None:
        """Exchange codes of rows [rows, columns] in place; `evidence`: what they were drawn given,
        `numbers`: which rows they are, for their random numbers."""
        for turn in self._turns:
            given = evidence.hard[:, self._number[turn.column]] >= 0
            moves = [(turn.column, turn.factors, ~given)]
            for other, factor in turn.factors.items():
                free = given & (evidence.hard[:, self._number[other]] < 0)
                moves.append((other, {turn.column: factor}, free))
            for column, factors, free in moves:
                rows = np.flatnonzero(free)
                if not len(rows):
                    continue
                stream = stream_key(seed, column, f"exchange for {turn.column}")
                here = drawn[rows]
                own = self._number[column]
                soft = (evidence.soft[rows, own], evidence.likelihood)
                partner = self._partners(column, here, soft, stream, numbers[rows], threads)
                gains = self._gains(column, list(factors), here, partner)
                uniform = np.empty(int(numbers.max()) + 1)
                core.uniform(stream, 0, uniform)
                strength = gains @ np.array(list(factors.values()))
                swap = uniform[numbers[rows]] < np.tanh(strength / 2)
                drawn[rows[swap], own] = partner[swap, own]

    def _found(self, facts: RowFacts) -> list[Turn]:
        """The turns of columns, with factors that bring about the trends where every row has a
        partner."""
        rng = np.random.default_rng(0)
        numbers = np.arange(SAMPLE)
        nothing = no_evidence(self._tree.domain, SAMPLE)
        rows, _ = self._tree.draw(nothing, 0, numbers)
        left = dict(facts.trends)
        waiting = {a for pair in left for a in pair}
        turns: list[Turn] = []
        while (own := most_off(left, waiting)) is not None:
            waiting.remove(own)
            mine = [pair for pair in left if own in pair]
            others = [b for pair in mine for b in pair if b != own]
            at = self._number[own]
            soft = (nothing.soft[:, at], nothing.likelihood)
            partner = self._partners(own, rows, soft, len(turns) + 1, numbers, None)
            gains = self._gains(own, others, rows, partner)
            missing = np.array([left[pair] for pair in mine])
            swap, still, factor = exchange_pairs(gains, missing, 2 * SAMPLE, rng)
            left |= dict(zip(mine, still.tolist()))
            turns.append(Turn(own, dict(zip(others, factor.tolist()))))
            rows[swap, at] = partner[swap, at]
        return turns

    def _partners(
        self,
        column: str,
        rows: np.ndarray,
        soft: tuple[np.ndarray, Mapping[str, np.ndarray]],
        seed: int,
        numbers: np.ndarray,
        threads: int | None,
    ) -> np.ndarray:
        """A row of the model for each row, with the same neighbours of a column; where it has none,
        the row itself. `soft`: what the column may be."""
        known = no_evidence(self._tree.domain, len(rows))
        for a in neighbours(self._tree.model, column):
            known.hard[:, self._number[a]] = rows[:, self._number[a]]
        known.soft[:, self._number[column]] = soft[0]
        evidence = Evidence(known.hard, known.soft, soft[1])
        partner, logs = self._tree.draw(evidence, seed, numbers, threads)
        return np.where(np.isfinite(logs)[:, None], partner, rows)

    def _gains(
        self, column: str, others: list[str], rows: np.ndarray, partner: np.ndarray
    ) -> np.ndarray:
        """[rows, others]: what an exchange of a column's codes adds to each trend's sum."""
        own = self._score(column, partner) - self._score(column, rows)
        return np.stack(
            [own * (self._score(b, rows) - self._score(b, partner)) for b in others], axis=1
        )

    def _score(self, column: str, codes: np.ndarray) -> np.ndarray:
        scores = self._scores[column]
        return scores[np.minimum(codes[:, self._number[column]], min(len(scores) - 1, 255))]
