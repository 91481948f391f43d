"""The command that makes synthetic data: its options, the source it reads, what it prints."""

import shlex
import time
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import ReportError, UsageError
from . import common, events, interrupt
from .common import emit, say
from .linked_options import linked_sources
from .option_values import clip_of, epsilons, important_of, values_of
from .parser import command

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
    events.check_form(progress)
    named = source_kind is not None
    tables = linked_sources(data or [], schema, mechanism, engine)
    files: list[str] = []
    if engine != "spark" and not named:
        files = list(data or ()) if tables is None else list(tables.values())
    common.check_paths(*files, public, schema=schema)
    if epsilon is None and series is None:
        raise UsageError("--epsilon is required, but in a series (see: fastdp synth --help)")
    each = [None] if epsilon is None else epsilons(epsilon)
    from .show import progress_for, run_summary, say_starting

    say_starting(quiet or as_json, progress)  # the imports below take most of a second
    from .._util.stores import is_store, shown
    from ..engines.sparksource import opened
    from ..mechanisms.limits.size_limits import parse_bytes
    from ..mechanisms.recipe import load
    from ..run.owner_files import failure_text
    from ..run.publish import local_folder
    from ..run.spec import DEFAULT_DELTA, Options
    from ..run.synthesize import watched

    given = {name: value for name, value in locals().items() if name in Options.__annotations__}
    delta = DEFAULT_DELTA if delta is None else delta
    common.ask_first(each, delta, yes)
    if engine == "spark":
        _check_spark_data(data, sql, named)
    elif master is not None:
        raise UsageError("--master needs --engine spark")
    source = None if engine == "spark" else source_of(tables or data or [], sql, source_kind)
    if out is None:
        must_name = named or series is not None or bool(tables)
        out = _folder_beside([] if must_name else data or [])
    place = local_folder(out) if is_store(out) else Path(out)
    if data and not named and not tables and schema is None and domain is None:
        schema = None if load(mechanism).schema is not None else common.schema_beside(data[0])
    given |= {
        "schema": schema,
        "dialect": common.dialect_of(dialect),
        "out": out,
        "clip": clip_of(clip),
        "values": values_of(values),
        "important": important_of(important, numbers),
    }
    given["memory"] = None if memory is None else parse_bytes(memory)
    status = interrupt.watch_run()
    asked = each if len(each) > 1 else each[0]
    spark = opened(data or [], master) if engine == "spark" else nullcontext(source)
    begun = time.monotonic()
    if progress == "json":
        events.start(place, resume)
    with spark as rows_in, progress_for(quiet or as_json, progress) as callback:
        try:
            made = watched(status, rows_in, mechanism, asked, delta, given | {"progress": callback})
        except ReportError as error:
            command = partial(owner_command, tables, data or [])
            error.args = (failure_text(status, error.failed, command),)
            raise
        runs = _runs_of(made)
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


def _runs_of(made: Any) -> list["Run"]:
    """The runs of what `watched` gives: one, one of each epsilon, or one of each linked table."""
    from ..run.linked_result import LinkedRun

    if isinstance(made, LinkedRun):
        return list(made.runs.values())
    return made if isinstance(made, list) else [made]


def _check_spark_data(data: list[str] | None, sql: str | None, named: bool) -> None:
    """UsageError unless Spark can read DATA by itself. `named`: --source names a kind of source."""
    if sql is not None or not data:
        raise UsageError(
            "--engine spark needs DATA: files that Spark can see, or table:NAME of its catalog"
        )
    if named:
        raise UsageError("--source is not for --engine spark, which reads DATA itself")


def _folder_beside(data: list[str]) -> str:
    """The run folder next to the first file of `data`; UsageError if there is no such file."""
    if not data or data[0].startswith("table:") or common.is_url(data[0]):
        raise UsageError("--out is required: it names the run folder")
    return str(common.sibling_path(data[0], ".synthetic"))


def _run_facts(run: "Run") -> dict[str, Any]:
    """What `--json` says of a run."""
    verdict = run.verdict.to_dict()
    return {"out": str(run.out), "privacy": run.privacy, "verdict": verdict, "notes": [*run.notes]}


def owner_command(tables: dict[str, str] | None, data: list[str], failed: "Failed") -> str:
    """The command line that makes a file which a complete run could not make."""
    if failed.what == "diagnosis":
        files = data or ["DATA"]
        words = ["fastdp", "check", *files, "--schema", str(failed.of), "--out", str(failed.file)]
        return shlex.join(words)
    if tables is None and len(data) != 1:
        truth = repr(data) if data else "DATA"
        call = f"fastdp.evaluate({truth}, {str(failed.of)!r}, report={str(failed.file)!r})"
        return f"python -c {shlex.quote(f'import fastdp; {call}')}"
    truth = data[0] if tables is None else ",".join(f"{n}={file}" for n, file in tables.items())
    return shlex.join(["fastdp", "evaluate", truth, str(failed.of), "--out", str(failed.file)])


def source_of(data: list[str] | dict[str, str], query: str | None, kind: str | None = None) -> Any:
    """The source of a run: the named files, the rows of the query, or what a kind of source that is
    named makes of DATA. Linked tables have one each, by name."""
    if (query is None) == (not data):
        raise UsageError("synth needs the private data: give DATA, or --sql with a select")
    if isinstance(data, dict):
        return common.named_sources(kind, data)
    if kind is not None:
        return common.named_source(kind, data)
    if query is None:
        return data if len(data) > 1 else data[0]
    from ..tables.sql import connect, sql as rows_of

    return rows_of(connect(), query)
