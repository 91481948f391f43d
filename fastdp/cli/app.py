"""The commands: each parses its arguments, calls the library and prints the result. Nothing is computed
here."""

from __future__ import annotations

import atexit
import gc
import os
import sys
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import FastdpError, ModelTooLargeError, UsageError, did_you_mean
from . import interrupt
from .answers import answers_app
from .common import (
    Clip,
    Delta,
    DialectOption,
    DomainOption,
    Epsilons,
    Json,
    MaxCells,
    Mechanism,
    Memory,
    Quiet,
    SchemaOption,
    Threads,
    Yes,
    as_options,
    ask_first,
    beside,
    check_paths,
    dialect_of,
    emit,
    refusals,
    schema_beside,
    weak_promises,
)
from .ledger_commands import ledger_app
from .linked_options import linked_sources, rows_of, write_tables
from .schemas import schema_app
from .statements import statement_app
from .truth_commands import truth_app

app = typer.Typer(
    name="fastdp",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
app.add_typer(schema_app, name="schema")
app.add_typer(ledger_app, name="ledger")
app.add_typer(answers_app)
app.add_typer(truth_app)
app.add_typer(statement_app)


def _version(wanted: bool) -> None:
    if wanted:
        from .. import __version__

        typer.echo(f"fastdp {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="The version, and no more.")
    ] = False,
) -> None:
    """Private synthetic data from tables of people: a differential-privacy guarantee per person.

    Start with:  fastdp plan --mechanism taxi-adagrid --epsilon 1 --delta 2.5e-5
    """


@app.command(
    epilog="Examples:\n\n\b\n"
    "  fastdp synth trips.parquet -m taxi-adagrid -e 1 -d 2.5e-5 \\\n"
    "      --public trips-2019.parquet --out run\n"
    "  fastdp synth people.csv -e 1\n"
    "      (schema people.toml next to it, any table, delta 1e-9, folder people.synthetic)\n"
    "  fastdp synth people.parquet -e 1 --domain private --user id\n"
    "      (no schema: values, bounds and bins are found within the budget)\n"
    "  fastdp synth 'data/*.csv' -s people.toml -e 1 -d 1e-9 --memory 4G \\\n"
    "      --ledger budget.db --dataset people --out run\n"
    "  fastdp synth trips.parquet -m taxi-adagrid -e 1,10 -d 2.5e-5 --out both\n"
    "      (two run folders, both/eps-1 and both/eps-10, charged together)\n"
    "  fastdp synth customers=customers.parquet orders=orders.parquet -s shop.toml -e 1 --out run\n"
    "      (linked tables: the schema has a table [tables.NAME] for each)"
)
def synth(
    epsilon: Epsilons,
    data: Annotated[
        list[str] | None,
        typer.Argument(help="Private data: files, globs or folders (Parquet, Arrow, CSV, TSV, JSON lines)."),
    ] = None,
    sql: Annotated[
        str | None,
        typer.Option("--sql", help="A select in place of DATA; the database is named by FASTDP_SQL_URI."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help="Run folder to make; holds only what may be released "
            "(default: DATA.synthetic, next to the data).",
        ),
    ] = None,
    delta: Delta = 1e-9,
    mechanism: Mechanism = "auto",
    schema: SchemaOption = None,
    domain: DomainOption = None,
    user: Annotated[
        str | None, typer.Option(help="With --domain private: the column that says whose row it is.")
    ] = None,
    dialect: DialectOption = None,
    public: Annotated[
        str | None, typer.Option(help="Public data of the same schema: user ids, choices.")
    ] = None,
    memory: Memory = None,
    deadline: Annotated[
        float | None, typer.Option(help="Seconds for the model, as a limit on its size set beforehand.")
    ] = None,
    ledger: Annotated[str | None, typer.Option(help="Budget ledger (see: fastdp ledger open).")] = None,
    dataset: Annotated[str | None, typer.Option(help="Name of the data set in the ledger.")] = None,
    rows: Annotated[int | None, typer.Option(help="Rows to make (default: the estimated total).")] = None,
    clip: Clip = None,
    max_cells: MaxCells = None,
    threads: Threads = None,
    engine: Annotated[str | None, typer.Option(help="local (threads, the default) or spark.")] = None,
    partitions: Annotated[int | None, typer.Option(help="Of --engine spark.")] = None,
    master: Annotated[
        str | None,
        typer.Option(help="Of --engine spark: local[4], spark://..., yarn, or sc://... (Connect)."),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Resume an interrupted run, with the noise it drew.")
    ] = False,
    report: Annotated[
        bool,
        typer.Option(
            "--report", help="Also DIR.private/report.html; it uses the private data: do not release."
        ),
    ] = False,
    sample_seed: Annotated[int | None, typer.Option(help="Fixes everything after the noise.")] = None,
    seed: Annotated[
        int | None, typer.Option(help="Tests only: fixes the noise; the result protects nobody.", hidden=True)
    ] = None,
    diagnose: Annotated[
        bool,
        typer.Option("--diagnose", help="Also DIR.private/check.json: what `fastdp check` says of the data."),
    ] = False,
    ignore_empty_columns: Annotated[
        bool,
        typer.Option(
            "--ignore-empty-columns",
            help="Do not stop where the noisy 1-ways say that a column holds no known value.",
        ),
    ] = False,
    yes: Yes = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Make private synthetic data.

    The run folder appears whole or not at all: synthetic.parquet (or shards in synthetic/), privacy.json,
    model.fastdp, measurements.parquet with standard errors, schema.json. Timings, the report and the state to
    resume from are next to it in DIR.private.
    """
    tables = linked_sources(data or [], schema, mechanism, engine)
    files = () if engine == "spark" else data or () if tables is None else tables.values()
    check_paths(*files, public, schema=schema)
    from ..mechanisms.recipe import load
    from ..mechanisms.shared.size_limits import parse_bytes
    from ..run.result import LinkedRun
    from ..run.spec import Options
    from ..run.synthesize import watched
    from .show import progress_for, run_summary

    given = {name: value for name, value in locals().items() if name in Options.__annotations__}
    numbers = epsilons(epsilon)
    ask_first(numbers, delta, yes)
    if master is not None and engine != "spark":
        raise UsageError("--master needs --engine spark")
    if engine == "spark" and (sql is not None or not data):
        raise UsageError("--engine spark needs DATA: files that Spark can see, or table:NAME of its catalog")
    source = None if engine == "spark" else tables or source_of(data or [], sql)
    if out is None:
        if tables or not data or data[0].startswith("table:") or "://" in data[0]:
            raise UsageError("--out is required: it names the run folder")
        out = beside(data[0], ".synthetic")
    if data and not tables and schema is None and domain is None and load(mechanism).schema is None:
        schema = schema_beside(data[0])
    status = interrupt.watch_run()
    with (
        rows_of_spark(data, master) if engine == "spark" else nullcontext(source) as rows_in,
        progress_for(quiet or as_json) as callback,
    ):
        made = watched(
            status,
            rows_in,
            mechanism,
            numbers if len(numbers) > 1 else numbers[0],
            delta,
            given
            | {
                "schema": schema,
                "dialect": dialect_of(dialect),
                "memory": None if memory is None else parse_bytes(memory),
                "progress": callback,
                "out": out,
                "clip": clip_of(clip),
            },
        )
    runs = (
        made if isinstance(made, list) else [*made.runs.values()] if isinstance(made, LinkedRun) else [made]
    )
    if as_json:
        emit({"out": str(out), "runs": [{"out": str(r.out), "privacy": r.privacy} for r in runs]})
    elif not quiet:
        run_summary(out, runs, report=report)


def rows_of_spark(data: list[str] | None, master: str | None) -> AbstractContextManager[Any]:
    """A context in which Spark reads the rows: it opens a new Spark session and closes it at the end."""
    from ..engines.sparksource import opened

    return opened(data or [], master)


def source_of(data: list[str], query: str | None) -> Any:
    """The source of a run: the named files, or the rows of the query."""
    if (query is None) == (not data):
        raise UsageError("synth needs the private data: give DATA, or --sql with a select")
    if query is None:
        return data if len(data) > 1 else data[0]
    from ..tables.sql import connect
    from ..tables.sql import sql as rows_of

    return rows_of(connect(), query)


@app.command(
    epilog="Example:\n\n\b\n  fastdp plan --mechanism taxi-adagrid --epsilon 1 --delta 2.5e-5 --rows 10000000"
)
def plan(
    epsilon: Epsilons,
    delta: Delta = 1e-9,
    mechanism: Mechanism = "auto",
    schema: SchemaOption = None,
    rows: Annotated[
        str | None,
        typer.Option(
            help="Rows expected (needed): for memory, time and verdict. Linked tables: NAME=N,NAME=N."
        ),
    ] = None,
    users: Annotated[int | None, typer.Option(help="Users expected, for the verdict.")] = None,
    public: Annotated[
        str | None, typer.Option(help="Public data the run would be given; tells the clip's bias.")
    ] = None,
    dialect: DialectOption = None,
    clip: Clip = None,
    max_cells: MaxCells = None,
    memory: Memory = None,
    threads: Threads = None,
    as_json: Json = False,
) -> None:
    """What a run would measure: noise per cell, detectable counts, model size, memory, time. Needs no data.

    Exit code 8 means that the model may exceed its limit: such a run would be refused.
    """
    check_paths(public, schema=schema)
    from ..mechanisms.shared.size_limits import parse_bytes
    from ..run.plan import plan as make
    from ..run.plan import public_table

    table = False if public is None else public_table(public, schema, mechanism, threads, dialect_of(dialect))
    plans = [
        make(
            schema,
            mechanism,
            e,
            delta,
            rows=rows_of(rows),
            users=users,
            public=table,
            threads=threads,
            clip=clip_of(clip),
            max_cells=max_cells,
            memory=None if memory is None else parse_bytes(memory),
        )
        for e in epsilons(epsilon)
    ]
    for text in (*weak_promises(epsilons(epsilon), delta), *refusals(epsilons(epsilon), delta)):
        typer.echo(f"fastdp: warning: {text}", err=True)
    if as_json:
        emit([p.to_dict() for p in plans])
    else:
        for p in plans:
            typer.echo(as_options(str(p)))
    if refused := [p.too_large for p in plans if p.too_large]:
        typer.echo(f"fastdp: {as_options(refused[0])}", err=True)
        raise typer.Exit(ModelTooLargeError.exit_code)


@app.command(epilog="Example:\n\n\b\n  fastdp simulate taxi --rows 1000000 --seed 1 --out trips.parquet")
def simulate(
    kind: Annotated[str, typer.Argument(help="taxi, incidents, census, flights or households.")],
    rows: Annotated[int, typer.Option(help="Rows to make; of households, so many of them.")],
    out: Annotated[
        Path,
        typer.Option(
            "--out", "-o", help="File to write: Parquet, or CSV by its ending; of households, a folder."
        ),
    ],
    seed: Annotated[int, typer.Option(help="Seed.")] = 0,
    year: Annotated[int | None, typer.Option(help="Year (taxi, incidents, flights).")] = None,
    as_json: Json = False,
) -> None:
    """Simulated tables to try things on; no real record inside."""
    from .. import simulate as simulators

    kinds = ("taxi", "incidents", "census", "flights", "households")
    maker = getattr(simulators, kind, None) if kind in kinds else None
    if maker is None:
        raise UsageError(f"there is no simulator {kind!r}{did_you_mean(kind, kinds)}")
    if rows < 0:
        raise UsageError(f"--rows must be >= 0, got {rows}")
    extra = {} if year is None else {"year": year}
    if extra and kind in ("census", "households"):
        raise UsageError("--year is for taxi, incidents and flights")
    write_tables(maker(rows, seed=seed, **extra), out)
    if as_json:
        emit({"out": str(out), "kind": kind, "rows": rows, "seed": seed, **extra})


@app.command(
    epilog="Example:\n\n\b\n  fastdp calibrate --epsilon 1 --delta 2.5e-5 --sensitivity 150 --count 66"
)
def calibrate(
    epsilon: Annotated[float, typer.Option("--epsilon", "-e")],
    delta: Delta,
    sensitivity: Annotated[float, typer.Option(help="L2 sensitivity of one measurement to one user.")] = 1.0,
    count: Annotated[int, typer.Option(help="Number of measurements that share the budget.")] = 1,
    method: Annotated[str, typer.Option(help="gdp, classic-rdp, classic-gaussian or laplace.")] = "gdp",
    as_json: Json = False,
) -> None:
    """The noise scale for a budget, rounded up."""
    from ..privacy.calibrate import calibrate as sigma_of

    sigma = sigma_of(epsilon, delta, sensitivity, count, method)
    if as_json:
        emit({"sigma": sigma, "method": method})
    else:
        typer.echo(repr(sigma))


@app.command(epilog="Example:\n\n\b\n  fastdp doctor")
def doctor(as_json: Json = False) -> None:
    """Show what is installed: version, kernels, threads, packages.

    Exit code 1 if something is wrong.
    """
    from .doctor import facts, text

    report = facts()
    emit(report) if as_json else typer.echo(text(report))
    if report["problems"]:
        raise typer.Exit(1)


@app.command("verify", epilog="Example:\n\n\b\n  fastdp verify run")
def verify_run(
    folder: Annotated[Path, typer.Argument(help="A run folder.")],
    ledger: Annotated[str | None, typer.Option(help="The run's ledger: needed to detect a forgery.")] = None,
    as_json: Json = False,
) -> None:
    """Recompute a run's epsilon from its statement, check every hash, compare measurements, schema and model
    with the statement and, with --ledger, with what was drawn; fail if something private lies in the folder.
    """
    from ..run.verify import verify

    verdict = verify(folder, ledger=ledger)
    if as_json:
        facts = {"epsilon": verdict.epsilon, "delta": verdict.delta, "private": verdict.private}
        emit({"ok": verdict.ok, **facts, "notes": list(verdict.notes)})
        return
    typer.echo(f"{folder}: the statement holds, epsilon {verdict.epsilon:.6g} at delta {verdict.delta:g}")
    if not verdict.private:
        typer.echo("NOT PRIVATE: the noise was drawn from a known seed")
    for note in verdict.notes:
        typer.echo(f"Note: {as_options(note)}.")


def clip_of(text: str | None) -> int | str | None:
    """The clip as a number if the text is one, such as `150`; any other text unchanged, for the recipe to
    parse."""
    return int(text) if text is not None and text.isdecimal() else text


def epsilons(text: str) -> list[float]:
    """`1` or `1,10` as numbers; UsageError otherwise."""
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise UsageError(f"--epsilon: expected numbers separated by commas, got {text!r}") from None


def main(arguments: list[str] | None = None) -> None:
    """Runs the program. Exit code: 0, or the code of the error's class (see fastdp.errors); 130 after Ctrl-C,
    143 after SIGTERM."""
    if arguments is None:
        arguments = sys.argv[1:]
        # This process is the run's own. It makes few cycles and many lasting objects: searching them for
        # cycles, and all of them once more at the end, took a third of a second.
        gc.set_threshold(20_000, 20, 50)
        atexit.register(gc.freeze)
        # Threads of BLAS spin for a while as soon as numpy and scipy are imported; nothing here needs them.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    interruption = interrupt.begin(arguments)
    try:
        with interruption.heard():
            app(args=arguments, standalone_mode=True)
    except interrupt.Stopped:
        interruption.end()
    except FastdpError as error:
        interruption.end()
        if "--json" in arguments:
            kind, text = type(error).__name__, as_options(str(error))
            emit({"error": {"kind": kind, "text": text, "exit_code": error.exit_code}})
        typer.echo(f"fastdp: {as_options(str(error))}", err=True)
        sys.exit(error.exit_code)
    except MemoryError:
        interruption.end()
        typer.echo(f"fastdp: {interruption.out_of_memory()}", err=True)
        sys.exit(ModelTooLargeError.exit_code)
