"""A user's id as an SQL expression: equal ids of the local engine are equal in the database."""

from __future__ import annotations

from msgspec import Struct

from .._util.lazy import pa
from ..errors import DataError
from ..schema import Schema, dtypes
from .sql_dialects import Dialect
from .sql_expressions import text_bytes


class UserId(Struct, frozen=True):
    """value: an expression of a user's id, NULL where a row has none; hashed: the bytes that are hashed
    of a column `who` of such values."""

    value: str
    hashed: str = "who"


def id_value(
    schema: Schema, types: pa.Schema, own_types: dict[str, str], dialect: Dialect
) -> UserId:
    """A user's id. `tables.idvalues` says which ids are equal: texts byte by byte, whole numbers and
    decimals by their value, and hashed by their digits."""
    assert schema.user is not None
    found = types.get_all_field_indices(schema.user)
    if len(found) != 1:
        raise DataError(f"<sql>: column {schema.user!r} is missing, or occurs more than once")
    kind = types.field(found[0]).type
    own = own_types.get(schema.user, "").upper()
    t = pa.types
    x = dialect.quoted(schema.user)

    def refused(what: str) -> DataError:
        return DataError(
            f"user column {schema.user!r}: engine='sql' does not compare ids that are {own or kind}"
            f" ({what}); cast the column in the query, or use engine='local' on the same query"
        )

    inner = kind.value_type if t.is_dictionary(kind) else kind
    if t.is_string(inner) or t.is_large_string(inner) or t.is_binary(inner):
        if schema.user_dtype is not None:
            family = dtypes.family(schema.user_dtype)
            if family not in ("string", "bool"):
                raise refused(f"texts that spell {schema.user_dtype}")
        return UserId(text_bytes(x, kind, own, dialect, refused))
    if t.is_integer(kind) and not t.is_uint64(kind):
        digits = f"CAST(who AS {dialect.texts})"
        return UserId(f"CAST({x} AS {dialect.whole})", dialect.bytes_of(digits))
    if t.is_boolean(kind):
        digits = f"CASE WHEN {x} THEN '1' WHEN NOT {x} THEN '0' END"
    elif t.is_integer(kind) or own.startswith(("DECIMAL", "HUGEINT")) or own.endswith(",0)"):
        digits = f"CAST({x} AS {dialect.texts})"
        if t.is_decimal(kind) and (is_nan := dialect.decimal_nan(x)):
            digits = f"CASE WHEN NOT ({is_nan}) THEN {digits} END"
    elif t.is_null(kind):
        digits = f"CAST(NULL AS {dialect.texts})"
    else:
        raise refused("neither texts nor whole numbers")
    return UserId(dialect.bytes_of(digits))
