"""The state of a running run, for whoever interrupts it: what is charged, what is kept, how to
resume."""

import contextlib
import os
import shutil
from pathlib import Path
from typing import Any

from msgspec import Struct

from .._util.progress import Reporter
from ..errors import FastdpError
from ..privacy.ledger import Ledger
from .folder import RunFolder

ASK_SECONDS = 0.5
"""Seconds to wait for the ledger's lock: an interrupted run must end soon, whoever holds the lock.
"""


class Charge(Struct, frozen=True):
    """What the ledger holds of a run: the steps entered, as (part, label), and how many of them
    have stored answers."""

    steps: tuple[tuple[int, str], ...] = ()
    answered: int = 0


class RunStatus:
    """Filled in by a run as it goes. Its methods may be called from any thread, also while the run
    is stuck in a long computation: they ask the ledger through a handle of their own.

    `entered`: whether a step was charged; `published`: whether the folder is in its final place;
    `over`: whether nothing is left to resume.
    """

    def __init__(self) -> None:
        self.reporter: Reporter | None = None
        self.folder: RunFolder | None = None
        self._ledger: Any = None
        self._run = ""
        self._promise = ""
        self.published = self.entered = self.over = False

    @property
    def stage(self) -> str:
        """The current stage, one of `_util.progress.STAGES`, or "" between two stages."""
        return "" if self.reporter is None else self.reporter.current

    def reserved(self, ledger: Any, run: str, promise: str) -> None:
        """Note the ledger (a path, a `Ledger`, or None for the run's own) and the run's name in it.
        `promise` is for people: what is promised, and the data set it is charged to."""
        self._ledger = ledger
        self._run = run
        self._promise = promise

    def charge(self) -> Charge | None:
        """What is charged so far; None if nothing was reserved, or the ledger is locked."""
        book = self._book()
        if book is None:
            return None
        with contextlib.suppress(FastdpError, OSError):
            for entry in book.entries():
                if entry["run"] == self._run:
                    steps = entry["steps"]
                    labels = tuple((step["part"], step["label"]) for step in steps)
                    return Charge(labels, sum(step["answered"] for step in steps))
            return Charge()
        return None

    def give_up(self) -> None:
        """Clean up for a process that is about to end without running its `finally` blocks. This
        removes what is half written. If no step was entered, the reservation and the private folder
        go too."""
        if self.folder is None or self.published:
            return
        charge = self.charge()
        for name in self.folder.state.get("staging", ()):
            shutil.rmtree(self.folder.out.parent / name, ignore_errors=True)
        if charge is not None and not charge.steps and not self.folder.resume:
            book = self._book()
            with contextlib.suppress(FastdpError, OSError):
                if book is not None:
                    book.release(self._run)
            self.folder.remove_traces()

    def text(self, again: str, resume: str) -> str:
        """One line: what is charged, what is kept, and how to continue. `again`, `resume`: the
        commands (or words) that start the run again and that resume it."""
        folder = self.folder
        if self.over and folder is not None:
            return f"the run is complete, charged {self._promise}: its results are in {folder.out}"
        if self.published and folder is not None:
            return f"the run was finished: its results are in {folder.out}; end it with: {resume}"
        if not self._run:
            return f"nothing was charged and nothing is kept; start again with: {again}"
        if folder is None:
            return (
                f"at most {self._promise} is charged and nothing is kept (no out=); start again"
                f" with: {again}"
            )
        charge = self.charge()
        if charge is None:
            return (
                f"the ledger cannot be asked now; at most {self._promise} is charged, and what was"
                f" answered is kept in {folder.private}; go on with: {resume}"
            )
        if not charge.steps and not folder.resume:
            return f"nothing was charged and nothing is kept; start again with: {again}"
        return (
            f"charged: {len(charge.steps)} steps of this run, together at most {self._promise};"
            f" kept: the noisy answers of {charge.answered} of them, in {folder.private}, and"
            f" nothing half-written; go on, with the same noise, with: {resume}"
        )

    def _book(self) -> Ledger | None:
        path: Any = self._ledger
        if not self._run:
            return None
        if path is None and self.folder is not None:
            path = self.folder.private / "ledger.db"
        if isinstance(path, Ledger):
            path = path.path
        if not isinstance(path, str | os.PathLike):
            return None
        return None if not Path(path).exists() else Ledger(path, timeout=ASK_SECONDS)
