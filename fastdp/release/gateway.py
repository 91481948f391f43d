"""The session: the only way from private data to numbers that may be released.

A `Session` holds an engine that counts private rows, and a part of a reservation in a ledger.
Whatever it gives back has been charged before it was counted. It carries exact noise that covers
its sensitivity to one user, checked in exact arithmetic. It is on disk, noisy, before the caller
sees it. Guarantee and proof: docs/explain/bounds.md.

Order of every call: check everything that is public; enter the step in the ledger (on disk); count;
draw; store the noisy answers; return them. `Session.__release` and `Steps.answer` have this order.
What is counted and how noise is drawn is said by a plan (`planned_release`), of which each kind of
release has a module. A step that was answered before an interruption returns the stored answers and
reads no data.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..domain import Clique
from ..engines import Counter
from ..errors import PrivacyError, UsageError
from ..measurement import Measurement, Request
from ..numbers.sums_plan import SumsPlan
from ..privacy import clip as clip_rules
from ..privacy.accountant import Event
from ..user_views import View
from ..userkeys import Groups, RowsPerUser, UserKey
from .counts import Counts, counts_sparsely, private
from .distances import (
    Distances,
    plan_contrasts,
    plan_distances,
    plan_guesses,
    signed_codes,
)
from .filtered_marginals import DENSE_CELLS, MOST_CELLS, Filtered, plan_filtered
from .half_sets import HalfSets, HalfSetsPlan, plan_half_sets
from .histogram_plan import plan_histogram
from .marginal_plan import plan_marginals
from .planned_release import PlannedRelease, Recoded, recoded
from .selection import EstimateGrids, SelectionPlan, plan_selection
from .session_facts import SessionFacts
from .steps import Draw, Steps
from .user_vectors import UserVector, plan_vector
from .views import viewed

__all__ = ["Measurement", "Request", "Session"]


class Session(SessionFacts):
    """What a mechanism is given instead of the data. Made by `reserve.Reserved.sessions`.

    All attributes are public facts. A share s of the budget is `mu * sqrt(s)`.

    Attributes
    ----------
    schema : Schema
    domain : Domain
        Column to number of codes.
    clip : int
        Rows per user that count fully; fixed before data is read, or by `choose_clip`.
    unit : str
        "user" or "event".
    epsilon, delta : float
        As asked.
    mu : float or None
        The whole budget of this run as a Gaussian-DP parameter; None if only pure releases are paid for.
    pure : float or None
        The epsilon that all pure releases of this run share; None if none are paid for.
    private : bool
        False if a seed fixed the noise.
    """

    __slots__ = tuple("__about __engine __grids __scores __steps __view".split())

    def __init__(
        self,
        engine: Counter,
        steps: Steps,
        *,
        cap: Event,
        mu: float | None,
        pure: float | None = None,
        asked: Mapping,
        unit: str = "user",
        about: Mapping | None = None,
        view: View | None = None,
    ):
        """`steps` are shared with the sessions that `part` makes. `about`: public facts that are
        part of every step's digest. `view`: what the engine counts, where it is not the private
        table itself."""
        super().__init__(
            engine.schema,
            cap=cap,
            mu=mu,
            pure=pure,
            asked=asked,
            unit=unit,
            private=steps.seed is None,
        )
        self.__engine = engine
        self.__steps = steps
        self.__view = view
        self.__about = dict(about or {})
        self.__scores: tuple[str, np.ndarray] | None = None
        self.__grids = EstimateGrids()

    def __repr__(self) -> str:
        clip = "to be chosen" if self.__steps.clip is None else self.clip
        facts = f"epsilon={self.epsilon:g} delta={self.delta:g} clip={clip} unit={self.unit}"
        return f"<fastdp.Session {facts}>"

    @property
    def clip(self) -> int:
        """Rows per user that count fully. PrivacyError while the clip is still to be chosen:
        nothing is counted, and no noise is scaled, before it is."""
        if self.__view is not None and self.__view.per_user:
            return 1
        if self.__steps.clip is None:
            raise PrivacyError("this run chooses its clip; call choose_clip before counting rows")
        return self.__steps.clip

    @property
    def clip_choice(self) -> dict | None:
        """How the clip was chosen in the run, for the statement; None if an argument set it."""
        return None if self.__steps.choice is None else dict(self.__steps.choice)

    @property
    def releases(self) -> list[dict]:
        """What was released so far, for the statement: distribution, sensitivity, sigma and number
        of answers of each."""
        return [dict(r) for r in self.__steps.releases]

    @property
    def left(self) -> dict:
        """What the run's reservation still covers: `mu`, `pure_epsilon`."""
        return self.__steps.reservation.left(self.__steps.part)

    def part(self, share: float, view: View | None = None) -> Session:
        """A session with `share` of the mu^2 of this one, onto its rows or onto the table that
        `view` makes of them. Its steps, charges and releases are this session's: one ledger, one
        order.

        One user's rows of a view depend on that user's rows alone, so every guarantee of this class
        holds for the view as it stands. Where it has one row per user, the clip is 1. Proof:
        docs/explain/user-releases.md."""
        if not 0 < share <= 1:
            raise UsageError(f"share: expected a share of mu^2 between 0 and 1, got {share!r}")
        engine = self.__engine
        about = dict(self.__about)
        if view is not None:
            if self.unit != "user" or self.__view is not None:
                raise UsageError("a view of users needs a run that protects users (unit 'user')")
            engine = viewed(engine, view)
            about["view"] = view.digest()
        return Session(
            engine,
            self.__steps,
            cap=self.cap,
            mu=None if self.mu is None else self.mu * share**0.5,
            pure=self.pure,
            asked=self.asked,
            unit=self.unit,
            about=about,
            view=self.__view if view is None else view,
        )

    def expect(self, cliques: Sequence[Clique]) -> None:
        """A public hint to the engine: marginals of these columns, and of parts of them, will be
        measured. It charges and releases nothing; an engine may count them together."""
        if self.__view is None and (expect := getattr(self.__engine, "expect", None)) is not None:
            expect([tuple(clique) for clique in cliques])

    def measure(
        self,
        requests: Sequence[Request],
        label: str,
        *,
        recode: Mapping[str, np.ndarray] | None = None,
    ) -> list[Measurement]:
        """Noisy answers to all the requests, in their order: one step of the ledger, one pass over
        the data.

        Each costs its own mu; together sqrt(sum of mu^2). Noise on a query row with scalar c is
        clip / (mu c) rows. BudgetError if the reservation does not cover them, PrivacyError if a
        query's columns have L2 norm above 1; both before anything is read. `recode` (public: code
        -> code of each named column) merges codes before counting; cliques, queries and answers are
        then over `domain.recoded(recode)`.
        """
        requests = list(requests)
        if not requests:
            return []
        columns = self.__recoded(recode)
        plan = plan_marginals(columns, self.clip, requests)
        return plan.released(self.__release(plan, label, columns), label)

    def user_histogram(
        self,
        key: UserKey,
        cap: int = 1,
        *,
        mu: float | None = None,
        epsilon: float | None = None,
        label: str,
    ) -> Measurement:
        """Noisy number of users per key. Each user counts in at most `cap` keys, once in each. With
        `Agreement` and `Disagreement`, which take `mu` only, a user adds between -1 and 1 to each
        of `key.numbers` keys.

        With `mu` Gaussian noise for L2 sensitivity sqrt(cap); with `epsilon` discrete Laplace noise
        of scale cap / epsilon, a pure release. In a run with unit "event" the unit is one user's
        rows of one key: the cap is off and the sensitivity is 1.
        """
        plan = plan_histogram(
            domain=self.domain,
            unit=self.unit,
            key=key,
            cap=cap,
            mu=mu,
            epsilon=epsilon,
            label=label,
        )
        if isinstance(plan.key, Groups):
            self.__one_unit(frozenset(plan.key.columns))

        (array,) = self.__release(plan, label)
        return plan.released(array, label)

    def user_vector(self, plan: SumsPlan, *, mu: float, label: str) -> UserVector:
        """Noisy sum over users of their vectors under the plan's encoding: one step of the ledger,
        mu-GDP.

        Unit user, add or remove, whatever the number of rows. A user's vector follows from its own
        rows and has an L2 norm of at most sqrt(`plan.encoding.sensitivity2`) grid units. No clip is
        needed. Guarantee and proof: docs/explain/numbers.md."""
        planned = plan_vector(self.unit, plan, mu, label)
        (array,) = self.__release(planned, label)
        return planned.released(array)

    def choose_clip(
        self,
        noise: Sequence[float],
        *,
        mu: float,
        label: str,
        displaced: float = clip_rules.TV_PER_LOST_ROW,
    ) -> tuple[Measurement, clip_rules.ClipChoice]:
        """Measure the histogram of rows per user and choose `clip` from it, once. Only for runs
        that were opened with a clip to be chosen.

        Unit user, add or remove. One user with any number of rows is in one of the public bins up
        to the schema's bound, so the L2 sensitivity is 1. The histogram is one step of the ledger,
        and mu-GDP. The clip is post-processing of it and of public numbers (`noise`: of the planned
        marginals, by `clip_rules.unit_noise`; `displaced`: one of the constants `TV_PER_LOST_ROW`
        and `TV_PER_LOST_ROW_GROUPED` of `clip_rules`). Later requests are chosen adaptively: each
        is as private as its own mu says at any clip, and all compose to sqrt(sum of mu^2). Proof:
        docs/explain/bounds.md."""
        steps = self.__steps
        if steps.clip is not None:
            raise PrivacyError(
                f"{label!r}: the clip of this run is {steps.clip} already; choose it once"
            )
        bound = steps.bound
        noise = [float(n) for n in noise]
        # refuses bad noise before anything is measured
        clip_rules.from_release([0.0] * len(clip_rules.size_edges(bound)), noise, bound, 1.0)
        measured = self.user_histogram(
            RowsPerUser(clip_rules.size_edges(bound)), mu=mu, label=label
        )
        values = measured.values.tolist()
        sigma = float(np.max(measured.sigma))
        choice = clip_rules.from_release(values, noise, bound, sigma, displaced)
        about = clip_rules.described(
            choice=choice,
            release=label,
            bound=bound,
            values=values,
            noise=noise,
            sigma=sigma,
            displaced=displaced,
        )
        steps.choose(choice, about, label)
        return measured, choice

    def select_l1(
        self,
        cliques: Sequence[Clique],
        estimates: Mapping[Clique, np.ndarray],
        *,
        epsilon: float,
        label: str,
        weights: Sequence[float] | None = None,
        penalties: Sequence[float] | None = None,
        allowed: Sequence[int] | None = None,
        recode: Mapping[str, np.ndarray] | None = None,
    ) -> int:
        """The index of a clique whose marginal is far from its estimate: exponential mechanism, one
        step of the ledger.

        Score of clique i: weights[i] * (L1 distance in rows of the private marginal to estimates[i]
        - penalties[i]). One user changes it by at most clip * weights[i]. Probabilities are
        proportional to exp(epsilon * score / (2 * clip * largest weight)); charged as
        epsilon-bounded-range. Estimates, weights and penalties are public. `allowed`: the indices
        that may be selected (None: all). Calls that differ only in epsilon or `allowed` count the
        data once. `recode`: as in `measure`."""
        columns = self.__recoded(recode)
        plan = plan_selection(
            recoded=columns,
            clip=self.clip,
            cliques=cliques,
            kept=self.__grids,
            estimates=estimates,
            epsilon=epsilon,
            weights=weights,
            penalties=penalties,
            allowed=allowed,
            label=label,
        )
        return self.__selected(plan, label, columns)

    def select_half_set(
        self,
        sets: HalfSets,
        estimates: np.ndarray,
        *,
        epsilon: float,
        label: str,
        penalties: np.ndarray,
        allowed: np.ndarray,
        recode: Mapping[str, np.ndarray],
    ) -> int:
        """`select_l1` among very many sets of columns, each of which `recode` cuts in two: the
        number of a set whose marginal is far from its estimate. Exponential mechanism, one step of
        the ledger.

        Unit and neighbours as in `measure`. `estimates` [sets, 2^width] and `penalties` [sets], in
        rows, are public, and so are `allowed`, the sets that may be selected. The score of a set is
        its L1 distance less its penalty, and one user changes it by at most the clip. Charged as
        epsilon-bounded-range. Proof: docs/explain/target-sets.md."""
        columns = self.__recoded(recode)
        plan = plan_half_sets(
            recoded=columns,
            clip=self.clip,
            sets=sets,
            estimates=estimates,
            epsilon=epsilon,
            penalties=penalties,
            allowed=allowed,
            label=label,
        )
        return self.__selected(plan, label, columns)

    def __selected(self, plan: SelectionPlan | HalfSetsPlan, label: str, columns: Recoded) -> int:
        """The index of one of the plan's allowed candidates, by the exponential mechanism. The private
        scores of all candidates stay here: the next selection among the same ones (`plan.asked`) does
        not count the data again."""

        def scores(counts: Counts) -> np.ndarray:
            if self.__scores is None or self.__scores[0] != plan.asked:
                self.__scores = (plan.asked, plan.count(counts))
            return self.__scores[1]

        question = plan.question  # has the recoding in `asked`
        (array,) = self.__release(plan, label, columns, question, scores)
        return int(array[0])

    def distances(
        self,
        cliques: Sequence[Clique],
        estimates: Mapping[Clique, np.ndarray],
        *,
        mu: float,
        label: str,
        weights: Sequence[float] | None = None,
        recode: Mapping[str, np.ndarray] | None = None,
    ) -> Distances:
        """Noisy L1 distances in rows of many marginals from public estimates: one Gaussian vector,
        one step of the ledger.

        One user changes each distance by at most the clip, so the vector of K distances by clip *
        sqrt(K) in L2. Without weights sigma = clip * sqrt(K) / mu; with weights sigma_i = clip *
        sqrt(sum of w^2) / (mu w_i). mu-GDP. Estimates and weights are public, and must be the same
        to the bit when a run is resumed. `recode`: as in `measure`. Proof:
        docs/explain/distances.md.
        """
        columns = self.__recoded(recode)
        plan = plan_distances(
            domain=columns.domain,
            clip=self.clip,
            cliques=cliques,
            estimates=estimates,
            mu=mu,
            weights=weights,
            label=label,
        )
        (array,) = self.__release(plan, label, columns)
        return plan.released(array)

    def guesses(
        self,
        pairs: Sequence[Clique],
        *,
        mu: float,
        label: str,
        recode: Mapping[str, np.ndarray] | None = None,
        skip: Mapping[str, int] | None = None,
    ) -> Distances:
        """For ordered pairs (A, B), noisy numbers of rows that have the most frequent B among rows
        of their A. It is one Gaussian vector, one step of the ledger, and mu-GDP. `skip` (public):
        a code of some columns whose rows are left out. Guarantee and proof: `plan_guesses`."""
        columns = self.__recoded(recode)
        plan = plan_guesses(columns.domain, self.clip, pairs, skip or {}, mu, label)
        (array,) = self.__release(plan, label, columns)
        return plan.released(array)

    def contrasts(
        self, sets: Sequence[Clique], signs: Mapping[str, np.ndarray], *, mu: float, label: str
    ) -> Distances:
        """Of each set of columns, the noisy number of rows whose signs have the product 1 less those
        with -1; of a pair, rows with equal signs less rows with opposite ones. It is one Gaussian
        vector, one step of the ledger, and mu-GDP.

        Unit and neighbours as in `measure`. `signs` (public): -1, 0 or 1 for each code of every
        column that is named. One user changes each contrast by at most the clip, so K of them by
        clip * sqrt(K) in L2: sigma = clip * sqrt(K) / mu. Proof: docs/explain/contrasts.md."""
        needed = {name: signs[name] for columns in sets for name in columns}
        recode = signed_codes(self.domain, needed, label)
        columns = self.__recoded(recode)
        plan = plan_contrasts(columns.domain, self.clip, sets, mu, label)
        (array,) = self.__release(plan, label, columns)
        return plan.released(array)

    @property
    def most_filtered(self) -> int:
        """Cells of the largest marginal that `filtered` takes."""
        return MOST_CELLS if counts_sparsely(self.__engine) else DENSE_CELLS

    def filtered(self, clique: Clique, *, mu: float, lifted: float, label: str) -> Filtered:
        """The cells of a marginal whose noisy counts are above a threshold; noise of clip / mu rows
        on each. One step of the ledger, mu-GDP. About `lifted` empty cells pass. Work grows with
        the cells that are not empty. Guarantee and proof: docs/explain/wide-pairs.md."""
        self.__one_unit(frozenset())
        plan = plan_filtered(
            domain=self.domain,
            clip=self.clip,
            clique=clique,
            mu=mu,
            lifted=lifted,
            most=self.most_filtered,
            label=label,
        )

        cells, array = self.__release(plan, label)
        return plan.released(cells, array)

    @property
    def __counted_clip(self) -> int | None:
        """The clip; None per event, where every row counts fully; 0 while it is still to be chosen,
        so that no row counts."""
        if self.unit != "user":
            return None
        view = self.__view is not None and self.__view.per_user
        return 1 if view else self.__steps.clip or 0

    def __recoded(self, recode: Mapping[str, np.ndarray] | None) -> Recoded:
        """The columns as they are counted, for a release of which each row is protected."""
        self.__one_unit(frozenset())
        return recoded(self.domain, recode)

    def __release(
        self,
        plan: PlannedRelease,
        label: str,
        columns: Recoded | None = None,
        question: dict | None = None,
        count: Callable[[Counts], Any] | None = None,
    ) -> list[np.ndarray]:
        """One step: charge the plan, count, add noise, store, and add its lines to the statement. An
        answered step is neither counted nor drawn again. `question` and `count`: in place of the
        plan's."""
        columns = columns or recoded(self.domain, None)
        count = count or plan.count

        def draw() -> list[np.ndarray]:
            counts = Counts(self.__engine, columns.domain, columns.codes, self.__counted_clip)
            exact = private(lambda: count(counts))
            self.__steps.trace("counted")
            return private(lambda: plan.noisy(exact, self.__steps.draw_seed))

        question = question or plan.question | columns.digests
        arrays = self.__answer(label, question, plan.events, draw, plan.draws)
        for line in plan.lines(label):
            self.__released(line)
        return arrays

    def __answer(
        self, label: str, question: dict, events: Sequence[Event], draw: Draw, draws: int
    ) -> list[np.ndarray]:
        """Charge, `draw`, store, with the facts of this session in the step's digest."""
        return self.__steps.answer(label, question | self.__about, events, draw, draws)

    def __released(self, line: dict) -> None:
        """Add a line of the statement; of a view with one row per user it says so."""
        users = self.__view is not None and self.__view.per_user
        self.__steps.releases.append(line | ({"of": "users"} if users else {}))

    def __one_unit(self, groups: frozenset[str]) -> None:
        if self.unit == "event" and self.schema.user is not None:
            self.__steps.one_unit(groups)
