"""The session: the only way from private data to numbers that may be released.

A `Session` holds an engine that counts private rows, and a part of a reservation in a ledger. Whatever it
gives back has been charged before it was counted, carries exact noise that covers its sensitivity to one user
(checked in exact arithmetic), and is on disk, noisy, before the caller sees it. Law and proof:
docs/privacy-measure.md.

Order of every call: check everything that is public; enter the step in the ledger (on disk); count; draw;
store the noisy answers; return them. A step that was answered before an interruption returns the stored
answers and reads no data.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from ..domain import Clique, Domain, batches
from ..errors import PrivacyError, UsageError, redact_errors
from ..measurement import SCALE, Measurement, Request
from ..privacy import clip as clip_rules
from ..privacy import noise, scale, select
from ..privacy.accountant import Event, Gaussian
from ..privacy.budget import to_dict
from ..privacy.chain import digest
from ..privacy.ledger import Reservation
from ..userkeys import Groups, RowsPerUser, UserKey
from .distances import Distances, plan_distances
from .noiseplan import l1_distance, plan_histogram, plan_marginal, recoded, require_int64
from .selection import EstimateGrids, plan_selection

if TYPE_CHECKING:
    from ..engines import Counter
    from ..schema import Schema

__all__ = ["Measurement", "Request", "Session"]


class Session:
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
        The whole budget of this run as a Gaussian-DP parameter; None where only pure releases are paid for.
    pure : float or None
        The epsilon that all pure releases of this run share; None where none are paid for.
    private : bool
        False if a seed fixed the noise.
    """

    __slots__ = (
        "__about",
        "__choice",
        "__choosing",
        "__clip",
        "__engine",
        "__event",
        "__grids",
        "__lock",
        "__part",
        "__process",
        "__releases",
        "__reservation",
        "__scores",
        "__seed",
        "__step",
        "__trace",
        "asked",
        "cap",
        "delta",
        "domain",
        "epsilon",
        "mu",
        "private",
        "pure",
        "schema",
        "unit",
    )

    def __init__(
        self,
        engine: Counter,
        reservation: Reservation,
        part: int,
        *,
        clip: int,
        choosing: bool = False,
        cap: Event,
        mu: float | None,
        pure: float | None = None,
        asked: Mapping,
        unit: str = "user",
        seed: int | None = None,
        first_step: int = 0,
        released: Sequence[Mapping] = (),
        about: Mapping | None = None,
        _trace: Callable[[str], None] | None = None,
    ):
        """`first_step`, `released`: how many steps of this part came before, and what they released. `about`:
        public facts that are part of every step's digest."""
        self.schema: Schema = engine.schema
        self.domain: Domain = engine.schema.modelled
        self.unit, self.cap = unit, cap
        self.__clip, self.__choosing = clip, choosing
        self.__choice: dict | None = None
        self.mu, self.pure = mu, pure
        self.asked = MappingProxyType(dict(asked))
        self.epsilon, self.delta = asked["epsilon"], asked["delta"]
        self.private = seed is None
        self.__engine = engine
        self.__event: frozenset[str] | None = None
        self.__reservation = reservation
        self.__part, self.__process = part, os.getpid()
        self.__seed = seed
        self.__step, self.__about = first_step, dict(about or {})
        self.__releases: list[dict] = [dict(r) for r in released]
        self.__scores: tuple[str, np.ndarray] | None = None
        self.__grids = EstimateGrids()
        self.__lock = threading.Lock()
        self.__trace = _trace or (lambda point: None)

    def __repr__(self) -> str:
        return (
            f"<fastdp.Session epsilon={self.epsilon:g} delta={self.delta:g} "
            f"clip={'to be chosen' if self.__choosing else self.__clip} "
            f"unit={self.unit}>"
        )

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "clip" or (not name.startswith("_") and hasattr(self, name)):
            raise PrivacyError(f"a session's facts are fixed before data is read; {name!r} cannot be changed")
        object.__setattr__(self, name, value)

    def __reduce__(self):
        raise PrivacyError("a session cannot be pickled or copied: it leads to private data")

    @property
    def clip(self) -> int:
        """Rows per user that count fully. PrivacyError while the clip is still to be chosen: nothing is
        counted, and no noise is scaled, before it is."""
        if self.__choosing:
            raise PrivacyError("this run chooses its clip: no rows can be counted before choose_clip")
        return self.__clip

    @property
    def clip_choice(self) -> dict | None:
        """How the clip was chosen in the run, for the statement; None where an argument set it."""
        return None if self.__choice is None else dict(self.__choice)

    @property
    def releases(self) -> list[dict]:
        """What was released so far, for the statement: law, sensitivity, sigma and number of answers of
        each."""
        return [dict(r) for r in self.__releases]

    @property
    def left(self) -> dict:
        """What the run's reservation still covers: `mu`, `pure_epsilon`."""
        return self.__reservation.left(self.__part)

    def measure(
        self, requests: Sequence[Request], label: str, *, recode: Mapping[str, np.ndarray] | None = None
    ) -> list[Measurement]:
        """Noisy answers to all the requests, in their order: one step of the ledger, one pass over the data.

        Each costs its own mu; together sqrt(sum of mu^2). Noise on a query row with scalar c is clip / (mu c)
        rows. BudgetError if the reservation does not cover them, PrivacyError if a query's columns have L2
        norm above 1; both before anything is read. `recode` (public: code -> code of each named column)
        merges codes before counting; cliques, queries and answers are then over `domain.recoded(recode)`.
        """
        requests = list(requests)
        if not requests:
            return []
        codes, domain, asked = recoded(self.domain, recode)
        self.__one_unit(frozenset())
        rebuilt: dict[int, tuple] = {}
        plans = [plan_marginal(domain, self.clip, r, rebuilt) for r in requests]
        question = {"kind": "marginals", "clip": self.clip, "asked": [p.question for p in plans], **asked}
        events = [Gaussian(p.mu) for p in plans]

        def draw() -> list[np.ndarray]:
            counts = self.__count(list(dict.fromkeys(p.clique for p in plans)), codes)
            self.__trace("counted")
            return [self.__noisy(p, counts[p.clique], i) for i, p in enumerate(plans)]

        arrays = self.__answer(label, question, events, draw, sum(p.rows for p in plans))
        merged = {name: domain[name] for name in codes}
        for p in plans:
            sizes = {name: merged[name] for name in p.clique if name in merged}
            self.__releases.append(p.describe(label) | ({"recoded": sizes} if sizes else {}))
        return [
            Measurement(p.clique, a.astype(np.float64) / SCALE, p.sigma_rows, r.query, label=label)
            for p, a, r in zip(plans, arrays, requests, strict=True)
        ]

    def user_histogram(
        self,
        key: UserKey,
        cap: int = 1,
        *,
        mu: float | None = None,
        epsilon: float | None = None,
        label: str,
    ) -> Measurement:
        """Noisy number of users per key; each user counts in at most `cap` keys, once in each.

        With `mu` Gaussian noise for L2 sensitivity sqrt(cap); with `epsilon` discrete Laplace noise of scale
        cap / epsilon, a pure release. In a run with unit "event" the unit is one user's rows of one key: the
        cap is off and the sensitivity is 1.
        """
        plan = plan_histogram(self.domain, self.unit, key, cap, mu, epsilon, label)
        if isinstance(plan.key, Groups):
            self.__one_unit(frozenset(plan.key.columns))

        def draw() -> list[np.ndarray]:
            counts = self.__private(lambda: self.__engine.user_histogram(plan.key, plan.cap))
            counts = require_int64(counts, (plan.size,))
            self.__trace("counted")
            draws = noise.gaussian if plan.gaussian else noise.laplace
            return [counts * plan.grid + draws(plan.width, plan.size, seed=self.__draw_seed(0))]

        (array,) = self.__answer(label, plan.question, [plan.event], draw, plan.size)
        self.__releases.append(plan.describe(label))
        name = f"users by {type(plan.key).__name__}"
        return Measurement((name,), array.astype(np.float64) / plan.grid, plan.sigma, label=label)

    def choose_clip(
        self, noise: Sequence[float], *, mu: float, label: str
    ) -> tuple[Measurement, clip_rules.ClipChoice]:
        """Measures the histogram of rows per user, and sets `clip` by it, once; only where the run was opened
        for it.

        Unit user, add or remove: one user with any number of rows is in one of the public bins up to the
        schema's bound, so the L2 sensitivity is 1 and the histogram, one step of the ledger, mu-GDP. The clip
        is post-processing of it and of public numbers (`noise`: of the planned marginals, by
        `clip_rules.unit_noise`). Later requests are chosen adaptively: each is as private as its own mu says
        at any clip, and all compose to sqrt(sum of mu^2). Proof: docs/privacy-measure.md.
        """
        if not self.__choosing:
            raise PrivacyError(f"{label!r}: the clip of this run is {self.__clip}; it cannot be chosen again")
        bound, noise = self.__clip, [float(n) for n in noise]
        clip_rules.from_release([0.0] * len(clip_rules.size_edges(bound)), noise, bound)  # refuses bad noise
        measured = self.user_histogram(RowsPerUser(clip_rules.size_edges(bound)), mu=mu, label=label)
        values, sigma = measured.values.tolist(), float(np.max(measured.sigma))
        choice = clip_rules.from_release(values, noise, bound, sigma)
        choice_facts = clip_rules.described(choice, label, bound, values, noise, sigma)
        with self.__lock:  # of two threads that asked at once, one has chosen
            if not self.__choosing:
                raise PrivacyError(f"{label!r}: the clip of this run was chosen meanwhile")
            self.__clip, self.__choosing, self.__choice = choice.clip, False, choice_facts
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
        """The index of a clique whose marginal is far from its estimate: exponential mechanism, one step of
        the ledger.

        Score of clique i: weights[i] * (L1 distance in rows of the private marginal to estimates[i] -
        penalties[i]). One user changes it by at most clip * weights[i]; probabilities are proportional to
        exp(epsilon * score / (2 * clip * largest weight)); charged as epsilon-bounded-range. Estimates,
        weights and penalties are public. `allowed`: the indices that may be selected (None: all). Calls that
        differ only in epsilon or `allowed` count the data once. `recode`: as in `measure`.
        """
        codes, domain, recoding = recoded(self.domain, recode)
        self.__one_unit(frozenset())
        plan = plan_selection(
            domain, self.clip, cliques, self.__grids, estimates, epsilon, weights, penalties, allowed, label
        )
        asked = plan.asked_digest(recoding)
        question = {"kind": "select", "clip": self.clip, "asked": asked, "allowed": plan.allowed}
        question["event"] = to_dict(plan.event)

        def draw() -> list[np.ndarray]:
            if self.__scores is None or self.__scores[0] != asked:
                gaps = self.__gaps(plan.cliques, plan.grids, codes)
                self.__scores = (asked, plan.scores(gaps))
            self.__trace("counted")
            scores = self.__scores[1][plan.allowed]
            chosen = select.exponential(
                scores, plan.event.epsilon, plan.sensitivity, seed=self.__draw_seed(0)
            )
            return [np.array([plan.allowed[int(chosen)]], np.int64)]

        (array,) = self.__answer(label, question, [plan.event], draw, 1)
        self.__releases.append(plan.describe(label))
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
        """Noisy L1 distances in rows of many marginals from public estimates: one Gaussian vector, one step
        of the ledger.

        One user changes each distance by at most the clip, so the vector of K distances by clip * sqrt(K) in
        L2. Without weights sigma = clip * sqrt(K) / mu; with weights sigma_i = clip * sqrt(sum of w^2) / (mu
        w_i). mu-GDP. Estimates and weights are public, and must be the same to the bit when a run is resumed.
        `recode`: as in `measure`. Proof: docs/privacy-distances.md.
        """
        codes, domain, recoding = recoded(self.domain, recode)
        self.__one_unit(frozenset())
        plan = plan_distances(domain, self.clip, cliques, estimates, mu, weights, label)

        def draw() -> list[np.ndarray]:
            gaps = self.__gaps(plan.cliques, plan.grids, codes)
            self.__trace("counted")
            plan.check()
            return [gaps + noise.gaussian(plan.sigma, gaps.size, seed=self.__draw_seed(0))]

        question = {**plan.question, **recoding}
        (array,) = self.__answer(label, question, [Gaussian(plan.mu)], draw, len(plan.cliques))
        self.__releases.append(plan.describe(label))
        return Distances(plan.cliques, array.astype(np.float64) / SCALE, plan.sigma / SCALE)

    def select(
        self, candidates: Sequence[Clique], estimates, *, epsilon: float, label: str, **options
    ) -> int:
        """The same as `select_l1`, whose score is the only one that a session offers."""
        return self.select_l1(candidates, estimates, epsilon=epsilon, label=label, **options)

    def __gaps(
        self, cliques: Sequence[Clique], grids: Sequence[np.ndarray], codes: dict[str, np.ndarray]
    ) -> np.ndarray:
        """PRIVATE int64 L1 distances, in units of 1/SCALE rows, between the private marginals and the grids,
        cut off at SCORE_LIMIT (which cannot raise how much one user changes them)."""
        out = np.empty(len(cliques), np.int64)
        for start, stop in batches([g.size for g in grids]):
            counts = self.__count(list(dict.fromkeys(cliques[start:stop])), codes)
            for i in range(start, stop):
                out[i] = l1_distance(counts[cliques[i]], grids[i])
        return out

    def __noisy(self, plan, counts: np.ndarray, position: int) -> np.ndarray:
        """The integer answers of one request plus integer noise, on the grid of 1/SCALE rows."""
        exact = counts.reshape(-1)
        if plan.query is not None:
            exact = require_int64(self.__private(lambda: plan.query.product(exact)), (plan.rows,))
        scale.check_gaussian(plan.sigma, plan.coef2, plan.sensitivity2, plan.mu)
        return exact + noise.gaussian(plan.sigma, plan.rows, seed=self.__draw_seed(position))

    def __count(self, cliques: list[Clique], codes: dict[str, np.ndarray]) -> dict[Clique, np.ndarray]:
        """int64 marginals in units of 1/SCALE rows; per event every row counts fully."""
        clip = self.clip if self.unit == "user" else None
        domain = self.domain.recoded(codes) if codes else self.domain
        more = {"recode": codes} if codes else {}
        counts = self.__private(lambda: self.__engine.marginals(cliques, clip, **more))
        out = {c: require_int64(counts[c], domain.shape(c)) for c in cliques}
        return out if clip is not None else {c: a * SCALE for c, a in out.items()}

    def __answer(
        self,
        label: str,
        question: dict,
        events: Sequence[Event],
        draw: Callable[[], list[np.ndarray]],
        draws: int,
    ) -> list[np.ndarray]:
        """Charge, draw, store: the only place where private numbers turn into released ones. `draws`: how
        many random numbers `draw` takes."""
        if not isinstance(label, str) or not label:
            raise UsageError("every step needs a label")
        if os.getpid() != self.__process:
            raise PrivacyError(
                "a session stays in the process it was made for: a copy's charges would not be counted"
            )
        with self.__lock:
            number, part = self.__step, self.__part
            stored = self.__reservation.enter(
                part, number, digest(question | self.__about), label, events, draws=draws, group=self.__event
            )
            self.__trace("entered")
            if stored is None:
                arrays = draw()
                self.__trace("drawn")
                stored = self.__reservation.store(part, number, arrays)
                self.__trace("stored")
            self.__step = number + 1
            return stored

    def __one_unit(self, groups: frozenset[str]) -> None:
        """PrivacyError where a run with unit "event" over a table with users would promise two units at once:
        a row (no `groups`), or one user's rows of one group over the columns `groups`. The noise of counts of
        groups does not cover one row (it moves its user from one group to another), and the noise of other
        counts does not cover all rows of one group."""
        if self.unit != "event" or self.schema.user is None:
            return
        if self.__event is None:
            self.__event = groups
        elif self.__event != groups:
            raise PrivacyError(
                "a run with unit 'event' protects one row, or one user's rows of one group: it cannot "
                "release both, nor histograms over different columns"
            )

    def __draw_seed(self, position: int) -> int | None:
        """None (the operating system's randomness), or for tests a seed of its own for every draw."""
        if self.__seed is None:
            return None
        name = {"seed": self.__seed, "part": self.__part, "step": self.__step, "draw": position}
        return int(digest(name)[:15], 16)

    def __private(self, call: Callable[[], Any]) -> Any:
        """Runs code that sees private data; its errors are replaced by texts without private content."""
        return redact_errors(
            call,
            "not enough memory to count; the step stays charged and can be resumed",
            lambda failed: PrivacyError(
                f"counting failed inside the session ({failed}); nothing was released. The step stays "
                "charged and can be resumed"
            ),
        )
