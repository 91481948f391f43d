"""Linked tables: how far households and their persons are from the truth, made together and made apart.

    python -m bench.linked [--households 4000] [--epsilon 2] [--seeds 0 3] [--sdv]

integrity: persons whose household exists. children: total variation of the number of persons per household.
pairs: mean total variation of a household's column and a person's column. head: households with one head.
own: mean total variation of pairs of columns inside the two tables. `apart`: two runs with half of mu^2 each;
persons are dealt to households in their order. `--sdv` adds the HMA synthesizer of SDV, which protects
nobody, and SDMetrics' multi-table scores of all (quality, cardinality, trends between tables).
"""

from __future__ import annotations

import argparse
import time

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


def metadata():
    """SDV's description of the two tables."""
    from sdv.metadata import Metadata

    kinds = {
        "households": {
            "region": "categorical",
            "type": "categorical",
            "tenure": "categorical",
            "income": "numerical",
        },
        "persons": {
            "relation": "categorical",
            "age": "numerical",
            "sex": "categorical",
            "education": "categorical",
            "works": "boolean",
        },
    }
    tables = {
        name: {"columns": {"household_id": {"sdtype": "id"}} | {c: {"sdtype": k} for c, k in columns.items()}}
        for name, columns in kinds.items()
    }
    tables["households"]["primary_key"] = "household_id"
    link = {
        "parent_table_name": "households",
        "child_table_name": "persons",
        "parent_primary_key": "household_id",
        "child_foreign_key": "household_id",
    }
    return Metadata.load_from_dict({"tables": tables, "relationships": [link]})


def sdv(truth: dict[str, pa.Table], epsilon: float, seed: int) -> dict[str, pa.Table]:
    """SDV's rows, whatever epsilon is."""
    from sdv.multi_table import HMASynthesizer

    maker = HMASynthesizer(metadata(), verbose=False)
    maker.fit({name: table.to_pandas() for name, table in truth.items()})
    made = maker.sample_scale(1.0)
    return {
        name: pa.Table.from_pandas(made[name], preserve_index=False).cast(table.schema, safe=False)
        for name, table in truth.items()
    }


def sdmetrics_scores(truth: dict[str, pa.Table], made: dict[str, pa.Table]) -> dict[str, float]:
    from sdmetrics.reports.multi_table import QualityReport

    report = QualityReport()
    pandas = [{n: t.to_pandas() for n, t in tables.items()} for tables in (truth, made)]
    report.generate(*pandas, metadata().to_dict(), verbose=False)
    found = report.get_properties().set_index("Property")["Score"]
    return {"quality": report.get_score(), **{name.lower(): float(v) for name, v in found.items()}}


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
    parser.add_argument("--sdv", action="store_true", help="SDV and SDMetrics as well")
    parser.add_argument("--no-save", action="store_true", help="keep nothing in bench/results")
    options = parser.parse_args()
    truth = fastdp.simulate.households(options.households, seed=1)
    kept = {}
    for epsilon in options.epsilon:
        for maker in (together, apart, sdv) if options.sdv else (together, apart):
            runs = []
            for seed in range(*options.seeds):
                begin = time.process_time()
                made = maker(truth, epsilon, seed)
                runs.append(measured(truth, made) | {"seconds": time.process_time() - begin})
                if options.sdv:
                    runs[-1] |= sdmetrics_scores(truth, made)
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
