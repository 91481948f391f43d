"""mbi 2.0's estimators and samplers on a cached problem, in float64.

Every `EVERY` iterations mbi hands over its marginals; their loss is evaluated by the common function, outside the
clock. The first block holds the compilation, which is reported apart.
"""

from __future__ import annotations

import statistics
import time

import numpy as np

from . import adagrid_queries as grid
from .measurements import Problem

EVERY = 10
METHODS = {
    "mirror descent": "MirrorDescent",
    "accelerated": "UniversalAcceleratedMethod",
    "interior gradient": "InteriorGradient",
    "dual averaging": "DualAveraging",
    "L-BFGS": "LBFGS",
}


class Matrix:
    """A sparse query as mbi takes it: a callable on factors (JAX's BCSR underneath)."""

    def __init__(self, matrix):
        from jax.experimental import sparse

        self._matrix = sparse.BCSR.from_scipy_sparse(matrix)

    def __call__(self, factor):
        return self._matrix @ factor.datavector()


def measurements(problem: Problem) -> list:
    import mbi

    matrices = grid.explicit_adagrid(problem.domain, problem.fine) if problem.fine else {}
    out = []
    for m in problem.measured:
        if m.fine is None:
            out.append(mbi.LinearMeasurement(m.y, m.clique, stddev=float(m.sigma[0])))
            continue
        scalar = grid.scalars(problem.domain, problem.fine, m.clique)
        noise = float((m.sigma * scalar)[0])
        out.append(mbi.LinearMeasurement(m.y * scalar, m.clique, noise, Matrix(matrices[m.clique])))
    return out


class _Enough(Exception):
    """Raised in the callback when the time is over; carries nothing, the trace has it all."""


def fit(problem: Problem, method: str, total: float, iterations: int, seconds: float):
    """(model or None, record): losses and seconds after each block of `EVERY` iterations."""
    import jax
    import mbi
    from mbi import estimation

    jax.config.update("jax_enable_x64", True)
    estimation.CALLBACK_EVERY = EVERY
    domain = mbi.Domain(tuple(problem.domain), problem.domain.shape(problem.domain))
    started = time.perf_counter()
    asked = measurements(problem)
    build = time.perf_counter() - started
    estimator = getattr(estimation, METHODS[method])()
    losses: list[float] = []
    blocks: list[float] = []
    clock = [time.perf_counter()]

    def callback(marginals):
        jax.block_until_ready(marginals)
        blocks.append(time.perf_counter() - clock[0])
        tables = {c: np.asarray(marginals[c].datavector()) for c in marginals.cliques}
        losses.append(problem.loss(tables))
        clock[0] = time.perf_counter()
        if sum(blocks) > seconds and len(blocks) > 1:
            raise _Enough

    model = None
    try:
        model = estimator.estimate(domain, asked, total, iters=iterations, callback_fn=callback)
    except _Enough:
        pass
    later = statistics.median(blocks[1:]) if len(blocks) > 1 else float("nan")
    return model, {
        "method": f"mbi {method}",
        "build": build,
        "compile": blocks[0] - later,
        "per_iteration": later / EVERY,
        "iterations": EVERY * len(blocks),
        "loss": losses,
        "seconds": list(np.cumsum([later, *blocks[1:]])),
    }


def sample(problem: Problem, total: float, rows: int, seconds: float) -> dict[str, float | None]:
    """Seconds of both of mbi's samplers for `rows` rows, on a briefly fitted model; None: gave up beforehand
    because a tenth of the rows already took more than `seconds`."""
    model, _ = fit(problem, "accelerated", total, 2 * EVERY, float("inf"))
    from mbi.extensions import synthetic_data

    out: dict[str, float | None] = {}
    kinds = {
        "mbi synthetic_data": lambda n: model.synthetic_data(n),
        "mbi extension (compiled for the row count)": lambda n: synthetic_data.synthetic_data(model, n),
    }
    for name, draw in kinds.items():
        started = time.perf_counter()
        draw(rows // 10)
        tenth = time.perf_counter() - started
        if tenth > seconds:
            out[name] = None
            continue
        if "extension" in name:
            draw(rows)  # compiles
        started = time.perf_counter()
        draw(rows)
        out[name] = time.perf_counter() - started
    return out
