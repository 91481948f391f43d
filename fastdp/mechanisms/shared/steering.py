"""Rows of a model, moved towards trends that the model could not hold.

A trend is the mean over all rows of the product of two columns' scores. Where no clique of the
model contains both columns, rows can still follow a released trend. Rows that agree in all columns
next to a column in the model's cliques exchange their codes of it, two by two. Counts of the
cliques stay as they are.

Of two rows whose exchange raises the sum of factor * product by t, the part tanh(t / 2) is
exchanged. The model finds both orders equally likely. Afterwards one is e^t times as likely as the
other, as if the model had one more factor for each trend. Newton's method finds the factors.
Everything here is a function of the model, of released numbers and of the sample's own randomness.
"""

from collections.abc import Mapping

import numpy as np
from msgspec import Struct, field

from ..._core.halve import exchange_gains
from ...domain import Clique, Columns
from ...model.graphical_model import Model
from .code_compression import row_keys

CLOSE = 0.008
"""A trend that is off by less stays as it is: a correlation that is right within .01."""
STEPS = 4
"""Newton steps that find the factors of the trends."""
SAMPLE = 1 << 15
"""About so many pairs of rows are looked at in each step."""
RIDGE = 0.01
"""Added to the derivative of a trend by its factor (1/9 or more where rows can exchange freely), so
that a column whose rows have no partners is left as it is."""


def neighbours(model: Model, column: str) -> list[str]:
    """The columns next to a column in the model's cliques."""
    return sorted({b for q in model.cliques if column in q for b in q} - {column})


def most_off(left: Mapping[Clique, float], waiting: set[str]) -> str | None:
    """The column of those waiting whose trends lack most; None: all are close."""
    off = {pair: abs(v) for pair, v in left.items() if abs(v) > CLOSE}
    known = [a for a in sorted(waiting) if any(a in pair for pair in off)]
    if not known:
        return None
    return max(known, key=lambda a: sum(v for pair, v in off.items() if a in pair))


class Steering(Struct, frozen=True, eq=False):
    """`scores` of the model's codes, by column, with mean 0 and variance 1 (codes from 255 on have
    that of 255); `changes`: what the model's trends lack, by pair of columns."""

    scores: Columns = field(default_factory=dict)
    changes: Mapping[Clique, float] = field(default_factory=dict)

    def __call__(
        self, model: Model, rows: Columns, rng: np.random.Generator
    ) -> dict[str, np.ndarray]:
        """The rows with their trends changed, as far as exchanges can."""
        made = dict(rows)
        left = dict(self.changes)
        names = sorted({a for pair in left for a in pair})
        count = len(next(iter(rows.values())))
        waiting = set(names)
        if not names or count < 2:
            return made
        groups = np.stack([np.minimum(rows[a], 255).astype(np.uint8) for a in names], 1)
        scores = np.stack([np.resize(self.scores[a], 256) for a in names])
        while (own := most_off(left, waiting)) is not None:
            waiting.remove(own)
            i = names.index(own)
            mine = [pair for pair in left if own in pair]
            near = neighbours(model, own)
            keys = row_keys([made[b] for b in near], model.domain.shape(near), count)
            others = [names.index(b) for pair in mine for b in pair if b != own]
            one, two, gains = exchange_gains(keys.view(np.uint64), groups, i, others, scores)
            swap, still, _ = exchange_pairs(
                gains, np.array([left[pair] for pair in mine]), count, rng
            )
            left |= dict(zip(mine, still.tolist()))
            one = one[swap]
            two = two[swap]
            made[own] = made[own].copy()
            for codes in (made[own], groups[:, i]):
                codes[one], codes[two] = codes[two], codes[one]
        return made


def exchange_pairs(
    gains: np.ndarray, missing: np.ndarray, count: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(which pairs of rows are exchanged, what is then missing of each trend, the factors).
    `gains` [pairs, trends]: what an exchange adds to the sums; `count`: all rows."""
    chance = rng.random(len(gains))
    factor = np.zeros(len(missing))
    step = max(1, len(gains) // SAMPLE)
    some = gains[::step]
    part = chance[::step]
    slope = some.T @ some * (step / (4 * count)) + RIDGE * np.eye(len(missing))
    for _ in range(STEPS):
        now = some[part < np.tanh(some @ factor / 2)].sum(0) * (step / count)
        factor += np.linalg.solve(slope, missing - now)
    swap = chance < np.tanh(gains @ factor / 2)
    return swap, missing - gains[swap].sum(0) / count, factor
