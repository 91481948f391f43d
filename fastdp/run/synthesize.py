"""A run from end to end: reserve, read, measure, fit, sample, decode, write.

`synthesize` holds no global state; several runs may go on in one process at once.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict, Unpack, overload

from .._util.notebook import shown_by
from .._util.progress import Progress, Reporter
from .._util.threads import resolve
from ..errors import Cancelled, UsageError
from ..mechanisms import recipe as recipes
from ..privacy.clip import resolve as resolve_clip
from ..public.archetypes.store import schema_of
from ..schema import Schema
from .asked import (
    asked_schema,
    check_dataset,
    check_flags,
    check_rows,
    check_seeds,
    checked_epsilons,
    resolve_schema,
)
from .counting import engine_for, is_table
from .diagnosis import check_rereadable
from .folder import RunFolder
from .result import Run
from .standing import Standing
from .steps import already_done, go
from .work import Work

if TYPE_CHECKING:
    from ..mechanisms.base import Config
    from ..privacy.ledger import Ledger
    from ..schema.dialect import Dialect

__all__ = ["synthesize"]

Path = str | os.PathLike[str]


class Options(TypedDict, total=False):
    """The keywords of `synthesize`; see there."""

    schema: Schema | Path | None
    domain: str | None
    user: str | None
    dialect: Dialect | Mapping[str, Any] | None
    rows: int | None
    public: Any
    ledger: Ledger | Path | None
    dataset: str | None
    seed: int | None
    sample_seed: int | None
    threads: int | None
    memory: int | None
    deadline: float | None
    progress: Callable[[Progress], None] | Literal[False] | None
    cancel: Callable[[], bool] | threading.Event | None
    out: Path | None
    resume: bool
    report: bool
    clip: int | str | None
    max_cells: int | None
    engine: str | None
    partitions: int | None
    go_on: bool
    diagnose: bool
    _standing: Standing | None


Mechanism: TypeAlias = "str | os.PathLike[str] | Mapping[str, Any] | Config"


@overload
def synthesize(
    table: Any,
    mechanism: Mechanism = "auto",
    epsilon: float = 1.0,
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
def synthesize(
    table: Any,
    mechanism: Mechanism = "auto",
    epsilon: float | Sequence[float] = 1.0,
    delta: float = 1e-9,
    *,
    schema: Schema | Path | None = None,
    domain: str | None = None,
    user: str | None = None,
    dialect: Dialect | Mapping[str, Any] | None = None,
    rows: int | None = None,
    public: Any = None,
    ledger: Ledger | Path | None = None,
    dataset: str | None = None,
    seed: int | None = None,
    sample_seed: int | None = None,
    threads: int | None = None,
    memory: int | None = None,
    deadline: float | None = None,
    progress: Callable[[Progress], None] | Literal[False] | None = None,
    cancel: Callable[[], bool] | threading.Event | None = None,
    out: Path | None = None,
    resume: bool = False,
    report: bool = False,
    clip: int | str | None = None,
    max_cells: int | None = None,
    engine: str | None = None,
    partitions: int | None = None,
    go_on: bool = False,
    diagnose: bool = False,
    _standing: Standing | None = None,
) -> Run | list[Run]:
    """Private synthetic rows like those of `table`.

    Parameters
    ----------
    table : fastdp.Table, or any source that `fastdp.read` takes
        The private rows; a source needs `schema`, or a recipe that names one.
    mechanism : str, path, mapping or config
        A mechanism's name, a recipe's name or path, its fields, or a config object; "auto" is `cliquetree`.
    epsilon : float or sequence of float
        The epsilon of the promise, positive. Several: one joint reservation and a list of runs (with `out`,
        each in a folder eps-E).
    delta : float
        In [0, 1), far below 1 / number of people.
    schema : Schema, path or built-in name
        What the columns' codes mean; public.
    domain : "private", optional
        Without a schema: columns and types are those of the source, which are then public, and their values,
        bounds and edges are found in the run, within its budget (docs/domains.md). With a schema: only
        columns that it marks `domain = "private"` are found, with or without this argument.
    user : str, optional
        With `domain` and no schema: the column that says whose row it is.
    dialect : Dialect or mapping
        Dialect of text files, private and public, in place of the schema's.
    rows : int, optional
        Synthetic rows to make, a public number; None: the total estimated from the noisy answers.
    public : source or fastdp.Table read with public=True, optional
        Public data for user ids, and for mechanisms that use it.
    ledger : Ledger, path or URL, optional
        The budget that is charged; without one the statement says that other runs are not counted.
    dataset : str, optional
        The data set's name in the ledger.
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
    resume : bool
        Resume an interrupted run in `out`, with the noise it drew.
    report : bool
        Also write DIR.private/report.html, which sees the truth and is not for release.
    clip : int (rows) or "private", optional
        Rows of one user that count fully, in place of the recipe's.
    max_cells : int, optional
        Limit on the cells of the model, in place of the recipe's; a run that could need more is refused
        before anything is charged.
    engine : "local", "partitioned" or "spark", optional
        What counts: threads over one table, processes over partitions of users on disk, or Spark's executors.
        None: "spark" for a Spark DataFrame, else "local". Results are the same to the bit; a run may be
        resumed with another engine. See docs/scale.md.
    partitions : int, optional
        Number of partitions of engine "partitioned" (1 to 512; None: two per thread) or "spark" (1 to 32768;
        None: two per task that Spark runs at once).
    go_on : bool
        Do not stop where the noisy 1-ways say that a column is almost all null or outside its domain.
    diagnose : bool
        Also write what `fastdp.check` says of the source into DIR.private/check.json and check.txt, which are
        for the data's owner and not for release. Reads the source a second time.

    Returns
    -------
    Run, or list of Run
        One for one epsilon, a list for a sequence of them.

    Raises
    ------
    FastdpError
        One of the classes in `fastdp.errors`; texts carry no private value. `StoppedEarly`: see `go_on`; only
        what was drawn by then is charged.
    """
    if isinstance(table, Schema):
        raise UsageError("the first argument is the data; a schema goes to schema=")
    if public is not None and _same(public, table):
        raise UsageError(
            "public= is the private data itself, or shares a file or rows in memory with it: nothing of that "
            "would be protected"
        )
    several = isinstance(epsilon, Sequence)
    epsilons = checked_epsilons(epsilon, delta)
    check_rows(rows)
    check_seeds(seed, sample_seed)
    check_flags(resume=resume, report=report, go_on=go_on, diagnose=diagnose)
    check_dataset(dataset)
    if (resume or report or diagnose) and out is None:
        raise UsageError("resume, report and diagnose need out=, the run's folder")
    if diagnose:
        check_rereadable(table)
    if ledger is not None and seed is not None:
        raise UsageError("seed fixes the noise and is for tests only; it cannot be used with a ledger")
    resolve(threads)
    engine = engine_for(table, engine, partitions, report)
    recipe = recipes.load(mechanism).limited(clip=clip, max_cells=max_cells, memory=memory, deadline=deadline)
    if domain is not None or user is not None:
        schema = asked_schema(table, schema, domain, user, recipe, dialect)
    if is_table(table):
        schema = table.schema
    elif schema is None and recipe.schema is None:
        schema = schema_of(public)
    schema = resolve_schema(schema, recipe).with_dialect(dialect)
    likely = schema.stand_in()
    configs = [recipe.config(e).resolved(likely, e, float(delta)) for e in epsilons]
    for config in configs:
        resolve_clip(config.clip, schema)
        config.check_names(likely)
        config.check_all(likely)
    work = Work(
        schema=schema,
        recipe=recipe,
        configs=configs,
        epsilons=epsilons,
        delta=float(delta),
        rows=None if rows is None else int(rows),
        ledger=ledger,
        dataset=dataset,
        seed=None if seed is None else int(seed),
        sample_seed=None if sample_seed is None else int(sample_seed),
        threads=threads,
        reporter=Reporter(shown_by(progress), cancel, len(epsilons)),
        several=several,
        report=report,
        engine=engine,
        partitions=partitions,
        go_on=go_on,
        diagnose=diagnose,
        standing=_standing or Standing(),
    )
    folder = None if out is None else RunFolder(out, resume=resume)
    if folder is not None:
        folder.open()
    try:
        if folder is not None and folder.finished:
            return already_done(work, folder, public)
        return go(work, table, public, folder)
    except BaseException as error:
        if folder is not None:
            folder.abandon(keep=work.entered)
        if isinstance(error, Cancelled):
            text = work.standing.text("the same call", "the same call and resume=True")
            raise Cancelled(f"cancelled by the caller; {text}") from None
        raise


def _same(public: Any, private: Any) -> bool:
    """Whether the public data is the private source, or part of it, by mistake."""
    from ..tables.identity import overlap

    if public is private:
        return not (is_table(public) and public.public)
    return overlap(public, private)
