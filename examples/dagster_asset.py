"""A Dagster asset: private synthetic rows of a table, with what was promised as its metadata.

    from dagster import Definitions
    from dagster_asset import synthetic_trips
    definitions = Definitions(assets=[synthetic_trips])

Where the table is and what may be spent comes from the environment of the code location. Running
the asset again for rows that are there already costs nothing: the finished run is returned. Without
Dagster `synthetic_trips` is an ordinary function that returns the same facts.
"""

import os
from pathlib import Path

import fastdp

try:
    from dagster import MaterializeResult, RetryPolicy, asset

    def made(facts: dict):
        return MaterializeResult(metadata=facts)

    decorate = asset(retry_policy=RetryPolicy(max_retries=3))
except ImportError:

    def made(facts: dict):
        return facts

    def decorate(function):
        return function


@decorate
def synthetic_trips():
    """Facts of the run, all of them releasable: they may go into Dagster's event log."""
    out = Path(os.environ["TRIPS_OUT"])
    if (out / "privacy.json").exists():
        run = fastdp.load_run(out)
    else:
        run = fastdp.synthesize(
            os.environ["TRIPS_SOURCE"],
            "mst",
            float(os.environ.get("TRIPS_EPSILON", "1")),
            float(os.environ.get("TRIPS_DELTA", "1e-9")),
            schema=os.environ["TRIPS_SCHEMA"],
            ledger=os.environ["TRIPS_LEDGER"],
            dataset="trips",
            out=out,
            resume=Path(f"{out}.private").exists(),
        )
    promise = run.privacy
    return made(
        {
            "folder": str(run.out),
            "rows": run.dataset.count_rows(),
            "epsilon": promise["epsilon"],
            "delta": promise["delta"],
            "unit": promise["unit"]["kind"],
        }
    )
