"""Tables: one contiguous column of codes per attribute, and a dense user number per row.

A table is private unless it was read with `public=True`. Neither `repr` nor an error text shows
anything about the rows of a private table, not even their number. Columns are in memory, or in
memory-mapped files that are deleted with the table.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Mapping

import numpy as np

from .._core import bound
from ..domain import Domain, code_dtype
from ..errors import DataError
from ..schema import Schema
from .userids import number_ids

MAX_ROWS = (1 << 42) - 1
"""With at most this many rows, an int64 sum of weights in units of 2^-20 rows cannot overflow. Nor
can the difference of such a sum from an estimate."""


class Table:
    """Coded rows under a public schema. Made by `fastdp.read` or `Table.from_codes`.

    Attributes
    ----------
    codes : dict of str to array
        1-D contiguous arrays of u8, u16 or u32 by name; may be memory-mapped.
    user : array or None
        uint32 user number of each row (0 to users - 1); None if each row is its own user.
    user_hash : array or None
        uint64 hash of each user's id value, which keys every choice among the user's rows.
    null_ids : int
        How many rows of the source have no user id, dropped or not; private unless public.
    exact : dict of str to array
        int64 exact numbers of the fields in `schema.exact` (`codec.exact_numbers`), beside their codes.
    """

    def __init__(
        self,
        schema: Schema,
        codes: Mapping[str, np.ndarray],
        *,
        rows: int,
        user: np.ndarray | None = None,
        users: int | None = None,
        user_hash: np.ndarray | None = None,
        public: bool = False,
        dropped: int = 0,
        null_ids: int = 0,
        malformed: int = 0,
        exact: Mapping[str, np.ndarray] | None = None,
    ):
        if rows > MAX_ROWS:
            raise DataError(
                f"the table has more than {MAX_ROWS} rows, the limit for exact int64 sums"
            )
        self.schema = schema
        self.codes = dict(codes)
        self.rows = rows
        self.user = user
        self.users = rows if user is None else int(users or 0)
        self.user_hash = user_hash
        self.public = public
        self._dropped = dropped
        self.null_ids = null_ids
        self._malformed = malformed
        self.exact = dict(exact or {})
        self._rows_per_user: np.ndarray | None = None

    @classmethod
    def from_codes(
        cls,
        schema: Schema | Domain | Mapping[str, int],
        codes: Mapping[str, np.ndarray],
        user: np.ndarray | None = None,
        public: bool = False,
    ) -> Table:
        """A table from arrays that are already coded 0..n-1, and an array of user ids. Rows without
        an id (null, NaN) are left out, or each is a user of its own, as the schema says.

        Raises DataError if a column is missing, has another length or is not of integers, or has a
        code outside its domain.
        """
        schema = as_schema(schema, user=None if user is None else "user")
        if schema.period is not None:
            raise DataError(
                "from_codes takes ids without times, so it cannot tell a user's periods apart; "
                "read the source with fastdp.read, or remove the schema's unit"
            )
        if user is not None:
            user = np.asarray(user)
            if user.ndim != 1:
                raise DataError(
                    f"user: expected the ids as a 1-D array, got {user.ndim} dimensions"
                )
        checked, rows = _checked_codes(schema.domain, codes, None if user is None else len(user))
        if user is None and schema.user is not None:
            raise DataError(
                f"user= is missing: give the ids of the schema's user column {schema.user!r}"
            )
        if user is not None and schema.user is None:
            raise DataError("user= gives ids, but the schema has no user column")
        index = users = hashes = None
        null_ids = 0
        if user is not None:
            index, hashes, has_id = number_ids(user, schema.user_dtype)
            null_ids = int(np.count_nonzero(~has_id))
            if schema.null_user == "drop" and not has_id.all():
                index, hashes, _ = number_ids(user[has_id], schema.user_dtype)
                checked = {name: column[has_id] for name, column in checked.items()}
            users = len(hashes)
        kept = rows if index is None else len(index)
        return cls(
            schema,
            checked,
            rows=kept,
            user=index,
            users=users,
            user_hash=hashes,
            null_ids=null_ids,
            public=public,
            dropped=rows - kept,
        )

    @property
    def domain(self) -> Domain:
        """Number of codes of each attribute."""
        return self.schema.domain

    def as_truth(self) -> Table:
        """The same rows, declared public by the caller: results computed from this table may be
        shown, and have no privacy guarantee."""
        twin = copy.copy(self)
        twin.public = True
        return twin

    def with_codes(self, domain: Domain, codes: Mapping[str, np.ndarray]) -> Table:
        """The same rows and users with other columns, whose codes are those of `domain`."""
        if self.user is not None:
            self.rows_per_user()  # counted once, for all tables of these users
        twin = copy.copy(self)
        twin.schema = as_schema(domain, user=self.schema.user)
        twin.codes = dict(codes)
        return twin

    def rows_per_user(self) -> np.ndarray:
        """uint32[users]: how many rows each user has (private unless the table is public)."""
        if self._rows_per_user is None:
            if self.user is None:
                self._rows_per_user = np.ones(self.rows, np.uint32)
            else:
                self._rows_per_user = bound.rows_per_user(self.user, self.users)
        return self._rows_per_user

    def close(self) -> None:
        """Release the columns and the files they are mapped from, as garbage collection does."""
        self.codes = {}
        self.user = None
        self.user_hash = None
        self._rows_per_user = None
        self.exact = {}

    def __enter__(self) -> Table:
        return self

    def __exit__(self, *exc) -> None:
        self.close()

    def __repr__(self) -> str:
        kind = "public" if self.public else "private"
        user = f"user={self.schema.user!r}" if self.schema.user else "each row its own user"
        return f"<fastdp.Table {kind}: {', '.join(self.schema.domain)}; {user}>"


def as_schema(
    schema: Schema | Domain | Mapping[str, int] | str | os.PathLike[str], user: str | None = None
) -> Schema:
    """A Schema unchanged, or one loaded by path or built-in name. For a domain (name -> number of
    codes), it is the schema of columns that are already coded."""

    if not isinstance(schema, Mapping):
        return Schema.of(schema)
    return Schema.from_domain(schema, user=user)


def _checked_codes(
    domain: Domain, codes: Mapping[str, np.ndarray], rows: int | None
) -> tuple[dict[str, np.ndarray], int]:
    """(the columns as contiguous codes of their own types, the number of rows); DataError if one is
    missing or has no codes of its domain. rows: how many there must be, if that is known."""
    checked = {}
    for name, size in domain.items():
        if name not in codes:
            raise DataError(f"column {name!r} is missing")
        column = np.asarray(codes[name])
        if column.ndim != 1 or column.dtype.kind not in "iub":
            raise DataError(
                f"column {name!r}: expected codes as a 1-D integer array, got {column.dtype}"
            )
        rows = len(column) if rows is None else rows
        if len(column) != rows:
            raise DataError(f"column {name!r} has a different length than the other columns")
        if rows and (column.max() >= size or column.min() < 0):
            raise DataError(f"column {name!r} has codes outside 0..{size - 1}")
        checked[name] = np.ascontiguousarray(column, code_dtype(size))
    return checked, rows or 0
