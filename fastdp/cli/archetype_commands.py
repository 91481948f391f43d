"""`fastdp archetypes ...`: fits a model to public data once, for use in many runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .common import DialectOption, Json, Mechanism, Quiet, SchemaOption, Threads, dialect_of, emit

archetypes_app = typer.Typer(help="Archetypes of users, from public data.", no_args_is_help=True)


@archetypes_app.command(
    "fit",
    epilog="Example:\n\n\b\n  fastdp archetypes fit trips-2019.parquet --mechanism taxi-archetypes --out A\n"
    "  fastdp synth trips.parquet -m taxi-archetypes -e 1 -d 2.5e-5 --public A --out run",
)
def archetypes_fit(
    public: Annotated[str, typer.Argument(help="PUBLIC data: files, a glob or a folder.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder to make.")],
    mechanism: Mechanism = "taxi-archetypes",
    schema: SchemaOption = None,
    dialect: DialectOption = None,
    archetypes: Annotated[
        str | None, typer.Option(help="How many, or auto: by the likelihood of public users held out.")
    ] = None,
    threads: Threads = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Fit archetypes of users, their habits and the chain of conditionals to public data, never to private
    data."""
    from ..run.archetype_folder import fit_folder
    from .show import archetypes_table

    style = dialect_of(dialect)
    fitted = fit_folder(
        public, out, mechanism, schema=schema, dialect=style, archetypes=archetypes, threads=threads
    )
    if as_json:
        emit({"out": str(out), **fitted})
    elif not quiet:
        archetypes_table(out, fitted)
