"""`fit`: noisy measurements in, the graphical model whose marginals fit them best out."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from .._core.team import Team
from .._util.threads import resolve
from ..errors import UsageError
from ..model.graphical_model import Model
from .descent.descent_solver import DescentSolver
from .dual.dual_solver import DualSolver
from .fit_options import Options
from .flow.flow_solver import FlowSolver
from .solver import Callback, Clock, Solution, Solver
from .task import Task


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
    method: Literal["auto", "dual", "flow", "accelerated", "mirror-descent"] = "auto",
    tables: Literal["float64", "float32"] = "float64",
    slack: float = 0.0,
) -> Model:
    """The model that minimises `loss = 1/2 sum ((Q mu - y) / sigma)^2` over the marginals of a
    junction tree.

    Parameters ---------- domain Attribute name to number of codes. Attributes nobody measured come
    out uniform and independent. measurements `Measurement`s (clique, values, sigma, query). total
    Number of rows; by default the minimum-variance estimate from the measurements. stop, tol, iters
    How closely the answers are followed. "noise": as far as the noise explains the rest; "risk":
    where the expected error of the measured rows is estimated to be least; "tol": to the least loss
    (by mirror descent, until it falls by less than `tol`, 1e-6, relatively over ten calls);
    "iters": by mirror descent, for `iters` calls of the oracle (which cap its other rules too;
    10,000). "refined" ends a little below the noise level on AdaGrid's rows (see `flow`), and is
    "risk" on all others. Mirror descent takes "risk" as "noise". method "dual": Newton's method on
    the multipliers of shared marginals, for measurements of whole marginals, cell by cell or by
    bins of merged codes. It takes tens of passes whatever the signal. "accelerated" or
    "mirror-descent": for all others, and the reference that the dual is tested against. "auto"
    takes the dual for whole marginals and the flow for AdaGrid's rows. zeros {clique: bool array,
    True if a combination is impossible}: public knowledge, exact in the model. warm_start Start
    from this model (also the way to give a prior: an early stop stays near where it started).
    threads None: all cores the process may use. Results are the same for any number. callback
    Called with (calls, loss, seconds) during the fit; raise in it to cancel. max_cells The most
    cells that the model may have; ModelTooLargeError beyond. slack With stop="noise": standard
    deviations of the truth's own loss that the fit may end above it. 2 suits a good prior. tables
    Precision of the clique tables; sums are float64 either way.
    """
    domain, measurements = _in_order(domain, measurements)
    options = Options(
        stop=stop,
        method=method,
        tol=tol,
        iters=iters,
        tables=tables,
        slack=slack,
        max_cells=max_cells,
    )
    task = Task.of(
        domain=domain,
        measurements=measurements,
        total=total,
        zeros=zeros,
        warm_start=warm_start,
        team=Team(resolve(threads)),
        max_cells=max_cells,
    )
    clock = Clock(callback)
    return solve(task, options, clock).report(task, clock)


def _in_order(domain: Any, measurements: Any) -> tuple[Mapping[str, int], Sequence[Any]]:
    """The arguments, also of a schema or a run; UsageError if they are something else."""
    domain = getattr(domain, "domain", domain)
    measurements = getattr(measurements, "measurements", measurements)
    if not isinstance(domain, Mapping):
        raise UsageError(
            "fit(domain, measurements): expected a domain (column to number of codes) "
            f"first, got a {type(domain).__name__}"
        )
    if isinstance(measurements, Mapping | str) or not isinstance(measurements, Sequence):
        raise UsageError(
            "fit(domain, measurements): expected a list of fastdp.Measurement, got a "
            f"{type(measurements).__name__}"
        )
    return domain, measurements


SOLVERS: Sequence[Solver] = (FlowSolver(), DualSolver(), DescentSolver())
"""In the order in which `solve` asks them."""


def solve(task: Task, options: Options, clock: Clock) -> Solution:
    """The solution by the first solver that takes the task; UsageError if `method` names one that
    does not."""
    named = [solver for solver in SOLVERS if options.method in solver.methods]
    for solver in named:
        plan = solver.plan(task, options) if solver.applies(task, options) else None
        if plan is not None:
            return solver.run(plan, clock)
    raise UsageError(f'method="{options.method}" takes {named[0].takes}; use method="auto"')
