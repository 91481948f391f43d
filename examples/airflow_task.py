"""A task for Airflow: private synthetic rows of one day's table, safe to retry.

    from airflow_task import synthesize_day
    with DAG("synthetic", schedule="@daily", ...):
        synthesize_day("/data/trips-{{ ds }}.parquet", "/schemas/trips.toml", "/state/synthetic", "{{ ds }}")

The folder is on a disk that outlives the worker: it holds the ledger and what a run that died has
charged and answered. A retry carries on from that with the same noise. Where the budget is spent
the task fails for good. Without Airflow `synthesize_day` is an ordinary function.
"""

import os
from pathlib import Path

import fastdp

try:
    from airflow.sdk import task
    from airflow.sdk.exceptions import AirflowFailException as GiveUp
except ImportError:

    class GiveUp(Exception):
        """No retry will help."""

    def task(**options):
        return lambda function: function


@task(retries=3)
def synthesize_day(
    source: str, schema: str, folder: str, day: str, epsilon: float = 1.0, delta: float = 1e-9
) -> dict:
    """Facts of the run, all of them releasable: they may go into Airflow's database and logs."""
    out = Path(folder) / f"rows-{day}"
    ledger = os.path.join(folder, "budget.db")
    begun = Path(f"{out}.private/state.json").exists()
    if (out / "privacy.json").exists() and not begun:  # the worker died after its work was done
        run = fastdp.load_run(out)
    else:
        try:
            run = fastdp.synthesize(
                source,
                "cliquetree",
                epsilon,
                delta,
                schema=schema,
                ledger=ledger,
                dataset="trips",
                out=out,
                resume=begun,
            )
        except fastdp.errors.BudgetError as error:
            raise GiveUp(str(error)) from None
    fastdp.verify(run.out, ledger=ledger)
    return {
        "folder": str(run.out),
        "rows": run.dataset.count_rows(),
        "epsilon": run.privacy["epsilon"],
    }
