"""Commands for the data's owner. They read the true rows, and nothing they print or write may be released."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from ..errors import UsageError
from .common import (
    DialectOption,
    Json,
    SchemaOption,
    Threads,
    as_options,
    check_paths,
    dialect_of,
    emit,
    schema_beside,
)
from .linked_options import truth_tables

truth_app = typer.Typer()


@truth_app.command(
    epilog="Example:\n\n\b\n  fastdp evaluate truth.parquet run --metric deid2 --out report.html"
)
def evaluate(
    truth: Annotated[
        str,
        typer.Argument(help="The true data (linked tables: NAME=FILE,NAME=FILE). The result is NOT private."),
    ],
    synthetic: Annotated[str | None, typer.Argument(help="Synthetic data, or a run folder.")] = None,
    schema: SchemaOption = None,
    metric: Annotated[
        list[str] | None, typer.Option(help="Metric, may be repeated (default: what fits).")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Also write a page to look at (.html).")
    ] = None,
    without_truth: Annotated[
        bool,
        typer.Option(
            "--without-truth",
            help="Write the page that may be published, from a run folder alone: "
            "evaluate RUN --without-truth --out page.html",
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Score synthetic data against the truth. Sees the truth: scores and page are not for release."""
    if without_truth:
        from ..report.page import write_public

        if out is None:
            raise UsageError("--without-truth writes a page; name its file with --out")
        write_public(out, synthetic or truth)
        if as_json:
            emit({"out": str(out)})
        return
    if synthetic is None:
        raise UsageError("evaluate needs two tables: the true data and the synthetic data")
    tables = truth_tables(truth, synthetic)
    check_paths(*([truth] if tables is None else tables.values()), synthetic, schema=schema)
    from ..report.evaluate import evaluate as score
    from .show import linked_table, scores_table

    page = None if out is None else str(out)
    scores = score(tables or truth, synthetic, schema=schema, metrics=metric, report=page)
    if as_json:
        emit(scores)
    elif tables is not None:
        linked_table(scores)
    else:
        scores_table(scores, out)


@truth_app.command(
    epilog="Examples:\n\n\b\n  fastdp check trips.csv --schema trips.toml\n"
    "  fastdp check trips.csv --schema trips.toml --out check.json"
)
def check(
    data: Annotated[list[str], typer.Argument(help="The private data. The result is NOT private.")],
    schema: SchemaOption = None,
    dialect: DialectOption = None,
    threads: Threads = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Also write what was found, as JSON, readable by you.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Check how private rows fit a schema: nulls, values outside it, wrong kinds, damaged lines, users.

    For the data's owner: it sees the true rows, is charged to no budget, and nothing of it is for release.
    Writes nothing but what --out names.
    """
    check_paths(*data, schema=schema)
    from ..metrics.check import check as look
    from ..run.folder import whole_file

    if schema is None:
        schema = schema_beside(data[0])
    if schema is None:
        raise UsageError("check needs --schema: the schema that the run will use")
    report = look(data if len(data) > 1 else data[0], schema, dialect=dialect_of(dialect), threads=threads)
    if out is not None:
        with whole_file(out) as part:
            part.write_text(json.dumps(report.to_dict(), indent=1) + "\n", "utf-8")
            part.chmod(0o600)
    emit(report.to_dict()) if as_json else typer.echo(as_options(str(report)))
