"""mbi 2.0's estimators and samplers on a cached problem, in float64.

The estimators are mbi's own with their default steps, on `LinearMeasurement`s with `stddev`
(identity queries) or on a `MarginalLossFn` over JAX's sparse matrices (AdaGrid's queries), with the
total known. Every `EVERY` iterations mbi hands over its marginals; their loss is evaluated by the
common function, outside the clock. The first block holds the compilation, which is reported apart.
A fit ends in the callback: the accelerated estimators would go on to recover potentials by a
thousand steps of L-BFGS, which is no part of an iteration and is not counted against them.
"""

from __future__ import annotations

import statistics
import time

import numpy as np

from . import machine
from .measurements import Problem
from .reference_pgm import Objective

EVERY = 10
METHODS = {
    "mirror descent": "MirrorDescent",
    "accelerated": "UniversalAcceleratedMethod",
    "interior gradient": "InteriorGradient",
    "dual averaging": "DualAveraging",
    "L-BFGS": "LBFGS",
}


def _sparse_loss(marginals, data):
    """mbi's own L2 loss for sparse queries, made as fast as JAX allows: the matrices are data
    (compiled in as constants they take minutes), and the transposes are stored (JAX's own transpose
    of a BCSR product is 3 times slower)."""
    import jax.numpy as jnp
    from jax.custom_derivatives import linear_call

    loss = 0.0
    for clique, (pair, y, noise) in data.items():
        x = marginals.project(clique).datavector()
        rows = linear_call(lambda q, v: q[0] @ v, lambda q, r: q[1] @ r, pair, x)
        diff = (rows - y) / noise
        loss += 0.5 * jnp.vdot(diff, diff)
    return loss


def loss_function(problem: Problem, domain):
    """The problem as mbi's `MarginalLossFn`: measurements for identity queries, JAX's BCSR for
    AdaGrid's."""
    import mbi
    from jax.experimental import sparse
    from mbi import marginal_loss

    if not problem.fine:
        plain = [
            mbi.LinearMeasurement(m.y, m.clique, stddev=float(m.sigma[0])) for m in problem.measured
        ]
        return marginal_loss.from_linear_measurements(plain, domain)
    objective = Objective(problem)
    bcsr = sparse.BCSR.from_scipy_sparse
    lipschitz = objective.lipschitz()
    data = {}
    while objective.terms:  # one by one, so that scipy's and JAX's copies are not all there at once
        _, clique, pair, y, noise = objective.terms.pop()
        data[clique] = (tuple(bcsr(matrix) for matrix in pair), y, noise)
    return mbi.MarginalLossFn(tuple(problem.outer), _sparse_loss, data, lipschitz)


class _Enough(Exception):
    """Raised in the callback when the time is over; carries nothing, the trace has it all."""


def fit(
    problem: Problem, method: str, total: float, iterations: int, seconds: float, keep: bool = False
):
    """(model, only with `keep`; record): losses and seconds after each block of `EVERY`
    iterations."""
    import jax

    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_enable_compilation_cache", False)
    import mbi
    from mbi import estimation

    estimation.CALLBACK_EVERY = EVERY
    domain = mbi.Domain(tuple(problem.domain), problem.domain.shape(problem.domain))
    started = time.perf_counter()
    asked = loss_function(problem, domain)
    build = time.perf_counter() - started
    estimator = getattr(estimation, METHODS[method])()
    losses: list[float] = []
    blocks: list[float] = []
    spent: list[float] = []  # processor time of each block
    clock = [time.perf_counter(), time.process_time()]
    peak = [0.0]

    def callback(marginals):
        jax.block_until_ready(marginals)
        blocks.append(time.perf_counter() - clock[0])
        spent.append(time.process_time() - clock[1])
        peak[0] = peak[0] or machine.peak_mb()
        tables = {c: np.asarray(marginals[c].datavector()) for c in marginals.cliques}
        losses.append(problem.loss(tables))
        clock[:] = time.perf_counter(), time.process_time()
        if sum(blocks[1:]) > seconds or (not keep and EVERY * len(blocks) >= iterations):
            raise _Enough

    model = None
    try:
        model = estimator.estimate(domain, asked, total, iters=iterations, callback_fn=callback)
    except _Enough:
        pass
    later = statistics.median(blocks[1:]) if len(blocks) > 1 else float("nan")
    return model, {
        "setup": build,
        "compile": blocks[0] - later,
        "per_call": later / EVERY,
        "cpu_per_call": (min(spent[1:]) if len(spent) > 1 else float("nan")) / EVERY,
        "calls": EVERY * len(blocks),
        "loss": losses,
        "seconds": [build + float(s) for s in np.cumsum([later, *blocks[1:]])],
        "peak_mb": peak[0],
    }


def sample(problem: Problem, total: float, rows: int, extension: bool) -> dict[str, float]:
    """Seconds of one of mbi's samplers for `rows` rows, on a briefly fitted model. The extension
    compiles for the number of rows, which is reported apart."""
    model, _ = fit(problem, "mirror descent", total, EVERY, float("inf"), keep=True)
    if not extension:
        started = time.perf_counter()
        model.synthetic_data(rows)
        return {"seconds": time.perf_counter() - started}
    from mbi.extensions import synthetic_data

    seconds = []
    for seed in (0, 1):
        started = time.perf_counter()
        synthetic_data(model, rows, seed)
        seconds.append(time.perf_counter() - started)
    return {"compile": seconds[0] - seconds[1], "seconds": seconds[1]}
