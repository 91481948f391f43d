"""One call of `synthesize` whose arguments have been checked: what its steps share."""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .._util.progress import Reporter
from ..mechanisms import recipe as recipes
from ..mechanisms.base import Config
from .folder import RunFolder
from .publicread import public_entry
from .standing import Standing

if TYPE_CHECKING:
    from ..privacy.ledger import Ledger
    from ..schema import Schema

LIMITS = ("max_cells", "memory", "deadline")
"""Fields of recipes that limit a run's model or memory; they may be changed when the run is resumed."""


@dataclass
class Work:
    """One call of `synthesize` whose arguments have been checked."""

    schema: Schema
    recipe: recipes.Recipe
    configs: list[Config]
    epsilons: list[float]
    delta: float
    rows: int | None
    ledger: Any
    dataset: str | None
    seed: int | None
    sample_seed: int | None
    threads: int | None
    reporter: Reporter
    several: bool
    report: bool
    engine: str | None = None
    partitions: int | None = None
    go_on: bool = False
    diagnose: bool = False
    standing: Standing = field(default_factory=Standing)
    entered: bool = False
    reading: dict[str, int] = field(default_factory=dict)
    asked: Schema | None = None

    def __post_init__(self) -> None:
        if self.asked is None:
            self.asked = self.schema

    def arguments(self, public: Any) -> dict:
        """What decides a run's measurements and output; a resumed run must have the same."""
        fields = {key: value for key, value in self.recipe.fields.items() if key not in LIMITS}
        return {
            "schema": (self.asked or self.schema).digest(),
            "mechanism": self.recipe.mechanism,
            "fields": json.loads(json.dumps(fields, default=str)),
            "epsilon": [float(e) for e in self.epsilons],
            "delta": self.delta,
            "rows": self.rows,
            "dataset": self.dataset,
            "public": None if public is None else public_entry(public)["name"],
            "seed": self.seed,
            "sample_seed": self.sample_seed,
        }

    def limits(self) -> list[dict]:
        """The arguments that may differ when a run is resumed, as long as no step entered in the ledger
        depended on them."""
        return [config.limits_used() for config in self.configs]

    def book(self, folder: RunFolder) -> Ledger:
        """The ledger that this run was charged in."""
        from ..privacy.ledger import Ledger

        if self.ledger is None:
            return Ledger.local(folder.private / "ledger.db")
        return self.ledger if isinstance(self.ledger, Ledger) else Ledger(self.ledger)

    @property
    def relabel(self) -> tuple[str, ...]:
        return self.configs[0].public_relabel

    def new_seed(self) -> int:
        return secrets.randbits(62) if self.sample_seed is None else int(self.sample_seed)

    def label(self, i: int) -> str:
        return f"eps-{self.epsilons[i]:g}"

    def timings(self, i: int) -> dict[str, float]:
        return self.reporter.spent(self.label(i) if self.several else "")
