"""The last step of a run for one epsilon: its statement, and everything it writes."""

import json
import resource
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from .._util.files import write_atomic
from .._util.lazy import pq
from .._util.progress import LOG, OTHER
from ..answers.measurements_file import RELEASED
from ..mechanisms.base import Outcome
from ..privacy.statement import file_hash, write as write_statement
from ..release.reserve import Reserved
from ..schema import Schema
from .folder import RunFolder
from .measurements_out import write_measurements
from .output import Output, stamped
from .previous_release import previous_entry
from .public_data import public_entry
from .result import Run
from .row_count_checks import missing_notes, missing_rows
from .spec import RunSpec, plugin_note


def finalize(
    spec: RunSpec,
    i: int,
    outcome: Outcome,
    reserved: Reserved,
    output: Output,
    folder: RunFolder | None,
    engine: Mapping[str, str] | None = None,
) -> Run:
    """The run of epsilon `i`, complete: its statement is made and, where there is a folder,
    everything is written to its staging place. engine: what the statement says of the engine."""
    public = spec.options.public
    spec.reporter.begin(i, spec.label(i) if spec.several else "")
    mechanism = _described_mechanism(spec, i, outcome, engine)
    used = [] if public is None else [public_entry(public, spec.configs[0].public_relabel)]
    statement = reserved.statement(
        mechanism=mechanism,
        public_data=used,
        notes=_notes(spec, i, outcome, reserved),
        only=i if spec.several else None,
    )
    run = Run(
        statement,
        outcome.measurements,
        outcome.model,
        spec.schema,
        tables=outcome.tables,
        _output=output,
    )
    if folder is None:
        return replace(run, timings=spec.timings(i))
    staging = folder.staging()
    place = staging / spec.label(i) if spec.several else staging
    place.mkdir(exist_ok=True)
    with spec.reporter.stage("write"), ThreadPoolExecutor(1) as beside:
        rest = beside.submit(_write_rest, spec, place, run, outcome)
        hashes = output.write(place, spec.reporter)
        hashes |= rest.result()
        write_statement(place, run.privacy, hashes)  # last: it lists the digests of all files
    if spec.several and i == len(spec.epsilons) - 1:
        joint = reserved.statement(mechanism=mechanism, public_data=statement["public_data"])
        write_statement(staging, joint)
    final = folder.out / spec.label(i) if spec.several else folder.out
    return replace(run, out=final, timings=spec.timings(i))


def _described_mechanism(
    spec: RunSpec, i: int, outcome: Outcome, engine: Mapping[str, str] | None
) -> dict[str, Any]:
    """What the statement says of how the run of epsilon `i` was made."""
    mechanism = {
        "name": spec.recipe.mechanism,
        "recipe": spec.recipe.name,
        "config": msgspec.to_builtins(spec.configs[i]),
        "limits": spec.configs[i].limits_used(),
        **spec.described,
        **outcome.details,
    }
    if engine:
        mechanism["engine"] = dict(engine)
    if spec.previous is not None:
        mechanism["previous"] = previous_entry(spec.previous)
    if spec.plugins:
        mechanism["plugins"] = list(spec.plugins)
    if derived := [name for name in spec.schema.domain if name not in spec.schema.modelled]:
        mechanism["derived"] = derived
    return mechanism


def _notes(spec: RunSpec, i: int, outcome: Outcome, reserved: Reserved) -> list[str]:
    """What a reader of the statement should know besides: plug-ins, columns of which little was
    found, rows without an id."""
    notes = list(outcome.notes)
    if spec.plugins:
        notes.append(plugin_note(spec.plugins))
    if reserved.learnt is not None:
        found = reserved.learnt.missing
        found |= missing_rows(spec.schema, list(found), outcome.measurements)
        notes += missing_notes(found)
    if spec.schema.user is not None and spec.configs[i].unit == "user":
        note = null_id_note(spec.schema)
        if nulls := outcome.details.get("users", {}).get("without_id"):
            low, high = nulls["share_interval"]
            note += (
                f"; they are {low:.1%} to {high:.1%} of all rows (95 % interval of a noisy count)"
            )
        notes.append(note)
    return notes


def complete_timings(spec: RunSpec, runs: Sequence[Run], folder: RunFolder | None) -> None:
    """Give each run the seconds of its stages, and write them to the private folder. All of them
    add up to the seconds of the whole job: the last run has those that no stage has."""
    for i, run in enumerate(runs):
        run.timings.update(spec.timings(i))
    runs[-1].timings[OTHER] = spec.reporter.other()
    if folder is None:
        return
    seconds = {spec.label(i): run.timings for i, run in enumerate(runs)}
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    try:
        write_json(folder.private / "timings.json", {"seconds": seconds, "peak_bytes": peak})
    except OSError as error:  # the run folder is in its place: times are not worth an error
        LOG.warning("timings.json could not be written: %s", error.strerror)


def null_id_note(schema: Schema) -> str:
    """What happened to rows without a user id, by the schema's policy for them."""
    if schema.null_user == "drop":
        return f"rows without an id in the user column {schema.user!r} are left out of everything"
    return f"each row without an id in the user column {schema.user!r} counts as a user of its own"


def _write_rest(spec: RunSpec, place: Path, run: Run, outcome: Outcome) -> dict[str, str]:
    """Write all but the rows; returns the sha256 of the model's file, which is large, by its
    name."""

    hashes = {}
    if run.model is not None:
        run.model.save(place / "model.fastdp")
        hashes["model.fastdp"] = file_hash(place / "model.fastdp")
    private = spec.options.seed is None
    write_measurements(place, run.measurements, private)
    for name, table in outcome.tables.items():
        pq.write_table(stamped(table, private), place / f"{name}{RELEASED}")
    run.schema.save(place / "schema.json")
    return hashes


def write_json(path: Path, value: Any) -> None:
    """Write plain data for the data's owner alone."""
    text = json.dumps(value, indent=2, allow_nan=False) + "\n"
    write_atomic(path, text.encode(), 0o600)
