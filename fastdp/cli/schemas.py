"""`fastdp schema ...`: show, import, check, draft."""

import shlex
from pathlib import Path

from .._util.texttable import plural
from ..errors import UsageError
from .common import check_paths, dialect_of, emit, print_result, say
from .parser import command


@command("schema", "show")
def schema_show(source: str | None = None, as_json: bool = False) -> None:
    """Show a schema's columns; without an argument, list the built-in schemas."""
    from ..schema import Schema
    from ..schema.document import builtin_names

    if source is None:
        print_result(builtin_names(), "\n".join(builtin_names()), as_json)
        return
    schema = Schema.load(source)
    print_result(schema.to_dict(), schema.describe(), as_json)


@command("schema", "import")
def schema_import(
    form: str,
    source: Path,
    out: Path,
    user: str | None = None,
    table: str | None = None,
    as_json: bool = False,
) -> None:
    """Make a schema from a public code book, or from another project's description of a table."""
    from ..schema import Schema
    from ..schema.codebooks import READERS

    makers = {
        "deid2": lambda: Schema.from_deid2(source),
        "domain": lambda: Schema.from_domain(source, user=user),
    }
    if form not in makers and form not in READERS:
        known = ", ".join([*READERS, *makers])
        raise UsageError(f"there is no importer {form!r}; choose one of {known}")
    if form in makers:
        schema = makers[form]()
    else:
        schema = Schema.from_codebook(form, source, table=table, user=user)
    schema.save(out)
    if as_json:
        emit({"out": str(out), "schema": schema.to_dict()})


@command("schema", "check")
def schema_check(source: str, as_json: bool = False) -> None:
    """Check whether a schema is well-formed and its constraints can hold; the error names column
    and field.

    Reads the schema only. To check whether data fits it, use fastdp check.
    """
    from ..mechanisms import recipe as recipes
    from ..mechanisms.limits.structural_zeros import check_possible
    from ..schema import Schema
    from ..schema.wide_bins import wide_outer_bins

    schema = Schema.load(source)
    check_possible(schema.stand_in())
    recipes.check_config(recipes.load("auto").config(1.0), schema)
    if as_json:
        emit({"name": schema.name, "columns": len(schema.columns), "sha256": schema.digest()})
    else:
        say(f"{schema!r} is well-formed, sha256 {schema.digest()}")
        for text in wide_outer_bins(schema):
            say(f"Warning: {text}.")
        command = f"fastdp check DATA --schema {shlex.quote(source)}"
        say(f"Whether data fits it is for its owner to see: {command}")


@command("schema", "draft")
def schema_draft(
    source: str,
    out: Path,
    user: str | None = None,
    bins: int = 20,
    drop: list[str] | None = None,
    dialect: str | None = None,
    public: bool = False,
    as_json: bool = False,
) -> None:
    """Draft a first schema, to be edited by hand. Lines marked LEARNT were taken from the data.

    A schema is public. Draft from public data, or replace every LEARNT line by public knowledge.
    """
    check_paths(source)
    from ..tables.drafting import draft

    drafted = draft(
        source, user=user, bins=bins, drop=drop or (), dialect=dialect_of(dialect), public=public
    )
    drafted.save(out)
    if as_json:
        facts = {"left_out": dict(drafted.left_out), "users": [u.name for u in drafted.users]}
        emit(
            {
                "out": str(out),
                "schema": drafted.schema.to_dict(),
                **facts,
                "notes": list(drafted.notes),
            }
        )
        return
    say(f"{out}: {plural(len(drafted.schema.fields), 'column')}")
    for note in drafted.notes:
        say(note)
    if not public:
        say("Lines marked LEARNT were taken from the data: replace them by public knowledge.")
