"""The ledger: data sets with a budget, and everything that was ever spent on them.

    ledger = fastdp.Ledger("budget.db")
    ledger.open("trips-2020", epsilon=2.0, delta=1e-5)
    fastdp.synthesize(..., ledger=ledger, dataset="trips-2020")
    ledger.spent("trips-2020")

A run reserves before data is read, enters each step before it is counted, and stores the noisy
answers before anybody sees them. So nothing is drawn that is not charged, an interrupted run
resumes with the noise it had, and no number of processes can overspend.

The rules are in `chain`, the files in `ledger_store`, the filters in `budget`, the proof in
docs/explain/filters.md. `reservation` is what a run does with its place in the ledger,
`ledger_entries` what the ledger shows, `ledger_check` how a statement is compared with it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from .._util.files import as_path
from ..errors import LedgerError, UsageError
from ..schema import Schema
from .accountant import Event
from .budget import Budget
from .chain import State
from .charge_texts import summary
from .ledger_check import check_statement
from .ledger_entries import run_entry, series_facts
from .ledger_runs import Run
from .ledger_store import FileStore, MemoryStore
from .reservation import Reservation
from .sampler_distance import check_sampler
from .series import check_periods, lifetime_budget
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
        reservation does. Runs of another unit are refused.

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
                    "cannot be changed; use another name"
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
        """Facts of a series; None if the data set is not one.

        `periods` is how many it has, `period` their length, `left` how many are not released yet.
        `epsilon` at `delta`, and `mu`, are what each may spend. `releases` lists those so far, each
        with the epsilon that one user in all of them has used up by then.
        """
        with self._store.transaction() as work:
            work.state.require_dataset(dataset)
            return series_facts(work.state, dataset)

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
            return [run_entry(name, run) for name, run in runs if dataset in (None, run.dataset)]

    def verify(self, statement: Mapping | None = None) -> dict:
        """Replay the whole chain from the file; with a statement, check that its run is in it,
        unchanged.

        Returns the ledger's id, number of records and last hash. LedgerError says what is wrong.
        """
        fresh = self if isinstance(self._store, MemoryStore) else Ledger(self._store.path)
        with fresh._store.transaction() as work:
            state = work.state
            if statement is not None:
                check_statement(state, work.hash_at, statement)
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
        needed: int = 0,
        about: Mapping | None = None,
        period: str | None = None,
        late: bool = False,
    ) -> Reservation:
        """One joint reservation of all the run's parts, or the one it made before it was
        interrupted.

        BudgetError if the data set's budget does not cover the parts, LedgerError if it protects
        another unit; nothing is charged then. A run that comes back must ask for the same parts by
        the same plan (a digest of what it is going to do).

        draws: the most numbers it may draw (`sampler_distance.check_sampler`; None: a run that
        protects nobody). needed: so many it will surely ask for; the run is refused if the data set
        has fewer left. about: for people who look at the ledger, such as mechanism and folder.
        period, late: of a series, the period that is released, and whether it is a further release
        of it.
        """
        described = [e.to_dict() for e in parts]
        with self._store.transaction() as work:
            dataset = _the_dataset(work.state, dataset)
            if self.counts_other_runs and work.state.budgets[dataset].unlimited:
                raise LedgerError(
                    f"data set {dataset!r} has no budget, because this is the ledger of "
                    "a single run; open your own ledger"
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
                    "unit": unit.to_dict(),
                    "about": dict(about or {}),
                }
                body |= {} if period is None else {"period": period, "late": late}
                work.state.check_draws_left(dataset, needed)
                work.append("reserve", body if draws is None else body | {"draws": int(draws)})
            elif before.finished:
                raise LedgerError(f"run {run!r} is finished; start a new one")
            elif _asked_before(before) != asked:
                raise LedgerError(
                    f"run {run!r} was reserved with other settings; resume with the "
                    "same ones, or start a new run"
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


def _asked_before(run: Run) -> tuple:
    return run.dataset, run.plan, run.unit, run.parts, run.period, run.late


def _the_dataset(state: State, dataset: str | None) -> str:
    if dataset is None and len(state.budgets) != 1:
        names = ", ".join(map(repr, state.budgets)) or "none; open one first: `fastdp ledger open`"
        raise LedgerError(f"dataset= is missing: the ledger has {names}")
    dataset = next(iter(state.budgets)) if dataset is None else dataset
    state.require_dataset(dataset)
    return dataset


def _path_of(path: str | os.PathLike) -> Path:
    named = as_path(path, "a ledger")
    if not named.name:
        raise UsageError(f"ledger: expected the path of a file, got {str(path)!r}")
    return named


def _now() -> int:
    return int(time.time())
