"""The workload: marginals for which accuracy is wanted, or a target column that the others are to
explain.

The workload sets the weight of a candidate's distance from the model. Candidate c has the weight

    BASE + (1 - BASE) * (sum of the weights of the items that contain c) / (sum of all items'
    weights),

since measuring c removes its distance from every item that contains it; without a workload every
candidate has weight 1. What the owner calls important multiplies it (`fastdp.important`). Subsets
of the items with three columns or more become candidates too. So do, with a target, the sets of it
and two other columns, which weigh as much as its pairs. Columns that decide a target together may
show in neither pair (exclusive or).
"""

import math
from collections.abc import Mapping, Sequence
from itertools import combinations

import msgspec
import numpy as np

from ...domain import Clique, Domain
from ...errors import SchemaError, UsageError
from ...important import Emphasis
from ...model.graphical_model import Model
from .halving import Halving
from .one_ways import NOISE, effective_cells

BASE = 0.1
"""Weight of a marginal that the workload does not name: the rest of the table must stay accurate
too."""

MAX_LARGER = 2000
SPREAD = 3
"""The most columns over whose values the values behind a merged code are spread evenly."""


class WorkloadItem(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A marginal that matters, and how much."""

    columns: tuple[str, ...]
    weight: float = 1.0

    def __post_init__(self):
        if not (math.isfinite(self.weight) and self.weight > 0):
            raise ValueError("weight must be positive")
        if not self.columns or len(set(self.columns)) != len(self.columns):
            raise ValueError("columns: expected at least one, each named once")


class Workload:
    """`items`: cliques, or `WorkloadItem`s. `target`: the pairs of this column with every other
    one. `named`: sets of columns that are to be modelled well. `important`: weights of columns and
    pairs that matter more than the rest, by which all other weights are multiplied."""

    def __init__(
        self,
        domain: Domain,
        items: Sequence[Sequence[str] | WorkloadItem] = (),
        target: str | None = None,
        important: Mapping[Clique, float] | None = None,
    ):
        self._emphasis = Emphasis(important or {})
        self.items: dict[Clique, float] = {}
        for item in items:
            columns, weight = (
                (item.columns, item.weight) if isinstance(item, WorkloadItem) else (item, 1.0)
            )
            self._add(domain, tuple(columns), weight, "workload")
        self.named: list[Clique] = [*self.items, *(important or {})]
        self.named += [(target,)] if target is not None else []
        self.target = target
        self.has_sets = bool(self.items)
        """Whether sets are named, and not only a target."""
        if target is not None:
            for other in domain:
                if other != target:
                    self._add(domain, (target, other), 1.0, "target")
        self._total = math.fsum(self.items.values())
        self._sets = [(frozenset(c), w) for c, w in self.items.items()]
        self._weights: dict[frozenset[str], float] = {}

    def _add(self, domain: Domain, columns: Clique, weight: float, field: str) -> None:
        try:
            clique = domain.canonical(domain.check(columns))
        except SchemaError as error:
            raise UsageError(f"field {field!r}: {error}") from None
        self.items[clique] = self.items.get(clique, 0.0) + weight

    def weight(self, clique: Clique) -> float:
        """The weight of the candidate's distance, above 0 and at most 1."""
        names = frozenset(clique)
        if not self.items:
            return self._emphasis.weight(names)
        if names not in self._weights:
            inside = math.fsum(w for s, w in self._sets if names <= s)
            inside += 1.0 if len(names) >= 3 and self.target in names else 0.0
            own = BASE + (1 - BASE) * inside / self._total
            self._weights[names] = own * self._emphasis.weight(names)
        return self._weights[names]

    def spread(self) -> dict[str, Clique]:
        """For every column in an item, the columns that it shares items with, largest weight of the
        pair first, at most `SPREAD`."""
        names = sorted({a for item in self.items for a in item})
        out = {}
        for a in names:
            others = {b for item in self.items if a in item for b in item if b != a}
            out[a] = tuple(sorted(others, key=lambda b: (-self.weight((a, b)), b))[:SPREAD])
        return out

    def halving(self, domain: Domain) -> Halving | None:
        """How rows are balanced over the items of two columns or more; None if there are none. Rows
        are sorted by the columns of the largest weight, among equals by those of the fewest values.
        """
        items = {c: w for c, w in self.items.items() if len(c) > 1}
        order = sorted(domain, key=lambda a: (-self.weight((a,)), domain[a]))
        return Halving(domain, items, order) if items else None

    def workload_errors(
        self,
        model: Model,
        total: float,
        distances: Mapping[Clique, tuple[float, float]] | None = None,
    ) -> list[dict]:
        """How accurate each item is, for the statement, as total variations; from released numbers
        alone.

        `expected_error`: what the noise of the best measured marginal that contains the item leads
        one to expect (None: none was measured, the item follows from smaller ones). `distance`,
        `distance_error`: how far the model is from the table, over merged codes, by a release
        (`distances`: L1 in rows and standard error); None if there was none.
        """
        out = []
        for clique, weight in self.items.items():
            known = [
                (axes, e)
                for axes, e in model.errors.items()
                if set(clique) <= set(axes) and np.isfinite(e).all()
            ]
            errors = [
                np.sqrt(np.mean(e**2) * e.size / model.domain.cells(clique)) for _, e in known
            ]
            expected = distance = distance_error = None
            if errors and total > 0:
                filled = effective_cells(model.marginal(clique), min(errors))
                expected = min(1.0, NOISE * float(min(errors)) * filled / (2 * total))
            if clique in (distances or {}) and total > 0:
                gap, sigma = (distances or {})[clique]
                distance = min(1.0, max(0.0, gap / (2 * total)))
                distance_error = sigma / (2 * total)
            own = {"columns": list(clique), "weight": weight, "expected_error": expected}
            out.append(own | {"distance": distance, "distance_error": distance_error})
        return out

    def larger(self, domain: Domain) -> list[Clique]:
        """Subsets of the items with three columns and more, and the target with two others;
        heaviest first, at most `MAX_LARGER`."""
        sizes = [(item, k) for item in self.items for k in range(3, min(len(item), 6) + 1)]
        cliques = {
            domain.canonical(subset) for item, k in sizes for subset in combinations(item, k)
        }
        if self.target is not None:
            others = [a for a in domain if a != self.target]
            cliques |= {domain.canonical((self.target, *two)) for two in combinations(others, 2)}
        return sorted(cliques, key=lambda c: (-self.weight(c), len(c), c))[:MAX_LARGER]
