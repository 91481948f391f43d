"""A mechanism's run, and beside it what is released about users, so that rows can be dealt to synthetic users
that behave like users (`ids.source = "users"`; docs/users.md)."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from .._util.threads import resolve
from ..errors import UsageError
from ..measurement import Measurement
from ..privacy.clip import choice_bound
from ..schema import Schema
from ..schema.constraints import columns_of
from ..userkeys import Agreement, UserTable
from ..users.dealing import TRIAL_ROWS, dealer
from ..users.people import People, last_bin, size_bins, total_rows
from ..users.rates import GROUPS, Rates, Roles, chance, rates_of, roles
from .base import Config, Job, Outcome, Outline, ignore_empty_columns
from .cliquetree.clique_tree import CliqueTree
from .shared.model_rows import ModelRows
from .shared.structural_zeros import StructuralZeros

if TYPE_CHECKING:
    from ..release.gateway import Session

RATES_SHARE, TABLE_SHARE = 0.05, 0.07
"""Shares of mu^2 of the agreement rates and of the table of users (chosen on flights and Chicago trips, where
shares twice as large differ little). The second is not spent where users repeat nothing."""
MOST_ERROR = 0.1
"""The number of rows is that of the table of users, which does not clip, where its standard error is below
this part of it; else the mechanism's own."""
OVERALL = 2 / 3
"""Part of RATES_SHARE that goes to the rates over all users; the rest to those by group."""
LABELS = ("agreement of users' rows", "agreement by rows per user")


def users_cost(config: Config, schema: Schema) -> float:
    """The share of mu^2 that a run spends on users, beside the mechanism's own."""
    return RATES_SHARE + TABLE_SHARE if config.ids.source == "users" and schema.user is not None else 0.0


def check_users(config: Config, schema: Schema) -> None:
    """UsageError where users are asked for that this run cannot make."""
    if config.ids.source == "users" and (not config.deals_ids or config.pure or config.unit != "user"):
        raise UsageError(
            'ids.source = "users" needs a mechanism that makes rows first, with Gaussian noise and unit '
            f'"user"; {config.name} as configured is not one: use "auto"'
        )
    if config.ids.constant:
        likely = schema.stand_in()
        for name in likely.modelled.check(config.ids.constant):
            if name in _constrained(likely):
                raise UsageError(
                    f"ids.constant: column {name!r} takes part in a constraint, so its values cannot be "
                    "exchanged one by one; leave it out"
                )


def _constrained(schema: Schema) -> set[str]:
    """The columns that constraints name."""
    return {name for c in schema.constraints for name in columns_of(schema, c)}


def plan_charges(outline: Outline, cost: float) -> tuple[tuple[str, float], ...]:
    """The charges of a mechanism's plan within what users leave it, and those of users."""
    own = tuple((what, share * (1 - cost)) for what, share in outline.charges)
    of_users = (("agreement rates", RATES_SHARE), ("table of users", TABLE_SHARE))
    return own + of_users if cost else own


def run_with_users(config: Config, session: Session, job: Job) -> Outcome:
    """The mechanism's outcome; where users are asked for, with the dealer of its rows."""
    cost = users_cost(config, job.schema)
    if not cost:
        return config.run(session, job)
    outcome = config.run(session.part(1 - cost), job)
    if not isinstance(outcome.rows, ModelRows):
        raise UsageError(f'ids.source = "users": {config.name} makes its rows once; use "auto"')
    columns = tuple(session.domain)
    released = _agreement(session, columns)
    rates = rates_of(columns, *released)
    some = outcome.rows.again(min(outcome.rows.total, TRIAL_ROWS), job.seed).shard(0)
    by_chance = chance(some, columns)
    decided = roles(rates, by_chance, tuple(_constrained(job.schema)), config.ids.constant)
    described = _described(rates, by_chance, decided)
    made = None
    if decided.constant or decided.repeated or outcome.users is None:
        people, counts = _people(session, job, decided)
        total, error = total_rows(counts, people.edges, people.bound)
        described |= {"rows": round(total), "rows_standard_error": error}
        if job.rows is None and error < MOST_ERROR * total:
            outcome = replace(outcome, rows=outcome.rows.again(round(total), job.seed))
        made = dealer(people, rates, decided, some, job.seed, resolve(job.threads))
        described["most_rows"] = people.most_rows
    return replace(
        outcome,
        measurements=(*outcome.measurements, *released),
        dealer=made,
        details={**outcome.details, "users": described},
    )


def _agreement(session: Session, columns: tuple[str, ...]) -> list[Measurement]:
    features = tuple((name,) for name in columns)
    mu = session.part(RATES_SHARE).mu or 0.0
    keys = (Agreement(features), Agreement(features, GROUPS))
    parts = (OVERALL, 1 - OVERALL)
    return [
        session.user_histogram(key, mu=mu * math.sqrt(part), label=label)
        for key, part, label in zip(keys, parts, LABELS)
    ]


def table_of_users(schema: Schema, constant: tuple[str, ...]) -> UserTable:
    """One row per user: bins of rows per user, from public facts, and these columns."""
    name = "rows per user"
    while name in schema.domain:
        name += "_"
    return UserTable(size_bins(_most_rows(schema)), name, columns=constant)


def _most_rows(schema: Schema) -> int:
    return schema.max_rows_per_user or choice_bound(schema)


def _people(session: Session, job: Job, decided: Roles) -> tuple[People, Measurement]:
    """(users by the cliquetree model of the table of users, the noisy histogram of their rows)."""
    view = table_of_users(job.schema, decided.constant)
    of_users = session.part(TABLE_SHARE, view)
    task = replace(
        job,
        schema=of_users.schema,
        rows=None,
        public=None,
        zeros=StructuralZeros(),
        after_ones=ignore_empty_columns,
    )
    made = CliqueTree().run(of_users, task)
    size = (len(view.edges),)
    fine = [m for m in made.measurements if m.clique == (view.name,) and m.values.shape == size]
    weights = np.array([float(np.max(m.sigma)) ** -2 for m in fine])
    values = np.average([m.values for m in fine], axis=0, weights=weights)
    counts = Measurement((view.name,), values, float(weights.sum() ** -0.5))
    bound = _most_rows(job.schema)
    rows: Any = made.rows
    return People(rows, view.name, view.edges, last_bin(counts), bound, decided.constant), counts


def _described(rates: Rates, by_chance: np.ndarray, decided: Roles) -> dict:
    """What was decided, for the statement: released numbers only."""
    return {
        "constant": list(decided.constant),
        "repeated": list(decided.repeated),
        "agreement": dict(zip(rates.columns, np.round(rates.overall, 6).tolist())),
        "by_chance": dict(zip(rates.columns, np.round(by_chance, 6).tolist())),
        "standard_error": rates.error,
    }
