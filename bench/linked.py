"""Linked tables: how far households and their persons are from the truth, made together and made apart.

    python -m bench.linked [--households 4000] [--epsilon 2] [--seeds 0 3]

integrity: persons whose household exists. children: total variation of the number of persons per household.
pairs: mean total variation of a household's column and a person's column. head: households with one head.
own: mean total variation of pairs of columns inside the two tables. `apart`: two runs with half of mu^2 each;
persons are dealt to households in their order.
"""

from __future__ import annotations

import argparse

import numpy as np
import pyarrow as pa

import fastdp
from fastdp.privacy import calibrate
from fastdp.privacy.accountant import Gaussian
from fastdp.privacy.budget import epsilon_at

from . import machine

DELTA = 1e-6
SCHEMA = "households"


def together(truth: dict[str, pa.Table], epsilon: float, seed: int) -> dict[str, pa.Table]:
    return fastdp.synthesize(
        truth, "households", epsilon=epsilon, delta=DELTA, seed=seed, sample_seed=seed
    ).data


def apart(truth: dict[str, pa.Table], epsilon: float, seed: int) -> dict[str, pa.Table]:
    linked = fastdp.LinkedSchema.load(SCHEMA)
    mu = calibrate.mu_of_method(epsilon, DELTA, "gdp")
    half = epsilon_at([Gaussian(mu * np.sqrt(0.5))], DELTA)
    made = {}
    for name, schema in linked.tables.items():
        run = fastdp.synthesize(
            truth[name], "auto", epsilon=half, delta=DELTA, schema=schema, seed=seed, sample_seed=seed
        )
        made[name] = run.data
    homes = made["households"].num_rows
    keys = made["households"]["household_id"].to_numpy()
    who = np.unique(made["persons"]["household_id"].to_numpy(), return_inverse=True)[1]
    made["persons"] = made["persons"].set_column(0, "household_id", pa.array(keys[who % max(homes, 1)]))
    return made


def measured(truth: dict[str, pa.Table], made: dict[str, pa.Table]) -> dict[str, float]:
    scores = fastdp.evaluate(truth, made, schema=SCHEMA, metrics="tv2", baselines=())
    links = scores["links"]["persons"]
    people = made["persons"].to_pandas()
    heads = people[people.relation == "head"].groupby("household_id").size()
    return {
        "integrity": links["integrity"],
        "children": links["children"]["variation"],
        "pairs": links["pairs"]["mean"],
        "head": float((heads == 1).sum() / max(made["households"].num_rows, 1)),
        "own": float(np.mean([own["tv2"]["mean"] for own in scores["tables"].values()])),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--households", type=int, default=4000)
    parser.add_argument("--epsilon", nargs="+", type=float, default=[2.0])
    parser.add_argument("--seeds", nargs=2, type=int, default=[0, 3], metavar=("FIRST", "END"))
    parser.add_argument("--no-save", action="store_true", help="keep nothing in bench/results")
    options = parser.parse_args()
    truth = fastdp.simulate.households(options.households, seed=1)
    kept = {}
    for epsilon in options.epsilon:
        for maker in (together, apart):
            runs = [measured(truth, maker(truth, epsilon, seed)) for seed in range(*options.seeds)]
            mean = {m: float(np.mean([r[m] for r in runs])) for m in runs[0]}
            print(
                f"epsilon {epsilon:g}, {maker.__name__:<9}",
                {m: round(v, 4) for m, v in mean.items()},
                flush=True,
            )
            kept[f"epsilon {epsilon:g}, {maker.__name__}"] = mean
    if not options.no_save:
        machine.keep("linked", {"households": options.households, "found": kept})


if __name__ == "__main__":
    main()
