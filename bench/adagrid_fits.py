"""Fits of AdaGrid's rows: calls, seconds and scores by method, over seeds of the noise.

    python -m bench.adagrid_fits [--cases chicago taxi adult] [--epsilon 1 10] [--seeds 0 1 2]
                                 [--methods flow accelerated] [--rows 1000000] [--save NAME]

chicago: the coded Chicago table (226,051 rows, each its own user) with the published recipe's
marginals; taxi: simulated trips, clipped as the recipe says, simulated anew for every seed; adult:
a few outer marginals, chosen by name and not by any result. The noise is numpy's, so nothing here
is private. Scores are of as many sampled rows as the measurements say there are: deid2's k-marginal
and pickup-dropoff (taxi tables), mean total variation of all 2-way and of 50 3-way marginals.
`accelerated` is mirror descent to the least risk (stop="refined" in both). `dual` solves estimates of
whole marginals (`adagrid_marginals`); their seconds count.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from itertools import combinations
from pathlib import Path

import numpy as np

import fastdp
from fastdp import Measurement
from fastdp.domain import Clique, Domain
from fastdp.mechanisms.adagrid import closure, grid_of, plausible
from fastdp.queries import AdaGrid

from . import machine
from .adagrid_marginals import whole_marginals
from .measurements import CLIP, COPIED, COPIES, DOMAIN, PAIRS, SIGMA, taxi_codes

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
OUTER = [("pickup_community_area", "shift", *pair) for pair in PAIRS]
ADULT = [
    ("age", "education-num", "income>50K"),
    ("workclass", "occupation", "education-num"),
    ("marital-status", "relationship", "sex"),
    ("occupation", "hours-per-week", "income>50K"),
    ("race", "native-country"),
    ("capital-gain", "income>50K"),
]
QUERIES = 66
"""Measurements that the noise of `measurements.SIGMA` is for."""

Codes = dict[str, np.ndarray]


def table_of(case: str, rows: int, seed: int) -> tuple[Domain, Codes, np.ndarray | None]:
    """Domain, codes, and the number of rows of each row's user (None: one)."""
    if case == "taxi":
        codes, taxi = taxi_codes(fastdp.simulate.taxi(rows, seed=seed))
        user = np.unique(taxi, return_inverse=True)[1]
        return DOMAIN, codes, np.bincount(user)[user]
    if case == "chicago":
        import pyarrow.parquet as pq

        sizes = json.loads((DATA / "taxi-nist-coded" / "domain.json").read_text())
        table = pq.read_table(DATA / "taxi-nist-coded" / "trips.parquet")
        domain = Domain({name: sizes[name] for name in DOMAIN})
        return domain, {name: table[name].to_numpy().astype(np.uint8) for name in domain}, None
    domain = Domain(json.loads((DATA / "adult" / "adult-domain.json").read_text()))
    with open(DATA / "adult" / "adult.csv") as file:
        names = file.readline().strip().split(",")
        codes = np.loadtxt(file, delimiter=",", dtype=np.int64)
    return domain, {name: codes[:, names.index(name)] for name in domain}, None


def count(
    domain: Domain, codes: Codes, clique: Clique, weights: np.ndarray | None = None
) -> np.ndarray:
    cell = np.zeros(next(iter(codes.values())).size, np.int64)
    for name in clique:
        cell = cell * domain[name] + codes[name]
    return np.bincount(cell, weights, minlength=domain.cells(clique)).astype(float)


def measure(
    case: str, domain: Domain, codes: Codes, trips, epsilon: float, seed: int
) -> list[Measurement]:
    """The rounds of AdaGrid with numpy's noise, as `mechanisms.adagrid` makes them, with equal
    shares."""
    sets = closure(domain, ADULT if case == "adult" else OUTER)
    clip = 1 if trips is None else CLIP[epsilon]
    weights = None if trips is None else np.minimum(1.0, clip / trips)
    sigma = SIGMA["gdp"][epsilon] / CLIP[epsilon] * clip
    if case == "adult":
        sigma *= np.sqrt(len(sets) / QUERIES)
    rng = np.random.default_rng(1000 * seed + 7)
    grids: dict = {}
    passed: dict = {}
    out = []
    for clique in sorted(sets, key=len):
        key = frozenset(clique)
        grids[key] = grid_of(domain, clique, grids, passed)
        query = AdaGrid(grids[key])
        rows = query.product(count(domain, codes, clique, weights))
        spread = query.row_sigma(sigma)
        answers = [
            Measurement(clique, rows + rng.normal(0, 1, rows.size) * spread, spread, query)
            for _ in range(COPIES if key == frozenset(COPIED) else 1)
        ]
        passed[key] = plausible(grids[key], answers, 5.0)
        out += answers
    return out


def scores(case: str, domain: Domain, truth: Codes, sampled: Codes) -> dict[str, float]:
    names = list(domain)
    triples = list(combinations(names, 3))
    chosen = np.random.default_rng(5).choice(len(triples), min(50, len(triples)), replace=False)

    def distance(clique: Clique) -> float:
        tables = [count(domain, side, clique) for side in (truth, sampled)]
        return 0.5 * float(np.abs(tables[0] / tables[0].sum() - tables[1] / tables[1].sum()).sum())

    distances = {
        "2-way": float(np.mean([distance(pair) for pair in combinations(names, 2)])),
        "3-way": float(np.mean([distance(triples[i]) for i in chosen])),
    }
    return distances if case == "adult" else deid2_scores(domain, truth, sampled) | distances


def deid2_scores(domain: Domain, truth: Codes, sampled: Codes) -> dict[str, float]:
    from fastdp._util.threads import resolve
    from fastdp.metrics.challenges import deid2

    sides = (truth, sampled)
    score = deid2.Prepared(
        pickups=list(range(domain[deid2.PICKUP])),
        shifts=list(range(domain[deid2.SHIFT])),
        pickup=[side[deid2.PICKUP] for side in sides],
        shift=[side[deid2.SHIFT] for side in sides],
        dropoff=[side[deid2.DROPOFF] for side in sides],
        columns=[[side[name] for name in deid2.PAIRED] for side in sides],
        sizes=np.array([domain[name] for name in deid2.PAIRED], np.int32),
        taxi=(None, None),
        threads=resolve(None),
    ).score(detail=False)
    return {
        "k-marginal": score["k_marginal_score"],
        "pickup-dropoff": score["pickup_dropoff_score"],
    }


def one(case: str, rows: int, epsilon: float, seed: int, methods: list[str]) -> list[dict]:
    domain, truth, trips = table_of(case, rows, seed)
    measurements = measure(case, domain, truth, trips, epsilon, seed)
    level = sum(m.values.size for m in measurements) / 2
    out = []
    for method in methods:
        load = os.getloadavg()[0]
        started = time.perf_counter()
        spent = time.process_time()
        whole = whole_marginals(domain, measurements) if method == "dual" else measurements
        model = fastdp.fit(domain, whole, stop="refined", method=method)
        run = {
            "case": case,
            "rows": int(next(iter(truth.values())).size),
            "epsilon": epsilon,
            "seed": seed,
            "method": method,
            "calls": model.iterations,
            "seconds": round(time.perf_counter() - started, 2),
            "processor_seconds": round(time.process_time() - spent, 2),
            "load_before": round(load, 1),
            "loss_over_level": round(model.loss / level, 4),
            "ended": model.ended,
        }
        sampled = model.sample(round(model.total), seed=0)
        run |= {
            name: round(value, 4) for name, value in scores(case, domain, truth, sampled).items()
        }
        print(json.dumps(run), flush=True)
        out.append(run)
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cases", nargs="*", default=["chicago", "taxi", "adult"])
    parser.add_argument("--epsilon", type=float, nargs="*", default=[1.0, 10.0])
    parser.add_argument("--seeds", type=int, nargs="*", default=[0, 1, 2])
    parser.add_argument("--methods", nargs="*", default=["flow", "accelerated"])
    parser.add_argument("--rows", type=int, default=1_000_000, help="of the simulated table")
    parser.add_argument(
        "--save", help="keep the runs under this name in bench/results, with what it holds"
    )
    options = parser.parse_args()
    runs = []
    for case in options.cases:
        if case != "taxi" and not DATA.is_dir():
            print(f"{case}: {DATA.name} is not here")
            continue
        for epsilon in options.epsilon:
            for seed in options.seeds:
                runs += one(case, options.rows, epsilon, seed, options.methods)
    if options.save:
        path = machine.RESULTS / f"{options.save}.json"
        held = json.loads(path.read_text())["runs"] if path.is_file() else []
        key = lambda run: tuple(run[k] for k in ("case", "rows", "epsilon", "seed", "method"))  # noqa: E731
        new = {key(run) for run in runs}
        machine.keep(options.save, {"runs": [run for run in held if key(run) not in new] + runs})


if __name__ == "__main__":
    main()
