"""From a budget to sessions: the run's one joint reservation, made before any data is read.

reserved = reserve(schema, [BudgetRequest(epsilon=1.0, delta=2.5e-5, clip=150)], ledger=..., dataset=...)
table = fastdp.read(...)                       # only now
session, = reserved.sessions(local(table))
...                                            # the mechanism measures through the session
statement = reserved.statement(...)
reserved.finish()
"""

from __future__ import annotations

import math
import os
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from .._util.progress import LOG
from ..engines import Counter
from ..errors import PrivacyError, UsageError, is_whole
from ..privacy import calibrate, crosscheck, statement
from ..privacy.accountant import GAUSSIAN, Event, Gaussian, Pure, Threshold
from ..privacy.budget import epsilon_at
from ..privacy.chain import digest
from ..privacy.clip import MAX_CHOSEN, PRIVATE, resolve
from ..privacy.ledger import Ledger, opened
from ..privacy.reservation import Reservation
from ..privacy.sampler_distance import check_sampler
from ..privacy.unit import Unit
from ..schema import Schema
from ..tables.bound import check_clip
from .affordable import check_affordable
from .domaincosts import DomainCosts, check_askable, clip_of, crowding_warning, vanishing_note
from .gateway import Session
from .keyselect import MOST_KEYS, check_draws, most_selections, remaining_delta
from .steps import Steps

if TYPE_CHECKING:
    from .domain_grids import Opener
    from .private_domain import Learning

UNITS = ("user", "event")
# Shares of mu^2 are worked out in floating point and may add up to a few roundings more than 1.
SLACK = 2.0**-40


@dataclass(frozen=True, kw_only=True)
class BudgetRequest:
    """The budget that a run requests for one of its epsilons.

    `clip`: rows of one user that count fully (None: the schema's public bound; "private": chosen
    through the session, up to that bound, by `Session.choose_clip`; without a user column always
    1). `method`: how epsilon and delta become noise ("gdp", "classic-rdp", "classic-gaussian").
    `pure`: only pure (Laplace) releases will be made and epsilon holds at delta 0; a delta of 0
    implies it. `unit`: "user", or "event" where each row (or each user's rows of one key) is
    protected separately. `domain`: what finding the schema's private columns costs within this
    budget.
    """

    epsilon: float
    delta: float
    clip: int | str | None = None
    method: str = "gdp"
    pure: bool = False
    unit: str = "user"
    domain: DomainCosts | None = None

    def __post_init__(self):
        if not 0 < self.epsilon < math.inf:
            raise UsageError(f"epsilon must be positive and finite, got {self.epsilon!r}")
        if not 0 <= self.delta < 1:
            raise UsageError(f"delta must be in [0, 1), got {self.delta!r}")
        if self.unit not in UNITS:
            raise UsageError(f"unit must be one of {', '.join(UNITS)}, got {self.unit!r}")
        if isinstance(self.clip, str) and self.clip != PRIVATE:
            raise UsageError(
                f"clip must be a whole number of rows or {PRIVATE!r}, got {self.clip!r}"
            )
        if self.delta == 0:
            object.__setattr__(self, "pure", True)

    def cap(self) -> Event:
        """The upper bound on what this part may spend."""
        if self.pure:
            return Pure(float(self.epsilon))
        lost = 0.0 if self.domain is None else self.domain.keys_delta
        if lost:
            mu = calibrate.mu_of_method(
                self.epsilon, remaining_delta(self.delta, lost), self.method
            )
            return Threshold(mu, lost)
        return Gaussian(calibrate.mu_of_method(self.epsilon, self.delta, self.method))

    def described(self) -> dict:
        """The fields, for a digest; that of domains only where finding them costs something."""
        return {k: v for k, v in asdict(self).items() if k != "domain" or v is not None}


def chooses(schema: Schema, ask: BudgetRequest) -> bool:
    """Whether the run itself chooses its clip."""
    return ask.clip == PRIVATE and schema.user is not None and ask.unit == "user"


def clip_for(schema: Schema, ask: BudgetRequest) -> int:
    """The clip that is in force: 1 with unit "event", else by `privacy.clip.resolve`."""
    return 1 if ask.unit == "event" else check_clip(resolve(ask.clip, schema))


def reserve(
    schema: Schema,
    asks: Sequence[BudgetRequest],
    *,
    ledger: Ledger | str | os.PathLike | None = None,
    dataset: str | None = None,
    run: str | None = None,
    plan: str = "",
    seed: int | None = None,
    work: str | os.PathLike | None = None,
    about: Mapping | None = None,
    schemas: Sequence[Schema] | None = None,
    period: str | None = None,
    late: bool = False,
    check: Callable[[], None] = lambda: None,
    _trace: Callable[[str], None] | None = None,
) -> Reserved:
    """Reserve all parts of a run together, before data is read; BudgetError says what is left.

    run
        The run's name in the ledger (None: a fresh one). The same name resumes an interrupted
        run, if all other arguments are the same.
    plan
        A digest of everything else that decides what is measured; a resumed run must have the same.
    ledger
        None: a ledger for this run alone, in the folder `work`, or in memory without one.
    seed
        For tests only: fixes the noise, refused with a ledger, stamps the statement `"private": false`.
    about
        For people who look at the ledger: mechanism, folder.
    schemas
        For linked tables: the schema of each part, whose rows are those of the same users.
    period, late
        Of a series: the period that is released, whose rows alone the schema reads. Also whether it
        is a further release of it, charged on its own.
    check
        Called before each step is charged; raises Cancelled to stop the run.
    """
    asks, domain_part = with_domain(schema, asks)
    each = [schema] * len(asks) if schemas is None else list(schemas)
    _check_asks(asks, each, period)
    if ledger is not None and seed is not None:
        raise UsageError(
            "seed= is for tests and cannot be used with a ledger: known noise protects nobody"
        )
    clips = [clip_for(s, a) for s, a in zip(each, asks)]
    caps = [a.cap() for a in asks]
    for ask, own, clip, cap in zip(asks, each, clips, caps, strict=True):
        most = min(clip, MAX_CHOSEN) if chooses(own, ask) else clip
        check_affordable(most, cap, len(own.columns))
    if seed is not None and not is_whole(seed):
        raise UsageError(f"seed must be a whole number, got {type(seed).__name__}")
    delta = asks[0].delta
    joint = epsilon_at(caps, delta)
    draws = _Draws() if seed is not None else _draws_of(schema, joint, delta)
    agreed = _second_opinion(asks, caps, joint)
    if domain_part is not None:
        _warn_of_private_columns(schema, caps[domain_part], delta)
    ledger, dataset = opened(
        ledger, dataset, None if work is None else Path(work) / "ledger.db", _trace
    )
    schema_digest = schema.digest() if schemas is None else [s.digest() for s in each]
    settled = {"clips": clips, "plan": plan, "schema": schema_digest, "seed": seed}
    whole = digest(settled | {"asks": [a.described() for a in asks]})
    reservation = ledger.reserve(
        dataset,
        uuid.uuid4().hex if run is None else run,
        caps,
        whole,
        unit=Unit.of(schema, asks[0].unit),
        draws=draws.most,
        needed=draws.needed,
        about=about,
        period=period,
        late=late,
    )
    return Reserved(
        schema=schema,
        asks=asks,
        clips=clips,
        caps=caps,
        reservation=reservation,
        agreed=agreed,
        _seed=seed,
        _trace=_trace or (lambda point: None),
        _check=check,
        _domain_part=domain_part,
        schemas=schemas,
    )


def _check_asks(
    asks: Sequence[BudgetRequest], schemas: Sequence[Schema], period: str | None
) -> None:
    """Raise unless all parts of the run have one delta and protect the same unit, and their schemas
    read the rows of the period alone."""
    if not asks or len({a.delta for a in asks}) != 1 or len({a.unit for a in asks}) != 1:
        raise UsageError(
            "a run needs at least one epsilon, and the same delta and unit for all of them"
        )
    if len({Unit.of(s, a.unit) for s, a in zip(schemas, asks, strict=True)}) != 1:
        raise UsageError("all tables of a run must protect the same users")
    if period is not None and any(s.period is None or s.period.only != period for s in schemas):
        raise PrivacyError(f"the schema does not read the rows of {period} alone")


class _Draws(NamedTuple):
    """Random numbers of a run: the most that it may draw, and how many it will surely ask for. A run
    with known noise has no limit."""

    most: int | None = None
    needed: int = 0


def _draws_of(schema: Schema, joint: float, delta: float) -> _Draws:
    """The draws for which the sampler's error stays far below delta; PrivacyError if the schema's
    private columns may need more."""
    selections = most_selections(schema)
    most = check_sampler(joint, delta)
    if selections:
        check_draws(joint, delta, 1 + selections)
    return _Draws(most, MOST_KEYS * selections)


def _second_opinion(asks: Sequence[BudgetRequest], caps: Sequence[Event], joint: float) -> Any:
    """What the second accountant says of the whole run; it has agreed to each part as well."""
    delta = asks[0].delta
    for ask, cap in zip(asks, caps, strict=True):
        agreed = crosscheck.agree([cap], ask.epsilon, delta)
    return agreed if len(caps) == 1 else crosscheck.agree(caps, joint, delta)


def _warn_of_private_columns(schema: Schema, cap: Event, delta: float) -> None:
    """Log that noise will hide values of private columns, or that too many of them share mu."""
    if isinstance(cap, GAUSSIAN):
        costs = DomainCosts.of(schema, delta)
        for text in (
            vanishing_note(schema, cap.mu, costs),
            crowding_warning(schema, cap.mu, costs),
        ):
            if text:
                LOG.warning("fastdp: warning: %s", text)


def with_domain(
    schema: Schema, asks: Sequence[BudgetRequest]
) -> tuple[list[BudgetRequest], int | None]:
    """(the requests, the index of the one that pays for finding the schema's private columns). This
    is the one with the largest epsilon, hence the least noise; None if there are no private
    columns."""
    asks = list(asks)
    if not schema.unfinished or not asks:
        return asks, None
    for ask in asks:
        check_askable(schema, pure=ask.pure, unit=ask.unit)
    payer = max(range(len(asks)), key=lambda i: asks[i].epsilon)
    asks[payer] = replace(asks[payer], domain=DomainCosts.of(schema, asks[payer].delta))
    return asks, payer


@dataclass(eq=False, repr=False)
class Reserved:
    """A run with a reservation. `sessions` opens the sessions for mechanisms, `statement` says what
    was promised, `finish` ends the run."""

    schema: Schema
    asks: list[BudgetRequest]
    clips: list[int]
    caps: list[Event]
    reservation: Reservation
    agreed: Any
    _seed: int | None
    _trace: Callable[[str], None]
    _check: Callable[[], None]
    _domain_part: int | None
    schemas: Sequence[Schema] | None
    learnt: Learning | None = None
    _sessions: list[Session] = field(default_factory=list)

    @property
    def run(self) -> str:
        return self.reservation.run

    def learn(self, source: Any, open_engine: Opener) -> Schema:
        """Finds the schema's private columns within the reservation and returns the finished
        schema, which is the run's schema from then on. The `source` is read again for every step
        that is not stored."""
        part = self._domain_part
        if part is None:
            return self.schema
        from .private_domain import Learning

        ask = self.asks[part]
        cap = self.caps[part]
        assert ask.domain is not None and isinstance(cap, Gaussian | Threshold)
        learning = Learning(
            self.schema,
            self.reservation,
            part,
            mu=cap.mu * (1 - SLACK),
            costs=ask.domain,
            clip=1 if ask.unit == "event" else clip_of(ask.clip, self.schema),
            unit=ask.unit,
            asked_for=self._asked(ask),
            cap=cap,
            source=source,
            open_engine=open_engine,
            check=self._check,
            seed=self._seed,
            trace=self._trace,
        )
        self.schema = learning.finish()
        self.clips = [clip_for(self.schema, a) for a in self.asks]
        self.learnt = learning
        return self.schema

    def _asked(self, ask: BudgetRequest) -> dict:
        return {
            "epsilon": ask.epsilon,
            "delta": ask.delta,
            "method": "pure" if ask.pure else ask.method,
        }

    def schema_of(self, part: int | None) -> Schema:
        """The schema of a part; None: of the run, which is that of its first part."""
        return self.schema if self.schemas is None else self.schemas[part or 0]

    def sessions(self, engine: Counter | Sequence[Counter]) -> list[Session]:
        """One session per epsilon asked for, in order; of linked tables one per table, each with
        its engine. The engine's schema must be that of the reservation."""
        engines = list(engine) if isinstance(engine, Sequence) else [engine] * len(self.asks)
        if self.schema.pending:
            raise PrivacyError(
                "the schema's private columns are not found yet, so nothing can be counted"
            )
        if any(e.schema.digest() != self.schema_of(i).digest() for i, e in enumerate(engines)):
            raise PrivacyError(
                "the engine uses a different schema than the run reserved its budget for"
            )
        by_user = self.schema.user is not None and self.asks[0].unit == "user"
        if by_user and not all(e.has_users for e in engines):
            raise PrivacyError(
                f"the schema's user column is {self.schema.user!r}, but the table has no user "
                "column; nothing was read"
            )
        self._sessions = []
        parts = zip(self.asks, self.clips, self.caps, engines, strict=True)
        for i, (ask, clip, cap, own) in enumerate(parts):
            mu = cap.mu * (1 - SLACK) if isinstance(cap, GAUSSIAN) else None
            pure = cap.epsilon * (1 - SLACK) if isinstance(cap, Pure) else None
            chosen = None if chooses(self.schema_of(i), ask) else clip
            steps = Steps(
                reservation=self.reservation,
                part=i,
                bound=clip,
                clip=chosen,
                number=0,
                seed=self._seed,
                trace=self._trace,
                check=self._check,
            )
            if self.learnt is not None and i == self._domain_part:
                mu = self.learnt.left * (1 - SLACK)
                steps.number = self.learnt.steps
                steps.releases = [dict(r) for r in self.learnt.releases]
            asked = self._asked(ask)
            self._sessions.append(
                Session(own, steps, cap=cap, mu=mu, pure=pure, asked=asked, unit=ask.unit)
            )
        return list(self._sessions)

    def statement(self, only: int | None = None, **about: Any) -> dict:
        """The run's privacy statement so far. `about`: mechanism, public data and notes (see
        `privacy.statement.build`). `only`: the part a folder of its own holds; epsilon stays the
        joint one, since whoever reads one part may read the others."""
        # No noise has been scaled by a clip that is still to be chosen; the statement shows its
        # bound.
        clips = [c if s.clip_choice is None else s.clip for s, c in zip(self._sessions, self.clips)]
        used = zip(self._sessions, clips, strict=True)
        parts = [statement.part(s.cap, s.asked, c, s.releases, s.clip_choice) for s, c in used]
        return statement.build(
            parts,
            self.reservation.describe()["reference"],
            self.schema_of(only),
            unit=self.asks[0].unit,
            second=self.agreed,
            seeded=self._seed is not None,
            only=only,
            found=None if self.learnt is None else self.learnt.described(),
            series=self.reservation.series(),
            **about,
        )

    def finish(self, published: Sequence[str] = ()) -> None:
        """End the run: budget that no step used goes back to the data set, stored answers are
        dropped. published: sha256 of the statements in the run's folder, which the ledger keeps."""
        self.reservation.finish(published)
