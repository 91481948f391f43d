"""What the ledger's chain holds of one run: its reservation, its steps, and what it is charged."""

from collections.abc import Mapping

from msgspec import Struct, field

from .accountant import GAUSSIAN, Event, Gaussian, Threshold
from .budget import Budget, Totals
from .unit import Unit


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
        """Whether the run may have released something by this record: it had reserved, and had not
        ended without a step."""
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
        """What was entered, each event in the class of its part. An event that a Gaussian part paid
        for at its mu stays Gaussian for ever (docs/guide/ledger.md, Labels)."""
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
