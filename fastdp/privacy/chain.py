"""The ledger's memory as a chain of records, and what it adds up to.

A record is (seq, kind, body); its hash is sha256(previous hash, canonical JSON of the three), so a record
cannot be changed, dropped or moved without every later hash changing. `State.apply` is the only place that
says what records mean; it refuses records that break the rules, so a replay of the chain is also its audit.

Kinds: `open` (a data set and its budget), `reserve` (a run's parts: upper bounds on what each may spend,
fixed before data is read), `step` (one call of the session: the events it spends, charged from then on),
`answer` (hashes of the noisy answers of a step), `finish` (the run is over: what no step ever charged goes
back to the data set).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ..errors import BudgetError, LedgerError
from .accountant import Event, Gaussian, Threshold
from .budget import Budget, Totals, combined_mu, epsilon_at, from_dict, mu2, pure_epsilon

KINDS = ("open", "reserve", "step", "answer", "finish")


def canonical(value) -> str:
    """JSON with sorted keys and no spaces; NaN and infinity are errors."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def digest(value) -> str:
    """sha256 (hex) of the canonical JSON."""
    return hashlib.sha256(canonical(value).encode()).hexdigest()


def genesis(ledger_id: str) -> str:
    """The hash before the first record."""
    return digest({"fastdp-ledger": 1, "id": ledger_id})


def record_hash(previous: str, seq: int, kind: str, body: str) -> str:
    return hashlib.sha256(f"{previous}\n{seq}\n{kind}\n{body}".encode()).hexdigest()


@dataclass
class Step:
    """One call of the session: its charge, and the hashes of its answers once they are stored."""

    digest: str
    label: str
    events: tuple[Event, ...]
    answer: tuple[Mapping, ...] | None = None


@dataclass
class Run:
    dataset: str
    plan: str
    parts: tuple[Event, ...]
    seq: int
    steps: dict[tuple[int, int], Step] = field(default_factory=dict)
    finished: bool = False
    entered: dict[int, Totals] = field(default_factory=dict)

    def drawn(self, part: int | None = None) -> list[Event]:
        """The events of all steps entered so far, of one part or of all."""
        return [e for (p, _), s in sorted(self.steps.items()) if part in (None, p) for e in s.events]

    def charge(self) -> list[Event]:
        """What the data set is charged: the whole reservation, or after the end what was entered."""
        return self.drawn() if self.finished else list(self.parts)


def part_admits(cap: Event, events: Totals | Sequence[Event]) -> bool:
    """Whether the events fit in one part of a reservation: a pure part takes pure events only."""
    return _part_budget(cap).admits(events)


def part_left(cap: Event, events: Totals | Sequence[Event]) -> dict:
    """What further events may cost within one part."""
    return _part_budget(cap).left(events)


def _part_budget(cap: Event) -> Budget:
    if isinstance(cap, Gaussian):
        return Budget(mu=cap.mu)
    if isinstance(cap, Threshold):
        return Budget(mu=cap.mu, keys=cap.delta)
    return Budget(epsilon=cap.epsilon, delta=0.0)


class State:
    """What the chain says up to record `seq`, whose hash is `hash`."""

    def __init__(self, ledger_id: str):
        self.id = ledger_id
        self.seq = 0
        self.hash = genesis(ledger_id)
        self.budgets: dict[str, Budget] = {}
        self.runs: dict[str, Run] = {}
        self.totals: dict[str, Totals] = {}

    def append(self, seq: int, kind: str, body: str, stored_hash: str) -> None:
        """Check one record against the chain and the rules, and take it in."""
        if seq != self.seq + 1:
            raise LedgerError(f"the ledger's chain breaks: record {self.seq + 1} is missing")
        if record_hash(self.hash, seq, kind, body) != stored_hash:
            raise LedgerError(
                f"the ledger was changed: record {seq} does not match its hash. Restore it from a backup; "
                "no run may use it as it is"
            )
        try:
            content = json.loads(body)
            self.check(kind, content)
            self._take(seq, kind, content)
        except (KeyError, TypeError, AttributeError, json.JSONDecodeError):
            raise LedgerError(f"the ledger's record {seq} is malformed") from None
        except BudgetError as error:
            raise LedgerError(f"the ledger's record {seq} breaks its budget: {error}") from None
        self.seq, self.hash = seq, stored_hash

    def check(self, kind: str, body: Mapping) -> None:
        """BudgetError or LedgerError if the rules do not let this record come next."""
        if kind == "open":
            Budget.from_dict(body["budget"])
            if body["dataset"] in self.budgets:
                raise LedgerError(
                    f"data set {body['dataset']!r} is open already; its budget cannot be changed"
                )
        elif kind == "reserve":
            if body["run"] in self.runs:
                raise LedgerError("a run can reserve only once")
            self.check_reserve(body["dataset"], [from_dict(e) for e in body["parts"]])
        elif kind == "step":
            self._check_step(body)
        elif kind == "answer":
            step = self.run(body["run"]).steps.get((body["part"], body["step"]))
            if step is None or step.answer is not None:
                raise LedgerError("answers belong to a step that has none yet")
        elif kind == "finish":
            if self.run(body["run"]).finished:
                raise LedgerError("the run is finished already")
        else:
            raise LedgerError(f"a record of unknown kind {kind!r}; was it written by a newer version?")

    def check_reserve(self, dataset: str, parts: Sequence[Event]) -> None:
        self.known(dataset)
        spent, budget = self.totals[dataset], self.budgets[dataset]
        if not parts:
            raise LedgerError("a reservation needs at least one part")
        if not budget.admits(spent.plus(Totals.of(parts))):
            left = budget.left(spent)
            raise BudgetError(
                f"data set {dataset!r}: the budget does not cover this run; it asks for {_say(parts)}, left are "
                f"{_left(left)}. Nothing was read or drawn"
            )

    def _check_step(self, body: Mapping) -> None:
        run, part, number = self.run(body["run"]), body["part"], body["step"]
        if run.finished:
            raise LedgerError("the run is finished; no step can follow")
        if not 0 <= part < len(run.parts):
            raise LedgerError(f"the run has no part {part}")
        if (part, number) in run.steps or number != sum(p == part for p, _ in run.steps):
            raise LedgerError(f"step {number} of part {part} is out of order")
        events = [from_dict(e) for e in body["events"]]
        before = run.entered.get(part, Totals())
        if not events:
            raise LedgerError("a step without a charge")
        if not part_admits(run.parts[part], before.plus(Totals.of(events))):
            left = part_left(run.parts[part], before)
            raise BudgetError(
                f"step {body['label']!r}: the run's reservation does not cover it; it asks for {_say(events)}, left are "
                f"{_left(left)}. Nothing was drawn"
            )

    def _take(self, seq: int, kind: str, body: Mapping) -> None:
        if kind == "open":
            self.budgets[body["dataset"]] = Budget.from_dict(body["budget"])
            self.totals[body["dataset"]] = Totals()
        elif kind == "reserve":
            parts = tuple(from_dict(e) for e in body["parts"])
            self.runs[body["run"]] = Run(body["dataset"], body["plan"], parts, seq)
            self._charge(body["dataset"], Totals.of(parts))
        elif kind == "step":
            events = tuple(from_dict(e) for e in body["events"])
            step = Step(body["digest"], body["label"], events)
            run, part = self.runs[body["run"]], body["part"]
            run.steps[part, body["step"]] = step
            run.entered[part] = run.entered.get(part, Totals()).plus(Totals.of(events))
        elif kind == "answer":
            step = self.runs[body["run"]].steps[body["part"], body["step"]]
            step.answer = tuple(body["arrays"])
        else:
            run = self.runs[body["run"]]
            run.finished = True
            for total in run.entered.values():
                self._charge(run.dataset, total)
            self.totals[run.dataset] = self.totals[run.dataset].minus(Totals.of(run.parts))

    def _charge(self, dataset: str, total: Totals) -> None:
        self.totals[dataset] = self.totals[dataset].plus(total)

    def run(self, name: str) -> Run:
        try:
            return self.runs[name]
        except KeyError:
            raise LedgerError(f"the ledger knows no run {name!r}") from None

    def known(self, dataset: str) -> None:
        """LedgerError if the data set is not open."""
        if dataset not in self.budgets:
            known = ", ".join(map(repr, self.budgets)) or "none"
            raise LedgerError(
                f"data set {dataset!r} is not open in this ledger (open are: {known}); give it a budget first: "
                f"`fastdp ledger open`, or Ledger.open({dataset!r}, epsilon=..., delta=...)"
            )

    def charged(self, dataset: str) -> list[Event]:
        """All events the data set is charged for: reservations of open runs, entered steps of finished ones."""
        self.known(dataset)
        return [e for run in self.runs.values() if run.dataset == dataset for e in run.charge()]


def summary(events: Sequence[Event], delta: float | None) -> dict:
    """The events as numbers: mu of all, epsilon at delta (None without a delta), pure epsilon where all are
    pure."""
    pure = pure_epsilon(events)
    return {
        "epsilon": None if delta is None else epsilon_at(events, delta),
        "delta": delta,
        "mu": combined_mu(events) if events else 0.0,
        "pure_epsilon": None if pure is None else float(pure),
        "events": len(events),
    }


def _say(events: Sequence[Event]) -> str:
    pure = pure_epsilon(events)
    if pure is not None:
        return f"a pure epsilon of {float(pure):.6g}"
    lost = sum(e.delta for e in events if isinstance(e, Threshold))
    return f"mu {float(mu2(events)) ** 0.5:.6g}" + (f" and a delta of {lost:.6g} for keys" if lost else "")


def _left(left: Mapping) -> str:
    said = [f"mu {left['mu']:.6g}"] if left["mu"] is not None else []
    if left["epsilon"] is not None and left["delta"]:
        said.append(f"epsilon {left['epsilon']:.6g} at delta {left['delta']:.6g}")
    elif left["pure_epsilon"]:
        said.append(f"a pure epsilon of {left['pure_epsilon']:.6g}")
    if "keys_delta" in left:
        said.append(f"a delta of {left['keys_delta']:.6g} for keys")
    return ", ".join(said) or "nothing"
