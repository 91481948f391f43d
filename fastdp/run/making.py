"""The last step of a run for one epsilon: its statement, and everything it writes."""

from __future__ import annotations

import json
import resource
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from .._util.files import synthetic_path
from ..mechanisms.base import Outcome
from ..privacy.statement import file_hash
from ..privacy.statement import write as write_statement
from .folder import RunFolder
from .output import Output, stamped, write_measurements
from .publicread import public_entry
from .result import Run
from .work import Work


def make(work: Work, i, outcome: Outcome, reserved, output: Output, public, folder, truth) -> Run:
    """Run `i` of `work`, complete: its statement is made and, where there is a folder, everything is written
    to its staging place. `truth`: the table for the report beside the folder, or None for no report."""
    work.reporter.begin(i, work.label(i) if work.several else "")
    mechanism = {
        "name": work.recipe.mechanism,
        "recipe": work.recipe.name,
        "config": msgspec.to_builtins(work.configs[i]),
        "limits": work.configs[i].limits_used(),
        **outcome.details,
    }
    if derived := [name for name in work.schema.domain if name not in work.schema.modelled]:
        mechanism["derived"] = derived
    statement = reserved.statement(
        mechanism=mechanism,
        public_data=[] if public is None else [public_entry(public, work.relabel)],
        notes=outcome.notes,
        only=i if work.several else None,
    )
    run = Run(
        privacy=statement,
        measurements=outcome.measurements,
        model=outcome.model,
        schema=work.schema,
        tables=outcome.tables,
        _output=output,
    )
    if folder is None:
        return replace(run, timings=work.timings(i))
    staging = folder.staging()
    place = staging / work.label(i) if work.several else staging
    place.mkdir(exist_ok=True)
    with work.reporter.stage("write"), ThreadPoolExecutor(1) as beside:
        rest = beside.submit(_write_rest, work, place, run, outcome)
        hashes = output.write(place, work.reporter)
        hashes |= rest.result()
        write_statement(place, run.privacy, hashes)  # last: it lists the digests of all files
    if work.several and i == len(work.epsilons) - 1:
        joint = reserved.statement(mechanism=mechanism, public_data=statement["public_data"])
        write_statement(staging, joint)
    if truth is not None:
        from ..report.evaluate import evaluate

        name = f"report-{work.label(i)}.html" if work.several else "report.html"
        evaluate(
            truth,
            synthetic_path(place),
            schema=work.schema,
            report=str(folder.private / name),
            run=replace(run, timings=work.timings(i)),
        )
    _write_timings(work, folder)
    final = folder.out / work.label(i) if work.several else folder.out
    return replace(run, out=final, timings=work.timings(i))


def _write_rest(work: Work, place: Path, run: Run, outcome: Outcome) -> dict[str, str]:
    """Writes all but the rows; returns the sha256 of the model's file, which is large, by its name."""
    import pyarrow.parquet as pq

    hashes = {}
    if run.model is not None:
        run.model.save(place / "model.fastdp")
        hashes["model.fastdp"] = file_hash(place / "model.fastdp")
    private = work.seed is None
    write_measurements(place, run.measurements, private)
    for name, table in outcome.tables.items():
        pq.write_table(stamped(table, private), place / f"{name}.released.parquet")
    run.schema.save(place / "schema.json")
    return hashes


def _write_timings(work: Work, folder: RunFolder) -> None:
    stages = {work.label(i): work.timings(i) for i in range(len(work.epsilons))}
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    _write_json(folder.private / "timings.json", {"seconds": stages, "peak_bytes": peak})
    if work.reading:
        _write_json(folder.private / "reading.json", work.reading)


def _write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=2, allow_nan=False) + "\n", "utf-8")
