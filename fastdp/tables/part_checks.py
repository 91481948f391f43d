"""What is checked of a source before rows are encoded: its columns' names and types, and how it writes
decimals; of Arrow data from others also that offsets lie inside its buffers."""

from __future__ import annotations

from collections.abc import Sequence

from .._util.lazy import pa
from ..codec import encode
from ..errors import DataError, nearest
from ..schema import Schema, dtypes
from ..schema.entry import ANY
from . import reading
from .parts import Part
from .row_periods import check_type
from .userids import UserIndex


def checked_columns(
    parts: Sequence[Part], schema: Schema, users: UserIndex | None = None
) -> list[str]:
    """Names of the columns to read, the user column last; DataError if a part lacks one of them or
    has it in a type that cannot be read. `users`: has the kind of ids of tables that are linked
    with this one."""

    wanted = needed_columns(schema)
    users = UserIndex(schema.user or "") if users is None else users
    for part in parts:
        _check_part(part, schema, wanted, users)
    return wanted


def needed_columns(schema: Schema) -> list[str]:
    """Names of the columns that a schema reads, those of the unit last."""
    names = encode.source_columns(schema)
    names += [] if schema.period is None else [schema.period.of]
    return [name for name in dict.fromkeys(names) if name != schema.user] + (
        [] if schema.user is None else [schema.user]
    )


def _check_part(part: Part, schema: Schema, wanted: Sequence[str], users: UserIndex) -> None:
    """Checks names and types of a part's columns before any row is read; one error lists all
    problems. `users` has the kind of ids of the parts before."""

    problems = []
    lacking = 0
    for name in wanted:
        times = part.times(name)
        if times == 0:
            lacking += 1
            near = nearest(name, part.schema.names)
            problems.append(
                f"column {name!r} is missing{f' (did you mean {near!r}?)' if near else ''}"
            )
        elif times > 1:
            problems.append(f"column {name!r} occurs {times} times: rename one")
    if problems:
        also = f"; {part.unread}" if part.unread else ""
        problems.append(f"it has {', '.join(part.schema.names[:30])}{also}{part.hint}")
        named = [name for name in wanted if f"/{name}=" in part.where and not part.times(name)]
        if named:
            folder = part.where[: min(part.where.index(f"/{name}=") for name in named)]
            problems.append(f"folders are named by {', '.join(named)}: give {folder!r} instead")
        elif lacking and not part.hint:
            problems.append("the schema's names must be those of the data: change one of them")
        raise DataError(f"{part.where}: {'; '.join(problems)}")
    types = source_types(schema)
    typed = [n for n in wanted if n in types]
    fields = [
        pa.field(n, dtypes.arrow(types[n])) if part.is_text(n) else part.schema.field(n)
        for n in typed
    ]
    problems = encode.type_problems(schema.fields.values(), pa.schema(fields))
    if schema.user is not None:
        try:
            users.require_kind(users.prepare(pa.nulls(0, _type_of(part, schema.user))).kind)
            if schema.period is not None:
                check_type(_type_of(part, schema.period.of), schema.period, part.where)
        except DataError as error:
            problems.append(str(error))
    if problems:
        raise DataError(f"{part.where}: {'; '.join(problems)}")


def check_decimal_mark(parts: Sequence[Part], schema: Schema) -> None:
    """Raise DataError where a point or a comma may precede decimals and nothing says which. It is
    public: it says nothing of the rows."""
    families = ("float", "decimal")
    names = [
        name
        for name, field in schema.fields.items()
        if getattr(field, "wanted", "") == ANY
        or (dtypes.family(field.dtype) in families and not getattr(field, "whole", False))
    ]
    shown = ", ".join(map(repr, names[:3])) + (" ..." if len(names) > 3 else "")
    for part in parts:
        if part.either_mark and names:
            raise DataError(
                f"{part.where}: no comma stands between its values, so decimals may follow one, as in"
                ' 12,5, and nothing says whether they do; declare decimal = "," or decimal = "." in the'
                f" dialect (columns that may have decimals: {shown})"
            )


def _type_of(part: Part, name: str) -> pa.DataType:
    """The type in which a column is read, before its text is parsed."""
    return pa.binary() if part.is_text(name) else part.schema.field(name).type


def check_structure(parts: Sequence[Part], wanted: Sequence[str]) -> None:
    """Raise DataError if offsets or indices of Arrow tables and files point outside their
    buffers."""
    for part in parts:
        for unit in reading.guarded(part.where, part.units(wanted, None)) if part.arrow else ():
            for _ in reading.guarded(part.where, unit()):
                pass


def source_types(schema: Schema) -> dict[str, str]:
    """The schema's type of each source column."""
    return {field.source: field.dtype for field in schema.fields.values()}
