"""Reads a whole source with all its columns as one Arrow table; the types of text columns are
guessed.

Only for public data, or for results that only the data's owner sees (drafts of schemas, scores).
Types are guessed from all values, so the value of one row can depend on other rows. Runs never read
this way.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from .._util.lazy import pa, pl
from ..errors import DataError
from ..schema import dtypes
from ..schema.dialect import Dialect
from . import reading, textblocks, textkinds, textlines, textvalues
from .sources.source import open_parts, source_of

MISSING = ("blank text", "word for missing (NA, null, ...)")
MOST = 0.9
"""The part of a column's texts that has to be numbers with decimal commas."""
_DIGITS = r"^\s*[+-]?\d+\s*$"
_NOT_THOUSANDS = r",(\d{0,2}|\d{4,})([eE][+-]?\d+)?\s*$"
WHOLE_DIGITS = 18
"""Texts with more digits than this are not taken for whole numbers."""


def other_encoding(source: Any) -> str | None:
    """The encoding that text files seem to have where more lines are not UTF-8 than are UTF-8
    beyond ASCII; None elsewhere. For the data's owner: it looks at all bytes."""
    for path in source_of(source).paths():
        if textlines.kind_of(path) is None:
            continue
        with open(path, "rb") as file:
            if file.read(2) in (b"\xff\xfe", b"\xfe\xff"):
                return "utf-16"
        good = bad = 0
        odd: set[int] = set()
        for block, _ in textblocks.body(path, Dialect(), False):
            for line in () if block.isascii() else block.split(b"\n"):
                if not line.isascii():
                    wrong = textvalues.utf8(line) is None
                    good += not wrong
                    bad += wrong
                    odd = odd | set(line if wrong else b"")
        if bad > good:
            return textblocks.single_byte_encoding(odd)
    return None


def read_whole(
    source: Any,
    dialect: Dialect | Mapping[str, Any] | None = None,
    *,
    texts: Collection[str] = (),
) -> pa.Table:
    """All columns and rows of any source that `fastdp.read` takes; text files are read line by
    line, as in runs. `texts`: columns of text files that stay texts. Keys of JSON lines under which
    there are arrays or objects become columns of nulls of type struct. DataError if a name is there
    more than once. The same if the header looks delimited by another mark than the one that a file of
    its name has."""

    style = Dialect() if dialect is None else Dialect.from_plain(dialect)
    tables = []
    for part in open_parts(source, style):
        if part.hint and style.delimiter is None:
            raise DataError(f"{part.where}: {part.hint.removeprefix('; ')}")
        nested: list[str] = []
        names = list(part.schema.names)
        if part.any_name:
            names, nested = _json_keys(part.where)
        if twice := [name for i, name in enumerate(names) if name in names[:i]]:
            raise DataError(f"{part.where}: column {twice[0]!r} occurs more than once; rename one")
        units = reading.guarded(part.where, part.units(names, None))
        batches = [batch for unit in units for batch in reading.guarded(part.where, unit())]
        if not batches:
            types = [
                pa.binary() if part.any_name else part.schema.field(name).type for name in names
            ]
            batches = [pa.record_batch([pa.array([], kind) for kind in types], names)]
        columns = {}
        for i, name in enumerate(names):
            column = pa.chunked_array([batch.column(i) for batch in batches])
            if part.is_text(name):
                column = as_texts(column) if name in texts else typed(column)
            columns[name] = column
        rows = sum(batch.num_rows for batch in batches)
        columns |= {name: pa.chunked_array([pa.nulls(rows, pa.struct([]))]) for name in nested}
        tables.append(pa.table(columns).replace_schema_metadata(part.schema.metadata))
    kinds: dict[str, pa.DataType] = {}
    for field in (field for table in tables for field in table.schema):
        first = kinds.setdefault(field.name, field.type)
        if pa.types.is_string(first) != pa.types.is_string(field.type):
            text = f"column {field.name!r} is {first} in one, {field.type} in another"
            raise DataError(
                f"the sources' values cannot be put together: {text}; read them one by one"
            )
    return pa.concat_tables(tables, promote_options="permissive")


def decimal_commas(table: pa.Table) -> bool:
    """Whether the texts of a column are numbers with decimal commas, but for single ones. Where all
    have three digits after the comma, it may stand between thousands."""
    for column in table.columns:
        if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
            continue
        texts = textkinds.series(column).drop_nulls()
        like = texts.str.contains(textlines.COMMAS)
        if len(texts) and like.sum() + texts.str.contains(_DIGITS).sum() > MOST * len(texts):
            if texts.filter(like).str.contains(_NOT_THOUSANDS).any():
                return True
    return False


def either_mark(source: Any, dialect: Dialect) -> bool:
    """Whether a run would be refused for not knowing the mark before decimals (`Part.either_mark`)."""
    if not source_of(source).paths():
        return False
    return any(part.either_mark for part in open_parts(source, dialect))


def _json_keys(path: str) -> tuple[list[str], list[str]]:
    """(keys of the objects of a JSON lines file, keys under which some have an array or object), in
    their order of appearance. A line with the latter is malformed for who reads such a key."""
    import json

    nested: dict[str, bool] = {}
    for block, _ in textblocks.body(path, Dialect(), False):
        for line in block.splitlines():
            try:
                row = json.loads(line)
            except ValueError:
                continue
            for key, value in row.items() if isinstance(row, dict) else ():
                nested[key] = nested.get(key, False) or isinstance(value, dict | list)
    return [key for key, deep in nested.items() if not deep], [
        key for key, deep in nested.items() if deep
    ]


def as_texts(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column of text as strings."""
    return pa.chunked_array([textkinds.series(column).to_arrow().cast(pa.string())])


def typed(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column of text as values of the type that all its texts have; unchanged if they have
    several types."""

    texts = textkinds.series(column)
    dtype = type_of_texts(texts)
    values = texts.to_arrow().cast(pa.string()) if dtype == "string" else parsed(texts, dtype)
    return pa.chunked_array([values])


def parsed(texts: pl.Series, dtype: str) -> pa.Array:
    """Texts parsed as values of `dtype`, which is a result of `type_of_texts`."""

    raw = texts.to_arrow().cast(pa.large_binary()).cast(pa.binary())
    return textvalues.parse(raw, dtype).cast(dtypes.arrow(dtype), safe=False)


def type_of_texts(texts: pl.Series) -> str:
    """The type (`schema.dtypes`) that all texts have. Whole numbers with leading zeros or too many
    digits are taken for identifiers, whose type is text."""
    kinds = {kind for kind in textkinds.count_kinds(texts) if kind not in MISSING}
    if not kinds:
        return "string"
    if kinds == {"whole number"}:
        digits = texts.str.strip_chars().str.strip_chars_start("+-")
        padded = digits.str.contains(r"^0\d").any()
        return "string" if padded or (digits.str.len_chars() > WHOLE_DIGITS).any() else "int64"
    for dtype, fine in (
        ("float64", {"whole number", "number with a point"}),
        ("date32", {"ISO date"}),
        ("timestamp[us]", {"ISO date", "ISO time"}),
        ("timestamp[us, tz=UTC]", {"ISO time with a zone"}),
    ):
        if kinds <= fine:
            return dtype
    if kinds == {"truth value"} and set(texts.str.to_lowercase().unique()) <= {
        "true",
        "false",
        None,
    }:
        return "bool"
    return "string"
