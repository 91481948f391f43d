"""The interface of a mechanism: a frozen config with `run()`, its inputs (`Session`, `Job`) and its
`Outcome`.

A mechanism sees private data only through its `Session`. Everything else it is given (`Job`) is
public or a service: public data, the size asked for, seeds of post-processing, threads, progress,
and `fit`. A fit is remembered, so that a resumed run does not repeat it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

import msgspec
import numpy as np
from msgspec import Struct, field

from .._util.lazy import pa
from ..domain import Clique, Cliques, Columns, Domain
from ..errors import SchemaError, UsageError
from ..important import NEUTRAL, Important
from ..measurement import Measurement
from ..model.graphical_model import Model
from ..model.junction_tree import DEFAULT_MAX_CELLS
from ..privacy.clip import PRIVATE
from ..release.gateway import Session
from ..schema import Schema
from .limits import size_limits
from .limits.structural_zeros import StructuralZeros, derived_hint
from .plans import ROWS_PER_USER, Outline, Planned, PlannedStep, any_pair, users_share
from .registry import Traits, names_where

if TYPE_CHECKING:
    from ..public.ids import Habits
    from ..users.dealing import Dealer
    from .limits.model_size import LargestModel

Calibration = Literal["gdp", "classic-rdp", "classic-gaussian"]
LEAST_AMOUNT = 1e-9
"""Numbers of a recipe are 0 or at least this in size. Smaller shares of mu^2 would need noise that
cannot be drawn."""
MOST_AMOUNT = 1e9
"""The largest number of a recipe. Larger weights make such small shares of all others."""
MOST_WHOLE = 1 << 63
"""Whole numbers of a recipe are below this."""


def check_amounts(fields: Any, name: str = "") -> None:
    """Raise ValueError, naming the field, for a number of a recipe that nobody can mean: not
    finite, tiny or huge."""
    if isinstance(fields, Mapping):
        for key, value in fields.items():
            check_amounts(value, f"{name}.{key}" if name else str(key))
    elif isinstance(fields, list | tuple):
        for value in fields:
            check_amounts(value, name)
    elif isinstance(fields, int) and not abs(fields) < MOST_WHOLE:
        raise ValueError(f"{name} must be below 2^63")
    elif isinstance(fields, float) and fields and not LEAST_AMOUNT <= abs(fields) <= MOST_AMOUNT:
        raise ValueError(f"{name} must be between {LEAST_AMOUNT:g} and {MOST_AMOUNT:g} in size")


class Ids(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How synthetic rows get their user ids.

    `source` is one of:
    "auto": public data if given, else "users" (`cliquetree`) or "private" (all other mechanisms);
    "public": public data, which must be given;
    "private": ids are assigned at random, by a private histogram of rows per user;
    "users": the run releases how users behave and assigns rows accordingly (docs/guide/users.md);
    "none": no id column.

    `columns`: a user's habits, least important first. Rows are assigned so that each user's counts
    over these columns follow those of a public user (default: the attributes that all outer
    marginals share). `share`: the share of mu^2 that pays for the private histogram.
    """

    source: Literal["auto", "public", "private", "users", "none"] = "auto"
    columns: tuple[str, ...] | None = None
    share: float = 0.02

    def __post_init__(self):
        if not 0 < self.share < 1:
            raise ValueError("share must lie strictly between 0 and 1")


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Fields that every mechanism has.

    `clip`: rows per user that count fully. "private": the run chooses it from a noisy histogram of
    rows per user, which costs `clip_share` of mu^2. None means "private" if the mechanism can
    choose, else the schema's bound; `max_rows` alone does not set the clip. `outputs`: also write
    the schema's extra columns, such as the day of the week. `max_cells`: the most cells of the
    model, checked before anything is reserved (None: `model.junction_tree.DEFAULT_MAX_CELLS`).
    `memory`: the same limit in bytes. `public_relabel`: columns of public data that are moved to
    the schema's values, such as the year. `important`: what matters more than the rest, with
    weights, from which shares follow."""

    name: ClassVar[str] = ""
    traits: ClassVar[Traits] = Traits()
    unit: ClassVar[str] = "user"

    clip: int | str | None = None
    clip_share: float | None = None
    calibration: Calibration = "gdp"
    ids: Ids = Ids()
    outputs: bool = False
    max_cells: int | None = None
    memory: int | None = None
    public_relabel: tuple[str, ...] = ()
    important: Important = NEUTRAL

    @property
    def deals_ids(self) -> bool:
        """Whether rows are made first and users get them afterwards. A config may decide it by its
        fields."""
        return self.traits.deals_ids

    def __post_init__(self):
        check_amounts(msgspec.to_builtins(self))
        size_limits.check(self.memory, None)
        if self.max_cells is not None and self.max_cells < 1:
            raise ValueError("max_cells must be at least 1")
        if isinstance(self.clip, str) and self.clip != PRIVATE:
            raise ValueError(f'clip must be a number of rows or "{PRIVATE}", got "{self.clip}"')
        if isinstance(self.clip, int) and self.clip < 1:
            raise ValueError("clip must be at least 1")
        if self.clip == PRIVATE and not self.traits.may_choose_clip:
            raise ValueError(f"clip: {self.name} cannot choose it; give a number of rows")
        if self.clip_share is not None and (
            isinstance(self.clip, int) or not self.traits.may_choose_clip
        ):
            raise ValueError(
                'clip_share is the cost of choosing the clip; it needs clip = "private"'
            )
        if self.clip_share is not None and not 0 < self.clip_share < 1:
            raise ValueError("clip_share must lie strictly between 0 and 1")

    @property
    def pure(self) -> bool:
        """Whether only pure (Laplace) releases are made."""
        return False

    @property
    def fixed_clip(self) -> int | None:
        """The clip, where it is a number."""
        return self.clip if isinstance(self.clip, int) else None

    def limits_used(self) -> dict[str, Any]:
        """The limits that hold, as the statement records them. A resumed run may have others, as
        long as no step that was entered depended on them (`max_cells_steps`)."""

        cells = DEFAULT_MAX_CELLS if self.max_cells is None else self.max_cells
        return {"max_cells": cells} | ({} if self.memory is None else {"memory": self.memory})

    @property
    def fit_limit(self) -> int | None:
        """Cells beyond which a fit is refused (None: the default of `fit`)."""
        if self.memory is None:
            return self.max_cells
        cells = self.memory // size_limits.CELL_BYTES
        return cells if self.max_cells is None else min(cells, self.max_cells)

    def resolved(self, schema: Schema, epsilon: float, delta: float) -> Config:
        """The config with what depends on schema, epsilon and delta filled in, before anything is
        reserved or read."""
        if self.clip is not None or schema.user is None or not self.traits.may_choose_clip:
            return self
        return msgspec.structs.replace(self, clip=1 if schema.max_rows_per_user == 1 else PRIVATE)

    def check_names(self, schema: Schema) -> None:
        """Raise SchemaError if one of the fields that all mechanisms share names a column that is
        not in the schema."""
        schema.domain.check(self.ids.columns or ())
        schema.domain.check(self.public_relabel)
        if self.important.names_rows and not self.traits.weighs:
            weighing = " or ".join(names_where(lambda traits: traits.weighs))
            raise UsageError(
                f"field 'important': {self.name} measures what its recipe lists, and weighs no"
                f" columns or pairs; mechanisms that do: {weighing}"
            )
        self.important.of_cliques(schema.modelled)

    def check(self, schema: Schema) -> None:
        """Raise UsageError if fields do not fit the schema; called before anything is reserved or
        read."""

    def check_all(self, schema: Schema) -> StructuralZeros:
        """The structural zeros of the schema's constraints. UsageError or SchemaError if fields or
        constraints do not fit the schema, each other, or the mechanism."""
        self.check_constraints_kept(schema)
        zeros = StructuralZeros.of(schema)
        try:
            self.check(schema)
        except (UsageError, SchemaError) as error:
            if more := derived_hint(schema, msgspec.to_builtins(self)):
                raise UsageError(f"{error}{more}") from None
            raise
        return zeros

    def check_constraints_kept(self, schema: Schema) -> None:
        """Raise UsageError if the schema has constraints that this mechanism cannot keep."""
        if self.traits.no_constraints and schema.constraints:
            listed = "; ".join(f"{i} ({c.text})" for i, c in enumerate(schema.constraints, 1))
            keeping = " or ".join(names_where(lambda traits: not traits.no_constraints))
            why = f"{self.traits.no_constraints}. Use {keeping}, or a schema without constraints"
            raise UsageError(
                f"{self.name} cannot satisfy the schema's constraints ({listed}): {why}"
            )

    def steps(self, domain: Domain, taken: float, *, public: bool = False) -> Outline:
        """The plan: every release with its share of mu^2, from public facts alone. `run` follows
        it: what a step lists is measured as listed, and a step that chooses spends its share.
        taken: the share of mu^2 that the histogram of rows per user costs before."""
        raise NotImplementedError

    def users_share(self, *, public: bool, user: bool) -> float:
        """The share of mu^2 of the histogram of rows per user."""
        return users_share(self, public=public, user=user)

    def outline(self, domain: Domain, *, public: bool = False, user: bool = True) -> Outline:
        """What a run would measure: the histogram of rows per user, then the plan's steps."""
        taken = self.users_share(public=public, user=user)
        plan = self.steps(domain, taken, public=public)
        return plan.after(PlannedStep(ROWS_PER_USER, taken)) if taken else plan

    def planned(self, schema: Schema, *, public: bool = False) -> Outline:
        """The outline of a run on columns of this schema."""
        return self.outline(schema.modelled, public=public, user=schema.user is not None)

    def expected_shares(
        self, domain: Domain, taken: float, noise_ratio: float
    ) -> tuple[float, float] | None:
        """Shares of mu^2 that single columns and pairs would get in all where the run divides them
        by the noise of its first 1-ways (`one_ways.noise_ratio`). None: as planned. taken: the share
        that is spent before."""
        return None

    def largest_model(self, domain: Domain, public: Public | None, fixed: Cliques) -> LargestModel:
        """The largest model that the run may fit, from public facts alone; no model is built.
        `fixed`: cliques of constraints, which are in the model whatever is measured."""
        from .limits.model_size import tree_size

        return tree_size(domain, [*self.outline(domain, public=public is not None).cliques, *fixed])

    def clip_criteria(
        self, domain: Domain, *, public: bool = False, user: bool = True
    ) -> Sequence[Planned]:
        """The marginals by which clips are compared: all planned ones, with stand-ins for those
        that the run chooses."""
        lines = [
            p for p in self.outline(domain, public=public, user=user).measurements if p.cap is None
        ]
        return [q for p in lines for q in ([p] if p.averaged else any_pair(domain, p.share))]

    def ready(self, schema: Schema, public: Public | None) -> None:
        """Raise every error that public data and schema can cause, before the private data is
        read."""

    def run(self, session: Session, job: Job) -> Outcome:
        raise NotImplementedError


class Public(Protocol):
    """Public data as a mechanism may use it (made by `fastdp.public.data`)."""

    @property
    def schema(self) -> Schema: ...

    def marginals(
        self, cliques: Sequence[Clique], recode: Columns | None = None
    ) -> dict[Clique, np.ndarray]:
        """int64 counts of rows, of recoded columns where `recode` names them."""

    def habits(self, columns: Sequence[str]) -> Habits: ...

    def check_habits(self) -> None:
        """Raise DataError or UsageError if `habits` could not be answered."""

    def choose_outer(self) -> list[Clique]:
        """Outer marginals by the associations seen in the public data."""

    @property
    def codes(self) -> Mapping[str, np.ndarray]:
        """The codes of the public rows, by column."""

    @property
    def user(self) -> np.ndarray | None:
        """The number of each public row's user; None if there is no user column."""

    def sparse_marginals(
        self, cliques: Sequence[Clique]
    ) -> dict[Clique, tuple[np.ndarray, np.ndarray]]:
        """(numbers of the cells that have rows, their counts of rows), cells in C order."""


class Users(Struct, frozen=True):
    """`histogram`: the noisy histogram of rows per user, None if nothing needs one. `share`: the
    share of mu^2 that it cost. `clip_correction`: the estimated factor from rows that count at the
    chosen clip to all rows (1 if an argument set the clip)."""

    histogram: Measurement | None = None
    share: float = 0.0
    clip_correction: float = 1.0

    @property
    def released(self) -> list[Measurement]:
        return [] if self.histogram is None else [self.histogram]


def unreported(text: str) -> AbstractContextManager[None]:
    """The `working` of a job that nobody watches."""
    return nullcontext()


class Job(Struct, frozen=True):
    """What a mechanism is given besides the session.

    `users`: the histogram of rows per user, if it was measured before the mechanism runs. `given`:
    columns whose codes are known when rows are drawn, so that the model must contain them.
    `quoted`: numbers are asked for beside the rows, which synthetic users should agree with.
    `previous`: an earlier release of a series. `working`: a context that tells whoever watches the
    run what is being done.
    """

    schema: Schema
    epsilon: float
    fit: Callable[..., Model]
    rows: int | None = None
    public: Public | None = None
    previous: Public | None = None
    seed: int = 0
    threads: int | None = None
    zeros: StructuralZeros = field(default_factory=StructuralZeros)
    users: Users | None = None
    given: frozenset[str] = frozenset()
    quoted: bool = False
    working: Callable[[str], AbstractContextManager[None]] = unreported

    @property
    def prior(self) -> Public | None:
        """Whose marginals may start the model: public data, else the last release. Of users, only
        public data tells anything."""
        return self.previous if self.public is None else self.public


class Rows(Protocol):
    """Synthetic rows in shards. Shard i holds rows i * shard_rows up to the next shard or `total`.
    It is the same whether or not the others are ever drawn. `shard` may be called from several
    threads at once. `columns`: which of the schema's columns the rows have, None: all that are
    modelled."""

    total: int

    @property
    def shard_rows(self) -> int: ...

    @property
    def columns(self) -> tuple[str, ...] | None: ...

    def shard(self, i: int) -> dict[str, np.ndarray]:
        """Codes of the schema's columns, without those that are derived from others."""


class Outcome(Struct, frozen=True):
    """What a mechanism returns. Everything in it may be released.

    `rows`: the synthetic rows (codes of the schema's columns).
    `users`: the measured histogram of rows per user, where ids were to come from one.
    `owners(i)`: the user numbers of shard i, of mechanisms that make users first.
    `tables`: further results, written next to the synthetic data.
    `counts(i)`: the rows are a histogram, and this is how many events each row of shard i stands for. They
    are written as the column `count`, and have no users.
    `dealer`: deals the rows to users that behave like users."""

    rows: Rows
    measurements: tuple[Measurement, ...] = ()
    model: Model | None = None
    users: Measurement | None = None
    id_columns: tuple[str, ...] = ()
    owners: Callable[[int], np.ndarray] | None = None
    tables: Mapping[str, pa.Table] = field(default_factory=dict)
    counts: Callable[[int], np.ndarray] | None = None
    dealer: Dealer | None = None
    notes: tuple[str, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)


class Begun(Struct, frozen=True):
    """What a mechanism has measured once its 1-ways are known."""

    users: Users
    ones: Sequence[Measurement]


class OnesFirst(Config, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A mechanism in two parts: `begin` measures the 1-ways, `complete` does the rest. Between the
    two the run may end, or ask about users (`run_in_parts`)."""

    def begin(self, session: Session, job: Job) -> Begun:
        """Measure what the plan has first: rows per user where needed, and the 1-ways."""
        raise NotImplementedError

    def complete(self, session: Session, job: Job, begun: Begun, saved: float) -> Outcome:
        """Measure the rest, and model it. saved: a further share of mu^2 that may be spent."""
        raise NotImplementedError

    def run(self, session: Session, job: Job) -> Outcome:
        return self.complete(session, job, self.begin(session, job), 0.0)


def run_in_parts(
    config: Config,
    session: Session,
    job: Job,
    between: Callable[[Sequence[Measurement]], float],
) -> Outcome:
    """A mechanism's outcome. `between` is given the noisy 1-ways before anything else is measured,
    and returns the share of mu^2 that it saves for the rest. A mechanism that has a `run` of its own
    runs without a break, and `between` is never called."""
    if not isinstance(config, OnesFirst) or type(config).run is not OnesFirst.run:
        return config.run(session, job)
    begun = config.begin(session, job)
    return config.complete(session, job, begun, between(begun.ones))


def run_checked(
    config: Config,
    session: Session,
    job: Job,
    check: Callable[[Sequence[Measurement]], None],
) -> Outcome:
    """A mechanism's outcome; `check` may end the run once it has seen the noisy 1-ways."""

    def between(ones: Sequence[Measurement]) -> float:
        check(ones)
        return 0.0

    return run_in_parts(config, session, job, between)


def whole_total(total: float, rows: int | None) -> int:
    """The number of rows to make: as asked, else the estimated total rounded, at least 1. Noise can
    make the estimate of a small table negative, and an output without rows says nothing."""
    return max(1, round(float(total))) if rows is None else int(rows)
