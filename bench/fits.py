"""Fits of whole marginals with the truth known: calls, seconds and true error, by method.

    python -m bench.fits [--cases ma adult ...] [--seeds 1] [--methods dual noise] [--mbi]

Cases, all made by `bench.fits_problems`: what `mst` measures on the Massachusetts table (once,
`ma`, and 40 times over, `ma40`), on adult, on a generated table whose columns follow from each
other (`following`) and on pairs of a column with 147 categories (`wide`); adult's strongest 58
pairs in a junction tree of 0.9 million cells (`adult-pairs`), 30 of its pairs with 25 triples
inside their cliques (`adult-triples`), and all pairs of 16 binary columns with 40 triples
(`binary`). Junction trees of 35 to 50 strongest pairs of the tables above and of a generated one
with hidden classes (`ma-pairs`, `ma40-pairs`, `following-pairs`, `classes-pairs`). Epsilon 1 and
10, delta 1e-9. The AdaGrid case on the Chicago table has a benchmark of its own
(`bench.adagrid_fits`).

Methods: `dual` is stop="risk" by default; `noise` is that rule by accelerated mirror descent; with
--mbi, the accelerated estimator of mbi (2.0.0, float64) for 1,000 iterations or --mbi-seconds,
where it is installed.

Error: mean total variation x 1000 of the measured marginals / of 100 pairs / of 30 triples. Seconds
are processor seconds on one thread. What bench/results/fits.json already holds is not fitted again.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import time
from collections.abc import Callable
from functools import cache, partial
from itertools import combinations

import numpy as np

import fastdp
from fastdp.model.junction_tree import junction_tree
from fastdp.queries import Binned

from . import fits_problems as problems, machine

RESULTS = machine.RESULTS / "fits.json"
MBI_BLOCK = 20
METHODS = {"dual": ("risk", "auto"), "noise": ("noise", "accelerated")}


@cache
def table(name: str) -> problems.Table:
    return {
        "ma": problems.massachusetts,
        "ma40": lambda: problems.massachusetts(40),
        "adult": problems.adult,
        "following": problems.following,
        "wide": problems.wide_column,
        "binary": problems.binary,
        "classes": problems.classes,
    }[name]()


@cache
def adult_triples() -> tuple:
    """30 pairs, and 25 triples inside the cliques of their junction tree."""
    adult = table("adult")
    pairs = problems.strongest(adult, 30, 200_000)
    inside = dict.fromkeys(
        triple
        for clique in junction_tree(adult.domain, pairs).cliques
        for triple in combinations(clique, 3)
        if adult.domain.cells(triple) < 20_000
    )
    triples = list(inside)
    order = np.random.default_rng(3).permutation(len(triples))
    return (*pairs, *(triples[i] for i in order[:25]))


def binary_cliques() -> list:
    domain = table("binary").domain
    triples = list(combinations(domain, 3))
    order = np.random.default_rng(3).permutation(len(triples))
    return [*combinations(domain, 2), *(triples[i] for i in order[:40])]


def _tree(name: str, merge: bool = True) -> Callable:
    return lambda epsilon, seed: problems.tree_problem(name, table(name), epsilon, seed, merge)


def _marginals(name: str, source: str, cliques: Callable) -> Callable:
    return lambda epsilon, seed: problems.marginal_problem(
        name, table(source), epsilon, seed, list(cliques())
    )


def _pairs(source: str, pairs: int, cells: int) -> Callable:
    """A table's strongest pairs, in a junction tree of at most so many cells."""
    cliques = cache(lambda: tuple(problems.strongest(table(source), pairs, cells)))
    return _marginals(f"{source}-pairs", source, cliques)


CASES = {
    "ma": _tree("ma"),
    "ma40": _tree("ma40"),
    "adult": _tree("adult"),
    "following": _tree("following"),
    "wide": _tree("wide", merge=False),
    "adult-pairs": _pairs("adult", 58, 900_000),
    "adult-triples": _marginals("adult-triples", "adult", adult_triples),
    "binary": _marginals("binary", "binary", binary_cliques),
    "ma-pairs": _pairs("ma", 50, 600_000),
    "ma40-pairs": _pairs("ma40", 50, 600_000),
    "following-pairs": _pairs("following", 35, 400_000),
    "classes-pairs": _pairs("classes", 40, 400_000),
}


def fitted(problem: problems.Problem, method: str) -> dict:
    """Calls, processor seconds and errors of one fit."""
    stop, how = METHODS[method]
    started = time.process_time()
    model = fastdp.fit(problem.table.domain, problem.measurements, stop=stop, method=how, threads=1)
    seconds = time.process_time() - started
    return {
        "calls": model.iterations,
        "seconds": round(seconds, 3),
        "cells": model.cells,
        "ended": model.ended,
        "error": {name: round(error, 3) for name, error in problem.errors(model).items()},
    }


def fitted_by_mbi(problem: problems.Problem, limit: float) -> dict | None:
    """mbi's accelerated estimator, where every measurement counts cells or bins of them: 1,000
    iterations, or as many as fit into `limit` seconds by the pace of the first ones. Seconds are
    without compilation."""
    if any(not isinstance(m.query, Binned | None) for m in problem.measurements):
        return None
    import jax

    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_enable_compilation_cache", False)
    import mbi
    from mbi import estimation

    domain = mbi.Domain(
        tuple(problem.table.domain), problem.table.domain.shape(problem.table.domain)
    )

    def binned(query: Binned, factor):
        row = jax.numpy.asarray(query.transpose(np.arange(query.rows)))
        return jax.ops.segment_sum(factor.datavector(), row, query.rows)

    seen = []
    for m in problem.measurements:
        how = {} if m.query is None else {"query": partial(binned, m.query)}
        seen.append(mbi.LinearMeasurement(m.values, m.clique, stddev=float(m.sigma), **how))
    clock = []

    def callback(marginals):
        jax.block_until_ready(marginals)
        clock.append((time.process_time(), time.perf_counter()))

    estimation.CALLBACK_EVERY = MBI_BLOCK
    estimator = estimation.UniversalAcceleratedMethod()
    estimator.estimate(domain, seen, iters=3 * MBI_BLOCK, callback_fn=callback)
    pace = (clock[-1][1] - clock[0][1]) / (MBI_BLOCK * (len(clock) - 1))
    iterations = MBI_BLOCK * max(1, min(1000, int(limit / pace)) // MBI_BLOCK)
    clock.clear()
    model = estimator.estimate(domain, seen, iters=iterations, callback_fn=callback)
    seconds = (clock[-1][0] - clock[0][0]) * len(clock) / max(1, len(clock) - 1)

    class Marginals:
        def marginal(self, clique):
            return np.asarray(model.project(clique).datavector())

    errors = {name: round(error, 3) for name, error in problem.errors(Marginals()).items()}
    return {"calls": iterations, "seconds": round(seconds, 3), "error": errors}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", nargs="+", choices=list(CASES), default=list(CASES))
    parser.add_argument("--epsilon", nargs="+", type=float, default=[1.0, 10.0])
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--methods", nargs="+", choices=list(METHODS), default=list(METHODS))
    parser.add_argument("--mbi", action="store_true")
    parser.add_argument(
        "--mbi-seconds", type=float, default=120.0, help="of one fit by mbi, without compilation"
    )
    parser.add_argument("--no-save", action="store_true")
    chosen = parser.parse_args()
    held = RESULTS.exists() and not chosen.no_save
    kept = json.loads(RESULTS.read_text()).get("fits", {}) if held else {}
    methods = list(chosen.methods)
    if chosen.mbi:
        if importlib.util.find_spec("mbi") is None:
            parser.error("--mbi needs the package mbi in this environment")
        methods.append("mbi")
    for case in chosen.cases:
        for epsilon in chosen.epsilon:
            for seed in range(chosen.seeds):
                problem = None
                for method in methods:
                    key = f"{case}, epsilon {epsilon:g}, seed {seed}, {method}"
                    if key not in kept:
                        problem = problem or CASES[case](epsilon, seed)
                        if method == "mbi":
                            record = fitted_by_mbi(problem, chosen.mbi_seconds)
                        else:
                            record = fitted(problem, method)
                        if record is None:
                            continue
                        kept[key] = record
                        if not chosen.no_save:
                            machine.keep("fits", {"fits": kept})
                    line = kept[key]
                    errors = " / ".join(f"{error:.2f}" for error in line["error"].values())
                    print(
                        f"{key:44} {line['calls']:6} calls {line['seconds']:8.2f} s   {errors}",
                        flush=True,
                    )


if __name__ == "__main__":
    main()
