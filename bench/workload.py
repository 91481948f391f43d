"""What a workload is worth: the coded Chicago table with the challenge's sets, beside AdaGrid.

    python -m bench.workload [--epsilon 1 10] [--seeds 3] [--who adagrid cliquetree ...] [--cells
    4194304]

The workload is the challenge's 28 sets: pickup, shift and two more columns. Scores are its
k-marginal score and mean total variations of all pairs and of 50 triples, at delta 2.5e-5, each row
its own user. Kept in bench/results/workload.json.
"""

from __future__ import annotations

import argparse
import json
import time
from itertools import combinations

import numpy as np

import fastdp
from fastdp.mechanisms.recipe import load

from . import machine
from .adagrid_fits import DATA, scores, table_of

CORE = ("pickup_community_area", "shift")
WAYS = ("2-way", "3-way", "k-marginal", "pickup-dropoff")


def recipes(domain, cells: int | None) -> dict[str, dict]:
    others = [a for a in domain if a not in CORE]
    sets = [[*CORE, *pair] for pair in combinations(others, 2)]
    published = {k: v for k, v in load("taxi-adagrid").fields.items() if k not in ("clip", "ids")}
    limit = {} if cells is None else {"max_cells": cells}
    return {
        "adagrid": {"mechanism": "adagrid", **published},
        "cliquetree": {"mechanism": "cliquetree", **limit},
        "cliquetree for the sets": {"mechanism": "cliquetree", "workload": sets, **limit},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--epsilon", type=float, nargs="+", default=[1.0, 10.0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=6000, help="seeds nothing was chosen by")
    parser.add_argument("--cells", type=int, default=1 << 22, help="of cliquetree's model")
    parser.add_argument("--who", nargs="+")
    parser.add_argument("--no-save", action="store_true")
    options = parser.parse_args()
    if not DATA.is_dir():
        print(f"{DATA.name} is not here")
        return
    domain, truth, _ = table_of("chicago", 0, 0)
    table = fastdp.Table.from_codes(dict(domain), truth)
    path = machine.RESULTS / "workload.json"
    for epsilon in options.epsilon:
        for who, recipe in recipes(domain, options.cells).items():
            if options.who and who not in options.who:
                continue
            runs = []
            for seed in range(options.first_seed, options.first_seed + options.seeds):
                used = time.process_time()
                data = fastdp.synthesize(
                    table, recipe, epsilon, 2.5e-5, seed=seed, sample_seed=seed
                ).data
                used = time.process_time() - used
                made = {a: data[a].to_numpy().astype(np.uint8) for a in domain}
                runs.append(
                    {"seed": seed, "seconds": used, **scores("chicago", domain, truth, made)}
                )
            means = {way: float(np.mean([run[way] for run in runs])) for way in (*WAYS, "seconds")}
            shown = "  ".join(f"{way} {means[way]:.4f}" for way in WAYS)
            print(f"epsilon {epsilon:<4g} {who:24s} {shown}  {means['seconds']:.1f} s", flush=True)
            if options.no_save:
                continue
            lines = json.loads(path.read_text())["lines"] if path.is_file() else []
            key = (epsilon, who, None if who == "adagrid" else options.cells)
            lines = [line for line in lines if (line["epsilon"], line["who"], line["cells"]) != key]
            line = {"epsilon": epsilon, "who": who, "cells": key[2], "runs": runs, **means}
            machine.keep("workload", {"lines": [*lines, line]})


if __name__ == "__main__":
    main()
