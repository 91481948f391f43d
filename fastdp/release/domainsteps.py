"""The steps by which a run finds private domains: each charges the ledger, counts, and draws noise.

What to ask, and what follows from the answers, is decided in `private_domain`; here is all that
sees counts.
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from .. import division
from ..measurement import Measurement, Request
from ..privacy.accountant import Gaussian, Threshold, event_from_dict
from ..privacy.budget import mu2, root_down
from ..privacy.reservation import Reservation
from ..schema import Schema
from ..schema.columns import Column
from ..schema.derived import Derived
from ..schema.kinds.places import MOST_PLACES
from ..schema.pending import Pending
from . import domaincosts as costs
from .domain_grids import Grid, LaterEngine, Opener, digits_name, provisional, with_fields
from .domaincosts import DomainCosts
from .gateway import Session
from .keyselect import MOST_KEYS, release_keys
from .noisy_cells import digits_of
from .planned_release import release_of
from .steps import Steps

FINISHED = "finished schema"


@dataclass
class DomainSteps:
    """The steps that find the domain within one part of a reservation, in order. `mu`: the whole
    budget of that part; `source`: is read again for every step that is not stored; `check` is
    called before each of them; `releases`: what was released so far, for the statement; `steps`:
    how many steps were entered."""

    asked: Schema
    reservation: Reservation
    part: int
    mu: float
    costs: DomainCosts
    clip: int | None
    unit: str
    asked_for: Mapping[str, Any]
    cap: Any
    source: Any
    open_engine: Opener
    check: Callable[[], None] = lambda: None
    seed: int | None = None
    trace: Callable[[str], None] = lambda point: None
    releases: list[dict] = field(default_factory=list)
    steps: int = 0

    def _engine(self, schema: Schema) -> closing[LaterEngine]:
        return closing(LaterEngine(schema, self.open_engine))

    def _session(self, engine: LaterEngine, clip: int) -> Session:
        return Session(
            engine,
            self._next(clip),
            cap=self.cap,
            mu=self.mu,
            asked=self.asked_for,
            unit=self.unit,
            about={"partition": engine.schema.digest()},
        )

    def _next(self, clip: int) -> Steps:
        return Steps(
            reservation=self.reservation,
            part=self.part,
            bound=clip,
            clip=clip,
            number=self.steps,
            seed=self.seed,
            trace=self.trace,
            check=self.check,
        )

    def _counted(
        self,
        fields: Mapping[str, Column | Derived],
        mu: float,
        label: str,
        about: dict[str, Any],
        recode: Mapping[str, np.ndarray] | None = None,
    ) -> dict[str, Measurement]:
        """One step: the 1-way of every field at clip 1."""
        with self._engine(with_fields(self.asked, fields)) as engine:
            session = self._session(engine, 1)
            answers = session.measure(
                [Request((name,), mu) for name in fields], label, recode=recode
            )
        self.releases += [{k: r[k] for k in r if k != "recoded"} | about for r in session.releases]
        self.steps += 1
        return dict(zip(fields, answers, strict=True))

    def _count(
        self,
        engine: LaterEngine,
        requests: Sequence[Request],
        of: str,
        recode: Mapping[str, np.ndarray],
    ) -> list[Measurement]:
        """Measure the requests in a session of their own, and list the releases under what they are
        of."""
        clip = self.clip or 1
        session = self._session(engine, clip)
        answers = session.measure(requests, f"{of} inside bins", recode=recode)
        for request, release in zip(requests, session.releases, strict=True):
            about = {"kind": "grid", "clip": clip, "of": of, "unit": request.query.unit}
            if "\0" in request.clique[-1]:
                about |= {"of": "steps", "attributes": [request.clique[0]]}
            self.releases.append(release | about)
        self.steps += 1
        return answers

    def _measure(
        self,
        columns: Mapping[str, Pending],
        grids: Mapping[str, Grid],
        share: float,
        label: str,
        places: bool = False,
    ) -> None:
        """Counts one partition of every column as one step; with `places` also the digits of
        floats."""
        digits = {
            digits_name(n): n for n, c in columns.items() if places and costs.counts_places(c)
        }
        schema = provisional(self.asked, columns, {n: grids[n].edges for n in columns}, digits)
        clip = self.clip or 1
        with self._engine(schema) as engine:
            session = self._session(engine, clip)
            mu = costs.column_mu(self.asked, self.mu)
            requests = [Request((name,), mu * math.sqrt(share)) for name in columns]
            requests += [Request((name,), mu * math.sqrt(division.DIGITS)) for name in digits]
            answers = session.measure(requests, label)
        for release in session.releases:
            (name,) = release["attributes"]
            about = {"attributes": [digits[name]], "of": "digits"} if name in digits else {}
            self.releases.append(release | {"kind": "grid", "clip": clip} | about)
        self.steps += 1
        for name, answer in zip(digits.values(), answers[len(columns) :], strict=True):
            counts = answer.values[: MOST_PLACES + 2]
            grids[name].digits = digits_of(counts, float(np.max(answer.sigma)))
        for name, answer in zip(columns, answers[: len(columns)], strict=True):
            grid = grids[name]
            column = schema.columns[name]
            nulls = 0.0 if column.null_code is None else float(answer.values[column.null_code])
            grid.take(answer.values[: column.base], float(np.max(answer.sigma)), nulls)

    def _keys(
        self, column: Column, share: float, columns: int, label: str, known: tuple = ()
    ) -> tuple[tuple, np.ndarray]:
        """One step of key selection: (values, noisy weighted users of each)."""
        event = Threshold(self.mu * math.sqrt(share), costs.keys_delta(self.costs, columns))
        cap = 1 if self.unit == "event" else costs.keys_cap(self.asked, column)
        steps = self._next(cap)
        values, users, noise = release_keys(
            steps=steps,
            source=self.source,
            column=column,
            schema=self.asked,
            cap=cap,
            event=event,
            label=label,
            seed=steps.draw_seed(0),
            known=known,
        )
        line = release_of(
            label=label,
            kind="keys",
            about=[column.name],
            law="threshold",
            event=event,
            sensitivity=1.0,
            sigma=noise["sigma"],
            count=len(values),
        )
        self.releases.append(
            line | {"cap": cap, "threshold": noise["threshold"], "draws": MOST_KEYS}
        )
        self.steps += 1
        return values, users

    def _store(self, finished: Schema) -> Schema:
        """Store the finished schema as a step of its own, which is charged nothing. Returns it, or
        the one that the ledger stored before an interruption."""
        free = Gaussian(0.0)
        question = {"kind": "schema", "asked": self.asked.digest(), "event": free.to_dict()}
        raw = np.frombuffer(schema_bytes(finished), np.uint8).copy()
        (stored,) = self._next(1).answer(FINISHED, question, [free], lambda: [raw], 0)
        line = release_of(
            label=FINISHED,
            kind="schema",
            about=list(self.asked.unfinished),
            law="none",
            event=free,
            sensitivity=0.0,
            sigma=None,
            count=len(stored),
        )
        self.releases.append(line | {"draws": 0})
        self.steps += 1
        return Schema.from_dict(json.loads(stored.tobytes()))

    @property
    def left(self) -> float:
        """What the steps so far left of the part's mu, rounded down; the mechanism may spend all of
        it."""
        spent = mu2(event_from_dict(r["event"]) for r in self.releases)
        return root_down(max(Fraction(0), Fraction(self.mu) ** 2 - spent))

    def _left(self, due: float) -> float:
        """What the steps so far left of the domain's share of mu^2, less what is due."""
        spent = mu2(event_from_dict(r["event"]) for r in self.releases) / Fraction(self.mu) ** 2
        return max(0.0, (self.costs.share - due - float(spent)) * costs.LESS)


def schema_bytes(schema: Schema) -> bytes:
    """The finished schema as the ledger stores it."""
    return json.dumps(schema.to_dict(), separators=(",", ":"), allow_nan=False).encode()
