"""The ledger: data sets with a budget, and everything that was ever spent on them.

    ledger = fastdp.Ledger("budget.db")
    ledger.open("trips-2020", epsilon=2.0, delta=1e-5)
    fastdp.synthesize(..., ledger=ledger, dataset="trips-2020")
    ledger.spent("trips-2020")

A run reserves before data is read, enters each step before it is counted, and stores the noisy
answers before anybody sees them. So nothing is drawn that is not charged, an interrupted run
resumes with the noise it had, and no number of processes can overspend. The rules are in `chain`,
the files in `store`, the filters in `budget`, the proof in docs/guide/ledger.md.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from .._util.files import as_path
from ..errors import LedgerError, UsageError
from ..schema import Schema
from .accountant import Event
from .budget import Budget, Totals, epsilon_at, root_down
from .chain import Run, State, part_budget, summary
from .ledger_store import FileStore, MemoryStore
from .sampler_distance import check_sampler
from .series import check_periods, lifetime_budget, period_epsilon as period_epsilon_of
from .unit import Unit

LOCAL = "this run"


class Ledger:
    """Budgets of data sets, and everything that was ever spent on them, in an SQLite file.

    The file is made by the first `open`; every other use of a ledger that is not there is a
    LedgerError.

    Parameters
    ----------
    path : str or path
        The file.
    timeout : float
        Seconds to wait for another process that holds it.
    """

    def __init__(
        self,
        path: str | os.PathLike,
        *,
        timeout: float = 30.0,
        _trace: Callable[[str], None] | None = None,
    ):
        self._store: FileStore | MemoryStore = FileStore(_path_of(path), timeout, _trace)
        self.counts_other_runs = True

    @classmethod
    def local(cls, path: str | os.PathLike | None = None, *, _trace=None) -> Ledger:
        """A ledger for one run alone, in memory or in the run's private folder. It limits nothing,
        and statements made with it say that other runs are not counted."""
        ledger = object.__new__(cls)
        ledger._store = MemoryStore() if path is None else FileStore(Path(path), 30.0, _trace)
        ledger.counts_other_runs = False
        with ledger._store.transaction(create=True) as work:
            if LOCAL not in work.state.budgets:
                work.append("open", {"dataset": LOCAL, "budget": {}, "time": _now()})
        return ledger

    @property
    def path(self) -> Path | None:
        """The file; None for a ledger in memory."""
        return self._store.path

    def __repr__(self) -> str:
        return f"Ledger({str(self._store.path)!r})" if self._store.path else "Ledger.local()"

    def open(
        self,
        dataset: str,
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        mu: float | None = None,
        pure: float = 0.0,
        keys: float = 0.0,
        unit: Unit | Mapping | Schema | str | None = None,
        periods: int | None = None,
        period_epsilon: float | None = None,
    ) -> None:
        """Open a data set with a budget: epsilon and delta, or mu. A budget can be set once and
        never changed.

        `unit` fixes whom the budget protects: "row", "user:COLUMN", "event:COLUMN",
        "user-period:COLUMN:month:TIME", a mapping of its fields, or a schema. Without it, the first
        reservation does. Runs of another
        unit are refused.

        `pure` sets a part of epsilon aside for pure (Laplace) releases. Only such a budget takes
        pure and Gaussian releases side by side at the sum of their epsilons. `keys` sets a part of
        delta aside for `select_keys`; without it no keys can be taken from the data set. Opening
        again with the same budget does nothing.

        `periods` makes the data set a series of so many releases, one a period. Its unit is a
        user-period; the budget is for one user over all periods, and each release may spend an
        equal share of its mu^2. In place of epsilon, `period_epsilon` states what each may spend.
        """
        if not isinstance(dataset, str) or not dataset.strip():
            raise UsageError("dataset: expected a non-empty name")
        if period_epsilon is not None:
            if periods is None or epsilon is not None or mu is not None or pure or keys:
                raise UsageError(
                    "period_epsilon: it stands in place of epsilon, and needs periods and delta alone"
                )
            budget = lifetime_budget(period_epsilon, 0.0 if delta is None else delta, periods)
        else:
            budget = Budget.of(epsilon, delta, mu, pure, keys)
        protects = None if unit is None else Unit.parse(unit)
        if budget.epsilon is not None and budget.delta is not None:
            check_sampler(budget.epsilon, budget.delta, f"data set {dataset!r}")
        with self._store.transaction(create=True) as work:
            current = work.state.budgets.get(dataset)
            if current is None:
                body = {"dataset": dataset, "budget": budget.to_dict(), "time": _now()}
                body |= {} if protects is None else {"unit": protects.to_dict()}
                body |= {} if periods is None else {"periods": check_periods(periods)}
                work.append("open", body)
            elif current != budget or work.state.series.get(dataset) != periods:
                raise LedgerError(
                    f"data set {dataset!r} is already open with another budget, which "
                    "cannot be "
                    "changed; use another name"
                )
            elif protects is not None and work.state.units.get(dataset) != protects:
                fixed = work.state.units.get(dataset) or "no unit yet: its first run fixes it"
                raise LedgerError(
                    f"data set {dataset!r} is already open with another unit ({fixed}), which "
                    "cannot be changed; use another name"
                )

    def datasets(self) -> dict[str, dict]:
        """The open data sets and their budgets."""
        with self._store.transaction() as work:
            return {name: budget.to_dict() for name, budget in work.state.budgets.items()}

    def unit(self, dataset: str) -> Unit | None:
        """Whom the data set's budget protects; None while no run has fixed it."""
        with self._store.transaction() as work:
            work.state.require_dataset(dataset)
            return work.state.units.get(dataset)

    def series(self, dataset: str) -> dict | None:
        """Facts of a series: `periods` (how many it has), `period` (their length), what each may
        spend (`epsilon` at `delta`, and `mu`), the `releases` so far with the epsilon that one user
        in all of them has used up by then, and how many periods are `left`. None if the data set
        is no series."""
        with self._store.transaction() as work:
            work.state.require_dataset(dataset)
            return _series(work.state, dataset)

    def spent(self, dataset: str) -> dict:
        """What the data set is charged: epsilon at its delta, mu, pure epsilon (None unless all is
        pure), events.

        Runs that have not finished count with their whole reservation.
        """
        with self._store.transaction() as work:
            events = work.state.charged(dataset)
            return summary(events, work.state.budgets[dataset].delta)

    def remaining(self, dataset: str) -> dict:
        """What further runs may cost: mu for Gaussian ones, a pure epsilon for pure ones, and
        epsilon at the data set's delta. None if the budget has no limit."""
        with self._store.transaction() as work:
            work.state.require_dataset(dataset)
            return work.state.budgets[dataset].left(work.state.totals[dataset])

    def entries(self, dataset: str | None = None) -> list[dict]:
        """The charges, oldest first: one per run, with its time, unit, parts (upper bounds) and
        steps. `answers` of a step are the type, shape and sha256 of its noisy answers."""
        with self._store.transaction() as work:
            if dataset is not None:
                work.state.require_dataset(dataset)
            runs = work.state.runs.items()
            return [_entry(name, run) for name, run in runs if dataset in (None, run.dataset)]

    def verify(self, statement: Mapping | None = None) -> dict:
        """Replay the whole chain from the file; with a statement, check that its run is in it,
        unchanged.

        Returns the ledger's id, number of records and last hash. LedgerError says what is wrong.
        """
        fresh = self if isinstance(self._store, MemoryStore) else Ledger(self._store.path)
        with fresh._store.transaction() as work:
            state = work.state
            if statement is not None:
                reference = statement.get("ledger")
                if not isinstance(reference, Mapping):
                    raise LedgerError("the statement does not name a ledger")
                _check_reference(state, work, reference)
                _check_claims(state.run(str(reference["run"])), statement)
                _check_series(state, str(reference["run"]), statement)
            return {"id": state.id, "seq": state.seq, "hash": state.hash}

    def reserve(
        self,
        dataset: str | None,
        run: str,
        parts: Sequence[Event],
        plan: str = "",
        *,
        unit: Unit,
        draws: int | None = None,
        about: Mapping | None = None,
        period: str | None = None,
        late: bool = False,
    ) -> Reservation:
        """One joint reservation of all the run's parts, or the one it made before it was
        interrupted.

        BudgetError if the data set's budget does not cover the parts, LedgerError if it protects
        another unit; nothing is charged then. A run that comes back must ask for the same parts by
        the same plan (a digest of what it is going to do). draws: the most numbers it may draw
        (`distance.check_sampler`; None: a run that protects nobody). about: for people who look at
        the ledger, such as mechanism and folder. period, late: of a series, the period that is
        released, and whether it is a further release of it.
        """
        described = [e.to_dict() for e in parts]
        with self._store.transaction() as work:
            dataset = _the_dataset(work.state, dataset)
            if self.counts_other_runs and work.state.budgets[dataset].unlimited:
                raise LedgerError(
                    f"data set {dataset!r} has no budget, because this is the ledger of "
                    "a single "
                    "run; open your own ledger"
                )
            before = work.state.runs.get(run)
            asked = (dataset, plan, unit, tuple(parts), period, late)
            if before is None:
                body = {
                    "dataset": dataset,
                    "run": run,
                    "parts": described,
                    "plan": plan,
                    "time": _now(),
                }
                body |= {"unit": unit.to_dict(), "about": dict(about or {})}
                body |= {} if period is None else {"period": period, "late": late}
                work.append("reserve", body if draws is None else body | {"draws": int(draws)})
            elif before.finished:
                raise LedgerError(f"run {run!r} is finished; start a new one")
            elif _asked_before(before) != asked:
                raise LedgerError(
                    f"run {run!r} was reserved with other settings; resume with the "
                    "same ones, or "
                    "start a new run"
                )
        return Reservation(self, run)

    def release(self, run: str, published: Sequence[str] = ()) -> None:
        """End a run that will not come back: the part of its reservation that no step entered is
        given back.

        Whatever was entered stays charged, whether or not its answers were ever stored. published:
        sha256 of the statements that the run put into its folder, by which `fastdp verify --ledger`
        knows them again.
        """
        with self._store.transaction() as work:
            if not work.state.run(run).finished:
                work.drop_arrays(run)
                body = {"run": run, "time": _now()}
                work.append("finish", body | ({"published": list(published)} if published else {}))


def opened(
    ledger: Ledger | str | os.PathLike | None,
    dataset: str | None,
    path: Path | None = None,
    trace=None,
) -> tuple[Ledger, str | None]:
    """The ledger that a run names, and its data set; without one, a ledger for this run alone (at
    `path`)."""
    if ledger is not None:
        return ledger if isinstance(ledger, Ledger) else Ledger(ledger, _trace=trace), dataset
    if dataset is not None:
        raise UsageError("dataset= names a data set of a ledger, so it needs ledger=")
    return Ledger.local(path, _trace=trace), LOCAL


class Reservation:
    """A run's place in the ledger. All methods are transactions of their own, on disk when they
    return."""

    def __init__(self, ledger: Ledger, run: str):
        self.ledger = ledger
        self.run = run

    def enter(
        self,
        part: int,
        number: int,
        digest: str,
        label: str,
        events: Sequence[Event],
        *,
        draws: int,
        group: Collection[str] | None = None,
    ) -> list[np.ndarray] | None:
        """Charge step `number` of a part, before anything is counted.

        Returns None if its answers are to be drawn, or the stored answers if they were drawn
        before. A step that was entered with another digest is refused: its charge was for another
        question. draws: how many random numbers it takes. group: for events of users, the columns
        whose groups are counted.
        """
        with self.ledger._store.transaction() as work:
            run = work.state.run(self.run)
            step = run.steps.get((part, number))
            if run.finished:
                raise LedgerError(f"run {self.run!r} is finished; it cannot take another step")
            if step is None:
                body = {
                    "run": self.run,
                    "part": part,
                    "step": number,
                    "digest": digest,
                    "label": label,
                }
                body |= {"events": [e.to_dict() for e in events], "draws": int(draws)}
                work.append("step", body if group is None else body | {"group": sorted(group)})
                return None
            if step.digest != digest:
                raise LedgerError(
                    f"step {number} ({label!r}) of run {self.run!r} asks a different question than"
                    " before the interruption; resume a run with the same program, settings and"
                    " public data"
                )
            if step.answer is None:
                return None
            return work.get_arrays(self.run, part, number, step.answer)

    def store(self, part: int, number: int, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Store a step's noisy answers; returns the answers that count.

        If another process resumed the same run and stored first, its answers count, and these are
        discarded without having been shown to anybody.
        """
        with self.ledger._store.transaction() as work:
            step = work.state.run(self.run).steps.get((part, number))
            if step is None:
                raise LedgerError(
                    f"step {number} is not in the ledger, so its answers cannot be stored"
                )
            if step.answer is not None:
                return work.get_arrays(self.run, part, number, step.answer)
            described = work.put_arrays(self.run, part, number, arrays)
            work.append(
                "answer", {"run": self.run, "part": part, "step": number, "arrays": described}
            )
        return list(arrays)

    def finish(self, published: Sequence[str] = ()) -> None:
        """End the run: stored answers are dropped, and budget that no step charged is returned to
        the data set."""
        self.ledger.release(self.run, published)

    def left(self, part: int) -> dict:
        with self.ledger._store.transaction() as work:
            run = work.state.run(self.run)
            return part_budget(run.parts[part]).left(run.entered.get(part, Totals()))

    def describe(self) -> dict:
        """The run's entry, and a reference by which anyone can find it in the ledger."""
        with self.ledger._store.transaction() as work:
            run = work.state.run(self.run)
            reference: dict[str, Any] = {
                "id": work.state.id,
                "dataset": run.dataset,
                "run": self.run,
            }
            reference |= {"seq": work.state.seq, "hash": work.state.hash}
            reference["counts_other_runs"] = self.ledger.counts_other_runs
            budget = work.state.budgets[run.dataset]
            if not budget.unlimited:
                reference["budget"] = budget.to_dict()
            return {"reference": reference, "entry": _entry(self.run, run)}

    def series(self) -> dict | None:
        """What the statement says of the run's series; None if it is of none."""
        with self.ledger._store.transaction() as work:
            return work.state.series_facts(self.run)


def _asked_before(run: Run) -> tuple:
    return run.dataset, run.plan, run.unit, run.parts, run.period, run.late


def _series(state: State, dataset: str) -> dict | None:
    horizon = state.series.get(dataset)
    if horizon is None:
        return None
    budget = state.budgets[dataset]
    assert budget.mu is not None and budget.delta is not None
    runs = [run for run in state.runs.values() if run.dataset == dataset]
    counted = [run for run in runs if run.counts_at(state.seq)]
    releases = []
    for number, run in enumerate(counted, 1):
        so_far = [event for one in counted[:number] for event in one.parts]
        numbers = {"epsilon": epsilon_at(run.parts, budget.delta)}
        numbers["user_epsilon"] = epsilon_at(so_far, budget.delta)
        releases.append({"period": run.period, "late": run.late} | numbers)
    return {
        "periods": horizon,
        "period": state.units[dataset].period,
        "epsilon": period_epsilon_of(budget, horizon),
        "delta": budget.delta,
        "mu": root_down(Fraction(budget.mu) ** 2 / horizon),
        "releases": releases,
        "left": horizon - len({run.period for run in counted}),
    }


def _entry(name: str, run: Run) -> dict:
    steps = []
    for (part, number), step in sorted(run.steps.items()):
        events = [e.to_dict() for e in step.events]
        drawn = {
            "part": part,
            "step": number,
            "label": step.label,
            "events": events,
            "draws": step.draws,
        }
        answers = {
            "answered": step.answer is not None,
            "answers": [dict(a) for a in step.answer or ()],
        }
        steps.append(drawn | answers)
    known: dict[str, Any] = {"run": name, "dataset": run.dataset, "seq": run.seq, "time": run.time}
    known |= {"unit": run.unit.to_dict(), "about": dict(run.about)}
    known |= {} if run.period is None else {"period": run.period, "late": run.late}
    known |= {"parts": [e.to_dict() for e in run.parts], "steps": steps, "finished": run.finished}
    return known | {
        "published": list(run.published),
        "charged": [e.to_dict() for e in run.charge()],
    }


def _the_dataset(state: State, dataset: str | None) -> str:
    if dataset is None and len(state.budgets) != 1:
        names = ", ".join(map(repr, state.budgets)) or "none; open one first: `fastdp ledger open`"
        raise LedgerError(f"dataset= is missing: the ledger has {names}")
    dataset = next(iter(state.budgets)) if dataset is None else dataset
    state.require_dataset(dataset)
    return dataset


def _check_reference(state: State, work, reference: Mapping) -> None:
    if reference.get("id") != state.id:
        raise LedgerError("the statement refers to another ledger")
    seq = reference.get("seq")
    if type(seq) is not int or not 0 < seq <= state.seq:
        raise LedgerError(
            "the ledger was rolled back: the statement refers to a later record than its last"
        )
    if work.hash_at(seq) != reference.get("hash"):
        raise LedgerError("the ledger and the statement disagree about the records before the run")
    state.run(str(reference.get("run")))


def _check_claims(run: Run, statement: Mapping) -> None:
    """Raise LedgerError if the statement claims another unit, other parts, or lists other releases,
    than the run was charged for."""
    parts = statement.get("parts")
    if parts is None and "event" not in statement:
        return  # a reference alone
    if parts is None:
        parts = [{"event": statement.get("event"), "releases": [{"event": statement.get("event")}]}]
    elif not _same_unit(run.unit, statement.get("unit")):
        raise LedgerError(
            "the statement names a different unit than the ledger's record of this run"
        )
    try:
        claimed = [p["event"] for p in parts], [[r["event"] for r in p["releases"]] for p in parts]
    except (KeyError, TypeError):
        raise LedgerError(
            "the statement does not state the charges of its parts and releases"
        ) from None
    drawn = [[e.to_dict() for e in run.drawn(i)] for i in range(len(run.parts))]
    charged = [e.to_dict() for e in run.parts], drawn
    if claimed != charged or statement["ledger"].get("dataset") != run.dataset:
        raise LedgerError(
            "the statement states a different charge than the ledger's record of this run"
        )


def _check_series(state: State, name: str, statement: Mapping) -> None:
    """Raise LedgerError if the statement lists other releases of its series than the ledger."""
    if "parts" in statement and statement.get("series") != state.series_facts(name):
        raise LedgerError(
            "the statement's series differs from the ledger's record of it, so that what it says "
            "of one user over all periods does not hold"
        )


def _same_unit(unit: Unit, stated: Any) -> bool:
    return (
        isinstance(stated, Mapping) and {k: stated.get(k) for k in unit.to_dict()} == unit.to_dict()
    )


def _path_of(path: str | os.PathLike) -> Path:
    named = as_path(path, "a ledger")
    if not named.name:
        raise UsageError(f"ledger: expected the path of a file, got {str(path)!r}")
    return named


def _now() -> int:
    return int(time.time())
