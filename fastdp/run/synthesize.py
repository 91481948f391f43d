"""`fastdp.synthesize`: private synthetic rows of a table.

It holds no global state; several runs may go on in one process at once.
"""

import os
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, Unpack, overload

from .._util import stores
from .._util.progress import LOG
from ..errors import Cancelled, FastdpError, ReportError, RunError, StoppedEarly, UsageError
from ..mechanisms.base import Config
from ..schema import Schema
from ..schema.linked_schema import is_linked
from ..tables.sources.source import Source, source_of
from .execute import execute, load_finished
from .folder import RunFolder
from .linked_result import LinkedRun
from .loading import load_run
from .result import Run
from .row_count_checks import UNSURE
from .spec import DEFAULT_DELTA, Options, RunOptions, RunSpec, lists_options
from .status import RunStatus
from .validate import validate

__all__ = ["synthesize"]

SAME_CALL = "the same call"
SAME_CALL_RESUMED = "the same call and resume=True"

Mechanism: TypeAlias = "str | os.PathLike[str] | Mapping[str, Any] | Config"


@overload
def synthesize(
    table: Mapping[str, Any],
    mechanism: Mechanism = "auto",
    *,
    epsilon: float,
    delta: float = 1e-9,
    **options: Unpack[Options],
) -> LinkedRun: ...
@overload
def synthesize(
    table: Any,
    mechanism: Mechanism = "auto",
    *,
    epsilon: float,
    delta: float = 1e-9,
    **options: Unpack[Options],
) -> Run: ...
@overload
def synthesize(
    table: Any,
    mechanism: Mechanism,
    epsilon: float,
    delta: float = 1e-9,
    **options: Unpack[Options],
) -> Run: ...
@overload
def synthesize(
    table: Any,
    mechanism: Mechanism = "auto",
    *,
    epsilon: Sequence[float],
    delta: float = 1e-9,
    **options: Unpack[Options],
) -> list[Run]: ...
@overload
def synthesize(
    table: Any,
    mechanism: Mechanism,
    epsilon: Sequence[float],
    delta: float = 1e-9,
    **options: Unpack[Options],
) -> list[Run]: ...
@lists_options
def synthesize(
    table: Any,
    mechanism: Mechanism = "auto",
    epsilon: float | Sequence[float] | None = None,
    delta: float = DEFAULT_DELTA,
    **options: Unpack[Options],
) -> Run | list[Run] | LinkedRun:
    """Private synthetic rows like those of `table`.

    Parameters
    ----------
    table : fastdp.Table, or any source that `fastdp.read` takes
        The private rows; a source needs `schema`, or a recipe that names one. Linked tables: a mapping from
        each table's name to its source, with a `LinkedSchema` (docs/tutorial/linked-tables.md).
    mechanism : str, path, mapping or config
        A mechanism's name, a recipe's name or path, its fields, or a config object; "auto" is `cliquetree`.
    epsilon : float or sequence of float
        The epsilon of the guarantee, positive; required, but in a series. Several: one joint reservation and
        a list of runs (with `out`, each in a folder eps-E).
    delta : float
        In [0, 1), far below 1 / number of people.
    schema : Schema, LinkedSchema, path or built-in name
        What the columns' codes mean; public.
    domain : "private", optional
        Without a schema: columns and types are those of the source, which are then public. Their
        values, bounds and edges are found in the run, within its budget (docs/guide/domains.md).
        With a schema: only columns that it marks `domain = "private"` are found, with or without
        this argument.
    user : str, optional
        With `domain` and no schema: the column that says whose row it is.
    values : mapping, optional
        Public lists of values, by column: a list, or a file with one value per line (also .csv, .json). Of
        columns whose domain is private; they cost no budget then. In place of the recipe's `values`.
    dialect : Dialect or mapping
        Dialect of text files, private and public, in place of the schema's.
    rows : int, optional
        Synthetic rows to make, a public number; None: the total estimated from the noisy answers.
    public, previous : source, or Table read with public=True; Run or folder, optional
        Public data, or the last release of a series, as a start; tested privately.
    ledger, dataset : Ledger, path or URL; str, optional
        The budget that is charged, and the data set's name in it. Without a ledger the statement
        says that other runs are not counted.
    series, period, late : str, str, bool, optional
        A series of the ledger, and the period of it to release, such as "2026-03". Only rows of that period
        are read. Epsilon and delta are the series' share for one period, unless they are given. `late`: a
        further release of a period, such as of late rows, charged on its own (docs/guide/series.md).
    seed : int, optional
        Fixes the noise. For tests only, refused with a ledger, stamps the statement private: false.
    sample_seed : int, optional
        Fixes what comes after the noise (rows, values, ids).
    threads : int, optional
        None: all cores the process may use. Results are the same for any number.
    memory, deadline : int (bytes), float (seconds), optional
        Memory and time that the model may need, turned into a limit on its size before data is read.
        `cliquetree` and `aim` choose a model within both (nothing is timed in the run); other mechanisms are
        refused where their model could need more memory.
    progress : callable, optional
        Called with a `Progress`, from any thread. None: a bar in notebooks, nothing elsewhere; False: never.
    cancel : callable or threading.Event, optional
        Stops the run when set, or when the call returns true; `Cancelled` is raised then.
    out : path, optional
        The run folder, which appears whole or not at all. Without it rows are made when asked for.
        An address such as s3://bucket/released/1: the run is made in the folder `1` here, then
        published there (`fastdp.publish`). With `resume` an upload is repeated at no charge.
    private_dir : path, optional
        The folder for what is not for release, in place of DIR.private next to `out`. It is new,
        empty, or this run's own from before. A resumed run needs it again.
    resume : bool
        Resume an interrupted run in `out`, with the noise it drew.
    report : bool
        Also write DIR.private/report.html, which uses the private data: do not release it.
    clip : int (rows) or "private", optional
        Rows of one user that count fully, in place of the recipe's. Linked tables: of one parent, or a
        mapping by child table.
    max_cells : int, optional
        Limit on the cells of the model, in place of the recipe's. A run that could need more is
        refused before anything is charged.
    engine : "local", "spark" or "sql", optional
        What counts: threads over one table, Spark's executors, or the database of `fastdp.sql`, which then
        sends sums and no rows (docs/guide/databases.md).
        None: "spark" for a Spark DataFrame, else "local". Results are the same to the bit; a run may be
        resumed with another engine. See docs/guide/several-processes.md.
    partitions : int, optional
        Number of partitions of engine "spark" (1 to 32768; None: two per task that Spark runs at once).
    numbers : sequence of str, or mapping, optional
        Numbers to measure beside the rows, such as "sum(amount) by month" or "share of users where
        rows > 1", in place of the recipe's. `run.numbers` has them with intervals. A mapping has
        `list`, `share` (of mu^2), `max` (per user) and `signed` (docs/reference/numbers.md).
    important : mapping, optional
        What matters more than the rest, with weights: `columns`, `pairs`, `numbers`, `users`. Shares of the
        budget follow from it, in place of the recipe's `important` (docs/guide/important.md). Public.
    ignore_empty_columns : bool
        Do not stop where the noisy 1-ways say that a column is almost all null or outside its domain.
    diagnose : bool
        Also write what `fastdp.check` says of the source into DIR.private/check.json and check.txt, which are
        for the data's owner and not for release. Reads the source a second time.

    Returns
    -------
    Run, list of Run, or LinkedRun
        One for one epsilon, a list for a sequence of them; a `LinkedRun` for linked tables.

    Raises
    ------
    FastdpError
        One of the classes in `fastdp.errors`; texts carry no private value. `StoppedEarly`: see
        `ignore_empty_columns`; only what was drawn by then is charged. `ReportError`: the run is
        complete (its `runs`), but the report is not. Any error after a charge says what is charged.
    """
    made = synthesize_watched(RunStatus(), table, mechanism, epsilon, delta, options)
    _warn_of_no_rows(made)
    return made


def _warn_of_no_rows(made: Run | list[Run] | LinkedRun) -> None:
    """Log a warning for each run whose number of rows is noise: its table may be empty. The command
    line prints the same text as a note."""
    several = list(made.runs.values()) if isinstance(made, LinkedRun) else made
    for run in several if isinstance(several, list) else [several]:
        if UNSURE in run.privacy.get("notes", ()):
            LOG.warning("fastdp: warning: %s; the table may be empty", UNSURE)


def synthesize_watched(
    status: RunStatus,
    table: Any,
    mechanism: Any,
    epsilon: Any,
    delta: Any,
    options: Mapping[str, Any],
) -> Run | list[Run] | LinkedRun:
    """`synthesize`, with a status that somebody else may ask while the run goes on."""
    given = RunOptions.of(options)
    if stores.is_store(given.out):
        return _published(status, table, mechanism, epsilon, delta, options)
    links = None
    measure = None
    if isinstance(table, Mapping) or is_linked(given.schema):
        from .linked_run import measure_linked
        from .linked_spec import validate_linked

        source: Any = _sources(table)
        linked = validate_linked(source, mechanism, epsilon, delta, given, status)
        spec: RunSpec = linked
        links = linked.links
        measure = measure_linked
    else:
        source = _source(table)
        spec = validate(source, mechanism, epsilon, delta, given, status)
    out = spec.options.out
    folder = None
    if out is not None:
        given_private = spec.options.private_dir
        folder = RunFolder(out, resume=spec.options.resume, private_dir=given_private).open()
    try:
        if folder is not None and folder.finished:
            done = load_finished(spec, folder)
        else:
            with spec.reporter.beating():
                done = execute(spec, source, folder, measure)
        if links is not None and isinstance(done, list):
            place = None if folder is None else folder.out
            return LinkedRun(dict(zip(links.names, done)), links.linked, place)
        return done
    except BaseException as error:
        if folder is not None:
            folder.abandon(keep=status.entered)
        _raise_with_charge(error, status)
        raise


def _raise_with_charge(error: BaseException, status: RunStatus) -> None:
    """Raise the error of a run with what is charged in its text; return where it says so itself, or
    nothing was charged, and where the program is to stop."""
    if isinstance(error, Cancelled):
        raise Cancelled(f"cancelled by the caller; {_charged(status)}") from None
    if not status.entered or isinstance(error, StoppedEarly | ReportError):
        return
    if isinstance(error, FastdpError | MemoryError):
        error.args = (f"{str(error) or 'out of memory'}; {_charged(status)}",)
    elif isinstance(error, OSError):
        raise RunError(f"{error.strerror or error}; {_charged(status)}") from None
    elif isinstance(error, Exception):
        kind = type(error).__name__
        raise RunError(f"{kind} in fastdp itself, please report it; {_charged(status)}") from error


def _published(
    status: RunStatus,
    table: Any,
    mechanism: Any,
    epsilon: Any,
    delta: Any,
    options: Mapping[str, Any],
) -> Run | list[Run] | LinkedRun:
    """A run that is made in a folder of this machine and then published in a store. Its ledger and
    private folder stay here. If the upload fails, the run is whole in its folder."""
    from .publish import check_free, local_folder, publish

    address = options["out"]
    if isinstance(epsilon, Sequence):
        raise UsageError(
            "out: several epsilons make several run folders; give a local out=, and publish each"
        )
    folder = local_folder(address)
    check_free(address, folder)
    if options.get("resume") and (folder / stores.STATEMENT).is_file():  # only the upload is left
        publish(folder, address)
        return load_run(folder)
    try:
        made = synthesize_watched(
            status, table, mechanism, epsilon, delta, {**options, "out": folder}
        )
    except ReportError:  # the run is whole, and its report is not for release
        publish(folder, address)
        raise
    publish(folder, address)
    return made


def _source(table: Any) -> Source:
    """The door of a run: what comes after it asks the source, and not what the caller gave."""
    if isinstance(table, Schema):
        raise UsageError("the first argument must be the data; pass the schema as schema=")
    return source_of(table)


def _sources(tables: Any) -> Any:
    """The same for linked tables; anything but a mapping is refused later."""
    if not isinstance(tables, Mapping):
        return tables
    return {name: source_of(one) for name, one in tables.items()}


def _charged(status: RunStatus) -> str:
    return status.text(SAME_CALL, SAME_CALL_RESUMED)
