"""The numbers' share of mu^2, and how it is divided, before anything is measured.

Let the relative 95 % half-width of a number be e with all of mu. It gets a share w of mu^2 in
proportion to e. That minimises the sum of e^2 / w, the relative variances. In proportion to e^2
all numbers would be as bad as the worst. Only public facts enter: the questions, what is declared of
them, and a guess of the number of users.

The share itself weighs numbers against rows in the same way. With a share w, numbers have the
relative variance E^2 / w, the mean over those asked, and rows R^2 / (1 - w). The sum is least at
w / (1 - w) = E / R. Both E and R are in proportion to 1 / (mu * users). So the
share follows from the questions and the schema alone: epsilon and the number of users cancel.

Where the owner states weights (`fastdp.important`), squares of a number's widths count as many times,
so its portion grows with the root of its weight (`division`).
"""

import math
from collections.abc import Collection, Sequence

from msgspec import Struct

from ..division import LEAST_NUMBERS, MOST_NUMBERS, VARIANCE, portion
from ..schema import Schema
from ..significance import Z95
from .declared import Declared
from .typed import TypedNumber

USERS = 10_000
"""Users where nobody guessed their number."""
PARTS = 1 << 12
"""Shares are whole multiples of 1 / PARTS, so that no last bit of a logarithm decides a charge."""
HALF_WIDTHS = {"people": 2.0, "sum": 20.0, "mean": 25.0, "quantile": 16.0}
"""By family. Half-width times mu times users, relative: of a share of users of .4, and of sums, means and the
median of log-normal amounts (sigma 1). Rough public guesses from prototypes: they only divide mu^2,
and no interval follows from them."""
MOST = 1.0
"""A number that would be wider than this counts as this wide: more of mu^2 would not save it."""
SHARE_STEPS = 100
"""The chosen share is a whole multiple of 1 / SHARE_STEPS, to be read and to be the same anywhere."""


class Shares(Struct, frozen=True):
    """Shares of the numbers' mu^2: of the release of the number of users (0: not needed; `first`:
    the number whose plan carries it), and of each number."""

    users: float
    first: int
    numbers: tuple[float, ...]


def half_width(number: TypedNumber, users: float, mu: float) -> float:
    """The expected relative half-width of a number that gets all of mu."""
    return min(MOST, scaled_width(number) / (mu * max(users, 1.0)))


def scaled_width(number: TypedNumber) -> float:
    """The expected relative half-width of a number, times mu and users."""
    across = 1.0
    if number.by:  # a group has 1/groups of a total; users in many groups add less to each
        across = float(number.groups) if number.one_group else math.sqrt(number.groups)
    return HALF_WIDTHS[number.family] * across


def rows_width(schema: Schema, private: Collection[str] = ()) -> float:
    """The expected relative half-width of a value's count in the rows, times mu and users.

    All d columns are measured alone, and d - 1 pairs; these share mu^2. A value is one of k, the
    geometric mean of the columns' sizes. private: columns whose values the run finds."""
    sizes = schema.modelled
    known = [math.log(size) for name, size in sizes.items() if name not in private and size > 1]
    typical = math.exp(sum(known) / len(known)) if known else 2.0
    return Z95 * math.sqrt(max(2 * len(sizes) - 1, 1)) * typical


def default_share(numbers: Sequence[TypedNumber]) -> float:
    """The share of mu^2 that numbers get where the owner states none."""
    mean_square = sum(map(scaled_width, numbers)) / math.sqrt(len(numbers))
    ratio = mean_square / rows_width(numbers[0].schema, numbers[0].private)
    share = min(max(ratio / (1 + ratio), LEAST_NUMBERS), MOST_NUMBERS)
    share = math.floor(share * SHARE_STEPS + 1e-6) / SHARE_STEPS
    if all(number.weight == 1 for number in numbers):
        return share
    plain = math.fsum(map(scaled_width, numbers))
    weighed = math.fsum(portion(n.weight, VARIANCE) * scaled_width(n) for n in numbers)
    ratio = share / (1 - share) * weighed / plain
    return math.ceil(ratio / (1 + ratio) * SHARE_STEPS - 1e-6) / SHARE_STEPS


def shares(
    numbers: Sequence[TypedNumber], declared: Sequence[Declared], users: float, mu: float
) -> Shares:
    """Divide mu^2. The number of users is released once for all numbers of people without groups.
    With J of these it gets sqrt(J) times the share of one: that minimises the largest half-width of
    a share of users, (1/4 + a^2 / J)(1 + 1 / (4 a^2)) at a = J^(1/4) / 2 (docs/explain/numbers.md).
    """
    weights = [portion(n.weight, VARIANCE) * half_width(n, users, mu) for n in numbers]
    people = [i for i, n in enumerate(numbers) if n.family == "people" and not n.by]
    asked = [i for i in people if numbers[i].number.where is not None]
    for i in people:
        if i not in asked:
            weights[i] = 0.0  # the number of users itself
    count = 0.0
    if people:
        count = math.sqrt(len(asked)) * weights[asked[0]] if asked else 1.0
        if not asked and any(weights):
            count = half_width(numbers[people[0]], users, mu)
    whole = sum(weights) + count
    parts = [math.floor(w / whole * PARTS) for w in (*weights, count)]
    parts = [max(part, 1) if w else 0 for part, w in zip(parts, (*weights, count))]
    total = sum(parts)
    return Shares(
        parts[-1] / total, people[0] if people else 0, tuple(part / total for part in parts[:-1])
    )
