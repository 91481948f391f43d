"""Arguments of the commands that name linked tables."""

from pathlib import Path
from typing import Any

from .._util.files import as_path, local_path
from ..errors import UsageError


def linked_sources(
    data: list[str], schema: str | None, mechanism: str, engine: str | None
) -> dict[str, str] | None:
    """The files of linked tables, given as NAME=FILE; None if the schema is that of one table."""
    if not any("=" in item for item in data):
        return None
    from ..mechanisms.recipe import load
    from ..schema.linked_schema import is_linked

    if schema is not None and not as_path(schema, "schema=").exists():
        _check_files(data, f"{schema!r} is not the file of a schema of linked tables")
        return None
    if not is_linked(load(mechanism).schema if schema is None else schema):
        _check_files(data, "the schema is that of one table: give --schema with [tables]")
        return None
    if engine is not None:
        raise UsageError(
            "--engine: linked tables of files are counted here; for Spark use fastdp.synthesize"
        )
    return pairs(data, "a linked table is given as NAME=FILE")


def _check_files(data: list[str], why: str) -> None:
    """Raise where none of the data is a file whose name has a `=`: it is meant as linked tables."""
    if not any(Path(local_path(item)).exists() for item in data):
        raise UsageError(f"{data[0]}: NAME=FILE names one of linked tables, but {why}")


def truth_tables(truth: str, synthetic: str) -> dict[str, str] | None:
    """The files of linked tables, NAME=FILE,NAME=FILE, where SYNTHETIC is the folder of a run on
    such."""
    if not (Path(local_path(synthetic)) / "tables.json").is_file():
        return None
    return pairs(truth.split(","), "the truth of linked tables is NAME=FILE,NAME=FILE")


def pairs(items: list[str], expected: str) -> dict[str, str]:
    """NAME=VALUE items as a mapping."""
    found = dict(item.split("=", 1) for item in items if "=" in item)
    if len(found) != len(items):
        raise UsageError(f"{expected}, each name once; got {', '.join(items)}")
    return found


def rows_of(text: str | None) -> int | dict[str, int] | None:
    """`1000` as a number, `customers=1000,orders=5000` as numbers by table."""
    try:
        if text is None or "=" not in text:
            return None if text is None else int(text)
        return {
            n: int(v)
            for n, v in pairs(text.split(","), "--rows of linked tables is NAME=N").items()
        }
    except ValueError:
        raise UsageError(f"--rows: a whole number, or NAME=N,NAME=N, got {text!r}") from None


def write_tables(made: Any, out: Path) -> None:
    """Write a table to the file `out`, or linked tables to NAME.parquet in the folder `out`."""
    from ..run.run_files import write_rows

    tables = {out: made}
    if isinstance(made, dict):
        out.mkdir(parents=True, exist_ok=True)
        tables = {out / f"{name}.parquet": table for name, table in made.items()}
    for path, table in tables.items():
        write_rows(table.to_reader(), path)
