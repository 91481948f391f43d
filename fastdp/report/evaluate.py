"""`fastdp.evaluate`: scores of synthetic tables against the truth, and the page that shows them.
NOT private."""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from .._util.files import as_path, local_path, synthetic_path
from .._util.notebook_progress import SHORT, progress_callback
from .._util.progress import Reporter
from ..catalogs.about import About, read_about
from ..errors import UsageError
from ..metrics.baselines import FRACTIONS
from ..metrics.causes import Released
from ..metrics.inputs import TRUTH, as_arrow
from ..metrics.linked_scores import linked_scores
from ..metrics.scores import Asked, score, several
from ..schema import Schema
from ..schema.dialect import Dialect
from ..schema.linked_schema import LinkedSchema, is_linked
from ..tables.row_periods import of_one_period
from ..tables.sources.source import Source
from ..tables.whole_table import read_whole
from . import linked_page, quotes, runs
from .page import collect, write
from .release_facts import release_facts

STAGES = {"read": 0.2, "score": 0.6, "links": 0.1, "page": 0.1}
"""An evaluation's stages in order, and the part of its time each usually takes."""


def evaluate(
    truth: Any,
    synthetic: Any,
    schema: Schema | str | os.PathLike[str] | None = None,
    metrics: Asked | Sequence[Asked] | None = None,
    report: Any = None,
    *,
    user: str | None = None,
    k: int = 3,
    marginals: int = 200,
    target: str | None = None,
    baselines: Sequence[float] | None = None,
    seed: int = 0,
    threads: int | None = None,
    run: Any = None,
    title: str | None = None,
    about: Any = None,
    progress: Any = None,
) -> dict[str, Any]:
    """Compare a synthetic table with the truth; returns plain data that JSON can hold. NOT
    private: the result must not be released.

    Parameters
    ----------
    truth : path, pyarrow table, polars or pandas frame, Arrow stream or fastdp.Table
        The true rows.
    synthetic : the same, a `Run`, or the path of a run folder
        A run is scored under its own schema. A mapping from name to any of these: the result is a mapping
        from name to result. A `LinkedRun`, its folder, or a mapping with a schema of linked tables: then
        `truth` is a mapping from each table's name to its rows, and the result has `tables` (what follows, by
        table) and `links` (by child table: `integrity`, `children`, `pairs`, `between`). A histogram made by
        the usercounts mechanism counts as the events it stands for.
    schema : Schema, path or built-in name, optional
        How columns become codes; without one, the union of both tables' values, and 20 quantile bins of the
        truth for numbers with more than 100 values.
    metrics : str, function, or sequence of these, optional
        Names of metrics, or "pairwise" (tv1, tv2, correlation, association), or "all" (every one that
        applies), or functions of your own (docs/guide/own-metrics.md). None: original, kmarginal, and
        deid2 or sprint1 where their columns are there. With a report also tv1, tv2, coverage, and users
        where both tables have them.
    report : path, optional
        Where the HTML page is written, with `run` (its facts) and `title`. Linked tables have one page.
    about : About, mapping or path of a TOML file, optional
        What the page's head says: title, license, contact, date and more, as in `fastdp.export`.
    user : str, optional
        The id column to leave out (with a schema: its own).
    k, marginals, seed : int
        Of the metric kmarginal: the number of columns of a marginal, how many marginals are compared at most,
        and the seed by which they are drawn.
    target : str, optional
        Column that the utility metric predicts.
    baselines : sequence of float, optional
        Fractions of the truth: a random sample of each is scored as well. None: 1 % and 10 %; (): no sample.
    threads : int, optional
        None: all cores the process may use.
    progress : callable, optional
        Called with a `Progress`, from any thread, while tables are read and compared. None: a bar in
        notebooks if it takes longer than usual, nothing elsewhere; False: never.

    Returns
    -------
    dict
        A metric's key is there only if the metric was asked for:

        ```text
        private     False, always
        rows        {"truth": n, "synthetic": m}
        columns     {name: {"codes": n, "encoding": "schema" | "values" | "bins"}}
        original    worst (kind, what, wrong: the worst of all below), kinds (column, pair, correlation,
                    mean, gap, identity, dependency: what, wrong, mean, sample, items), columns (total
                    variation); in the original values, so what the schema lost counts; wrong is 0 to 1
        causes      columns, pairs, mean: the parts of domain, bins, clip, noise and model in wrong,
                    which they add up to (None: not told from the next); with a report and a schema
        deid2       k_marginal_score, pickup_dropoff_score, higher_order_conjunction (0..1),
                    overall (0..1000), areas, shifts, by_area, by_shift, grid [area][shift]
                    (k-marginal score of the group, None: no rows)
        sprint1     score (0..1), sum, rows, neighborhoods, by_neighborhood, periods, by_period
        nist2018    score, three_way, conjunctions, income (0..1; income may be None)
        kmarginal   score (0..1000), k, marginals, possible, sampled, seed, mean_variation, worst
        tv1         mean, max, by_column
        tv2         mean, max, columns, matrix (total variation of each pair; 1-way on the diagonal)
        correlation mean, max, columns, truth, synthetic, difference (matrices; left out with < 2
                    ordered columns)
        association the same with Cramer's V
        constraints synthetic (rows that break one), broken (constraint, truth, synthetic: rows that
                    break it); where the schema has constraints
        coverage    missing, invented (shares of distinct values), columns
        users       rows, agreement, constant, distinct (differences of users' behaviour),
                    rows_per_user, columns; where the schema names a user column that both tables have
        NAME        what your own function of that name returned
        utility     score, target, model, measure, synthetic, truth, constant
        baselines   {"1 % sample": {"deid2": {...}, "kmarginal": {...}, "tv1": ..., "tv2": ...}, ...}:
                    the same keys, for random rows of the truth in place of the synthetic table
        seconds     {metric: s}
        ```
    """
    report = None if report is None else as_path(report, "report=")
    options = dict(user=user, k=k, marginals=marginals, target=target, seed=seed, threads=threads)
    fractions = FRACTIONS if baselines is None else tuple(baselines)
    head = _Head(title, read_about(about))
    reporter = Reporter(progress_callback(progress, SHORT), stages=STAGES)
    own = getattr(synthetic, "schema", None)
    with reporter.watching():
        if is_linked(schema) or isinstance(own, LinkedSchema) or _linked_folder(synthetic):
            return _linked(
                truth,
                synthetic,
                schema,
                metrics=metrics,
                report=report,
                fractions=fractions,
                options=options,
                head=head,
                reporter=reporter,
            )
        return _compared(
            truth,
            synthetic,
            schema,
            run=run,
            metrics=metrics,
            report=report,
            fractions=fractions,
            options=options,
            head=head,
            reporter=reporter,
        )


class _Head(NamedTuple):
    """What the head of the page says beside its figures."""

    title: str | None
    about: About

    def words(self, place: Path | None) -> dict[str, Any]:
        return {
            "title": self.title or self.about.title,
            "about": release_facts(self.about, place),
        }


def _part(
    reporter: Reporter, number: int, tables: int, name: str = ""
) -> Callable[[float, str], None]:
    """Tells the progress of one table's scores, the `number`th of so many `tables`: what part of the
    table is done, 0..1, and which metric comes next."""

    def note(done: float, metric: str) -> None:
        text = f"{name}: comparing by {metric}" if name else f"comparing by {metric}"
        reporter.check()
        reporter.update("score", (number + done) / tables, text)

    return note


class _Opened(NamedTuple):
    """Synthetic rows, and of a run or its folder also the schema, what it released, and where."""

    rows: Any
    schema: Schema | None = None
    facts: Any = None
    place: Path | None = None


def _compared(
    truth: Any,
    synthetic: Any,
    schema: Any,
    *,
    run: Any,
    metrics: Any,
    report: Any,
    fractions: tuple[float, ...],
    options: dict[str, Any],
    head: _Head,
    reporter: Reporter,
) -> dict[str, Any]:
    """Scores of one synthetic table, or of several by name, and their page."""
    reporter.update("read", 0.0, "reading the tables")
    many = several(synthetic)
    opened = {
        str(name): _opened(rows)
        for name, rows in (synthetic if many else {"synthetic": synthetic}).items()
    }
    if schema is None:
        schema = next((one.schema for one in opened.values() if one.schema is not None), None)
    schema = None if schema is None else Schema.of(schema)
    truth = _read_once(truth, schema, TRUTH)
    tables = {name: _read_once(one.rows, None, name) for name, one in opened.items()}
    facts = {name: one.facts if run is None or many else run for name, one in opened.items()}
    out: dict[str, Any] = {}
    for name, table in tables.items():
        note = _part(reporter, len(out), len(tables), name if many else "")
        released = _released(facts[name], schema)
        out[name] = score(
            truth,
            table,
            schema,
            metrics=metrics,
            reporting=report is not None,
            fractions=fractions,
            options=options,
            released=released,
            note=note,
        )
    if report is not None:
        reporter.update("page", 0.0, "writing the page")
        page_run = list(facts.values()) if many and run is None else run or facts.get("synthetic")
        scores = list(out.values())
        place = None if many else opened["synthetic"].place
        write(report, collect(truth, tables, schema, scores, page_run, **head.words(place)))
    return out if many else out["synthetic"]


def _released(run: Any, schema: Schema | None) -> Released:
    """What the parts of the error are computed from."""
    statement = runs.statement_of(run)
    clip = None if statement is None else runs.promise(statement)["bound"]
    return Released(quotes.facts_of(run, schema), clip)


def _read_once(source: Any, schema: Schema | None, what: str) -> Any:
    """A table of codes unchanged, anything else as values in memory: metrics and page both use
    it."""
    source = _in_dialect(source, schema)
    if hasattr(source, "codes"):
        return source
    if isinstance(source, Source) and source.encoded is not None:
        return source.encoded
    table = as_arrow(source, what, _listed_texts(schema))
    period = None if schema is None else schema.period
    return table if period is None else of_one_period(table, period)


def _in_dialect(truth: Any, schema: Schema | None) -> Any:
    """The truth, read in the schema's dialect where that is not the usual one and the truth is
    files."""
    files = isinstance(truth, str | os.PathLike | list | tuple | Source)
    if schema is None or schema.dialect == Dialect() or not files:
        return truth
    return read_whole(truth, schema.dialect, texts=_listed_texts(schema))


def _listed_texts(schema: Schema | None) -> list[str]:
    """The columns whose values the schema lists as texts: `true` and `false` among them are no truth
    values, which the schema's list would not have."""
    fields = {} if schema is None else schema.columns
    return [c.source for c in fields.values() if c.kind == "categorical" and c.dtype == "string"]


def _linked_folder(synthetic: Any) -> bool:
    return (
        isinstance(synthetic, str | os.PathLike) and (_local(synthetic) / "tables.json").is_file()
    )


def _local(source: str | os.PathLike[str]) -> Path:
    return Path(local_path(os.fspath(source)))


def _linked(
    truth: Any,
    synthetic: Any,
    schema: Any,
    *,
    metrics: Any,
    report: Any,
    fractions: Any,
    options: dict,
    head: _Head,
    reporter: Reporter,
) -> dict[str, Any]:
    """Scores of each table by itself, and of how the tables are linked; one page for all."""
    reporter.update("read", 0.0, "reading the tables")
    place = None
    facts: Mapping[str, Any] = {}
    if _linked_folder(synthetic):
        place = _local(synthetic)
        schema = place / "tables.json" if schema is None else schema
        linked = LinkedSchema.of(schema)
        folders = {name: place / f"table-{name}" for name in linked.tables}
        synthetic = {name: synthetic_path(folder) for name, folder in folders.items()}
        facts = {name: runs.folder(folder) for name, folder in folders.items()}
        place = next(iter(folders.values()))
    else:
        linked = LinkedSchema.of(synthetic.schema if schema is None else schema)
        facts = getattr(synthetic, "runs", facts)
        synthetic = getattr(synthetic, "data", synthetic)
    for what, tables in (("truth", truth), ("synthetic", synthetic)):
        if not isinstance(tables, Mapping) or set(tables) != set(linked.tables):
            raise UsageError(
                f"{what}: give the tables {', '.join(linked.tables)} as {{NAME: source, ...}}"
            )
    out: dict[str, Any] = {"private": False, "tables": {}}
    true = {name: _read_once(truth[name], own, TRUTH) for name, own in linked.tables.items()}
    made = {name: _read_once(synthetic[name], None, name) for name in linked.tables}
    for name, own in linked.tables.items():
        note = _part(reporter, len(out["tables"]), len(linked.tables), name)
        released = _released(facts.get(name), own)
        out["tables"][name] = score(
            true[name],
            made[name],
            own,
            metrics=metrics,
            reporting=report is not None,
            fractions=fractions,
            options=options,
            released=released,
            note=note,
        )
    reporter.update("links", 0.0, "comparing the links")
    out["links"] = linked_scores(true, made, linked, options["threads"])
    if report is not None:
        reporter.update("page", 0.0, "writing the page")
        words = head.words(place)
        write(report, linked_page.collect(linked, true, made, out, facts, **words))
    return out


def _opened(synthetic: Any) -> _Opened:
    """The rows of anything that may be compared."""
    if hasattr(synthetic, "privacy"):  # a fastdp.Run
        inside = synthetic.out is None
        rows = synthetic.reader().read_all() if inside else synthetic_path(synthetic.out)
        return _Opened(rows, synthetic.schema, synthetic, synthetic.out)
    if isinstance(synthetic, str | os.PathLike) and (_local(synthetic) / "privacy.json").is_file():
        place = _local(synthetic)
        found = runs.folder(place)
        return _Opened(synthetic_path(place), found["schema"], found, place)
    return _Opened(synthetic)
