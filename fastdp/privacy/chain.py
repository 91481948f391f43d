"""The ledger as a chain of records, and the state that the records add up to.

A record is (seq, kind, body), and its hash is sha256(previous hash, canonical JSON of the three).
So no record can be changed, dropped or moved without changing every later hash. Every body holds a
random `nonce`. So nothing about a run, such as the time at which it began, can be guessed and
confirmed from a published hash. `State.append` is the only place that gives records their meaning.
It refuses records that break the rules, so a replay of the chain is also its audit.

A record has one of these kinds:

- `open`: a data set, its budget and perhaps its unit. A series also has its number of periods.
- `reserve`: a run's unit and its parts, which are upper bounds on what each may spend. They are
  fixed before data is read. A run of a series also names its period.
- `step`: one call of the session. The events it spends and the numbers it draws are charged from
  then on.
- `answer`: hashes of the noisy answers of a step.
- `finish`: the run is over. Budget that no step charged goes back to the data set. The record holds
  the hashes of the statements that the run published.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence

from ..errors import BudgetError, LedgerError, UsageError
from ..schema.periods import KIND as USER_PERIOD, code_of
from .accountant import Event
from .budget import Budget, Totals, from_dict
from .charge_texts import say_charge, say_group, say_left
from .ledger_runs import Run, Step, part_budget
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
        """Raise unless the budget covers the reservation, in its unit, with enough random numbers
        left."""
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
        self.check_draws_left(dataset, FEWEST)
        spent = self.totals[dataset]
        if not budget.admits(spent.plus(Totals.of(parts))):
            raise BudgetError(
                f"data set {dataset!r}: the budget does not cover this run; the run needs"
                f" {say_charge(parts)}, the budget has {say_left(budget.left(spent))} left. Nothing was read"
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
                f"{say_charge(parts)}. Nothing was read or drawn"
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

    def check_draws_left(self, dataset: str, needed: int) -> None:
        """BudgetError if the data set's runs may draw fewer random numbers than a run needs."""
        left = self.draws_left(dataset)
        if left < needed:
            raise BudgetError(
                f"data set {dataset!r}: with {left:,} more random numbers, the noise sampler's"
                " error (times e^epsilon of the budget) would come near the budget's delta, so the"
                f" ledger admits no run that may draw {needed:,}. Open a data set with a smaller"
                " epsilon or a larger delta. Nothing was read or drawn"
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
        """Raise unless the step is the next of its part and the reservation covers it."""
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
                f"{say_charge(events)}, the reservation has {say_left(left)} left. Nothing was drawn"
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
                f"{say_group(fixed)}, but this step protects {say_group(tuple(group))}; "
                "the two do not add up. Use a separate data set. Nothing was drawn"
            )

    def _take(self, seq: int, kind: str, body: Mapping) -> None:
        """Change the state by a record that was checked."""
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
        """Add the run of a reservation, and its charge, to the state."""
        dataset = body["dataset"]
        parts = tuple(from_dict(e) for e in body["parts"])
        unit = Unit.parse(body["unit"])
        about = dict(body.get("about", {}))
        run = Run(
            dataset=dataset,
            plan=body["plan"],
            parts=parts,
            seq=seq,
            unit=unit,
            time=body.get("time"),
            about=about,
            most_draws=body.get("draws"),
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
