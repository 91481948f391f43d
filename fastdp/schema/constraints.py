"""Constraints: public knowledge about which rows can occur, as written in a schema (or a recipe),
and checks that they agree with the schema.

Nothing here reads rows. `codec.possible` translates constraints into codes; see
docs/guide/constraints.md.
"""

import math
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

import msgspec

from .._util.invalid import explain_invalid
from .._util.lazy import pa, pq
from ..errors import SchemaError
from .columns import Column
from .expression import Described, Expression, is_time

Value = int | float | str | bool
FOLLOW_CELLS = 1 << 17
"""A column that follows from others is modelled in two cases. A constraint of another kind names
it, so that the zeros of that constraint are exact; or its own constraint says so (`model`)."""


class Constraint(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    omit_defaults=True,
    rename={"sources": "from"},
):
    """One of

    - `columns` with `allowed` (only these combinations of values occur), or `forbidden` (these do
      not occur). A list in place of a value stands for each value of the list.
    - `columns` (general, detailed) with `divide`: general = floor(detailed / divide), if that is a
      value of the general column.
    - `require`: an expression that is true of every row.
    - `order`: columns whose values never decrease from one to the next (`strict`: always increase).
    - `column`, whose value follows from other columns: by the expression `follows`, or by `table`.
      The rows of `table` list values of the columns `from` and then the value of `column`. It may
      also be a public table with these columns: a frame, or the path of a CSV or Parquet file. A
      column of bins gets the number itself. `model`: whether `column` is part of the model
      nevertheless (None: if that is cheap and it is coarser than the columns it follows from).

    Nulls and overflow codes can occur together with every value; a column that follows from a null
    is null.
    """

    columns: tuple[str, ...] = ()
    allowed: tuple[tuple[Value | tuple[Value, ...], ...], ...] | None = None
    forbidden: tuple[tuple[Value | tuple[Value, ...], ...], ...] | None = None
    divide: int | None = None
    require: str | None = None
    order: tuple[str, ...] = ()
    strict: bool = False
    column: str | None = None
    follows: str | None = None
    sources: tuple[str, ...] = ()
    table: tuple[tuple[Value, ...], ...] | None = None
    model: bool | None = None
    note: str | None = None

    def __post_init__(self):
        listed = [k for k in ("allowed", "forbidden", "divide") if getattr(self, k) is not None]
        kinds = [*listed, *(k for k in ("require", "order", "column") if getattr(self, k))]
        if len(kinds) != 1:
            raise ValueError("expected one of allowed, forbidden, divide, require, order, column")
        if bool(listed) != bool(self.columns):
            raise ValueError(
                "columns: allowed, forbidden and divide need it; no other constraint takes it"
            )
        for names in (self.columns, self.order, self.sources):
            if len(set(names)) != len(names):
                raise ValueError("name each column once")
        if self.divide is not None and (len(self.columns) != 2 or self.divide < 1):
            raise ValueError("divide: expected a number >= 1 and two columns (general, detailed)")
        for combination in (*(self.allowed or ()), *(self.forbidden or ())):
            if len(combination) != len(self.columns):
                raise ValueError("each combination needs one value (or list of values) per column")
        if (self.strict and not self.order) or len(self.order) == 1:
            raise ValueError("order: expected two columns or more; strict needs order")
        if self.column is None and (
            self.follows or self.sources or self.table or self.model is not None
        ):
            raise ValueError("follows, from, table and model need `column`")
        if self.column is not None and (self.follows is None) == (
            self.table is None or not self.sources
        ):
            raise ValueError("column: give either `follows` or both `from` and `table`")
        for row in self.table or ():
            if len(row) != len(self.sources) + 1:
                raise ValueError(
                    "table: each row needs a value of every column in `from`, then the value of the "
                    "column"
                )

    @property
    def text(self) -> str:
        """A short readable text of the constraint."""
        if self.require is not None:
            return self.require
        if self.order:
            return (" < " if self.strict else " <= ").join(self.order)
        if self.column is not None:
            if self.follows:
                rule = f" = {self.follows}"
            else:
                rule = f" follows from {', '.join(self.sources)}"
            return self.column + rule
        if self.divide is not None:
            return f"{self.columns[0]} = {self.columns[1]} // {self.divide}"
        return (
            f"{'allowed' if self.allowed is not None else 'forbidden'} {' x '.join(self.columns)}"
        )

    def to_plain(self) -> dict[str, Any]:
        return msgspec.json.decode(msgspec.json.encode(self))


def parse(plain: Any) -> tuple[Constraint, ...]:
    """The constraints of a document; SchemaError names the constraint's number (from 1) and the
    field."""
    if not isinstance(plain, Sequence) or isinstance(plain, str):
        raise SchemaError("schema, field 'constraints': must be a list of tables ([[constraints]])")
    out = []
    for number, item in enumerate(plain, 1):
        if isinstance(item, Constraint):
            out.append(item)
            continue
        try:
            out.append(msgspec.convert(_with_rows(_plain(item)), Constraint))
        except msgspec.ValidationError as error:
            wrong = explain_invalid(error, Constraint)
            raise SchemaError(f"constraint {number}: {wrong}") from None
        except TypeError as error:
            raise SchemaError(f"constraint {number}: {error}") from None
    return tuple(out)


def _with_rows(item: Any) -> Any:
    """The constraint with the rows of a public table in place of its path or frame."""
    if not isinstance(item, Mapping) or isinstance(table := item.get("table"), list | None):
        return item
    import pyarrow.csv as csv

    if isinstance(table, str):
        try:
            table = pq.read_table(table) if table.endswith(".parquet") else csv.read_csv(table)
        except (OSError, pa.ArrowInvalid) as error:
            raise TypeError(
                f"table: cannot read the public table {item['table']!r} ({error})"
            ) from None
    names = [*item.get("from", ()), item.get("column")]
    try:
        table = pa.table(table)
    except (TypeError, ValueError):
        raise TypeError(
            "table: expected rows of values, a frame, or the path of a CSV or Parquet file, "
            f"got {type(table).__name__}"
        ) from None
    if missing := [n for n in names if n not in table.column_names]:
        raise TypeError(
            f"table: the public table has no column {missing[0]!r}; it needs {', '.join(names)}"
        )
    rows = dict.fromkeys(zip(*(table[n].to_pylist() for n in names)))
    return {**item, "table": [list(row) for row in rows if None not in row]}


def _plain(item: Any) -> Any:
    """The same nested data with dates as ISO texts."""
    if isinstance(item, Mapping):
        return {k: _plain(v) for k, v in item.items()}
    if isinstance(item, list | tuple):
        return [_plain(v) for v in item]
    return item.isoformat() if isinstance(item, date) else item


def columns_of(schema: Described, constraint: Constraint) -> tuple[str, ...]:
    """The code columns that a constraint names; its `column`, if it has one, is the last."""
    if constraint.require is not None:
        return Expression(schema, constraint.require).columns
    if constraint.order:
        return tuple(c for name in constraint.order for c in ordered_columns(schema, name))
    if constraint.column is not None:
        own = ordered_columns(schema, constraint.column) if is_computed(schema, constraint) else ()
        return (*sources_of(schema, constraint), *(own or (constraint.column,)))
    return constraint.columns


def sources_of(schema: Described, constraint: Constraint) -> tuple[str, ...]:
    """The code columns that the constraint's `column` follows from."""
    if constraint.follows:
        return Expression(schema, constraint.follows).columns
    return constraint.sources


def ordered_columns(schema: Described, name: str) -> tuple[str, ...]:
    """The code columns that a name in `order` stands for: a single column, or the parts of a
    timestamp field that is written as one value."""
    if is_time(schema, name):
        return tuple(schema.fields[name].names.values())
    if name not in schema.columns:
        raise SchemaError(f"order: the schema has no column {name!r}, or its values have no order")
    return (name,)


def code_of(column: Column, value: Any) -> int:
    """The code of a value that a constraint names, or of a label where codes stand for several values;
    SchemaError if the column has none."""
    labels = column.base_labels() if column.covers_many else []
    code = labels.index(value) if value in labels else column.code_of(value)
    if code is None:
        raise SchemaError(f"column {column.name!r}: {value!r} is not in its public domain")
    return code


def check(schema: Described) -> None:
    """Raise SchemaError if a constraint names a column or value that the schema does not have, or
    if columns follow from each other in a circle."""
    following: dict[str, tuple[str, ...]] = {}
    for number, constraint in enumerate(schema.constraints, 1):
        try:
            _check_names(schema, constraint)
            _check_values(schema, constraint)
            if constraint.column is not None:
                _check_follows(schema, constraint, following)
                following[constraint.column] = sources_of(schema, constraint)
        except SchemaError as error:
            raise SchemaError(f"constraint {number} ({constraint.text}): {error}") from None
    after_sources(following)


def _check_names(schema: Described, constraint: Constraint) -> None:
    """Raise unless the schema has the columns, each named once, with a public domain."""
    names = columns_of(schema, constraint)
    for name in names:
        if name not in schema.columns:
            raise SchemaError(f"the schema has no column {name!r}")
    if len(set(names)) != len(names):
        raise SchemaError("a column is named twice, directly or as a part of a timestamp")
    if hidden := [name for name in names if name in schema.pending]:
        raise SchemaError(
            f"column {hidden[0]!r} has a private domain, but constraints need public "
            "values; write its domain down"
        )


def _check_values(schema: Described, constraint: Constraint) -> None:
    """Raise unless every listed value has a code."""
    for combination in (*(constraint.allowed or ()), *(constraint.forbidden or ())):
        for name, value in zip(constraint.columns, combination):
            for one in value if isinstance(value, tuple) else (value,):
                code_of(schema.columns[name], one)


def _check_follows(
    schema: Described, constraint: Constraint, following: Mapping[str, tuple[str, ...]]
) -> None:
    """Raise if the constraint's column follows from others already, or cannot follow from any."""
    column = constraint.column
    assert column is not None
    if column in following:
        raise SchemaError(f"column {column!r} is computed twice; keep one constraint")
    if is_computed(schema, constraint):
        _check_computed(schema, constraint)
    elif not schema.columns[column].can_follow:
        raise SchemaError(
            f"column {column!r}: only columns of listed values, integers and numbers can be "
            "computed"
        )


def is_computed(schema: Described, constraint: Constraint) -> bool:
    """Whether the constraint's column is a number or time that is computed from a row's values when
    it is written. Such a column follows, by an expression, from numbers in bins or from times."""
    name = constraint.column or ""
    if constraint.follows is None or not _is_drawn(schema, name):
        return False
    return any(_is_drawn(schema, n) for n in Expression(schema, constraint.follows).operands)


def _is_drawn(schema: Described, name: str) -> bool:
    """Whether the name is that of numbers in bins, or of times."""
    column = schema.columns.get(name)
    return (column is not None and column.binned) or is_time(schema, name)


def _check_computed(schema: Described, constraint: Constraint) -> None:
    """Raise SchemaError unless this column can be computed from values when rows are written."""
    own = set(ordered_columns(schema, constraint.column or ""))
    others = (c for c in schema.constraints if c is not constraint)
    if constraint.model or any(own & set(columns_of(schema, other)) for other in others):
        raise SchemaError(
            f"column {constraint.column!r} is computed from other values when rows are "
            "written, so no other constraint can name it and it cannot be modelled"
        )
    for name in Expression(schema, constraint.follows or "").operands:
        field = schema.fields.get(name)
        numbers = field is not None and (field.binned or field.whole_codes)
        if not numbers and not is_time(schema, name):
            raise SchemaError(f"column {name!r}: values are computed only from numbers and times")


def after_sources(
    following: Mapping[str, Sequence[str]], what: str = "follow from each other"
) -> list[str]:
    """The keys of `following`, sorted so that each column comes after the columns that it follows
    from."""
    out: list[str] = []
    left = dict(following)
    while left:
        ready = [name for name, sources in left.items() if not any(s in left for s in sources)]
        if not ready:
            raise SchemaError(f"constraints: {', '.join(left)} {what} in a circle")
        out += ready
        for name in ready:
            del left[name]
    return out


def not_modelled(schema: Described) -> tuple[str, ...]:
    """The columns that are not part of the model, but computed from others when rows are written.

    A column that follows from others is modelled if a constraint of another kind names it, so that
    the zeros of that constraint are exact. It is also modelled if its own constraint says so
    (`model`). Where `model` is None, two limits decide. The column has at most half as many codes
    as the columns it follows from have cells: then measuring it is a cheap way to learn about them.
    Both together have at most `FOLLOW_CELLS` cells.
    """
    named = {c for k in schema.constraints if k.column is None for c in columns_of(schema, k)}
    out: list[str] = []
    for constraint in schema.constraints:
        if constraint.column is None:
            continue
        if is_computed(schema, constraint):
            out += ordered_columns(schema, constraint.column)
            continue
        cells = math.prod(schema.columns[s].size for s in sources_of(schema, constraint))
        size = schema.columns[constraint.column].size
        wanted = constraint.model
        if wanted is None:
            wanted = 2 * size <= cells and cells * size <= FOLLOW_CELLS
        if not wanted and constraint.column not in named:
            out.append(constraint.column)
    return tuple(out)
