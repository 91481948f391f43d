"""One estimation problem: checked measurements, the junction tree, the total, and where a fit
begins."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from .._core.infer import Engine
from .._core.team import Team
from ..domain import Clique, Domain
from ..errors import MeasurementError, SchemaError, UsageError
from ..model.graphical_model import IMPOSSIBLE, Model
from ..model.inner_tables import permute_cells
from ..model.junction_tree import JunctionTree, junction_tree
from ..model.layout import Plan, make_plan
from ..model.nodes import Place
from .linear_rows import Part, check, usage
from .quadratic import Quadratic
from .total import estimate_total

LEAST = np.float32(1e-30)
"""The least float32 value of a cell that is not zero (csrc/infer.c raises smaller ones to it)."""


class Task(Struct, frozen=True):
    """The problem that every fitting strategy is given. `zeros`: flat masks, True if impossible,
    with axes in the order of the clique."""

    domain: Domain
    measurements: Sequence[Any]
    parts: list[Part]
    tree: JunctionTree
    total: float
    zeros: Mapping[Clique, np.ndarray]
    warm_start: Model | None
    team: Team

    @classmethod
    def of(
        cls, domain, measurements, total, zeros, warm_start, team: Team, max_cells: int | None
    ) -> Task:
        """Check the measurements and options of a fit, and plan its tree."""
        domain = domain if isinstance(domain, Domain) else Domain(domain)
        if not len(measurements):
            raise MeasurementError("measurements: the list is empty; give at least one")
        number = isinstance(total, int | float | np.number)
        if total is not None and not (number and 0 < total < np.inf):
            raise UsageError(f"total must be a positive number, got {total!r}")
        parts = check(domain, measurements, team)
        banned = _zeros(domain, zeros)
        cliques: list[Sequence[str]] = [m.clique for m in measurements] + list(banned)
        if warm_start is not None:
            _same_domain(domain, warm_start)
            cliques += [node.axes for node in warm_start.nodes]
        tree = junction_tree(domain, cliques, max_cells)
        rows = float(total if total is not None else estimate_total(domain, measurements)[0])
        return cls(
            domain=domain,
            measurements=measurements,
            parts=parts,
            tree=tree,
            total=rows,
            zeros=banned,
            warm_start=warm_start,
            team=team,
        )

    def with_only(
        self, measurements: Sequence[Any], warm_start: Model | None, max_cells: int | None
    ) -> Task:
        """The same problem (total, zeros) with other measurements and another start."""
        cliques = [m.clique for m in measurements] + list(self.zeros)
        cliques += [node.axes for node in warm_start.nodes] if warm_start is not None else []
        parts = check(self.domain, measurements, self.team)
        tree = junction_tree(self.domain, cliques, max_cells)
        return replace(
            self, measurements=measurements, parts=parts, tree=tree, warm_start=warm_start
        )

    def used(self) -> dict[frozenset[str], Any]:
        """The sets that measurements and zeros look at, for `make_plan`."""
        used: dict[frozenset[str], Any] = usage(self.parts)
        used.update({frozenset(clique): None for clique in self.zeros})
        return used

    def start(self, plan: Plan, quadratic: Quadratic | None) -> np.ndarray:
        """The node tables a fit begins with: those of the given model, or of the independent fit of
        the measured single attributes. That is uniform if none was measured. Impossible cells are
        0."""
        if self.warm_start is not None:  # the same nodes in order, with a potential for every cell
            held = {frozenset(node.axes): None for node in self.warm_start.nodes}
            plan = make_plan(
                self.domain, self.tree, held | {frozenset(c): None for c in self.zeros}
            )
            theta = self.warm_start.potentials(plan)
        else:
            theta = np.zeros(max(plan.size, 1))
            w, t = spread(plan, quadratic) if quadratic is not None else (theta, theta)
            for attrs, place in plan.places.items():
                span = slice(place.at, place.at + place.size)
                if len(attrs) == 1 and place.cells is None and (w[span] > 0).all():
                    theta[span] = np.log(np.maximum(t[span], 0.1 / np.sqrt(w[span])))
        for clique, mask in self.zeros.items():
            place = plan.places[frozenset(clique)]
            cells = permute_cells(plan.domain, clique, np.flatnonzero(mask), place.axes)
            theta[place.at + cells] = IMPOSSIBLE
        tables = np.empty(plan.cells)
        m = np.empty(max(plan.size, 1))
        log_z = Engine(plan, self.team).infer(theta, self.total, tables, m)
        if log_z is None:
            raise MeasurementError(
                "zeros: the structural zeros leave no possible row; check them for a contradiction"
            )
        if not np.isfinite(log_z):
            raise MeasurementError(
                "the fit cannot start: the initial potentials are not finite; check values and "
                "sigma"
            )
        return tables


def single(tables: np.ndarray) -> np.ndarray:
    """The tables in float32; what is possible stays possible."""
    out = tables.astype(np.float32)
    return np.maximum(out, LEAST, out=out, where=tables > 0)


def spread(plan: Plan, quadratic: Quadratic) -> tuple[np.ndarray, np.ndarray]:
    """Precision and target of every entry of the plan's vector (0 if nothing was measured)."""
    w = np.zeros(max(plan.size, 1))
    t = np.zeros(max(plan.size, 1))
    w[quadratic.active] = quadratic.w
    t[quadratic.active] = quadratic.t
    return w, t


def errors_of(plan: Plan, quadratic: Quadratic) -> Callable[[], dict[Clique, np.ndarray]]:
    """Make the standard error of every cell that was measured separately, per measured clique (inf
    if a cell was not). Keeps no target alive."""
    active = quadratic.active
    weight = quadratic.w
    direct = {
        aim.node.axes: np.broadcast_to(1 / np.sqrt(aim.precision), aim.target.shape)
        for aim in quadratic.targets
    }

    def made() -> dict[Clique, np.ndarray]:
        w = np.zeros(max(plan.size, 1))
        w[active] = weight
        found = {place.axes: _errors(plan, place, w) for place in plan.places.values()}
        return {axes: error for axes, error in found.items() if error is not None} | direct

    return made


def _errors(plan: Plan, place: Place, w: np.ndarray) -> np.ndarray | None:
    precision = w[place.at : place.at + place.size]
    if not (precision > 0).any():
        return None
    error = np.divide(
        1.0, np.sqrt(precision), out=np.full(precision.shape, np.inf), where=precision > 0
    )
    if place.cells is None:
        return error
    full = np.full(plan.domain.cells(place.axes), np.inf)
    full[place.cells] = error
    return full


def _zeros(domain: Domain, zeros) -> dict[Clique, np.ndarray]:
    """The masks of impossible cells, checked, by clique in the domain's order."""
    out = {}
    for clique, mask in (zeros or {}).items():
        try:
            clique = domain.check(clique)
        except SchemaError as error:
            raise MeasurementError(f"zeros: {error}") from None
        mask = np.asarray(mask)
        if mask.dtype != bool or mask.size != domain.cells(clique):
            raise MeasurementError(
                f"zeros on {clique}: expected one bool for each of its {domain.cells(clique)} cells"
            )
        if mask.all():
            raise MeasurementError(
                f"zeros on {clique}: every combination is excluded; leave at least one possible"
            )
        out[clique] = mask.reshape(-1)
    return out


def _same_domain(domain: Domain, model: Model) -> None:
    for name, n in model.domain.items():
        if domain.get(name) != n:
            has = f"{n} codes in that model and {domain.get(name)} in this domain"
            raise UsageError(f"warm_start: attribute {name!r} has {has}; fit without warm_start")
