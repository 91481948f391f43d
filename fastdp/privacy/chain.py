"""The ledger as a chain of records, and the state that the records add up to.

A record is (seq, kind, body), and its hash is sha256(previous hash, canonical JSON of the three).
So no record can be changed, dropped or moved without changing every later hash. Every body holds a
random `nonce`. So nothing about a run, such as the time at which it began, can be guessed and
confirmed from a published hash. `State.append` is the only place that gives records their meaning.
It refuses records that break the rules, so a replay of the chain is also its audit.

Kinds: `open` (a data set, its budget and perhaps its unit; of a series the number of its periods),
`reserve` (a run's unit and parts, of a series also its period:
upper bounds on what each may spend, fixed before data is read), `step` (one call of the session:
the events it spends and the numbers it draws, charged from then on), `answer` (hashes of the noisy
answers of a step), `finish` (the run is over: budget that no step charged is returned to the data
set; hashes of the statements it published).
"""

import hashlib
import json
from collections.abc import Mapping, Sequence

from msgspec import Struct, field

from ..errors import BudgetError, LedgerError, UsageError
from ..schema.periods import KIND as USER_PERIOD, code_of
from .accountant import GAUSSIAN, Event, Gaussian, Threshold
from .budget import Budget, Totals, combined_mu, epsilon_at, from_dict, mu2, pure_epsilon
from .sampler_distance import FEWEST, MOST, allowed_draws
from .series import check_periods, check_series, fits_share, period_epsilon
from .unit import Unit


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


class Step(Struct):
    """One call of the session: its charge, how many numbers it draws, and the hashes of its answers
    once they are stored. `group`: for events of users, the columns whose groups it counts (none:
    single rows)."""

    digest: str
    label: str
    events: tuple[Event, ...]
    draws: int = 0
    group: tuple[str, ...] | None = None
    answer: tuple[Mapping, ...] | None = None


class Run(Struct):
    """What the chain holds of one run. `most_draws` is None if nothing limits them (a run that
    protects nobody). `period`: of a series, the period whose rows it releases; `late`: it is a
    further release of that period. `finished_at`: the record that ended it."""

    dataset: str
    plan: str
    parts: tuple[Event, ...]
    seq: int
    unit: Unit
    time: int | None = None
    about: Mapping = field(default_factory=dict)
    most_draws: int | None = None
    draws: int = 0
    steps: dict[tuple[int, int], Step] = field(default_factory=dict)
    finished: bool = False
    published: tuple[str, ...] = ()
    entered: dict[int, Totals] = field(default_factory=dict)
    period: str | None = None
    late: bool = False
    finished_at: int | None = None

    def counts_at(self, seq: int) -> bool:
        """Whether it may have released something, by what the chain holds up to this record: it
        reserved by then, and had not ended without a step."""
        over = self.finished_at is not None and self.finished_at <= seq
        return self.seq <= seq and not (over and not self.steps)

    def drawn(self, part: int | None = None) -> list[Event]:
        """The events of all steps entered so far, of one part or of all."""
        return [
            e for (p, _), s in sorted(self.steps.items()) if part in (None, p) for e in s.events
        ]

    def charge(self) -> list[Event]:
        """What the data set is charged: the whole reservation, or after the end what was
        entered."""
        return self.drawn() if self.finished else list(self.parts)

    def totals(self) -> Totals:
        """What was entered, each event in the class of its part: one that a Gaussian part paid for
        at its mu stays Gaussian for ever (docs/guide/ledger.md, Labels)."""
        total = Totals()
        for part, entered in self.entered.items():
            total = total.plus(
                entered.all_gaussian() if isinstance(self.parts[part], GAUSSIAN) else entered
            )
        return total


def part_budget(cap: Event) -> Budget:
    """One part of a reservation as a budget: a pure part takes pure events only."""
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
        self.units: dict[str, Unit] = {}
        self.groups: dict[str, tuple[str, ...]] = {}
        self.series: dict[str, int] = {}
        self.runs: dict[str, Run] = {}
        self.totals: dict[str, Totals] = {}

    def append(self, seq: int, kind: str, body: str, stored_hash: str) -> None:
        """Check one record against the chain and the rules, then update the state by it."""
        if seq != self.seq + 1:
            raise LedgerError(
                f"the ledger is damaged: record {self.seq + 1} is missing. Restore the ledger "
                "from a backup"
            )
        if record_hash(self.hash, seq, kind, body) != stored_hash:
            raise LedgerError(
                f"the ledger was changed: record {seq} does not match its hash. Restore the "
                "ledger from a backup; fastdp will not use it as it is"
            )
        try:
            content = json.loads(body)
            self.check(kind, content)
            self._take(seq, kind, content)
        except (KeyError, TypeError, AttributeError, ValueError, UsageError, RecursionError):
            raise LedgerError(f"the ledger's record {seq} is malformed") from None
        except BudgetError as error:
            raise LedgerError(f"the ledger's record {seq} exceeds its budget: {error}") from None
        self.seq = seq
        self.hash = stored_hash

    def check(self, kind: str, body: Mapping) -> None:
        """Raise BudgetError or LedgerError if the rules do not let this record come next."""
        if kind == "open":
            _check_open(body)
            if body["dataset"] in self.budgets:
                raise LedgerError(
                    f"data set {body['dataset']!r} is already open; its budget cannot change"
                )
        elif kind == "reserve":
            if body["run"] in self.runs:
                raise LedgerError("a run can reserve its budget only once")
            self._check_reserve(body)
        elif kind == "step":
            self._check_step(body)
        elif kind == "answer":
            step = self.run(body["run"]).steps.get((body["part"], body["step"]))
            if step is None or step.answer is not None:
                raise LedgerError("these answers belong to no step that is waiting for answers")
        elif kind == "finish":
            if self.run(body["run"]).finished:
                raise LedgerError("the run is already finished")
        else:
            raise LedgerError(
                f"record of unknown kind {kind!r}; it may come from a newer version of fastdp"
            )

    def _check_reserve(self, body: Mapping) -> None:
        dataset = body["dataset"]
        parts = [from_dict(e) for e in body["parts"]]
        self.require_dataset(dataset)
        budget = self.budgets[dataset]
        if not parts:
            raise LedgerError("a reservation needs at least one part")
        if "unit" not in body:
            raise LedgerError("a reservation must name the unit that it protects")
        self.check_unit(dataset, Unit.parse(body["unit"]))
        self._check_period(dataset, body, parts)
        left = self.draws_left(dataset)
        if left < FEWEST:
            raise BudgetError(
                f"data set {dataset!r}: with {left:,} more random numbers, the noise sampler's"
                " error (times e^epsilon of the budget) would come near the budget's delta, so the"
                " ledger admits no run. Open a data set with a smaller epsilon or a larger delta."
                " Nothing was read or drawn"
            )
        spent = self.totals[dataset]
        if not budget.admits(spent.plus(Totals.of(parts))):
            raise BudgetError(
                f"data set {dataset!r}: the budget does not cover this run; the run needs"
                f" {_say(parts)}, the budget has {_left(budget.left(spent))} left. Nothing was read"
                " or drawn"
            )

    def _check_period(self, dataset: str, body: Mapping, parts: Sequence[Event]) -> None:
        """Raise LedgerError or BudgetError unless the run's period may be released now."""
        period = body.get("period")
        late = body.get("late", False)
        horizon = self.series.get(dataset)
        if horizon is None:
            if period is not None:
                raise LedgerError(
                    f"data set {dataset!r} is not a series; open one with a number of periods "
                    "(`fastdp ledger open ... --periods`, or Ledger.open(..., periods=...)). "
                    "Nothing was read or drawn"
                )
            return
        if period is None:
            raise LedgerError(
                f"data set {dataset!r} is a series: name the period to release (series= and "
                "period=). Nothing was read or drawn"
            )
        unit = self.units[dataset]
        code_of(str(unit.period), period)
        before = self.releases_of(dataset, period)
        if before and not late:
            raise LedgerError(
                f"data set {dataset!r}: {period} was released by run {before[0]}, and a period is "
                "released once. A further release of it (late rows) is charged on its own: "
                "late=True. Nothing was read or drawn"
            )
        if late and not before:
            raise LedgerError(
                f"data set {dataset!r}: {period} was not released yet; leave late= out. Nothing "
                "was read or drawn"
            )
        released = {run.period for run in self.runs.values() if self._counts(run, dataset)}
        if len(released | {period}) > horizon:
            raise BudgetError(
                f"data set {dataset!r}: its budget is for {horizon} periods, which are all "
                f"released; {period} is one more. Nothing was read or drawn"
            )
        budget = self.budgets[dataset]
        if not fits_share(budget, horizon, parts):
            raise BudgetError(
                f"data set {dataset!r}: a release of one period may spend epsilon "
                f"{period_epsilon(budget, horizon):g} at delta {budget.delta:g}; the run needs "
                f"{_say(parts)}. Nothing was read or drawn"
            )

    def _counts(self, run: Run, dataset: str) -> bool:
        return run.dataset == dataset and run.counts_at(self.seq)

    def releases_of(self, dataset: str, period: str) -> list[str]:
        """Names of the runs that released this period, or may still do so."""
        return [
            name
            for name, run in self.runs.items()
            if run.period == period and self._counts(run, dataset)
        ]

    def series_facts(self, name: str) -> dict | None:
        """What a statement says of its series: the releases up to this run's reservation, in their
        order, each by its upper bounds. None if the run is of no series."""
        run = self.run(name)
        horizon = self.series.get(run.dataset)
        if horizon is None:
            return None
        so_far = [
            {"period": one.period, "late": one.late, "events": [e.to_dict() for e in one.parts]}
            for one in self.runs.values()
            if one.dataset == run.dataset and one.counts_at(run.seq)
        ]
        about = {"name": run.dataset, "period": run.period, "late": run.late, "periods": horizon}
        return about | {"releases": so_far}

    def check_unit(self, dataset: str, unit: Unit) -> None:
        """Raise LedgerError if the data set's budget is for another unit than this."""
        fixed = self.units.get(dataset)
        if fixed is not None and fixed != unit:
            named = unit.kind if unit.column is None else f"{unit.kind}:{unit.column}"
            raise LedgerError(
                f"data set {dataset!r}: its budget protects {fixed}, but this run protects {unit};"
                " epsilons of different units do not add up. Run with the schema and unit of the"
                " budget, or use a separate data set (`fastdp ledger open ... --unit`, or"
                f" Ledger.open(..., unit={named!r})). Nothing was read or drawn"
            )

    def draws_left(self, dataset: str) -> int:
        """Random numbers that the data set's runs may still draw under the promise of its whole
        budget."""
        budget = self.budgets[dataset]
        if budget.epsilon is None or budget.delta is None:
            return MOST
        drawn = sum(run.draws for run in self.runs.values() if run.dataset == dataset)
        return allowed_draws(budget.epsilon, budget.delta) - drawn

    def _check_step(self, body: Mapping) -> None:
        run = self.run(body["run"])
        part = body["part"]
        number = body["step"]
        if run.finished:
            raise LedgerError("the run is finished; it cannot take another step")
        if not 0 <= part < len(run.parts):
            raise LedgerError(f"the run has no part {part}")
        if (part, number) in run.steps or number != sum(p == part for p, _ in run.steps):
            raise LedgerError(f"step {number} of part {part} is out of order")
        events = [from_dict(e) for e in body["events"]]
        before = run.entered.get(part, Totals())
        if not events:
            raise LedgerError("a step must have a charge")
        budget = part_budget(run.parts[part])
        if not budget.admits(before.plus(Totals.of(events))):
            left = budget.left(before)
            raise BudgetError(
                f"step {body['label']!r}: the run's reservation does not cover it; the step needs "
                f"{_say(events)}, the reservation has {_left(left)} left. Nothing was drawn"
            )
        self._check_draws(run, body)
        self._check_group(run, body)

    def _check_draws(self, run: Run, body: Mapping) -> None:
        draws = body["draws"]
        if type(draws) is not int or draws < 0:
            raise LedgerError("a step must state how many numbers it draws")
        allowed = MOST if run.most_draws is None else run.most_draws - run.draws
        if draws > min(allowed, self.draws_left(run.dataset)):
            raise BudgetError(
                f"step {body['label']!r}: with its {draws:,} random numbers, the noise "
                "sampler's error (times e^epsilon) would come near delta. Measure fewer "
                "cells, or start a run with a smaller epsilon. Nothing was drawn"
            )

    def _check_group(self, run: Run, body: Mapping) -> None:
        group = body.get("group")
        fixed = self.groups.get(run.dataset)
        if group is not None and fixed is not None and tuple(group) != fixed:
            raise LedgerError(
                f"step {body['label']!r}: data set {run.dataset!r} protects "
                f"{_group_text(fixed)}, but this step protects {_group_text(tuple(group))}; "
                "the two do not add up. Use a separate data set. Nothing was drawn"
            )

    def _take(self, seq: int, kind: str, body: Mapping) -> None:
        if kind == "open":
            dataset = body["dataset"]
            self.budgets[dataset] = Budget.from_dict(body["budget"])
            self.totals[dataset] = Totals()
            unit = _unit_in(body)
            if unit is not None:
                self.units[dataset] = unit
            if body.get("periods") is not None:
                self.series[dataset] = body["periods"]
        elif kind == "reserve":
            self._take_reserve(seq, body)
        elif kind == "step":
            run = self.runs[body["run"]]
            part = body["part"]
            group = None if body.get("group") is None else tuple(body["group"])
            events = tuple(from_dict(e) for e in body["events"])
            step = Step(body["digest"], body["label"], events, body["draws"], group)
            run.steps[part, body["step"]] = step
            run.draws += step.draws
            run.entered[part] = run.entered.get(part, Totals()).plus(Totals.of(step.events))
            if step.group is not None:
                self.groups.setdefault(run.dataset, step.group)
        elif kind == "answer":
            step = self.runs[body["run"]].steps[body["part"], body["step"]]
            step.answer = tuple(body["arrays"])
        else:
            run = self.runs[body["run"]]
            run.finished = True
            run.finished_at = seq
            run.published = tuple(body.get("published", ()))
            before = self.totals[run.dataset]
            self.totals[run.dataset] = before.plus(run.totals()).plus(Totals.of(run.parts), -1)

    def _take_reserve(self, seq: int, body: Mapping) -> None:
        dataset = body["dataset"]
        parts = tuple(from_dict(e) for e in body["parts"])
        unit = Unit.parse(body["unit"])
        about = dict(body.get("about", {}))
        run = Run(
            dataset, body["plan"], parts, seq, unit, body.get("time"), about, body.get("draws")
        )
        run.period = body.get("period")
        run.late = body.get("late", False)
        self.runs[body["run"]] = run
        self.units.setdefault(dataset, unit)
        self.totals[dataset] = self.totals[dataset].plus(Totals.of(parts))

    def run(self, name: str) -> Run:
        try:
            return self.runs[name]
        except KeyError:
            raise LedgerError(f"the ledger has no run {name!r}") from None

    def require_dataset(self, dataset: str) -> None:
        """Raise LedgerError if the data set is not open."""
        if dataset not in self.budgets:
            names = ", ".join(map(repr, self.budgets)) or "none"
            raise LedgerError(
                f"the ledger has no data set {dataset!r} (it has: {names}); open it with a budget"
                f" first: `fastdp ledger open`, or Ledger.open({dataset!r}, epsilon=..., delta=...)"
            )

    def charged(self, dataset: str) -> list[Event]:
        """All events the data set is charged for: reservations of open runs, entered steps of
        finished ones."""
        self.require_dataset(dataset)
        return [e for run in self.runs.values() if run.dataset == dataset for e in run.charge()]


def _check_open(body: Mapping) -> None:
    """Raise unless a data set may be opened so."""
    budget = Budget.from_dict(body["budget"])
    unit = _unit_in(body)
    if body.get("periods") is not None:
        check_periods(body["periods"])
        check_series(budget)
        if unit is None or unit.kind != USER_PERIOD:
            raise UsageError(
                "periods: a series protects one user in one period; give its unit, as in "
                'unit="user-period:COLUMN:month:TIME"'
            )


def _unit_in(body: Mapping) -> Unit | None:
    return None if body.get("unit") is None else Unit.parse(body["unit"])


def _group_text(group: tuple[str, ...]) -> str:
    return f"one user's rows of one group over {', '.join(group)}" if group else "one row"


def summary(events: Sequence[Event], delta: float | None) -> dict:
    """The events as numbers: mu of all, epsilon at delta (None without a delta), pure epsilon where
    all are pure."""
    epsilon = None if delta is None else epsilon_at(events, delta)
    pure = pure_epsilon(events)
    numbers = {"epsilon": epsilon, "delta": delta, "mu": combined_mu(events) if events else 0.0}
    return numbers | {"pure_epsilon": None if pure is None else float(pure), "events": len(events)}


def _say(events: Sequence[Event]) -> str:
    pure = pure_epsilon(events)
    if pure is not None:
        return f"a pure epsilon of {float(pure):.6g}"
    lost = sum(e.delta for e in events if isinstance(e, Threshold))
    return f"mu {float(mu2(events)) ** 0.5:.6g}" + (
        f" and a delta of {lost:.6g} for keys" if lost else ""
    )


def _left(left: Mapping) -> str:
    figures = [f"mu {left['mu']:.6g}"] if left["mu"] is not None else []
    if left["epsilon"] is not None and left["delta"]:
        figures.append(f"epsilon {left['epsilon']:.6g} at delta {left['delta']:.6g}")
    elif left["pure_epsilon"]:
        figures.append(f"a pure epsilon of {left['pure_epsilon']:.6g}")
    if "keys_delta" in left:
        figures.append(f"a delta of {left['keys_delta']:.6g} for keys")
    return ", ".join(figures) or "nothing"
