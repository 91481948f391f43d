"""A table of coded rows in a database, as those see it who count its users."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..domain import Domain
from ..schema import Schema
from .sql_database import Database
from .sql_dialects import Dialect


class CodedTable:
    """Rows with the columns c0, c1, ..., their user's number u and number of rows r.

    alias: the column of each code column. people: the table (u, a, b) of the words of users' ids;
    empty where every row is a user of its own. lengths, having: how many users have so many rows.
    null_ids: rows without an id."""

    database: Database
    dialect: Dialect
    schema: Schema
    alias: dict[str, str]
    table: str
    people: str
    lengths: np.ndarray
    having: np.ndarray
    null_ids: int

    def cell(
        self,
        names: Sequence[str],
        domain: Domain | None = None,
        columns: Sequence[str] | None = None,
    ) -> str:
        """The number of a row's cell. It is grouped by faster where it has 32 bits."""
        domain = self.schema.domain if domain is None else domain
        kind = self.dialect.whole if domain.cells(names) >= 1 << 31 else "INTEGER"
        out = ""
        for name, column in zip(names, columns or [self.alias[name] for name in names]):
            wide = f"CAST({column} AS {kind})"
            out = f"({out}) * {domain[name]} + {wide}" if out else wide
        return out or f"CAST(0 AS {kind})"
