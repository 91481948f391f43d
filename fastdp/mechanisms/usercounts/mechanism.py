"""User counts (SynCity, DeID2 sprint 1): how many people, by place, month and kind; sparse
histograms of events.

The query for a cell (group, T) is the number of users with exactly T rows in the group. A group is
one cell of the columns. Its answer plus noise, times T, summed over T, is the histogram. The text
this comes from adds Laplace noise of scale 1/epsilon, which protects one user's rows of *one*
group. Here a user counts in at most `cap` groups, chosen by a keyed hash of the user's id, and the
noise covers all of them. The other is offered as unit = "event".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec
import numpy as np

from ...domain import Cliques, Domain
from ...errors import UsageError
from ...measurement import Measurement
from ...privacy.calibrate import mu_of_method
from ...release.gateway import Session
from ...rows_per_user import RowsPosterior
from ...schema import Schema
from ...userkeys import Groups, RowsPerUser
from ..base import Config, Job, Outcome, Public
from ..limits.model_size import LargestModel
from ..plans import Outline, Planned, PlannedStep, ids_share
from ..registry import mechanism
from ..shared.histogram_noise import HistogramNoise
from ..shared.user_histogram import size_edges
from .count_estimates import Level, collapse, hierarchy, hold_back, round_to_total, to_total
from .group_cells import Cells, codes_of, from_public, project, public_people, starts, whole_grid
from .histogram_rows import EventRows, Histogram, TidyRows, wide

EXACT_SIZES = 256
"""Up to this bound, rows per user are counted one by one rather than in bins."""


class Total(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Users by these columns only, measured with `share` of the budget (0: only added up from the
    groups)."""

    columns: tuple[str, ...]
    share: float = 0.0

    def __post_init__(self):
        if not 0 <= self.share < 1:
            raise ValueError("share must be at least 0 and below 1")


GROUPS = "users by group and T"


@mechanism(
    "usercounts",
    about="sparse histograms of people by place, time and kind",
    makes_users=True,
    no_constraints=("it releases a histogram cell by cell, without a model to hold them"),
)
class UserCounts(Config, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`columns`: what a group is (None: all of the schema); `kind`: the one that the wide layout
    spreads and shares are taken within (None: the last that is neither `year` nor `month`).

    `cells`: "public" counts the groups seen in public data and those in the `months` before and
    after, with T as seen and in `repeats`; "full" counts the whole grid with T up to `t_max` (None:
    the largest of `repeats`), which stands for "or more"; "auto" is "public" where public data is
    given. `cap`: groups per user (None: the schema's bound on rows); `noise`: "auto" takes the
    noise with less variance. `method`: "clip" (as published) or "hierarchy"; see
    docs/explain/usercounts.md. `false_presence`: for "hierarchy", how often a kind shown with a
    share of `presence` or more may truly have less. `totals`: the levels of "hierarchy" (None: by
    place and kind, by time and kind). `prior`: "hierarchy" expects what public data shows, where it
    is given. `output`: what the run's rows are, the tidy histogram or synthetic events of synthetic
    people.
    """

    columns: tuple[str, ...] | None = None
    kind: str | None = None
    year: str | None = "year"
    month: str | None = "month"
    cells: Literal["auto", "public", "full"] = "auto"
    months: int = 3
    repeats: tuple[int, ...] = (1, 2)
    t_max: int | None = None
    unit: Literal["user", "event"] = "user"  # type: ignore[misc]
    cap: int | None = None
    noise: Literal["auto", "laplace", "gaussian"] = "auto"
    method: Literal["clip", "hierarchy"] = "clip"
    false_presence: float = 0.05
    presence: float = 0.0
    totals: tuple[Total, ...] | None = None
    prior: bool = True
    output: Literal["histogram", "events"] = "histogram"

    def __post_init__(self):
        super().__post_init__()
        if self.cap is not None and self.cap < 1:
            raise ValueError("cap must be at least 1")
        if self.months < 0:
            raise ValueError("months must be at least 0")
        if not self.repeats or min(self.repeats) < 1:
            raise ValueError("repeats must be whole numbers >= 1")
        if self.t_max is not None and self.t_max < max(self.repeats):
            raise ValueError("t_max must be at least the largest of repeats")
        if not 0 < self.false_presence < 1:
            raise ValueError("false_presence must lie strictly between 0 and 1")
        if not 0 <= self.presence < 1:
            raise ValueError("presence must be at least 0 and below 1")
        if sum(t.share for t in self.totals or ()) >= 1:
            raise ValueError(
                "totals: their shares must add up to less than 1, so that the groups get a share"
            )

    @property
    def deals_ids(self) -> bool:
        """Events are rows that users get; a histogram has no users."""
        return self.output == "events"

    @property
    def pure(self) -> bool:  # type: ignore[override]
        """Only pure releases will be made (known once `noise` is settled)."""
        return self.noise == "laplace"

    def resolved(self, schema: Schema, epsilon: float, delta: float) -> UserCounts:
        """With columns, cap, levels and noise filled in; UsageError if they make no sense for the
        schema."""
        return resolve(self, schema, epsilon, delta)

    def shares(self, people: float = 0.0) -> tuple[float, list[float]]:
        """(share of the groups, shares of the levels), `people` being taken by rows per user."""
        if self.method != "hierarchy":
            return 1 - people, []
        above_them = [t.share * (1 - people) for t in self.totals or ()]
        return 1 - people - sum(above_them), above_them

    def people_share(self, *, public: bool, user: bool, bound: int | None) -> float:
        """What the histogram of rows per user costs: it says how many rows there are, and how many
        each person has."""
        if not user or bound is None or self.unit == "event":
            return 0.0
        if self.method == "hierarchy":
            return self.ids.share
        return ids_share(self.ids, public=public, user=user) if self.output == "events" else 0.0

    def run(self, session: Session, job: Job) -> Outcome:
        public = job.public is not None
        people = self.people_share(
            public=public,
            user=job.schema.user is not None,
            bound=job.schema.max_rows_per_user,
        )
        plan = self.steps(session.domain, people, public=public)
        share = plan.share(GROUPS)
        level_shares = self.shares(people)[1]
        whole = session.pure if self.pure else session.mu
        assert self.cap is not None and whole is not None, "a config is resolved before it runs"
        noise = HistogramNoise(self.pure, self.cap, whole)
        cells = self.query_set(job)
        groups, at, t = cells.groups()

        users = noise.ask(session, cells.key, share, GROUPS)
        sizes = rows_per_user(session, noise, people) if people else None
        released = [users] if sizes is None else [users, sizes]
        if self.method == "hierarchy":
            levels = []
            for total, part in zip(self.totals or (), level_shares, strict=True):
                level = level_of(cells, groups, total.columns)
                if part:
                    key = Groups(total.columns, 1, level.groups)
                    released.append(
                        noise.ask(session, key, part, f"users by {', '.join(total.columns)}")
                    )
                    level = level.measured(released[-1].values, noise.std(part) ** 2)
                levels.append(level)
            seen = self.expectations(job, groups)
            estimate, variance = hierarchy(users.values, noise.std(share) ** 2, levels, seen)
            counts = self.counts_of(
                estimate, variance, groups // cells.shape[-1], total_rows(sizes, job)
            )
        else:
            counts = np.rint(np.maximum(collapse(users.values, at, t, len(groups)), 0)).astype(
                np.int64
            )
        if job.rows is not None:
            counts = to_total(counts, job.rows)
        histogram = Histogram.of(cells.columns, cells.shape, groups, counts)
        return self.outcome(histogram, released, sizes, job)

    @property
    def largest_t(self) -> int:
        """The largest number of rows of a user in one group that is counted apart."""
        return 1 if self.method == "hierarchy" else self.t_max or max(self.repeats)

    def asks_all(self, public: Public | None) -> bool:
        """Whether every cell is asked about, not only those that public data names."""
        return self.cells == "full" or (self.cells == "auto" and public is None)

    def query_set(self, job: Job) -> Cells:
        """The cells asked about, from public facts alone; "hierarchy" asks about people, whatever
        T."""
        columns = self.columns or ()
        if self.asks_all(job.public):
            return whole_grid(columns, job.schema.domain.shape(columns), self.largest_t)
        if job.public is None:
            raise UsageError('usercounts: cells = "public" needs public data (public=)')
        cells = from_public(
            job.public,
            job.schema,
            columns,
            year=self.year,
            month=self.month,
            months=self.months,
            repeats=self.repeats,
            t_max=self.t_max,
        )
        return cells.people() if self.method == "hierarchy" else cells

    def expectations(self, job: Job, groups: np.ndarray) -> np.ndarray | None:
        """People per group in public data, where it is given and wanted."""
        if job.public is None or not self.prior:
            return None
        seen = public_people(job.public, job.schema, self.columns or (), groups)
        return seen if seen.any() else None

    def counts_of(self, people, variance, block, rows: float | None) -> np.ndarray:
        """Whole counts of rows from numbers of people, `block` (ascending) being what differs in
        kind alone."""
        factor = 1.0 if rows is None else rows / max(1.0, float(people.sum()))
        counts = people * factor
        variance = variance * factor**2
        block = np.cumsum(starts(block)) - 1
        if self.presence:
            counts = hold_back(counts, variance, block, self.presence, self.false_presence)
        return round_to_total(counts, block)

    def outcome(
        self,
        histogram: Histogram,
        released: Sequence[Measurement],
        sizes: Measurement | None,
        job: Job,
    ) -> Outcome:
        """The outcome: rows as counts of users in cells, with the notes that the statement needs."""
        layout = wide(job.schema, histogram, job.epsilon)
        law = "discrete Laplace" if self.pure else "Gaussian"
        notes = [f"{law} noise; a user counts in at most {self.cap} groups"]
        if self.unit == "event":
            unit = (
                "it protects a user's rows of one group; with rows in n groups epsilon is n times"
                " as large"
            )
            notes = [f"{law} noise; unit is event: {unit}"]
        places = tuple(c for c in histogram.columns[:-1] if c not in (self.year, self.month))
        tidy = TidyRows(histogram)
        events = self.output == "events"
        bound = job.schema.max_rows_per_user
        return Outcome(
            rows=EventRows(histogram) if events else tidy,
            counts=None if events else tidy.counts,
            measurements=tuple(released),
            users=None if sizes is None or bound is None else in_bins(sizes, bound),
            id_columns=places,
            tables={} if layout is None else {"wide": layout},
            notes=tuple(notes),
            details={"cells": len(released[0].values), "groups": len(histogram.groups)},
        )

    def largest_model(self, domain: Domain, public: Public | None, fixed: Cliques) -> LargestModel:
        """The largest histogram of users: one dense int64 array."""
        columns = self.columns or tuple(domain)
        if self.asks_all(public):
            grid = whole_grid(columns, domain.shape(columns), self.largest_t).grid
            return LargestModel(grid, True, (columns,))
        return LargestModel()

    def users_share(self, *, public: bool, user: bool) -> float:
        return self.people_share(public=public, user=user, bound=self.fixed_clip)

    def steps(self, domain: Domain, taken: float, *, public: bool = False) -> Outline:
        columns = self.columns or tuple(domain)
        share, level_shares = self.shares(taken)
        cells = domain.cells(columns) * self.largest_t
        groups = Planned(columns, share, cells, note=GROUPS, cap=self.cap)
        steps = [PlannedStep(GROUPS, share, (groups,))]
        for total, part in zip(self.totals or (), level_shares):
            if part:
                cells = domain.cells(total.columns)
                line = Planned(total.columns, part, cells, note="users", cap=self.cap)
                steps.append(PlannedStep(f"users by {', '.join(total.columns)}", part, (line,)))
        notes = ["Laplace noise (shares are of epsilon)" if self.pure else "Gaussian noise"]
        if public and self.cells != "full":
            notes.append(
                "only the cells that public data names are asked about; there may be fewer"
            )
        return Outline(tuple(steps), notes=tuple(notes))


def rows_per_user(session: Session, noise: HistogramNoise, share: float) -> Measurement:
    """How many users have 1, 2, ... rows; each user counts once."""
    bound = session.schema.max_rows_per_user or 1
    edges = tuple(range(1, bound + 1)) if bound <= EXACT_SIZES else size_edges(bound)
    return HistogramNoise(noise.pure, 1, noise.whole).ask(
        session, RowsPerUser(edges), share, "rows per user"
    )


def total_rows(sizes: Measurement | None, job: Job) -> float | None:
    """As asked for, else as the noisy rows per user say (`rows_per_user`), else unknown."""
    if job.rows is not None or sizes is None:
        return job.rows
    bound = job.schema.max_rows_per_user or 1
    if len(sizes.values) == bound:  # each number of rows was counted: nothing is assumed
        return max(0.0, float(sizes.values @ np.arange(1, bound + 1)))
    return RowsPosterior.of(size_edges(bound), sizes.values, np.sqrt(sizes.variances), bound).rows()


def in_bins(sizes: Measurement, bound: int) -> Measurement:
    """Rows per user added up to the bins that ids are dealt by."""
    edges = np.array(size_edges(bound))
    if len(sizes.values) == len(edges):
        return sizes
    at = np.searchsorted(edges, np.arange(1, bound + 1), side="right") - 1
    sigma = np.sqrt(np.bincount(at, weights=sizes.variances))
    return Measurement(
        sizes.clique, np.bincount(at, weights=sizes.values), sigma, label=sizes.label
    )


def level_of(cells: Cells, groups: np.ndarray, columns: tuple[str, ...]) -> Level:
    """The totals over `columns` of the groups asked about."""
    totals, at = project(groups, cells.columns, cells.shape, columns)
    sizes = [cells.shape[cells.columns.index(c)] for c in columns]
    return Level(columns, totals, at.reshape(-1), tuple(codes_of(totals, sizes)))


def resolve(config: UserCounts, schema: Schema, epsilon: float, delta: float) -> UserCounts:
    """The config with nothing left open; UsageError if unit, columns or noise make no sense for the
    schema."""
    if config.unit == "user" and schema.user is None:
        raise UsageError(
            'usercounts: unit = "user" needs a user column in the schema; without one, '
            'only unit = "event" is possible'
        )
    if config.unit == "event" and schema.user is not None and config.method == "hierarchy":
        raise UsageError(
            'usercounts: method = "hierarchy" counts people; use unit = "user" or another method'
        )
    columns = _columns(config, schema)
    cap = config.cap if config.cap is not None else schema.max_rows_per_user
    if config.unit == "event":
        cap = 1
    if cap is None:
        raise UsageError(
            "usercounts: the number of groups in which one user may count is missing; set "
            "`cap` in the recipe, or `max_rows` of the schema's user"
        )
    clip = config.fixed_clip if config.fixed_clip is not None else schema.max_rows_per_user or cap
    config = msgspec.structs.replace(
        config,
        columns=columns,
        kind=columns[-1],
        totals=_totals(config, columns),
        cap=cap,
        clip=clip,
    )
    return msgspec.structs.replace(config, noise=_law(config, cap, epsilon, delta))


def _law(config: UserCounts, cap: int, epsilon: float, delta: float) -> str:
    """The noise that the config sets; else Laplace, unless Gaussian noise has less variance in the
    groups' answers at this delta."""
    if config.noise == "gaussian" and delta == 0:
        raise UsageError('usercounts: noise = "gaussian" needs a delta above 0')
    if config.noise != "auto":
        return config.noise
    if delta == 0:
        return "laplace"
    share = config.shares()[0]
    laplace = HistogramNoise(True, cap, epsilon).std(share)
    gaussian = HistogramNoise(False, cap, mu_of_method(epsilon, delta, config.calibration)).std(
        share
    )
    return "laplace" if laplace <= gaussian else "gaussian"


def _columns(config: UserCounts, schema: Schema) -> tuple[str, ...]:
    """The columns a group is made of, `kind` last."""
    columns = schema.domain.check(
        config.columns if config.columns is not None else tuple(schema.domain)
    )
    if not columns:
        raise UsageError("usercounts, field 'columns': expected at least one column")
    kind = (
        config.kind or ([c for c in columns if c not in (config.year, config.month)] or columns)[-1]
    )
    if kind not in columns:
        raise UsageError(f"usercounts, field 'kind': expected one of the columns, got {kind!r}")
    for c in columns:
        if schema.columns[c].binned:
            raise UsageError(
                f"usercounts: column {c!r} is numeric; group by columns with listed values"
            )
    if config.output == "events" and set(columns) != set(schema.domain):
        raise UsageError(
            'usercounts: output = "events" needs all columns of the schema in `columns`'
        )
    return (*(c for c in columns if c != kind), kind)


def _totals(config: UserCounts, columns: tuple[str, ...]) -> tuple[Total, ...]:
    """The config's totals; else time by kind (many users in each total, so it gets little of the
    budget) and place by kind."""
    if config.totals is not None:
        for total in config.totals:
            if not total.columns or not set(total.columns) < set(columns):
                raise UsageError(
                    f"usercounts, field 'totals': expected some of {columns}, but not all, got "
                    f"{total.columns}"
                )
        return config.totals
    *others, kind = columns
    time = tuple(c for c in others if c in (config.year, config.month))
    place = tuple(c for c in others if c not in time)
    if time and place:
        return Total(columns=(*time, kind), share=0.05), Total(columns=(*place, kind), share=0.25)
    return (Total(columns=(kind,), share=0.05),) if others else ()
