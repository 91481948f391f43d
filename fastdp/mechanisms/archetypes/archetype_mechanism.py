"""Archetypes (GooseDP, DeID2 sprint 3): public structure, private counts, synthetic users.

Public data says which kinds of users there are (archetypes), what rows each kind has, and how the
columns depend on each other. Two histograms of the private users are measured, and one user changes
each by 1. The first counts users of each archetype, by the most common label of their rows. The
second counts users by value of the trait (a taxi's company). Synthetic users are made first, then
their rows, then the remaining columns one after another from public conditional distributions.

With `refine`, small private marginals correct the public distribution. It is the prior of a
graphical model, which is fitted to the answers until noise explains the remaining misfit. Rows of
the model are then dealt to users of the measured kinds whose habits suit them.
"""

from collections.abc import Sequence
from functools import partial
from typing import Literal

import msgspec
import numpy as np

from ...domain import Cliques, Domain, downward_closure
from ...errors import DataError, UsageError
from ...measurement import Measurement
from ...privacy.calibrate import CLASSIC_EPSILON_MAX, mu_of_method
from ...release.gateway import Session
from ...schema import Schema
from ...significance import LIKELY, onto_simplex
from ...userkeys import MostCommon
from ..base import Config, Job, Outcome, Public, Rows
from ..limits.model_size import LargestModel, tree_size
from ..plans import Outline, Planned, PlannedStep
from ..registry import mechanism
from ..shared.model_rows import ModelRows
from ..shared.one_ways import estimate_total, measure_planned, part_mu
from .model import PublicModel
from .options import DEFAULT_ARCHETYPES, Options, Step

REFINE = "marginals to refine by"
NEEDS_PUBLIC = "archetypes need public data: give public="


class Refine(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`share` of mu^2 for marginals of up to `ways` attributes: all those inside the public
    cliques, or only the `measured` ones (one named twice is measured twice)."""

    share: float = 0.95
    ways: int = 2
    measured: tuple[tuple[str, ...], ...] | None = None

    def __post_init__(self):
        if not 0 < self.share < 1:
            raise ValueError("share must lie strictly between 0 and 1")
        if self.ways < 1 or (self.measured is not None and not self.measured):
            raise ValueError("refine: set ways >= 1, or list at least one marginal in `measured`")


@mechanism(
    "archetypes",
    about=("few users, good public data: kinds of users are learnt in public, counted in private"),
    deals_ids=False,
    makes_users=True,
    corrects_clipped_total=True,
    no_constraints=("it draws a user's columns one after another from public conditionals"),
)
class Archetypes(Config, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`features`, `trait`, `archetypes`, `chain`, `habits`, `prior`: see
    `options.Options`; a field that is not set is taken from the saved model. `share`:
    the part of the user counts' budget for users per archetype (the rest: users per trait).
    `trips`: the number of rows of a synthetic user is drawn from the public users of its archetype,
    or is their "mean" as published. `max_rows`: the most rows made where the run does not ask for a
    number."""

    features: tuple[str, ...] | None = None
    trait: str | None = None
    archetypes: int | Literal["auto"] | None = None
    chain: tuple[Step, ...] | None = None
    habits: tuple[str, ...] | None = None
    prior: tuple[tuple[str, ...], ...] | None = None
    share: float = 0.1
    trips: Literal["drawn", "mean"] = "drawn"
    max_rows: int = 2_000_000
    refine: Refine | None = None

    def __post_init__(self):
        super().__post_init__()
        if not 0 < self.share < 1:
            raise ValueError("share must lie strictly between 0 and 1")
        if self.max_rows < 1:
            raise ValueError("max_rows must be at least 1")
        if self.refine is not None and self.calibration == "classic-gaussian":
            raise ValueError(
                "refine is not part of the published calibration; set calibration to 'gdp' or "
                "'classic-rdp'"
            )
        if self.features is not None:
            self.options()

    def run(self, session: Session, job: Job) -> Outcome:
        if job.public is None:
            raise UsageError(NEEDS_PUBLIC)
        public = self.learnt(job.public)
        answers = self.count_users(session, public)
        users = self.users(answers, public)
        limit = self.max_rows if job.rows is None else job.rows
        details = {"archetypes": public.size, "held_out": list(public.evidence)}
        details["public_model_sha256"] = public.digest()
        if self.refine is not None:
            return self.refined(
                how=self.refine,
                session=session,
                job=job,
                public=public,
                users=users,
                answers=answers,
                limit=limit,
                details=details,
            )
        from .archetype_users import CastRows, cast

        bound = job.schema.max_rows_per_user
        people = cast(public, users, limit, bound, self.trips == "mean", job.seed)
        rows = CastRows(public, people, job.seed)
        owners = None if self.ids.source == "none" else rows.owners
        return Outcome(rows, tuple(answers), owners=owners, details=details)

    def refined(
        self, how: Refine, session, job, public, users, answers, limit: int, details
    ) -> Outcome:
        """The outcome with a model: the public distribution, refined by further released marginals."""
        from .archetype_users import DealtRows
        from .prior import prior_model

        step = refine_step(session.domain, how, tuple(public.prior))
        ways = measure_planned(session, Outline((step,)), REFINE)
        prior = prior_model(session.domain, public.prior, threads=job.threads)
        # Mirror descent from the prior multiplies it by factors of measured cells and nothing else:
        # of all distributions with the same measured marginals, the result is the one nearest to
        # the prior in relative entropy. A prior that explains the answers but for noise stays.
        descent = partial(job.fit, stop="noise", slack=LIKELY, method="mirror-descent")
        model = descent(session.domain, ways, warm_start=prior)
        # Rows beyond the clip were not counted: the public users give the factor from counted to
        # all rows.
        total = round(model.total * public.clip_factor(session.clip))
        rows: Rows = ModelRows(model, min(total, limit), job.seed)
        owners = None
        if self.ids.source != "none":
            rows = dealt = DealtRows(rows, public, users, job.schema.max_rows_per_user, job.seed)
            owners = dealt.owners
        details = {**details, "refined_by": [list(line.clique) for line in step.lines]}
        return Outcome(rows, (*answers, *ways), model, owners=owners, details=details)

    def count_users(self, session: Session, public: PublicModel) -> list[Measurement]:
        """Noisy users per archetype and per value of the trait; the keys are public and fixed."""
        options = public.options
        asked = [
            ("archetype", MostCommon(options.features, labels=public.labels, keys=public.size))
        ]
        if options.trait is not None:
            asked.append((options.trait, MostCommon((options.trait,))))
        mus = self.mus(session, len(asked))
        labels = [f"users per {name}" for name, _ in asked]
        return [
            session.user_histogram(k, mu=mu, label=t) for (_, k), mu, t in zip(asked, mus, labels)
        ]

    def mus(self, session: Session, count: int) -> list[float]:
        """The Gaussian-DP parameter of each user count. As published ("classic-gaussian"): shares
        of epsilon and delta, added up, with epsilon below 1; otherwise shares of mu^2."""
        shares = self.user_shares(trait=count == 2)
        if self.calibration == "classic-gaussian":
            epsilon = min(session.epsilon, CLASSIC_EPSILON_MAX)
            return [
                mu_of_method(s * epsilon, s * session.delta, "classic-gaussian") for s in shares
            ]
        return [part_mu(session, s) for s in shares]

    def user_shares(self, *, trait: bool) -> list[float]:
        """Shares of mu^2 of the user counts: by archetype and, where there is one, by trait."""
        left = 1.0 if self.refine is None else 1 - self.refine.share
        return [self.share * left, (1 - self.share) * left] if trait else [left]

    def users(self, answers: Sequence[Measurement], public: PublicModel) -> np.ndarray:
        """Users by archetype and trait: the public table raked to the two noisy margins, whose
        negative entries are set to 0."""
        from .archetype_users import cross_table

        total = estimate_total(answers)
        margins = [onto_simplex(m.values, total) for m in answers]
        if len(margins) == 1:
            return margins[0][:, None]
        return cross_table(public.users, margins[0], margins[1])

    def ready(self, schema: Schema, public: Public | None) -> None:
        if public is None:
            raise UsageError(NEEDS_PUBLIC)
        if public.schema.digest() != schema.digest():
            raise UsageError(
                "the archetypes were fitted with another schema; fit them again with this one"
            )
        if public.user is None:
            raise DataError("archetypes describe users, so the schema needs a user column")
        self.options().resolve(schema.domain)

    def learnt(self, public: Public) -> PublicModel:
        """The archetypes of the public users; it costs no budget."""
        from .fit import fit

        return fit(public, self.options())

    def options(self) -> Options:
        """What to fit on public data; UsageError if the recipe does not say."""
        if self.features is None:
            raise UsageError(
                "archetypes: `features` is missing; name the columns that describe a user's habits"
            )
        names = [n for n in Options.__struct_fields__ if n != "seed"]
        return Options(**{n: getattr(self, n) for n in names if getattr(self, n) is not None})

    def largest_model(self, domain: Domain, public: Public | None, fixed: Cliques) -> LargestModel:
        """The size of the refined model: the public cliques of the recipe or of a saved model,
        together with the measured marginals."""
        if self.refine is None:
            return LargestModel()
        prior = self.prior or (() if public is None else public.choose_outer())
        return tree_size(domain, [*prior, *(self.refine.measured or ())])

    def users_share(self, *, public: bool, user: bool) -> float:
        """Users are made before their rows: no histogram says how many rows they have."""
        return 0.0

    def steps(self, domain: Domain, taken: float, *, public: bool = False) -> Outline:
        names = ["archetype"] if self.trait is None else ["archetype", self.trait]
        shares = self.user_shares(trait=self.trait is not None)
        steps = [PlannedStep(f"users per {name}", x) for name, x in zip(names, shares, strict=True)]
        notes = [
            f"{self.archetypes or DEFAULT_ARCHETYPES} archetypes, at most {self.max_rows} rows"
        ]
        if not public:
            notes.append("public data is needed")
        if self.refine is None:
            return Outline(tuple(steps), notes=tuple(notes))
        cliques = self.prior or self.refine.measured
        if cliques:
            steps.append(refine_step(domain, self.refine, cliques))
        else:
            steps.append(PlannedStep(REFINE, self.refine.share))
        return Outline(tuple(steps), tuple(cliques or ()), tuple(notes))


def refine_step(domain: Domain, how: Refine, cliques: Sequence[Sequence[str]]) -> PlannedStep:
    """The marginals that the public model is refined by; all have the same share."""
    if how.measured is not None:
        sets = [domain.check(c) for c in how.measured]
    else:
        sets = [
            s for s in downward_closure([domain.check(c) for c in cliques]) if len(s) <= how.ways
        ]
    each = how.share / len(sets)
    lines = [Planned(s, each, domain.cells(s), note="refine") for s in sets]
    return PlannedStep(REFINE, how.share, tuple(lines))
