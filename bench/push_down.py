"""Counting in a database against queries by hand: `engine="sql"` on DuckDB.

    python -m bench.push_down [--rows 10000000] [--threads 2] [--no-save]

Simulated taxi trips and the 59 weighted marginals of `taxi-adagrid`. Ways: the best queries that we can write
by hand for the same counts (a table of codes and weights, then one GROUP BY for each of the 7 largest
marginals), `engine="sql"`, and reading by the local engine. Times are processor seconds, which another load
changes little. All give the same integers, or it ends with an error. "rounds": as AdaGrid asks, by number of
columns, with the hint of what will come and without it.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from .machine import describe, keep

SCHEMA = "taxi-deid2"
CLIP = 150
OUTER = [
    ("pickup_community_area", "shift", "fare", "trip_total"),
    ("pickup_community_area", "shift", "trip_total", "trip_seconds"),
    ("pickup_community_area", "shift", "dropoff_community_area", "fare"),
    ("pickup_community_area", "shift", "payment_type", "trip_total"),
    ("pickup_community_area", "shift", "fare", "trip_miles"),
    ("pickup_community_area", "shift", "company_id"),
    ("pickup_community_area", "shift", "tips", "trip_total"),
]


def _binned(column: str, width: int) -> str:
    inside = f"case when {column} is null or {column} < 0 then 0 else {column} // {width} + 1 end"
    return f"least({inside}, 10)::utinyint"


def _area(column: str) -> str:
    return f"(case when {column} between 1 and 77 then {column} else 0 end)::utinyint"


PAYMENT = "case when payment_type between 0 and 3 then payment_type + 1"
BY_HAND = {
    "shift": "shift",
    "company_id": "company_id",
    "pickup_community_area": _area("pickup_community_area"),
    "dropoff_community_area": _area("dropoff_community_area"),
    "payment_type": f"({PAYMENT} when payment_type between 5 and 8 then payment_type else 0 end)"
    "::utinyint",
    "fare": _binned("fare", 10),
    "tips": _binned("tips", 10),
    "trip_total": _binned("trip_total", 10),
    "trip_seconds": _binned("trip_seconds", 200),
    "trip_miles": _binned("trip_miles", 10),
}


class Clock:
    """Processor seconds of named steps."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def __call__(self, name: str, step: Callable[[], Any]) -> Any:
        before = sum(os.times()[:2])
        made = step()
        self.seconds[name] = sum(os.times()[:2]) - before
        return made


def by_hand(connection: Any, domain: Any, clock: Clock) -> dict[tuple[str, ...], np.ndarray]:
    coded = ", ".join(f"{expression} as {name}" for name, expression in BY_HAND.items())
    inside = "shift between 0 and 20 and company_id between 0 and 56 and taxi_id is not null"
    weight = f"least({1 << 20}, {CLIP} * {1 << 20} // r)::uinteger as w"
    users = "select taxi_id, count(*) as r from coded group by taxi_id"

    def prepare() -> None:
        connection.execute(
            f"create temp table coded as select taxi_id, {coded} from trips where {inside}"
        )
        connection.execute(
            f"create temp table weighted as select coded.* exclude (taxi_id), {weight}"
            f" from coded join ({users}) using (taxi_id)"
        )

    def count() -> dict[tuple[str, ...], np.ndarray]:
        out = {}
        for clique in OUTER:
            cell = ""
            for name in clique:
                code = f"{name}::uinteger"
                cell = f"({cell}) * {domain[name]}::uinteger + {code}" if cell else code
            found = connection.sql(f"select {cell} as k, sum(w)::bigint from weighted group by k")
            cells, sums = (np.asarray(column) for column in found.fetchnumpy().values())
            table = np.zeros(domain.cells(clique), np.int64)
            table[cells] = sums
            out[clique] = table.reshape(domain.shape(clique))
        return out

    clock("open", prepare)
    return clock("marginals", count)


def measured(path: Path, threads: int) -> dict[str, dict[str, float]]:
    import duckdb

    import fastdp
    from fastdp.domain import downward_closure
    from fastdp.engines.local import local
    from fastdp.engines.sql_engine import sql_counter
    from fastdp.tables.sources.source import source_of

    schema = fastdp.Schema.load(SCHEMA)
    cliques = downward_closure(OUTER)
    rounds = [[c for c in cliques if len(c) == k] for k in (1, 2, 3, 4)]
    out: dict[str, dict[str, float]] = {}

    def connect() -> Any:
        return duckdb.connect(str(path), read_only=True, config={"threads": threads})

    clock = Clock()
    with connect() as connection:
        wanted = by_hand(connection, schema.domain, clock)
    out["by hand"] = clock.seconds
    clock = Clock()
    with connect() as connection:
        source = source_of(fastdp.sql(connection, "select * from trips"))
        with clock("open", lambda: sql_counter(source, schema)) as counter:
            counted = clock("marginals", lambda: counter.marginals(cliques, CLIP))
            for clique in OUTER:
                if not np.array_equal(counted[clique], wanted[clique]):
                    raise SystemExit(f"{clique}: other integers than by hand")
            database = counter.partitions.database
            megabytes = database.travelled / 1e6

            def ask() -> None:
                for some in rounds:
                    for clique, table in counter.marginals(some, CLIP).items():
                        if not np.array_equal(table, counted[clique]):
                            raise SystemExit(f"{clique}: other integers in rounds")

            clock("rounds without the hint", ask)
            before = database.travelled
            counter.expect(OUTER)
            clock("rounds", ask)
            clock.seconds["MB that leave, rounds"] = (database.travelled - before) / 1e6
        clock.seconds["MB that leave"] = megabytes
    out["engine='sql'"] = clock.seconds
    clock = Clock()
    with connect() as connection:
        source = fastdp.sql(connection, "select * from trips")
        table = clock("open", lambda: fastdp.read(source, schema, threads=threads))
        engine = local(table, threads)
        read = clock("marginals", lambda: engine.marginals(cliques, CLIP))
        if any(not np.array_equal(read[c], counted[c]) for c in cliques):
            raise SystemExit("other integers than those of the local engine")
    out["engine='local'"] = clock.seconds
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--no-save", action="store_true")
    options = parser.parse_args()
    import duckdb

    import fastdp

    about = describe()
    print(json.dumps(about))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trips.duckdb"
        with duckdb.connect(str(path)) as connection:
            connection.register("made", fastdp.simulate.taxi(options.rows, seed=1))
            connection.execute("create table trips as select * from made")
        found = measured(path, options.threads)
    hand = found["by hand"]
    print(f"\n{options.rows:,} simulated trips, {options.threads} threads, processor seconds")
    for way, seconds in found.items():
        for step, figure in seconds.items():
            ratio = f"  {figure / hand[step]:.2f} of by hand" if step in hand else ""
            print(f"  {way:<16}{step:<26}{figure:>8.2f}{ratio}")
    if not options.no_save:
        keep("push_down", {"rows": options.rows, "threads": options.threads, "ways": found})


if __name__ == "__main__":
    main()
