"""A run's place in the ledger: steps are charged and answers stored through it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Protocol

import numpy as np

from ..errors import LedgerError
from .accountant import Event
from .budget import Totals
from .ledger_entries import run_entry
from .ledger_runs import part_budget
from .ledger_store import FileStore, MemoryStore


class OwnLedger(Protocol):
    """What a reservation needs of the ledger (`ledger.Ledger`) that made it."""

    counts_other_runs: bool
    _store: FileStore | MemoryStore

    def release(self, run: str, published: Sequence[str] = ()) -> None: ...


class Reservation:
    """A run's place in the ledger. All methods are transactions of their own, on disk when they
    return."""

    def __init__(self, ledger: OwnLedger, run: str):
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
                    "events": [e.to_dict() for e in events],
                    "draws": int(draws),
                }
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
        """What a part of the reservation has left for further steps."""
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
                "seq": work.state.seq,
                "hash": work.state.hash,
            }
            reference["counts_other_runs"] = self.ledger.counts_other_runs
            budget = work.state.budgets[run.dataset]
            if not budget.unlimited:
                reference["budget"] = budget.to_dict()
            return {"reference": reference, "entry": run_entry(self.run, run)}

    def series(self) -> dict | None:
        """What the statement says of the run's series; None if it is of none."""
        with self.ledger._store.transaction() as work:
            return work.state.series_facts(self.run)
