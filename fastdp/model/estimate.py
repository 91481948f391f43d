"""`fit`: noisy measurements in, the graphical model whose marginals fit them best out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from .._core.infer import Engine
from .._core.team import Team
from .._util.threads import resolve
from ..domain import Clique, Domain
from ..errors import MeasurementError, SchemaError, UsageError
from .layout import Place, Plan, make_plan, permute_cells
from .lower import Quadratic, check, direct, lower, usage
from .model import Model
from .optimise import Callback, DescentState, Stop, accelerated, mirror_descent
from .staged import perturb, two_stage
from .total import estimate_total
from .tree import junction_tree

IMPOSSIBLE = -1e30
"""The potential of a structural zero: finite, so that differences of potentials stay zero."""

STAGED_CELLS = 1 << 25
"""Up to this size a fit that stops at the noise level goes order by order; a start of its own costs memory.
"""

STAGES = {"noise": None, "risk": 1}
"""How many orders of marginals are fitted, to their noise level, before the next one joins them; None: all.
"""

LEAST = np.float32(1e-30)
"""The least float32 cell that is not zero (csrc/infer.c keeps it so)."""

METHODS = {"accelerated": accelerated, "mirror-descent": mirror_descent}


def fit(
    domain: Mapping[str, int],
    measurements: Sequence[Any],
    total: float | None = None,
    stop: Literal["noise", "risk", "refined", "tol", "iters"] = "noise",
    tol: float | None = None,
    iters: int | None = None,
    zeros: Mapping[Sequence[str], np.ndarray] | None = None,
    warm_start: Model | None = None,
    threads: int | None = None,
    callback: Callback | None = None,
    max_cells: int | None = None,
    method: Literal["accelerated", "mirror-descent"] = "accelerated",
    tables: Literal["float64", "float32"] = "float64",
    slack: float = 0.0,
) -> Model:
    """The model that minimises `loss = 1/2 sum ((Q mu - y) / sigma)^2` over the marginals of a junction tree.

    domain
        Attribute name to number of codes. Attributes nobody measured come out uniform and independent.
    measurements
        `Measurement`s (clique, values, sigma, query).
    total
        Number of rows; by default the minimum-variance estimate from the measurements.
    stop, tol, iters
        "noise" ends where the noise explains the rest, "risk" where the expected error of the measured rows
        is estimated to be least (see `Stop`; twice the work), "tol" when the loss falls by less than `tol`
        (1e-6) relatively over ten iterations, "iters" after `iters` oracle calls. `iters` caps the others too
        (10,000). "refined" takes the pairs from "risk" and everything finer from "noise" (see `staged`). With
        "noise", single attributes are fitted to their noise level first, then pairs with them, and so on:
        most measured rows are cells of high order, and behind their noise a pair could still be far off.
    zeros
        {clique: bool array, True where a combination is impossible}: public knowledge, exact in the model.
    warm_start
        Start from this model (also the way to give a prior: an early stop stays near where it started).
    slack
        With stop="noise": standard deviations of the truth's own loss that the fit may end above it. 2 suits
        a good prior.
    tables
        Precision of the clique tables; sums are float64 either way.
    """
    domain = domain if isinstance(domain, Domain) else Domain(domain)
    _check_options(measurements, total, stop, tol, iters, method, tables)
    parts = check(domain, measurements)
    banned = _zeros(domain, zeros)
    used: dict[frozenset[str], Any] = usage(parts)
    used.update({frozenset(clique): None for clique in banned})
    cliques: list[Sequence[str]] = [m.clique for m in measurements] + list(banned)
    if warm_start is not None:
        _same_domain(domain, warm_start)
        cliques += [node.axes for node in warm_start.nodes]
    tree = junction_tree(domain, cliques, max_cells)
    rows = total if total is not None else estimate_total(domain, measurements)[0]
    if stop == "refined":
        options = {"iters": iters, "tol": tol, "zeros": zeros, "warm_start": warm_start, "threads": threads}
        more = {"callback": callback, "max_cells": max_cells, "method": method, "tables": tables}
        return two_stage(fit, domain, measurements, float(rows), **options, **more)
    before = 0
    if stop in STAGES and warm_start is None and tree.cells <= STAGED_CELLS:
        for k in sorted({len(m.clique) for m in measurements})[:-1][: STAGES[stop]]:
            warm_start = fit(
                domain,
                [m for m in measurements if len(m.clique) <= k],
                rows,
                tol=tol,
                iters=iters,
                zeros=zeros,
                warm_start=warm_start,
                threads=threads,
                max_cells=max_cells,
                method=method,
            )
            before += warm_start.iterations
    direct_sets = set() if stop == "risk" else direct(parts) - {frozenset(clique) for clique in banned}
    plan = make_plan(domain, tree, used, direct_sets)
    workers, dtype = Team(resolve(threads)), np.dtype(tables)
    quadratic = lower(plan, parts, dtype)
    precision, target = _spread(plan, quadratic)
    start = _start(plan, precision, target, banned, warm_start, float(rows), workers, dtype)
    targets = [(aim.target, aim.precision) for aim in quadratic.targets]
    most = iters if iters is not None else 10_000
    small = tol if tol is not None else 1e-4 if stop in ("noise", "risk") else 1e-6
    engine, probe = Engine(plan, workers, dtype, targets), None
    if stop == "risk":
        perturbed = lower(plan, check(domain, [perturb(m, i) for i, m in enumerate(measurements)]), dtype)
        quick = Engine(plan, workers, np.float32)  # a probe needs no more, and shares the caches with the fit
        probe = DescentState(quick, perturbed, _single(start), float(rows), workers, averages=False)
    descent = DescentState(engine, quadratic, start, float(rows), workers, before, probe)
    del start
    found = METHODS[method](descent, Stop(stop, quadratic, small, most, slack, probe), callback)
    return Model.from_plan(
        plan,
        found.tables,
        total=float(rows),
        loss=found.loss,
        iterations=found.iterations,
        ended=found.ended,
        trace=found.trace,
        measured=errors_of(plan, precision, quadratic),
    )


def _check_options(measurements, total, stop, tol, iters, method, tables) -> None:
    if not len(measurements):
        raise MeasurementError("there is nothing to fit: the list of measurements is empty")
    if total is not None and not (np.isfinite(total) and total > 0):
        raise UsageError(f"total must be a positive number, got {total!r}")
    if stop not in ("noise", "risk", "refined", "tol", "iters"):
        raise UsageError(f'stop is "noise", "risk", "refined", "tol" or "iters", got {stop!r}')
    if tol is not None and not tol > 0:
        raise UsageError(f"tol must be positive, got {tol!r}")
    if iters is not None and (int(iters) != iters or iters < 1):
        raise UsageError(f"iters must be a whole number >= 1, got {iters!r}")
    if stop == "iters" and iters is None:
        raise UsageError('stop="iters" needs iters=')
    if method not in METHODS:
        raise UsageError(f"method is one of {', '.join(METHODS)}, got {method!r}")
    if tables not in ("float64", "float32"):
        raise UsageError(f'tables is "float64" or "float32", got {tables!r}')


def _zeros(domain: Domain, zeros) -> dict[Clique, np.ndarray]:
    out = {}
    for clique, mask in (zeros or {}).items():
        try:
            clique = domain.check(clique)
        except SchemaError as error:
            raise MeasurementError(f"zeros: {error}") from None
        mask = np.asarray(mask)
        if mask.dtype != bool or mask.size != domain.cells(clique):
            raise MeasurementError(f"zeros on {clique}: give one bool per cell ({domain.cells(clique)})")
        if mask.all():
            raise MeasurementError(f"zeros on {clique}: every combination is ruled out")
        out[clique] = mask.reshape(-1)
    return out


def _same_domain(domain: Domain, model: Model) -> None:
    for name, n in model.domain.items():
        if domain.get(name) != n:
            raise UsageError(f"warm_start: attribute {name!r} has {n} codes there, {domain.get(name)} here")


def _spread(plan: Plan, quadratic: Quadratic) -> tuple[np.ndarray, np.ndarray]:
    """Precision and target of every entry of the plan's vector (0 where nothing was measured)."""
    w, t = np.zeros(max(plan.size, 1)), np.zeros(max(plan.size, 1))
    w[quadratic.active], t[quadratic.active] = quadratic.w, quadratic.t
    return w, t


def _start(
    plan: Plan, w, t, banned, warm_start: Model | None, total: float, threads: Team, dtype
) -> np.ndarray:
    """The tables a fit begins with: those of a given model, or of the independent fit of the measured single
    attributes (uniform where none was measured); without what is impossible."""
    if warm_start is None:
        theta = np.zeros(max(plan.size, 1))
        for attrs, place in plan.places.items():
            span = slice(place.at, place.at + place.size)
            if len(attrs) == 1 and place.cells is None and (w[span] > 0).all():
                theta[span] = np.log(np.maximum(t[span], 0.1 / np.sqrt(w[span])))
    else:  # the same nodes in the same order, with a potential for every cell of the given model
        held = {frozenset(node.axes): None for node in warm_start.nodes}
        plan = make_plan(plan.domain, plan.tree, held | {frozenset(clique): None for clique in banned})
        theta = warm_start.potentials(plan)
    for clique, mask in banned.items():
        place = plan.places[frozenset(clique)]
        cells = permute_cells(plan.domain, clique, np.flatnonzero(mask), place.axes)
        theta[place.at + cells] = IMPOSSIBLE
    tables, m = np.empty(plan.cells), np.empty(max(plan.size, 1))
    log_z = Engine(plan, threads).infer(theta, total, tables, m)
    if log_z is None:
        raise MeasurementError("structural zeros leave no possible row: check `zeros` for a contradiction")
    if not np.isfinite(log_z):
        raise MeasurementError("the fit cannot begin: potentials are not finite; check values and sigma")
    return tables if dtype == np.float64 else _single(tables)


def _single(tables: np.ndarray) -> np.ndarray:
    """The tables in float32; what is possible stays possible."""
    out = tables.astype(np.float32)
    return np.maximum(out, LEAST, out=out, where=tables > 0)


def errors_of(plan: Plan, w: np.ndarray, quadratic: Quadratic) -> dict[Clique, np.ndarray]:
    """Standard error of every cell measured by itself, per measured clique (inf where a cell was not)."""
    out = {}
    for place in plan.places.values():
        error = _errors(plan, place, w)
        if error is not None:
            out[place.axes] = error
    for aim in quadratic.targets:
        out[aim.node.axes] = np.broadcast_to(1 / np.sqrt(aim.precision), aim.target.shape)
    return out


def _errors(plan: Plan, place: Place, w: np.ndarray) -> np.ndarray | None:
    mine = w[place.at : place.at + place.size]
    if not (mine > 0).any():
        return None
    found = np.divide(1.0, np.sqrt(mine), out=np.full(mine.shape, np.inf), where=mine > 0)
    if place.cells is None:
        return found
    full = np.full(plan.domain.cells(place.axes), np.inf)
    full[place.cells] = found
    return full
