"""`fastdp.evaluate`: scores of synthetic tables against the truth, and the page that shows them.
NOT private."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .._util.files import as_path, local_path, synthetic_path
from ..errors import UsageError
from ..metrics.baselines import FRACTIONS
from ..metrics.linked_scores import linked_scores
from ..metrics.scores import Asked, score, several
from ..schema import Schema
from ..schema.dialect import Dialect
from ..schema.linked_schema import LinkedSchema, is_linked
from ..tables.whole_table import read_whole
from . import runs
from .page import collect, write


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
        deid2 or
        sprint1 where their columns are there; with a report also tv1, tv2, coverage, and users where both
        tables have them.
    report : path, optional
        Where the HTML page is written, with `run` (its facts) and `title`.
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
    own = getattr(synthetic, "schema", None)
    if is_linked(schema) or isinstance(own, LinkedSchema) or _linked_folder(synthetic):
        return _linked(truth, synthetic, schema, metrics, report, fractions, options)
    many = several(synthetic)
    opened = {
        str(n): _opened(t) for n, t in (synthetic if many else {"synthetic": synthetic}).items()
    }
    tables = {name: table for name, (table, _, _) in opened.items()}
    if schema is None:
        schema = next((own for _, own, _ in opened.values() if own is not None), None)
    schema = None if schema is None else Schema.of(schema)
    truth = _in_dialect(truth, schema)
    out: dict[str, Any] = {
        name: score(truth, table, schema, metrics, report is not None, fractions, options)
        for name, table in tables.items()
    }
    if report is not None:
        own_run = None if many else opened["synthetic"][2]
        run = own_run if run is None else run
        write(report, collect(truth, tables, schema, list(out.values()), run, title=title))
    return out if many else out["synthetic"]


def _in_dialect(truth: Any, schema: Schema | None) -> Any:
    """The truth, read in the schema's dialect where that is not the usual one and the truth is
    files."""
    files = isinstance(truth, str | os.PathLike | list | tuple)
    if schema is None or schema.dialect == Dialect() or not files:
        return truth
    return read_whole(truth, schema.dialect)


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
    metrics: Any,
    report: Any,
    fractions: Any,
    options: dict,
) -> dict[str, Any]:
    """Scores of each table by itself, and of how the tables are linked."""
    if _linked_folder(synthetic):
        place = _local(synthetic)
        schema = place / "tables.json" if schema is None else schema
        linked = LinkedSchema.of(schema)
        synthetic = {name: synthetic_path(place / f"table-{name}") for name in linked.tables}
    else:
        linked = LinkedSchema.of(synthetic.schema if schema is None else schema)
        synthetic = getattr(synthetic, "data", synthetic)
    for what, tables in (("truth", truth), ("synthetic", synthetic)):
        if not isinstance(tables, Mapping) or set(tables) != set(linked.tables):
            raise UsageError(
                f"{what}: give the tables {', '.join(linked.tables)} as {{NAME: source, ...}}"
            )
    out: dict[str, Any] = {"private": False, "tables": {}}
    for name, own in linked.tables.items():
        page = None if report is None else Path(report).with_stem(f"{Path(report).stem}-{name}")
        real = _in_dialect(truth[name], own)
        scores = score(real, synthetic[name], own, metrics, page is not None, fractions, options)
        out["tables"][name] = scores
        if page is not None:
            facts = collect(real, synthetic[name], own, scores, None, title=f"Table {name}")
            write(page, facts)
    return out | {"links": linked_scores(truth, synthetic, linked, options["threads"])}


def _opened(synthetic: Any) -> tuple[Any, Schema | None, Any]:
    """(rows, schema, facts of the run) of a run or run folder; (synthetic, None, None) of anything
    else."""
    if hasattr(synthetic, "privacy"):  # a fastdp.Run
        if synthetic.out is None:
            rows = synthetic.reader().read_all()
        else:
            rows = synthetic_path(synthetic.out)
        return rows, synthetic.schema, synthetic
    if isinstance(synthetic, str | os.PathLike) and (_local(synthetic) / "privacy.json").is_file():
        place = _local(synthetic)
        return synthetic_path(place), Schema.load(place / "schema.json"), runs.folder(place)
    return synthetic, None, None
