"""The steps of one part of a reservation: what sessions onto the same private rows share.

A session and the sessions made of it by `Session.part` enter their steps here, in one order, under
one lock. Nothing here counts: `answer` is handed the function that does, and calls it after the
charge.
"""

import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from ..errors import PrivacyError, UsageError
from ..privacy.accountant import Event
from ..privacy.chain import digest
from ..privacy.clip import ClipChoice
from ..privacy.reservation import Reservation

Draw = Callable[[], list[np.ndarray]]
"""Counts, adds noise, and returns the answers of a step."""


@dataclass(eq=False, repr=False)
class Steps:
    """The numbered steps of one part of a reservation.

    `clip`: None while the run is to choose one of at most `bound`. `number`: of the next step. `releases`:
    lines of the statement. `trace`: called with the name of each point that a step reached. `check`: called
    before a step is charged; raises Cancelled where the caller stops the run.
    """

    reservation: Reservation
    part: int
    bound: int
    clip: int | None
    number: int
    seed: int | None
    trace: Callable[[str], None]
    check: Callable[[], None] = lambda: None
    releases: list[dict] = field(default_factory=list)
    choice: dict | None = None
    event: frozenset[str] | None = None
    process: int = field(default_factory=os.getpid)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def answer(
        self, label: str, question: dict, events: Sequence[Event], draw: Draw, draws: int
    ) -> list[np.ndarray]:
        """Charge, draw, store: the only place where private numbers turn into released ones.
        `draws`: how many random numbers `draw` takes."""
        if not isinstance(label, str) or not label:
            raise UsageError("every step needs a label")
        if os.getpid() != self.process:
            raise PrivacyError(
                "a session cannot be used in another process than the one that made it, "
                "because charges of a copy would not count"
            )
        self.check()
        with self.lock:
            number, part = self.number, self.part
            stored = self.reservation.enter(
                part, number, digest(question), label, events, draws=draws, group=self.event
            )
            self.trace("entered")
            if stored is None:
                arrays = draw()
                self.trace("drawn")
                stored = self.reservation.store(part, number, arrays)
                self.trace("stored")
            self.number = number + 1
            return stored

    def choose(self, choice: ClipChoice, facts: dict, label: str) -> None:
        """Set the clip, once."""
        with self.lock:  # of two threads that asked at once, one has chosen
            if self.clip is not None:
                raise PrivacyError(f"{label!r}: the clip of this run was chosen in the meantime")
            self.clip = choice.clip
            self.choice = facts

    def one_unit(self, groups: frozenset[str]) -> None:
        """For runs with unit "event" over a table with users: PrivacyError if the run would promise
        two units at once. A unit is a row (no `groups`), or one user's rows of one group over the
        columns `groups`. The noise of counts of groups does not cover one row, which moves its user
        from one group to another. The noise of other counts does not cover all rows of one group.
        """
        if self.event is None:
            self.event = groups
        elif self.event != groups:
            raise PrivacyError(
                "a run with unit 'event' protects either one row, or one user's rows in one "
                "group. It cannot release both, nor histograms over different columns"
            )

    def draw_seed(self, position: int) -> int | None:
        """None (the operating system's randomness), or for tests a seed of its own for every
        draw."""
        if self.seed is None:
            return None
        name = {"seed": self.seed, "part": self.part, "step": self.number, "draw": position}
        return int(digest(name)[:15], 16)
