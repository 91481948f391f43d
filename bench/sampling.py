"""Seconds to sample from AdaGrid's tree, by method, rows and threads, without fitting anything
first.

    python -m bench.sampling [--rows 10000000] [--repeat 3]

The tables are the true marginals of the cached simulated trips, so the tree is as full as a fitted
one.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from fastdp._util.threads import available
from fastdp.model.sampler import METHODS, Sampler

from .measurements import Problem, load, prepare

START = ("pickup_community_area", "shift")
TREE = [
    ((), START),
    (START, ("company_id",)),
    (START, ("fare", "trip_total")),
    ((*START, "fare"), ("dropoff_community_area",)),
    ((*START, "fare"), ("trip_miles",)),
    ((*START, "trip_total"), ("trip_seconds",)),
    ((*START, "trip_total"), ("payment_type",)),
    ((*START, "trip_total"), ("tips",)),
]


def tree(problem: Problem) -> list:
    """AdaGrid's outer marginals as a directed junction tree."""
    domain = problem.domain
    nodes = []
    for sep, res in TREE:
        i = next(i for i, c in enumerate(problem.outer) if {*sep, *res} <= set(c))
        clique = problem.outer[i]
        x = problem.truth[i].reshape(domain.shape(clique))
        x = x.sum(axis=tuple(j for j, a in enumerate(clique) if a not in (*sep, *res)))
        kept = [a for a in clique if a in (*sep, *res)]
        x = x.transpose([kept.index(a) for a in (*sep, *res)])
        nodes.append(
            (sep, res, np.ascontiguousarray(x.reshape(domain.cells(sep), domain.cells(res))))
        )
    return nodes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    problem = load(prepare(options.rows, [("adagrid", 10.0, "gdp")])[0])
    sampler = Sampler(problem.domain, tree(problem))
    for method in METHODS:
        for rows in (options.rows // 10, options.rows):
            for threads in sorted({1, available()}):
                best = float("inf")
                for seed in range(options.repeat):
                    started = time.perf_counter()
                    sampler.draw(rows, method=method, seed=seed, threads=threads)
                    best = min(best, time.perf_counter() - started)
                print(f"{method:12} {rows:>12,} rows {threads:3} threads {best:8.3f} s", flush=True)


if __name__ == "__main__":
    main()
