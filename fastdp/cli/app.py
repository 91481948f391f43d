"""The commands: each parses its arguments, calls the library and prints the result. Nothing is
computed here."""

import os
import shlex
import sys
import time
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import FastdpError, ModelTooLargeError, ReportError, UsageError, did_you_mean
from . import (
    catalog_commands,
    common,
    completion,
    events,
    interrupt,
    ledger_commands,
    released_commands,
    schemas,
    truth_commands,
)
from .common import as_options, emit, say, warn
from .linked_options import linked_sources, rows_of, write_tables
from .parser import FLAGS, call, command

if TYPE_CHECKING:
    from ..run.owner_files import Failed
    from ..run.result import Run

REGISTERED = (
    catalog_commands,
    completion,
    ledger_commands,
    released_commands,
    schemas,
    truth_commands,
)
"""Modules that add their commands and flags to the parser's when they are imported."""


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
    from .._util.stores import is_store, shown
    from ..engines.sparksource import opened
    from ..mechanisms.limits.size_limits import parse_bytes
    from ..mechanisms.recipe import load
    from ..run.linked_result import LinkedRun
    from ..run.owner_files import failure_text
    from ..run.publish import local_folder
    from ..run.spec import DEFAULT_DELTA, Options
    from ..run.synthesize import watched
    from .show import progress_for, run_summary

    given = {name: value for name, value in locals().items() if name in Options.__annotations__}
    if epsilon is None and series is None:
        raise UsageError("--epsilon is required, but in a series (see: fastdp synth --help)")
    each = [None] if epsilon is None else epsilons(epsilon)
    delta = DEFAULT_DELTA if delta is None else delta
    common.ask_first(each, delta, yes)
    if master is not None and engine != "spark":
        raise UsageError("--master needs --engine spark")
    if engine == "spark" and (sql is not None or not data):
        raise UsageError(
            "--engine spark needs DATA: files that Spark can see, or table:NAME of its catalog"
        )
    if named and engine == "spark":
        raise UsageError("--source is not for --engine spark, which reads DATA itself")
    source = None if engine == "spark" else source_of(tables or data or [], sql, source_kind)
    if out is None:
        if (
            named
            or series is not None
            or tables
            or not data
            or data[0].startswith("table:")
            or common.is_url(data[0])
        ):
            raise UsageError("--out is required: it names the run folder")
        out = str(common.sibling_path(data[0], ".synthetic"))
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
        several = list(made.runs.values()) if isinstance(made, LinkedRun) else made
        runs = several if isinstance(several, list) else [several]
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


@command("plan")
def plan(
    epsilon: str | None = None,
    delta: float = 1e-9,
    mechanism: str = "auto",
    schema: str | None = None,
    rows: str | None = None,
    users: int | None = None,
    public: str | None = None,
    dialect: str | None = None,
    clip: str | None = None,
    max_cells: int | None = None,
    memory: str | None = None,
    threads: int | None = None,
    numbers: list[str] | None = None,
    important: list[str] | None = None,
    values: list[str] | None = None,
    ledger: str | None = None,
    series: str | None = None,
    periods: int | None = None,
    as_json: bool = False,
) -> None:
    """What a run would measure: noise per cell, detectable counts, model size, memory, time. Needs
    no data.

    Exit code 8 means that the model may exceed its limit: such a run would be refused.
    """
    common.check_paths(public, schema=schema)
    from ..mechanisms.limits.size_limits import parse_bytes
    from ..run.plan import plan as make, public_table

    style = common.dialect_of(dialect)
    lists = values_of(values)
    table: Any = False
    if public is not None:
        table = public_table(public, schema, mechanism, threads, style, lists)
    limits: dict[str, Any] = {"clip": clip_of(clip), "max_cells": max_cells, "threads": threads}
    limits["memory"] = None if memory is None else parse_bytes(memory)
    limits |= {"rows": rows_of(rows), "users": users, "public": table, "numbers": numbers}
    limits["values"] = lists
    limits["important"] = important_of(important, numbers)
    whole = None
    if series is not None or periods is not None:
        whole = series_of(ledger, series, periods, epsilon, delta)
        epsilon = repr(whole[0]["epsilon"])
        delta = whole[0]["delta"]
    if epsilon is None:
        raise UsageError("required: -e/--epsilon (see: fastdp plan --help)")
    asked = epsilons(epsilon)
    plans = [make(schema, mechanism, e, delta, **limits) for e in asked]
    for text in (*common.weak_promises(asked, delta), *common.refusals(asked, delta)):
        warn(f"warning: {text}")
    if as_json and whole is not None:
        from ..run.series_horizon import horizon

        emit({"period": plans[0].to_dict(), "series": whole[0], "horizon": horizon(*whole)})
    elif as_json:
        emit([p.to_dict() for p in plans])
    else:
        for p in plans:
            say(as_options(str(p)))
    if whole is not None and not as_json:
        from ..run.series_horizon import horizon_lines

        say("\n".join(horizon_lines(*whole)))
    if refused := [p.too_large for p in plans if p.too_large]:
        warn(as_options(refused[0]))
        sys.exit(ModelTooLargeError.exit_code)


def series_of(
    ledger: str | None,
    series: str | None,
    periods: int | None,
    epsilon: str | None,
    delta: float,
) -> tuple[dict[str, Any], Any]:
    """(facts, budget) of a series in a ledger, or of one that is not open yet: of so many periods,
    with epsilon for one user over all of them."""
    from ..privacy.budget import Budget
    from ..privacy.ledger import Ledger
    from ..run.series_horizon import planned_series

    if series is None:
        lifetime = None if epsilon is None else epsilons(epsilon)
        if lifetime is None or len(lifetime) != 1:
            raise UsageError("--periods needs --epsilon: the lifetime budget of one user")
        return planned_series(lifetime[0], delta, periods)
    if ledger is None or periods is not None or epsilon is not None:
        raise UsageError("--series needs --ledger, and takes epsilon and periods from it")
    book = Ledger(ledger)
    facts = book.series(series)
    if facts is None:
        raise UsageError(f"data set {series!r} is not a series (see: fastdp ledger open --periods)")
    return facts, Budget.from_dict(book.datasets()[series])


@command("simulate")
def simulate(
    kind: str, rows: int, out: Path, seed: int = 0, year: int | None = None, as_json: bool = False
) -> None:
    """Simulated tables to try things on; no real record inside."""
    from .. import simulate as simulators

    kinds = ("taxi", "incidents", "census", "flights", "households", "purchases")
    maker = getattr(simulators, kind, None) if kind in kinds else None
    if maker is None:
        raise UsageError(f"there is no simulator {kind!r}{did_you_mean(kind, kinds)}")
    if rows < 0:
        raise UsageError(f"--rows must be >= 0, got {rows}")
    extra = {} if year is None else {"year": year}
    if extra and kind in ("census", "households", "purchases"):
        raise UsageError("--year is for taxi, incidents and flights")
    write_tables(maker(rows, seed=seed, **extra), out)
    if as_json:
        emit({"out": str(out), "kind": kind, "rows": rows, "seed": seed, **extra})


@command("calibrate")
def calibrate(
    epsilon: float,
    delta: float,
    sensitivity: float = 1.0,
    count: int = 1,
    method: str = "gdp",
    as_json: bool = False,
) -> None:
    """The noise scale for a budget, rounded up."""
    from ..privacy.calibrate import calibrate as sigma_of

    sigma = sigma_of(epsilon, delta, sensitivity, count, method)
    if as_json:
        emit({"sigma": sigma, "method": method})
    else:
        say(repr(sigma))


@command("doctor")
def doctor(as_json: bool = False) -> None:
    """Show what is installed: version, kernels, threads, packages.

    Exit code 1 if something is wrong.
    """
    from .doctor import facts, text

    report = facts()
    emit(report) if as_json else say(text(report))
    if report["problems"]:
        sys.exit(1)


def clip_of(text: str | None) -> int | str | None:
    """The clip as a number if the text is one, such as `150`; any other text unchanged, for the
    recipe to parse."""
    return int(text) if text is not None and text.isdecimal() else text


def values_of(texts: list[str] | None) -> dict[str, str] | None:
    """`state=states.txt` and the like as files by column; None if there are none."""
    if texts is None:
        return None
    files: dict[str, str] = {}
    for text in texts:
        column, equals, file = text.partition("=")
        if not (column and equals and file):
            raise UsageError(f"--values: expected COLUMN=FILE, got {text!r}")
        if column in files:
            raise UsageError(f"--values: {column!r} is given twice")
        files[column] = file
    return files


def important_of(texts: list[str] | None, numbers: list[str] | None) -> dict[str, Any] | None:
    """`age=3`, `age,income=5`, `users=2` and the like as the run's `important`; None if there are
    none. Without a weight, `important.STATED`."""
    from ..important import STATED

    if texts is None:
        return None
    columns: dict[str, float] = {}
    questions: dict[str, float] = {}
    pairs: list[dict[str, Any]] = []
    whole: dict[str, Any] = {}
    for text in texts:
        what, weight = text, STATED
        if text not in (numbers or ()) and "=" in text:
            what, _, stated = text.rpartition("=")
            try:
                weight = float(stated)
            except ValueError:
                raise UsageError(
                    f"--important: expected WHAT=WEIGHT with a number, got {text!r}"
                ) from None
        what = what.strip()
        known = {**columns, **questions, **whole, **{",".join(p["columns"]): 0 for p in pairs}}
        if what in known:
            raise UsageError(f"--important: {what!r} is given twice")
        if what in (numbers or ()):
            questions[what] = weight
        elif what in ("users", "numbers"):
            whole[what] = weight
        elif what.count(",") == 1:
            pairs.append({"columns": [name.strip() for name in what.split(",")], "weight": weight})
        else:
            columns[what] = weight
    if questions and "numbers" in whole:
        raise UsageError("--important: give a weight of all numbers, or of some of them")
    named = {"columns": columns, "pairs": pairs, "numbers": questions}
    return {key: value for key, value in named.items() if value} | whole


def epsilons(text: str) -> list[float]:
    """`1` or `1,10` as numbers; UsageError otherwise."""
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise UsageError(
            f"--epsilon: expected a number, or several separated by commas, got {text!r}"
        ) from None


def version() -> None:
    from .. import __version__

    say(f"fastdp {__version__}")


FLAGS["--version"] = version


def main(arguments: list[str] | None = None) -> None:
    """Run the program. Exit code: 0, or the code of the error's class (see fastdp.errors); 130
    after Ctrl-C, 143 after SIGTERM."""
    arguments = sys.argv[1:] if arguments is None else arguments
    interruption = interrupt.begin(arguments)
    try:
        with interruption.heard():
            call(arguments)
            sys.stdout.flush()
    except interrupt.Stopped:
        interruption.end()
    except BrokenPipeError:  # `fastdp ledger show ... | head`: nobody reads the rest
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(1)
    except FastdpError as error:
        interruption.end()
        text = interruption.with_commands(as_options(str(error)))
        if "--json" in arguments:
            kind = type(error).__name__
            emit({"error": {"kind": kind, "text": text, "exit_code": error.exit_code}})
        if events.asked_for(arguments):
            events.failed(type(error).__name__, text, error.exit_code, interruption.status)
        warn(text)
        sys.exit(error.exit_code)
    except MemoryError:
        interruption.end()
        text = interruption.out_of_memory()
        code = ModelTooLargeError.exit_code
        if events.asked_for(arguments):
            events.failed("MemoryError", text, code, interruption.status)
        warn(text)
        sys.exit(code)
