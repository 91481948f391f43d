"""`fastdp schema ...`: show, import, check, draft."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from ..errors import UsageError
from .common import DialectOption, Json, check_paths, dialect_of, emit

schema_app = typer.Typer(help="Schemas: show, import, check, draft.", no_args_is_help=True)


@schema_app.command("show", epilog="Example:\n\n\b\n  fastdp schema show taxi-deid2")
def schema_show(
    source: Annotated[str | None, typer.Argument(help="File or name.")] = None, as_json: Json = False
) -> None:
    """Show a schema's columns; without an argument, list the built-in schemas."""
    from ..schema import Schema
    from ..schema.document import builtin_names

    if source is None:
        emit(builtin_names()) if as_json else typer.echo("\n".join(builtin_names()))
        return
    schema = Schema.load(source)
    emit(schema.to_dict()) if as_json else typer.echo(schema.describe())


@schema_app.command(
    "import",
    epilog="Examples:\n\n\b\n  fastdp schema import deid2 parameters.json --out taxi.toml\n"
    "  fastdp schema import domain domain.json --out adult.toml\n"
    "  fastdp schema import census2018 specs.json --values value-lists.json --out census.toml",
)
def schema_import(
    form: Annotated[str, typer.Argument(help="deid2, domain or census2018.")],
    source: Annotated[Path, typer.Argument(help="The file to import.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Schema to write (.toml or .json).")],
    values: Annotated[Path | None, typer.Option(help="Value lists (census2018).")] = None,
    user: Annotated[str | None, typer.Option(help="User column (domain).")] = None,
    as_json: Json = False,
) -> None:
    """Make a schema from another project's description of a table."""
    from ..schema import Schema

    makers = {
        "deid2": lambda: Schema.from_deid2(source),
        "domain": lambda: Schema.from_domain(source, user=user),
        "census2018": lambda: Schema.from_census2018(source, values),
    }
    if form not in makers:
        raise UsageError(f"there is no importer {form!r}; choose one of {', '.join(makers)}")
    schema = makers[form]()
    schema.save(out)
    if as_json:
        emit({"out": str(out), "schema": schema.to_dict()})


@schema_app.command("check", epilog="Example:\n\n\b\n  fastdp schema check trips.toml")
def schema_check(source: Annotated[str, typer.Argument(help="File or name.")], as_json: Json = False) -> None:
    """Check whether a schema is well-formed and its constraints can hold; the error names column and field.

    Reads the schema only. To check whether data fits it, use fastdp check.
    """
    from ..mechanisms.shared.structural_zeros import check_possible
    from ..schema import Schema

    schema = Schema.load(source)
    check_possible(schema.stand_in())
    if as_json:
        emit({"name": schema.name, "columns": len(schema.columns), "sha256": schema.digest()})
    else:
        typer.echo(f"{schema!r} is well-formed, sha256 {schema.digest()}")
        command = f"fastdp check DATA --schema {shlex.quote(source)}"
        typer.echo(f"Whether data fits it is for its owner to see: {command}")


@schema_app.command(
    "draft",
    epilog="Examples:\n\n\b\n  fastdp schema draft public-trips.parquet --user taxi_id --out trips.toml\n"
    "  fastdp schema draft people.csv --drop notes --drop photo --out people.toml",
)
def schema_draft(
    source: Annotated[str, typer.Argument(help="Data whose values and ranges end up in the schema.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Schema to write (.toml or .json).")],
    user: Annotated[str | None, typer.Option(help="User column: whose row it is.")] = None,
    bins: Annotated[int, typer.Option(help="Bins of numeric columns.")] = 20,
    drop: Annotated[list[str] | None, typer.Option(help="A column to leave out; may be repeated.")] = None,
    dialect: DialectOption = None,
    public: Annotated[
        bool,
        typer.Option(
            "--public", help="Everyone may look at the data: bins of equal counts, no LEARNT marks."
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Draft a first schema, to be edited by hand. Lines marked LEARNT were taken from the data.

    A schema is public. Draft from public data, or replace every LEARNT line by public knowledge.
    """
    check_paths(source)
    from ..tables.drafting import draft

    drafted = draft(source, user=user, bins=bins, drop=drop or (), dialect=dialect_of(dialect), public=public)
    drafted.save(out)
    if as_json:
        facts = {"left_out": dict(drafted.left_out), "users": [u.name for u in drafted.users]}
        emit({"out": str(out), "schema": drafted.schema.to_dict(), **facts, "notes": list(drafted.notes)})
        return
    typer.echo(f"{out}: {len(drafted.schema.fields)} columns")
    for note in drafted.notes:
        typer.echo(note)
    if not public:
        typer.echo("Lines marked LEARNT were taken from the data: replace them by public knowledge.")
