"""What a run with this budget would be good for, before it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ..answers.clipping import BLIND, Z95, Clipping
from ..answers.expected_precision import expected_precision, zipf_shares
from ..answers.people_facts import ROWS
from ..answers.precision import People, asked_amount
from ..answers.verdict import Verdict, judge
from ..domain import Domain
from ..measurement import Clique, Measurement
from ..mechanisms.base import Config
from ..mechanisms.plans import DISTANCES, Outline
from ..mechanisms.shared.one_ways import NOISE, effective_cells, noise_ratio
from ..mechanisms.with_users import users_cost
from ..schema import Schema
from .plan_result import NumberLine
from .plan_users import ImaginedUsers


def plan_verdict(
    config: Config,
    schema: Schema,
    outline: Outline,
    mu: float,
    rows: int,
    users: int | None,
    imagined: ImaginedUsers,
    numbers: Sequence[NumberLine],
    private: Sequence[str] = (),
) -> Verdict:
    """The verdict on this budget (`answers.verdict`). A run that chooses its clip is judged at the
    clip that it would choose on the imagined users. A mechanism that repeats noisy columns is judged
    as it would divide its budget on values by Zipf's law. `private`: columns whose domain the run
    finds."""
    counted = rows * (1 - imagined.clipping.lost)
    errors = _planned_errors(outline, schema, imagined.clip / mu)
    taken = config.users_share(public=False, user=schema.user is not None)
    again = config.expected_shares(
        schema.modelled, taken, _noise_ratio(errors, counted, outline, taken)
    )
    by_contrasts = any(p.contrast for p in outline.measurements)
    if again is not None and errors.ones and not by_contrasts:
        errors = _divided_again(errors, schema.modelled, again, imagined.clip / mu)
    clipping = imagined.clipping
    if config.traits.users_by_default:
        clipping = _with_groups_of_users(clipping, errors, counted)
    at = ""
    if imagined.chosen and users:
        at = f"at clip {imagined.clip}"
    elif imagined.chosen:
        at = "at clip 1, more at the clip that the run will choose"
    people = None
    if schema.user is not None and schema.max_rows_per_user != 1:
        kept = config.traits.makes_users or bool(users_cost(config, schema, False))
        people = People(kept=kept)
        if taken and users:
            people = People((ROWS,), Z95 / (mu * math.sqrt(taken)) / users, kept)
    known = expected_precision(
        errors.ones,
        errors.pairs,
        rows,
        clipping=clipping,
        schema=schema,
        private=private,
        asked=[
            asked_amount(n.number, max(n.low, n.high), n.capped or math.inf, n.unit == "points")
            for n in numbers
        ],
        people=people,
        target=str(getattr(config, "target", None) or ""),
        takes_target=hasattr(config, "target"),
        order=schema.order_columns,
        clip=at,
        others_told=outline.share(DISTANCES) > 0,
    )
    return judge(known)


def _with_groups_of_users(clipping: Clipping, errors: _Errors, counted: float) -> Clipping:
    """The same, where the run measures columns together with groups of users by their rows. How busy
    users differ is then known as well as noise allows. That is the total variation distance which
    noise causes in a usual column of two groups."""
    if not errors.pairs or not errors.ones:
        return clipping
    values = int(np.median([cells for cells, _ in errors.ones.values()]))
    sigma = float(np.median([error for _, error in errors.pairs]))
    cells = np.repeat(zipf_shares(values) * counted / 2, 2)
    distance = NOISE * sigma * effective_cells(cells, sigma) / (2 * max(counted, 1.0))
    return replace(clipping, tilt=clipping.tilt * min(1.0, distance / BLIND))


class _Errors(NamedTuple):
    """`ones`: values and standard error of a count, by column. `pairs`: names, or none where the run
    chooses them, and standard error of a count. Counts are of rows that count at the clip."""

    ones: dict[str, tuple[int, float]]
    pairs: list[tuple[Clique, float]]


def _planned_errors(outline: Outline, schema: Schema, scale: float) -> _Errors:
    """Errors of the measurements as they are planned. scale: the clip over mu."""
    ones: dict[str, tuple[int, float]] = {}
    pairs: list[tuple[Clique, float]] = []
    most_pairs = math.comb(len(schema.modelled), 2)
    for p in outline.measurements:
        if p.cap is not None:
            continue
        error = scale / math.sqrt(p.weight)
        if p.contrast and len(p.clique) > 1:
            sets = 2 ** len(p.clique)  # a cell is the mean of the number of rows and of so many - 1
            error *= math.sqrt(sets - 1) / sets
        if len(p.clique) == 1 and p.clique[0] in schema.modelled:
            cells, before = ones.get(p.clique[0], (p.cells, math.inf))
            if p.contrast:
                error = _with_contrast(before, cells, error)
            else:
                error = 1 / math.hypot(1 / before, 1 / error)
            ones[p.clique[0]] = (cells, error)
        elif len(p.clique) == 2 and set(p.clique) <= set(schema.modelled):
            pairs.append((p.clique, error))
        elif len(p.clique) == 2:
            different = min(p.times, most_pairs)
            pairs += [((), error * math.sqrt(different / p.times))] * different
    return _Errors(ones, pairs)


def _with_contrast(error: float, cells: int, contrast: float) -> float:
    """The error of the count of one of two values, of which the 1-way has errors `error` and the contrast
    the error `contrast`. The count is half the sum of both counts and half their difference. Their sum is
    also the number of rows less the counts of the other codes."""
    own = 2 * error**2
    others = (cells - 2) * error**2
    of_sum = own * others / (own + others)
    of_difference = 1 / (1 / own + 1 / contrast**2)
    return math.sqrt(of_sum + of_difference) / 2


def _noise_ratio(errors: _Errors, counted: float, outline: Outline, taken: float) -> float:
    """The noise ratio (`one_ways.noise_ratio`) of columns whose values follow Zipf's law, if the
    1-ways got all that is not taken."""
    first = outline.share("1-ways")
    ones = [
        Measurement((name,), zipf_shares(cells) * counted, error)
        for name, (cells, error) in errors.ones.items()
    ]
    return noise_ratio(ones, counted, math.sqrt(first / (1 - taken))) if ones and first else 0.0


def _divided_again(
    errors: _Errors, domain: Domain, shares: tuple[float, float], scale: float
) -> _Errors:
    """The errors if 1-ways and pairs have these shares of mu^2, all of a kind the same."""
    for_ones, for_pairs = shares
    error = scale / math.sqrt(for_ones / len(errors.ones))
    ones = {name: (cells, error) for name, (cells, _) in errors.ones.items()}
    count = min(len(errors.pairs), math.comb(len(domain), 2))
    if not count or for_pairs <= 0:
        return _Errors(ones, [])
    return _Errors(ones, [((), scale / math.sqrt(for_pairs / count))] * count)
