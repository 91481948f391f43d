"""The command that makes synthetic data: its options and what it prints."""

import shlex
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import ReportError, UsageError
from . import common, events, interrupt
from .common import emit, say
from .linked_options import linked_sources
from .option_values import clip_of, epsilons, important_of, values_of
from .parser import command
from .run_source import NO_FOLDER, RunSource

if TYPE_CHECKING:
    from ..run.owner_files import Failed
    from ..run.result import Run


@command("synth")
def synth(
    epsilon: str | None = None,
    data: list[str] | None = None,
    source_kind: str | None = None,
    sql: str | None = None,
    out: str | None = None,
    private_dir: Path | None = None,
    delta: float | None = None,
    mechanism: str = "auto",
    schema: str | None = None,
    domain: str | None = None,
    user: str | None = None,
    values: list[str] | None = None,
    dialect: str | None = None,
    public: str | None = None,
    previous: str | None = None,
    memory: str | None = None,
    deadline: float | None = None,
    ledger: str | None = None,
    dataset: str | None = None,
    series: str | None = None,
    period: str | None = None,
    late: bool = False,
    rows: int | None = None,
    clip: str | None = None,
    max_cells: int | None = None,
    threads: int | None = None,
    engine: str | None = None,
    partitions: int | None = None,
    master: str | None = None,
    resume: bool = False,
    report: bool = False,
    sample_seed: int | None = None,
    seed: int | None = None,
    diagnose: bool = False,
    ignore_empty_columns: bool = False,
    numbers: list[str] | None = None,
    important: list[str] | None = None,
    yes: bool = False,
    progress: str = "auto",
    as_json: bool = False,
    quiet: bool = False,
) -> None:
    """Make private synthetic data.

    The run folder appears whole or not at all: synthetic.parquet (or shards in synthetic/),
    privacy.json, model.fastdp, measurements.pq with standard errors, schema.json. Timings, the
    report and the state to resume from are next to it in DIR.private (--private-dir: elsewhere).
    With --out s3://bucket/released/1 the run is made in the folder 1 here, then published there.
    """
    arguments = dict(locals())
    events.check_form(progress)
    tables = linked_sources(data or [], schema, mechanism, engine)
    source = RunSource(data or [], tables, source_kind, sql, engine, master)
    common.check_paths(*source.files(), public, schema=schema)
    if epsilon is None and series is None:
        raise UsageError("--epsilon is required, but in a series (see: fastdp synth --help)")
    each = [None] if epsilon is None else epsilons(epsilon)
    from .show import progress_for, run_summary, say_starting

    say_starting(quiet or as_json, progress)  # the imports below take most of a second
    from .._util.stores import is_store, shown
    from ..run.publish import local_folder
    from ..run.spec import DEFAULT_DELTA

    delta = DEFAULT_DELTA if delta is None else delta
    common.ask_first(each, delta, yes)
    source.check()
    rows_of = source.opened()
    if out is None:
        if series is not None:
            raise UsageError(NO_FOLDER)
        out = source.default_folder()
    if schema is None and domain is None:
        schema = source.default_schema(mechanism)
    options = _run_options(arguments | {"out": out, "schema": schema})
    place = local_folder(out) if is_store(out) else Path(out)
    begun = time.monotonic()
    if progress == "json":
        events.start(place, resume)
    with rows_of as rows_in, progress_for(quiet or as_json, progress) as callback:
        asked = each if len(each) > 1 else each[0]
        runs = _make(source, rows_in, mechanism, asked, delta, options | {"progress": callback})
        if as_json or not quiet:
            for run in runs:
                _ = run.verdict  # of a wide table it takes seconds: the bar still runs
    if progress == "json":
        events.done(place, runs, time.monotonic() - begun)
    if as_json:
        emit({"out": shown(out), "runs": [_run_facts(run) for run in runs]})
    elif not quiet:
        private = private_dir or Path(f"{place}.private")
        run_summary(place, private, runs, report=report)
        if is_store(out):
            say(f"Published: {shown(out)}")


def _run_options(arguments: dict[str, Any]) -> dict[str, Any]:
    """The options of `synthesize` among the command's arguments, read from their texts."""
    from ..mechanisms.limits.size_limits import parse_bytes
    from ..run.spec import Options

    memory = arguments["memory"]
    read = arguments | {
        "clip": clip_of(arguments["clip"]),
        "dialect": common.dialect_of(arguments["dialect"]),
        "important": important_of(arguments["important"], arguments["numbers"]),
        "memory": None if memory is None else parse_bytes(memory),
        "values": values_of(arguments["values"]),
    }
    return {name: value for name, value in read.items() if name in Options.__annotations__}


def _make(
    source: RunSource,
    rows: Any,
    mechanism: str,
    epsilon: Any,
    delta: float,
    options: dict[str, Any],
) -> list["Run"]:
    """Make the runs while signals and `Ctrl-C` are watched: one, one of each epsilon, or one of each
    linked table. A run that is complete but for its report says how to make that."""
    from ..run.linked_result import LinkedRun
    from ..run.owner_files import failure_text
    from ..run.synthesize import synthesize_watched

    status = interrupt.watch_run()
    try:
        made = synthesize_watched(status, rows, mechanism, epsilon, delta, options)
    except ReportError as error:
        error.args = (failure_text(status, error.failed, partial(owner_command, source)),)
        raise
    if isinstance(made, LinkedRun):
        return list(made.runs.values())
    return made if isinstance(made, list) else [made]


def _run_facts(run: "Run") -> dict[str, Any]:
    """What `--json` says of a run."""
    verdict = run.verdict.to_dict()
    return {"out": str(run.out), "privacy": run.privacy, "verdict": verdict, "notes": [*run.notes]}


def owner_command(source: RunSource, failed: "Failed") -> str:
    """The command line that makes a file which a complete run could not make."""
    if failed.what == "diagnosis":
        files = source.data or ["DATA"]
        words = ["fastdp", "check", *files, "--schema", str(failed.of), "--out", str(failed.file)]
        return shlex.join(words)
    if source.tables is None and len(source.data) != 1:
        truth = repr(source.data) if source.data else "DATA"
        call = f"fastdp.evaluate({truth}, {str(failed.of)!r}, report={str(failed.file)!r})"
        return f"python -c {shlex.quote(f'import fastdp; {call}')}"
    truth = (
        source.data[0]
        if source.tables is None
        else ",".join(f"{name}={file}" for name, file in source.tables.items())
    )
    return shlex.join(["fastdp", "evaluate", truth, str(failed.of), "--out", str(failed.file)])
