"""Linked tables: how far parents and their children are from the truth, made together and made
apart.

    python -m bench.linked [--tables panel households taxis] [--parents 4000] [--epsilon 2] [--seeds 0 3]
    [--sdv]

A panel of persons with visits, households with persons, and taxis (a company each) with trips.
integrity: children whose parent exists. children: total variation of the number of children per
parent. pairs: mean total variation of a parent's column and a child's column. head: households with
one head. own: mean total variation of pairs of columns inside the two tables. score, spent, early,
visits: see `of_panel`. `apart`: two runs with half of mu^2 each; children are
dealt to parents in their order. `--sdv` adds the HMA synthesizer of SDV, which protects nobody, and
SDMetrics' multi-table scores of all (quality, cardinality, trends between tables).
"""

from __future__ import annotations

import argparse
import time
from itertools import product

import numpy as np
import pyarrow as pa

import fastdp
from fastdp.metrics.linked_scores import between_parents
from fastdp.privacy import calibrate
from fastdp.privacy.accountant import Gaussian
from fastdp.privacy.budget import epsilon_at

from . import machine

DELTA = 1e-6
AREAS = {"kind": "integer", "min": 1, "max": 77, "null": "drop", "overflow": "code"}
TAXIS = {
    "fastdp": 1,
    "name": "taxis",
    "tables": {
        "taxis": {
            "key": "taxi_id",
            "columns": {
                "company_id": {"kind": "integer", "min": 0, "max": 99, "overflow": "clamp"}
            },
        },
        "trips": {
            "parent": "taxis",
            "key": "taxi_id",
            "max_rows": 200,
            "columns": {
                "shift": {"kind": "integer", "min": 0, "max": 20},
                "pickup_community_area": AREAS,
                "dropoff_community_area": AREAS,
                "payment_type": {"kind": "integer", "min": 0, "max": 9, "overflow": "clamp"},
                "fare": {
                    "kind": "numeric",
                    "dtype": "int64",
                    "edges": [0, 5, 7, 10, 15, 20, 30, 45, "inf"],
                    "max": 999,
                    "overflow": "clamp",
                },
            },
        },
    },
}
MONTHS = 24
REGIONS = 6
INSIDE = {"null": "drop", "overflow": "drop"}
PANEL = {
    "fastdp": 1,
    "name": "panel",
    "tables": {
        "persons": {
            "key": "person",
            "columns": {
                "region": {"kind": "integer", "min": 0, "max": REGIONS - 1},
                "sex": {"kind": "integer", "min": 0, "max": 1},
                "joined": {"kind": "integer", "min": 0, "max": MONTHS - 1, **INSIDE},
            },
        },
        "visits": {
            "parent": "persons",
            "key": "person",
            "max_rows": 100,
            "constraints": [{"order": ["persons.joined", "month"]}],
            "columns": {
                "month": {"kind": "integer", "min": 0, "max": MONTHS - 1, **INSIDE},
                "channel": {"kind": "integer", "min": 0, "max": 4},
                "score": {"kind": "integer", "min": 0, "max": 59},
                "spent": {
                    "kind": "numeric",
                    "dtype": "float64",
                    "edges": [0, 2, 4, 6, 8, 10, 14, 18, 24, 32, 44, 64, 90, 128, 256, 1024],
                },
            },
        },
    },
}
"""Persons with about 15 visits each, who differ: nearly 2/3 of the variance of what they spend (in
logarithms) and nearly .9 of that of their score lies between persons."""
SCHEMAS = {
    "panel": fastdp.LinkedSchema.from_dict(PANEL),
    "households": fastdp.LinkedSchema.load("households"),
    "taxis": fastdp.LinkedSchema.from_dict(TAXIS),
}


def simulated(name: str, parents: int) -> dict[str, pa.Table]:
    """Persons of a panel, households, or taxis with the company of their first trip, of about 43
    trips each."""
    if name == "households":
        return fastdp.simulate.households(parents, seed=1)
    if name == "panel":
        return panel(parents)
    trips = fastdp.simulate.taxi(60 * parents, seed=1).to_pandas()
    trips = trips[trips.taxi_id.isin(trips.taxi_id.unique()[:parents])]
    tables = {
        "taxis": trips.groupby("taxi_id", as_index=False).company_id.first(),
        "trips": trips[["taxi_id", *TAXIS["tables"]["trips"]["columns"]]],
    }
    return {n: pa.Table.from_pandas(t, preserve_index=False) for n, t in tables.items()}


def panel(persons: int, seed: int = 1) -> dict[str, pa.Table]:
    """Persons who joined in a month and their visits from then on; those who spend more come more
    often, and regions differ in how many visits a person has."""
    rng = np.random.default_rng(seed)
    region = rng.integers(0, REGIONS, persons)
    sex = rng.integers(0, 2, persons)
    joined = rng.choice(MONTHS, persons, p=np.arange(MONTHS, 0, -1) / (MONTHS * (MONTHS + 1) / 2))
    wealth = rng.normal(0, 0.8, persons) + 0.1 * region
    visits = 1 + rng.poisson(np.clip((8 + 2.4 * region) * np.exp(0.2 * wealth), 1, 60))
    of = np.repeat(np.arange(persons), visits)
    month = joined[of] + (rng.random(len(of)) * (MONTHS - joined[of])).astype(int)
    spent = np.exp(2.5 + wealth[of] + rng.normal(0, 0.6, len(of)))
    health = rng.normal(30, 10, persons)
    score = np.clip(np.rint(health[of] + rng.normal(0, 4, len(of))), 0, 59).astype(int)
    people = {"person": np.arange(persons), "region": region, "sex": sex, "joined": joined}
    rows = {"person": of, "month": month, "channel": rng.integers(0, 5, len(of)), "score": score}
    return {"persons": pa.table(people), "visits": pa.table(rows | {"spent": spent.round(2)})}


def between(who: np.ndarray, numbers: np.ndarray) -> float:
    """The share of the variance that lies between persons, of numbers that are not missing."""
    known = ~np.isnan(numbers)
    return between_parents(np.unique(who[known], return_inverse=True)[1], numbers[known])


def of_panel(truth: dict[str, pa.Table], made: dict[str, pa.Table]) -> dict[str, float]:
    """score, spent: share of the variance between persons, as a part of the truth's. early: visits
    before the month in which the person joined. visits: mean relative error of visits per person, by
    region."""
    out: dict[str, float] = {}
    for name, scale in (("score", np.asarray), ("spent", np.log1p)):
        shares = [
            between(
                t["visits"]["person"].to_numpy(), scale(t["visits"][name].to_numpy().astype(float))
            )
            for t in (truth, made)
        ]
        out[name] = shares[1] / shares[0]
    frames = [{n: t.to_pandas() for n, t in tables.items()} for tables in (truth, made)]
    per_region = []
    for tables in frames:
        joined = tables["visits"].merge(tables["persons"], on="person")
        people = tables["persons"].groupby("region").size()
        per_region.append(joined.groupby("region").size() / people)
    out["early"] = float((joined.month < joined.joined).mean())
    out["visits"] = float((per_region[1] / per_region[0] - 1).abs().mean())
    return out


def together(
    name: str, truth: dict[str, pa.Table], epsilon: float, seed: int
) -> dict[str, pa.Table]:
    schema = SCHEMAS[name]
    run = fastdp.synthesize(
        truth, epsilon=epsilon, delta=DELTA, schema=schema, seed=seed, sample_seed=seed
    )
    return run.data


def apart(name: str, truth: dict[str, pa.Table], epsilon: float, seed: int) -> dict[str, pa.Table]:
    linked = SCHEMAS[name]
    mu = calibrate.mu_of_method(epsilon, DELTA, "gdp")
    half = epsilon_at([Gaussian(mu * np.sqrt(0.5))], DELTA)
    made = {}
    for table, schema in linked.tables.items():
        run = fastdp.synthesize(
            truth[table],
            "auto",
            epsilon=half,
            delta=DELTA,
            schema=schema,
            seed=seed,
            sample_seed=seed,
        )
        made[table] = run.data
    (child,) = linked.children
    keys = made[linked.parent][linked.key].to_numpy()
    who = np.unique(made[child][linked.key].to_numpy(), return_inverse=True)[1]
    made[child] = made[child].set_column(0, linked.key, pa.array(keys[who % max(len(keys), 1)]))
    return made


def metadata(name: str):
    """SDV's description of the two tables."""
    from sdv.metadata import Metadata

    linked = SCHEMAS[name]
    tables = {
        table: {
            "columns": {linked.key: {"sdtype": "id"}}
            | {
                c.source: {
                    "sdtype": "numerical" if c.to_plain()["kind"] == "numeric" else "categorical"
                }
                for c in schema.columns.values()
            }
        }
        for table, schema in linked.tables.items()
    }
    tables[linked.parent]["primary_key"] = linked.key
    (child,) = linked.children
    link = {
        "parent_table_name": linked.parent,
        "child_table_name": child,
        "parent_primary_key": linked.key,
        "child_foreign_key": linked.key,
    }
    return Metadata.load_from_dict({"tables": tables, "relationships": [link]})


def sdv(name: str, truth: dict[str, pa.Table], epsilon: float, seed: int) -> dict[str, pa.Table]:
    """SDV's rows, whatever epsilon is."""
    from sdv.multi_table import HMASynthesizer

    maker = HMASynthesizer(metadata(name), verbose=False)
    maker.fit({n: table.to_pandas() for n, table in truth.items()})
    made = maker.sample_scale(1.0)
    return {
        n: pa.Table.from_pandas(made[n], preserve_index=False).cast(table.schema, safe=False)
        for n, table in truth.items()
    }


def sdmetrics_scores(
    name: str, truth: dict[str, pa.Table], made: dict[str, pa.Table]
) -> dict[str, float]:
    from sdmetrics.reports.multi_table import QualityReport

    report = QualityReport()
    pandas = [{n: t.to_pandas() for n, t in tables.items()} for tables in (truth, made)]
    report.generate(*pandas, metadata(name).to_dict(), verbose=False)
    found = report.get_properties().set_index("Property")["Score"]
    return {"quality": report.get_score(), **{n.lower(): float(v) for n, v in found.items()}}


def measured(name: str, truth: dict[str, pa.Table], made: dict[str, pa.Table]) -> dict[str, float]:
    scores = fastdp.evaluate(truth, made, schema=SCHEMAS[name], metrics="tv2", baselines=())
    (links,) = scores["links"].values()
    out = {
        "integrity": links["integrity"],
        "children": links["children"]["variation"],
        "pairs": links["pairs"]["mean"],
        "own": float(
            np.mean([own["tv2"]["mean"] for own in scores["tables"].values() if "tv2" in own])
        ),
    }
    if name == "households":
        people = made["persons"].to_pandas()
        heads = people[people.relation == "head"].groupby("household_id").size()
        out["head"] = float((heads == 1).sum() / max(made["households"].num_rows, 1))
    return out | (of_panel(truth, made) if name == "panel" else {})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", nargs="+", default=list(SCHEMAS), choices=list(SCHEMAS))
    parser.add_argument("--parents", type=int, default=4000)
    parser.add_argument("--epsilon", nargs="+", type=float, default=[2.0])
    parser.add_argument("--seeds", nargs=2, type=int, default=[0, 3], metavar=("FIRST", "END"))
    parser.add_argument("--sdv", action="store_true", help="SDV and SDMetrics as well")
    parser.add_argument("--no-save", action="store_true", help="keep nothing in bench/results")
    options = parser.parse_args()
    kept = {}
    makers = (together, apart, sdv) if options.sdv else (together, apart)
    for name, epsilon, maker in product(options.tables, options.epsilon, makers):
        truth = simulated(name, options.parents)
        runs = []
        for seed in range(*options.seeds):
            begin = time.process_time()
            made = maker(name, truth, epsilon, seed)
            runs.append(measured(name, truth, made) | {"seconds": time.process_time() - begin})
            if options.sdv:
                runs[-1] |= sdmetrics_scores(name, truth, made)
        label = f"{name}, epsilon {epsilon:g}, {maker.__name__}"
        kept[label] = {m: float(np.mean([r[m] for r in runs])) for m in runs[0]}
        print(f"{label:<32}", {m: round(v, 4) for m, v in kept[label].items()}, flush=True)
    if not options.no_save:
        machine.keep("linked", {"parents": options.parents, "found": kept})


if __name__ == "__main__":
    main()
