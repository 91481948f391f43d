"""A dbt model whose rows are private synthetic rows of the model `people`.

dbt builds models as often as somebody asks, and every release costs budget. So the run folder is
kept: building again reads it and charges nothing, until the variable `version` changes. A build
that was killed is continued with the noise that it had.
"""

from pathlib import Path

import fastdp


def model(dbt, session):
    # dbt reads this file without running it: every variable is named as a literal.
    dbt.config(materialized="table")
    version = dbt.config.get("version")
    out = Path(dbt.config.get("released")) / version
    if (out / "privacy.json").exists():
        return fastdp.load_run(out).to_arrow()
    run = fastdp.synthesize(
        dbt.ref("people").arrow(),
        "auto",
        dbt.config.get("epsilon"),
        dbt.config.get("delta"),
        schema=dbt.config.get("schema_file"),
        ledger=dbt.config.get("ledger"),
        dataset="people",
        out=out,
        resume=Path(f"{out}.private/state.json").exists(),
    )
    return run.to_arrow()
