"""One field of a schema on its way into a database: what is known of its source, and the query that its
codes are written into."""

from typing import Any

import numpy as np
from msgspec import Struct, field

from .._util.lazy import pa
from ..codec.maps import Source
from ..errors import DataError
from .sql_dialects import Dialect


class Lookup(Struct, frozen=True, eq=False):
    """A small public table (k, v0, v1, ...) to be joined: the codes of each key k."""

    name: str
    keys: Any
    codes: tuple[np.ndarray, ...]


class CodedQuery(Struct):
    """What makes codes of a query's rows.

    values : expressions of the source's columns, by alias
    guards : expressions over these that are safe to compute with
    joins : lookups, and the alias that each is joined on
    codes : the expression of each code column
    drops : code columns that can be -1
    """

    values: dict[str, str] = field(default_factory=dict)
    guards: dict[str, str] = field(default_factory=dict)
    joins: list[tuple[Lookup, str]] = field(default_factory=list)
    codes: dict[str, str] = field(default_factory=dict)
    drops: list[str] = field(default_factory=list)

    def select(self, query: str, more: dict[str, str]) -> str:
        """Codes, and `more` expressions of the source's columns by alias."""
        inner = ", ".join(f"{x} AS {name}" for name, x in (self.values | more).items())
        made = f"SELECT {inner} FROM ({query}) AS source"
        if self.guards:
            guards = ", ".join(f"{x} AS {name}" for name, x in self.guards.items())
            made = f"SELECT plain.*, {guards} FROM ({made}) AS plain"
        joins = "".join(
            f" LEFT JOIN {lookup.name} ON {lookup.name}.k = guarded.{x}" for lookup, x in self.joins
        )
        codes = ", ".join([*(f"{x} AS {name}" for name, x in self.codes.items()), *more])
        return f"SELECT {codes} FROM ({made}) AS guarded{joins}"


class SourceField(Struct, frozen=True, eq=False):
    """A field, and where its codes are written. own: the database's type of the source; x: the alias of
    its values; table: the name of its lookup; name: of the source, for errors."""

    dialect: Dialect
    made: CodedQuery
    source: Source
    own: str
    x: str
    table: str
    name: str

    @property
    def kind(self) -> pa.DataType:
        """Arrow's type of the source."""
        return self.source.kind

    def refused(self, what: str) -> DataError:
        """The error of a field that a database cannot encode."""
        return DataError(
            f"column {self.name!r}: engine='sql' cannot encode {what} from {self.own or self.kind};"
            " cast the column in the query, or use engine='local' on the same query"
        )


class FieldCodes:
    """Writes codes of one field; what all writers hold of it."""

    def __init__(self, field: SourceField):
        self.field = field
        self.dialect = field.dialect
        self.made = field.made
        self.source = field.source
        self.kind = field.kind
        self.own = field.own
        self.x = field.x
        self.table = field.table
        self.refused = field.refused
