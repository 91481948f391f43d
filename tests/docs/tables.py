"""Small files with the names that the pages use, and what single pages need beside them."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow.parquet as pq

import fastdp

PEOPLE = {
    "age": {"kind": "integer", "min": 15, "max": 90, "overflow": "clamp"},
    "sex": {"kind": "string", "values": ["female", "male"]},
    "education": {"kind": "string", "values": ["none", "school", "college"]},
    "occupation": {"kind": "string", "values": ["farm", "office", "shop", "works"]},
    "income": {"kind": "string", "values": ["high", "low"]},
}
TRIPS = {
    "pickup": {"kind": "integer", "min": 0, "max": 19},
    "shift": {"kind": "integer", "min": 0, "max": 20},
    "fare": {"kind": "numeric", "edges": [0, 10, 20, 40, 80]},
    "company": {"kind": "string", "values": ["Flash Cab", "Sun Taxi"]},
}
WORDS: dict[str, dict[str, Any]] = {
    "choosing.md": PEOPLE,
    "cliquetree.md": PEOPLE,
    "constraints.md": {
        **PEOPLE,
        "state": {"kind": "string", "values": ["MA", "NY"]},
        "city": {"kind": "string", "values": ["Albany", "Boston", "Salem"]},
        "region": {"kind": "string", "values": ["Northeast", "South"]},
        "pregnant": {"kind": "string", "values": ["no", "yes"]},
        "married": {"kind": "string", "values": ["no", "yes"]},
        "bpl": {"kind": "integer", "min": 1, "max": 3},
        "bpl_detailed": {
            "kind": "categorical",
            "dtype": "int64",
            "values": [100, 110, 200, 300, 310],
        },
        "pickup": {"kind": "integer", "min": 0, "max": 23},
        "dropoff": {"kind": "integer", "min": 0, "max": 23},
        "month": {"kind": "integer", "min": 1, "max": 12},
        "time_hour": {
            "kind": "timestamp",
            "parts": ["date", "hour"],
            "min": "2013-01-01",
            "max": "2013-12-31",
        },
    },
}
WORDS["text-files.md"] = TRIPS
WORDS["numbers.md"] = {
    "amount": {"kind": "numeric", "edges": [0, 10, 100], "digits": 2},
    "month": {"kind": "integer", "min": 1, "max": 12},
}
WORDS["important.md"] = {
    "age": {"kind": "integer", "min": 0, "max": 19},
    "income": {"kind": "integer", "min": 0, "max": 29},
}
WORDS["schema.md"] = {**TRIPS, **WORDS["constraints.md"]}
"""Columns that the fragments of a page's schemas and recipes speak about."""


def people(rows: int, seed: int) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    age = rng.integers(15, 91, rows)
    learnt = np.clip((age - 15) // 12 + rng.integers(-1, 2, rows), 0, 2)
    rich = rng.random(rows) < 0.1 + 0.2 * learnt
    columns = {
        "id": np.arange(rows),
        "age": age,
        "sex": rng.choice(["female", "male"], rows),
        "education": np.array(["none", "school", "college"])[learnt],
        "occupation": rng.choice(["farm", "office", "shop", "works"], rows),
        "income": np.where(rich, "high", "low"),
    }
    return pl.DataFrame(columns)


def trips(rows: int, seed: int) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    columns = {
        "taxi_id": rng.integers(0, rows // 2, rows),
        "pickup": rng.integers(0, 20, rows),
        "shift": rng.integers(0, 21, rows),
        "fare": rng.gamma(2, 10, rows).clip(0, 79).round(2),
        "company": rng.choice(["Flash Cab", "Sun Taxi"], rows),
        "city": rng.choice(["Albany", "Boston", "Salem"], rows),
        "year": np.full(rows, 2020),
    }
    return pl.DataFrame(columns)


def trips_schema(**columns: Any) -> fastdp.Schema:
    user = {"column": "taxi_id", "max_rows": 50}
    return fastdp.Schema.from_dict({"name": "trips", "user": user, "columns": {**TRIPS, **columns}})


def make(folder: Path) -> None:
    """Writes the files that several pages name."""
    for name, seed, year in (("trips", 1, 2020), ("trips-2020", 1, 2020), ("trips-2019", 2, 2019)):
        pq.write_table(fastdp.simulate.taxi(1500, seed=seed, year=year), folder / f"{name}.parquet")
    (folder / "trips").mkdir()
    shutil.copy(folder / "trips.parquet", folder / "trips" / "part-0.parquet")
    table = people(4000, 1)
    table.write_csv(folder / "people.csv")
    table.write_parquet(folder / "people.parquet")
    for year in (2018, 2019):
        people(4000, year).write_parquet(folder / f"people-{year}.parquet")
    fastdp.Schema.from_dict({"name": "people", "columns": PEOPLE}).save(folder / "people.toml")
    for name, seed, year in (("calls", 1, 2019), ("last-year", 2, 2018)):
        pq.write_table(
            fastdp.simulate.incidents(1000, seed=seed, year=year), folder / f"{name}.parquet"
        )


def embedding(folder: Path) -> dict[str, Any]:
    class Sink(list):
        write = list.append

    return {
        "reader": pq.read_table(folder / "trips.parquet").to_reader(),
        "schema": fastdp.Schema.load("taxi-deid2"),
        "sink": Sink(),
        "people": pl.read_parquet(folder / "people.parquet").to_pandas(),
    }


def keys(folder: Path) -> dict[str, Any]:
    # Each city has over 4,700 of 8,589 taxis; at epsilon 0.1 a few hundred pass the threshold.
    trips(20_000, 1).write_parquet(folder / "trips.parquet")
    city = {"kind": "string", "values": ["Boston"]}
    return {"ledger": fastdp.Ledger(folder / "budget.db"), "draft": trips_schema(city=city)}


def recipes(folder: Path) -> dict[str, Any]:
    trips_schema().save(folder / "trips.toml")
    return {}


def databases(folder: Path) -> dict[str, Any]:
    import duckdb

    rows = trips(3000, 1)
    with duckdb.connect(str(folder / "warehouse.duckdb")) as connection:
        connection.execute("create table trips as select * from rows")
    del rows
    return recipes(folder)


def schema(folder: Path) -> dict[str, Any]:
    taxi = {
        "taxi_id": {"dtype": "int64", "kind": "id"},
        "shift": {"dtype": "int8", "values": [0, 1, 2]},
    }
    runs = [{"epsilon": 1.0, "max_records_per_individual": 200}]
    metadata = {"columns": {"guest": {"sdtype": "id"}, "room": {"sdtype": "categorical"}}}
    files = {
        "parameters": {"schema": taxi, "runs": runs},
        "metadata": metadata,
    }
    for name, plain in files.items():
        (folder / f"{name}.json").write_text(json.dumps(plain))
    return {}


def tworound(folder: Path) -> dict[str, Any]:
    pq.write_table(fastdp.simulate.census(300, seed=1), folder / "persons.parquet")
    return {}


BESIDE = {
    "databases.md": databases,
    "embedding.md": embedding,
    "keys.md": keys,
    "recipes.md": recipes,
    "schema.md": schema,
    "tworound.md": tworound,
}
"""What single pages need beside the common files: a function of the folder that returns names for
Python."""
FEWER = {
    "1_000_000": "20_000",
    "1000000": "20000",
    "--rows 200000": "--rows 70000",
    "--rows 5000": "--rows 2500",
    "range(4_000)": "range(500)",
    "taxi(60_000": "taxi(5_000",
    "taxi(20_000": "taxi(10_000",
    "households(4_000": "households(500",
    "households(2_000": "households(300",
    "purchases(3_000": "purchases(400",
    "partitions=32": "partitions=2",
    "partitions 32": "partitions 2",
}
"""The same programs on fewer rows and with fewer processes."""
