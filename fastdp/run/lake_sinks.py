"""Publishes the rows of a finished run as a lakehouse table: one transaction, which names the
statement.

A Delta table gets a new version, an Iceberg table a new snapshot. The SHA-256 of `privacy.json` is
in the same commit. A table that fastdp did not publish is never written to: it could be the private
one.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from .._util.files import as_path
from .._util.lazy import pa
from ..errors import RunError, UsageError
from .linked_result import LinkedRun
from .loading import load_run
from .result import Run
from .spark_output import for_spark, spark_schema

KEY = "fastdp.statement"
"""Where a commit names the SHA-256 of the statement."""
PREFIX = "delta:"


def is_lake(to: Any) -> bool:
    """Whether rows go to a lakehouse table: `delta:FOLDER`, or a table of pyiceberg."""
    if isinstance(to, str):
        return to.startswith(PREFIX)
    return type(to).__module__.startswith("pyiceberg.") and hasattr(to, "transaction")


def publish_rows(folder: Path, to: Any) -> str:
    """Write the rows of a verified run folder in one transaction; returns what the table is
    called. Where this run is the newest version already, nothing is done."""
    run = load_run(folder)
    if isinstance(run, LinkedRun) or not isinstance(run, Run):
        raise UsageError("a lakehouse table holds one table: publish each run folder by itself")
    statement = hashlib.sha256((folder / "privacy.json").read_bytes()).hexdigest()
    write = _to_delta if isinstance(to, str) else _to_iceberg
    return write(run, statement, to)


def _to_delta(run: Run, statement: str, to: str) -> str:
    """Write the rows as a version of a Delta Lake table, once for each statement; the place."""
    try:
        import deltalake
    except ImportError:
        raise UsageError(f"{to} needs deltalake: pip install 'fastdp[delta]'") from None
    place = str(as_path(to.removeprefix(PREFIX), "to"))
    if os.path.exists(place) and not deltalake.DeltaTable.is_deltatable(place):
        raise UsageError(f"to: {place!r} exists and is not a table of Delta Lake")
    if os.path.exists(place):
        commits = deltalake.DeltaTable(place).history()
        _check_ours([commit.get(KEY) for commit in commits], place)
        if commits[0].get(KEY) == statement:
            return place
    about = deltalake.CommitProperties(custom_metadata={KEY: statement})
    dataset = run.dataset
    schema = spark_schema(dataset.schema)

    def commit() -> None:
        reader = pa.RecordBatchReader.from_batches(schema, _batches(dataset))
        deltalake.write_deltalake(
            place,
            reader,
            mode="overwrite",
            schema_mode="overwrite",
            commit_properties=about,
        )

    _committed(run, commit, place)
    return place


def _to_iceberg(run: Run, statement: str, table: Any) -> str:
    """Write the rows as a snapshot of an Iceberg table, once for each statement; the place."""
    name = ".".join(table.name())
    table.refresh()
    before = table.properties.get(KEY)
    if table.current_snapshot() is not None:
        _check_ours([before], name)
    if before == statement:
        return name
    rows = run.to_arrow()
    wide = for_spark(rows).cast(_iceberg_schema(rows.schema))
    _check_columns(wide.schema, table.schema().as_arrow(), name)

    def commit() -> None:
        with table.transaction() as transaction:
            transaction.set_properties({KEY: statement})
            transaction.overwrite(wide)

    _committed(run, commit, name)
    return name


def _check_columns(rows: pa.Schema, table: pa.Schema, name: str) -> None:
    """Raise UsageError if the table has other columns than the rows."""
    ours, theirs = ({field.name: _kind(field.type) for field in one} for one in (rows, table))
    if ours == theirs:
        return
    names = [one for one in {**ours, **theirs} if ours.get(one) != theirs.get(one)]
    first = names[0]
    every = ", ".join(f"{field.name} {field.type}" for field in rows)
    raise UsageError(
        f"to: table {name!r} has other columns than the rows: {first!r} is"
        f" {theirs.get(first, 'not there')} in the table, {ours.get(first, 'not there')} in the rows;"
        f" make a table with the columns {every}"
    )


def _kind(of: pa.DataType) -> str:
    """The type of a column as Iceberg tells types apart."""
    if pa.types.is_timestamp(of):
        return "timestamp" if of.tz is None else "timestamp with a zone"
    return str(pa.string() if pa.types.is_large_string(of) else of)


def _check_ours(statements: list[str | None], name: str) -> None:
    """Raise UsageError if a version of the table was not published by fastdp."""
    if not all(statements):
        raise UsageError(
            f"to: {name!r} holds rows that fastdp did not publish; give a table of its own"
        )


def _committed(run: Run, commit: Callable[[], None], name: str) -> None:
    try:
        commit()
    except Exception as error:  # errors of the libraries have many classes
        raise RunError(
            f"{name}: the commit failed ({type(error).__name__}). The run folder {run.out} is whole,"
            " and the table is as it was; publish it again at no charge"
        ) from None


def _batches(dataset: Any) -> Iterator[pa.RecordBatch]:
    for batch in dataset.to_batches():
        yield from for_spark(pa.Table.from_batches([batch])).to_batches()


def _iceberg_schema(schema: pa.Schema) -> pa.Schema:
    """The columns in types that Iceberg has: Spark's, with whole numbers of 32 bits and more."""
    small = (pa.int8(), pa.int16())
    plain = spark_schema(schema)
    return pa.schema([f.with_type(pa.int32()) if f.type in small else f for f in plain])
