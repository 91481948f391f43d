"""Partial rows as evidence: a frame with some of a schema's columns, in codes, and its own values
put back into completed rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from msgspec import Struct, field

from .._util.arrow import flags, takeable
from .._util.lazy import pa, pc
from ..answers.values import values_of
from ..codec.decode_columns import DecodeTable
from ..codec.encode import encode_batch
from ..codec.possible import compiled_constraints
from ..codec.violations import numbers_of
from ..errors import DataError, UsageError, did_you_mean
from ..schema import Schema
from ..schema.columns import Column
from ..schema.fields import Field
from .known_rows import Known

NULLS = ("fill", "draw", "keep")


class Given(Struct, eq=False):
    """A frame in terms of a schema. `known`: its codes and likelihoods; `open`: by column, the rows
    whose null must become a value. `codes`: of computed columns too. `pinned`: by field, float64
    numbers that stay as they are, nan where none is given. `values`: by output column, (the values,
    where they are given). `spans`: by column of bins, the range of numbers that each row may have;
    `listed`: (which list each row has, the lists)."""

    known: Known
    open: dict[str, np.ndarray] = field(default_factory=dict)
    codes: dict[str, np.ndarray] = field(default_factory=dict)
    pinned: dict[str, np.ndarray] = field(default_factory=dict)
    values: dict[str, tuple[pa.Array, np.ndarray]] = field(default_factory=dict)
    spans: dict[str, tuple[np.ndarray, np.ndarray]] = field(default_factory=dict)
    listed: dict[str, tuple[np.ndarray, list[tuple[float, ...]]]] = field(default_factory=dict)

    def relaxed(self, rows: np.ndarray) -> Known:
        """What is known of these rows, where nulls may stay null."""
        known = self.known.of_rows(rows)
        likelihood = {a: v for a, v in known.likelihood.items() if a not in self.open}
        return Known(known.rows, known.codes, likelihood, known.numbers, known.group)


def check_names(schema: Schema, names: Iterable[str], what: str) -> None:
    """UsageError for a column that the schema does not have, or that comes twice."""
    own = [f.source for f in schema.fields.values()]
    have = dict.fromkeys([*own, *schema.columns, schema.user])
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise UsageError(f"{what}: column {name!r} occurs twice; column names must differ")
        seen.add(name)
        if name not in have:
            known = [n for n in have if n is not None]
            raise UsageError(
                f"{what}: the schema has no column {name!r}{did_you_mean(name, known)}"
            )


def given_rows(schema: Schema, frame: pa.Table, nulls: str = "fill") -> Given:
    """A frame as evidence. nulls: "fill" (a null becomes a value), "draw" (a value or null, as the
    model says) or "keep" (null is the value). DataError names a column of the wrong type, or the
    first row whose value a run would have left out."""
    if nulls not in NULLS:
        raise UsageError(f"nulls must be one of {', '.join(NULLS)}, got {nulls!r}")
    made = Given(Known(frame.num_rows))
    own = [f for f in schema.fields.values() if f.source in frame.column_names]
    for item in own:
        _add_field(schema, made, item, frame, nulls)
    sources = {f.source for f in schema.fields.values()}
    for name in frame.column_names:
        if name in schema.columns and name not in sources:  # a part of a timestamp
            _add_part(made, schema.columns[name], frame.column(name), nulls)
    modelled = set(schema.modelled)
    made.codes = {a: c for a, c in made.known.codes.items() if a not in modelled}
    made.known.codes = {a: c for a, c in made.known.codes.items() if a in modelled}
    made.known.likelihood = {a: v for a, v in made.known.likelihood.items() if a in modelled}
    _add_computed(schema, made)
    return made


def _add_field(schema: Schema, made: Given, item: Field, frame: pa.Table, nulls: str) -> None:
    """Add the codes and values of one field of the frame to what is known of the rows."""
    column = frame.column(item.source)
    missing = _missing(column)
    codes, keep = encode_batch(schema, frame.select([item.source]), [item])
    if keep is not None:
        lost = np.flatnonzero(~keep & ~missing)
        if len(lost):
            raise DataError(
                f"column {item.source!r}, row {lost[0] + 1}: the value is outside the schema's domain, "
                "whose rows a run leaves out; correct it, or make it null"
            )
    for part in item.parts:
        null = missing if part.null_code is None else missing | (codes[part.name] == part.null_code)
        _add_codes(made, part, codes[part.name], null, nulls)
    missing = missing.copy()
    if nulls != "keep":
        for part in item.parts:
            missing |= made.known.codes[part.name] < 0
    values = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if isinstance(values, pa.ChunkedArray):
        values = pa.concat_arrays(values.chunks) if values.num_chunks else pa.nulls(0)
    made.values[item.source] = (values, ~missing)
    if (item.binned or item.calendar) and not pa.types.is_null(values.type):
        try:
            numbers = numbers_of(item, takeable(values))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):  # numbers as text
            return
        made.pinned[item.name] = np.where(missing, np.nan, numbers)


def _add_codes(
    made: Given, column: Column, codes: np.ndarray, null: np.ndarray, nulls: str
) -> None:
    """The codes of one column; what is null is known, open, or nothing."""
    own = np.where(null, -1, codes.astype(np.int64)).astype(np.int32)
    if nulls == "keep" and null.any():
        if column.null_code is None:
            raise DataError(
                f"column {column.name!r}, row {np.flatnonzero(null)[0] + 1}: null, but the schema has no "
                'nulls in this column; use nulls="fill"'
            )
        own = np.where(null, column.null_code, own).astype(np.int32)
    made.known.codes[column.name] = own
    if nulls == "fill" and null.any():
        filled = DecodeTable(column).null == 0
        if not filled.all():
            made.open[column.name] = null
            made.known.multiply(column.name, null, filled.astype(float))


def _add_part(made: Given, column: Column, values: pa.ChunkedArray, nulls: str) -> None:
    missing = _missing(values)
    listed = values_of(column)
    try:
        found = pc.index_in(values.cast(listed.type), listed)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError):
        raise DataError(
            f"column {column.name!r} is {values.type}, expected {listed.type}; cast it"
        ) from None
    codes = found.fill_null(-1).to_numpy().astype(np.int64)
    lost = np.flatnonzero((codes < 0) & ~missing)
    if len(lost):
        raise DataError(
            f"column {column.name!r}, row {lost[0] + 1}: not one of the values of this column, for "
            f"example {listed[0].as_py()!r}"
        )
    _add_codes(made, column, np.maximum(codes, 0), missing, nulls)


def _add_computed(schema: Schema, made: Given) -> None:
    """A given column that follows from one other column says which codes that one may have."""
    if not schema.constraints:
        return
    rules = compiled_constraints(schema)
    for name in rules.computed:
        source = schema.fields[name].source
        if name in made.codes or source in made.values:
            used = [schema.fields[n].source for n in rules.computed[name].operands]
            if not all(n in made.values and made.values[n][1].all() for n in used):
                raise UsageError(
                    f"column {source!r} is computed from {', '.join(used)}: give these instead"
                )
    for item in rules.derived:
        if item.column not in made.codes or len(item.sources) != 1:
            continue
        (source,) = item.sources
        given = made.codes[item.column]
        values, ids = np.unique(given, return_inverse=True)
        skip = int((values < 0).sum())
        fits = (item.table[None, :] == values[skip:, None]).astype(float)
        made.known.multiply_rows(source, (ids.reshape(-1) - skip).astype(np.int32), fits)


def _missing(column: pa.ChunkedArray) -> np.ndarray:
    """bool per row: null, or not a number."""
    if pa.types.is_null(column.type):
        return np.ones(len(column), bool)
    floating = pa.types.is_floating(column.type)
    return pc.is_null(column, nan_is_null=floating).to_numpy().astype(bool)


def disagreeing(schema: Schema, given: Given, codes: Mapping[str, np.ndarray]) -> np.ndarray:
    """bool per row: whether a given column that follows from others differs from what these say."""
    out = np.zeros(given.known.rows, bool)
    for name, own in given.codes.items():
        if name in codes:
            out |= (own >= 0) & (codes[name] != own)
    return out


def with_given(table: pa.Table, given: Given) -> pa.Table:
    """Completed rows with the values of the frame where it has some."""
    for name, (values, there) in given.values.items():
        if name not in table.column_names or not there.any():
            continue
        at = table.schema.get_field_index(name)
        made = table.column(at)
        kind = made.type
        inner = kind.value_type if pa.types.is_dictionary(kind) else kind
        values = takeable(values)
        if pa.types.is_dictionary(values.type):
            values = values.dictionary_decode()
        made = made.cast(inner) if inner != kind else made
        made = takeable(made)
        try:
            own = values.cast(made.type)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError):
            # The same values in another type are in the completed rows; others are not values.
            lost = np.flatnonzero(there & _missing(made))
            if len(lost):
                raise DataError(
                    f"column {name!r}, row {lost[0] + 1}: the value cannot be written as {kind}; "
                    "correct it, or make it null"
                ) from None
            continue
        chosen = pc.if_else(flags(there), own, made)
        if chosen.type != kind:
            plain = chosen if not isinstance(chosen, pa.ChunkedArray) else chosen.combine_chunks()
            chosen = plain.dictionary_encode().cast(kind) if inner != kind else plain.cast(kind)
        table = table.set_column(at, table.schema.field(at), chosen)
    return table
