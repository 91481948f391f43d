"""Commands for the data's owner. They read the true rows, and nothing they print or write may be
released."""

import json
from pathlib import Path
from typing import Any

from ..errors import UsageError
from .common import (
    as_options,
    check_paths,
    dialect_of,
    emit,
    named_source,
    named_sources,
    print_result,
    schema_beside,
)
from .linked_options import truth_tables
from .parser import command


@command("evaluate")
def evaluate(
    truth: str,
    synthetic: str | None = None,
    source_kind: str | None = None,
    schema: str | None = None,
    metric: list[str] | None = None,
    out: Path | None = None,
    without_truth: bool = False,
    about: Path | None = None,
    as_json: bool = False,
) -> None:
    """Score synthetic data against the truth. It uses the private data: do not release scores or
    page."""
    if without_truth:
        from ..report.page import write_public

        if out is None:
            raise UsageError("--without-truth writes a page; name its file with --out")
        if source_kind is not None:
            raise UsageError("--without-truth reads no true rows, so there is nothing for --source")
        write_public(out, synthetic or truth, about)
        made = f"{out}: a page without the truth, from released numbers alone; it may be published"
        print_result({"out": str(out)}, made, as_json)
        return
    if synthetic is None:
        raise UsageError("evaluate needs two tables: the true data and the synthetic data")
    tables = truth_tables(truth, synthetic)
    files = [truth] if tables is None else [*tables.values()]
    check_paths(*(files if source_kind is None else ()), synthetic, schema=schema)
    from ..report.evaluate import evaluate as score
    from .show import linked_table, scores_table

    if about is not None and out is None:
        raise UsageError("--about is for the page; name its file with --out")
    page = None if out is None else str(out)
    rows: Any = truth
    if tables is not None:
        rows = named_sources(source_kind, tables)
    elif source_kind is not None:
        rows = named_source(source_kind, [truth])
    scores = score(rows, synthetic, schema=schema, metrics=metric, report=page, about=about)
    if as_json:
        emit(scores)
    elif tables is not None:
        linked_table(scores)
    else:
        scores_table(scores, out)


@command("check")
def check(
    data: list[str],
    source_kind: str | None = None,
    schema: str | None = None,
    mechanism: str = "auto",
    dialect: str | None = None,
    threads: int | None = None,
    out: Path | None = None,
    as_json: bool = False,
) -> None:
    """Check how private rows fit a schema: nulls, values outside it, wrong kinds, damaged lines,
    users.

    Only for the owner of the data: it reads the true rows, charges no budget, and nothing it prints
    may be released. It writes no file except --out.
    """
    check_paths(*(data if source_kind is None else ()), schema=schema)
    from ..metrics.check import check as look
    from ..run.folder import whole_file

    if schema is None and source_kind is None:
        schema = schema_beside(data[0])
    if schema is None:
        raise UsageError("check needs --schema: the schema that the run will use")
    source: Any = data if len(data) > 1 else data[0]
    if source_kind is not None:
        source = named_source(source_kind, data)
    style = dialect_of(dialect)
    report = look(source, schema, mechanism=mechanism, dialect=style, threads=threads)
    if out is not None:
        with whole_file(out) as part:
            part.write_text(json.dumps(report.to_dict(), indent=1) + "\n", "utf-8")
            part.chmod(0o600)
    print_result(report.to_dict(), as_options(str(report)), as_json)
