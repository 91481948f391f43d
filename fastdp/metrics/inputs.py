"""Two tables from any sources, as Arrow columns or as codes that mean the same values in both
tables.

Metrics read the true rows without noise, so nothing computed here is private.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from .._util.arrow import take_rows, takeable
from .._util.lazy import pa, pc
from ..domain import code_dtype
from ..errors import DataError, UsageError, did_you_mean
from ..schema import Schema
from ..tables.ingest import read
from ..tables.table import Table
from ..tables.whole_table import read_whole

MANY_VALUES = 100
"""Without a schema, numeric columns with more distinct values than this are binned."""
BINS = 20
"""Bins of such a column, each with as many rows of the truth."""
KNOWN_USERS = ("taxi_id", "sim_resident")


def as_arrow(source: Any, what: str, texts: Collection[str] = ()) -> pa.Table:
    """Any source that `fastdp.read` takes as a pyarrow.Table of its values; errors name `what` it
    is. The columns `texts` of text files stay texts."""
    if type(source).__module__.partition(".")[0] == "pandas":
        source = pa.Table.from_pandas(source, preserve_index=False)
    elif not isinstance(source, pa.Table):
        try:
            source = read_whole(source, texts=texts)
        except (DataError, UsageError) as error:
            raise type(error)(f"{what}: {error}") from None
    if len(set(source.column_names)) != len(source.column_names):
        raise DataError(f"{what}: a column name occurs twice; column names must differ")
    return _events(source, what)


def with_columns(
    source: Any, what: str, metric: str, columns: Sequence[str], also: str = ""
) -> pa.Table:
    """The columns that a metric needs of a source, and the column `also` where the source has
    it."""
    table = as_arrow(source, what)
    missing = [c for c in columns if c not in table.column_names]
    if missing:
        raise DataError(f"{what}: the {metric} score needs the column {missing[0]!r}")
    return table.select([c for c in (*columns, also) if c in table.column_names])


def _events(table: pa.Table, what: str) -> pa.Table:
    """The table with one row per event. A table marked as a histogram has rows that stand for
    `count` events each; any other table is returned unchanged."""
    mark = (table.schema.metadata or {}).get(b"fastdp.count")
    if mark is None or (name := mark.decode()) not in table.column_names:
        return table
    counts = numbers(table[name])
    if counts is None or counts.dtype.kind not in "iu" or (len(counts) and counts.min() < 0):
        raise DataError(f"{what}: expected whole numbers >= 0 as {name!r} of a histogram")
    repeated = np.repeat(np.arange(len(counts)), counts)
    return take_rows(table.drop_columns([name]), repeated).replace_schema_metadata()


def numbers(column: pa.ChunkedArray) -> np.ndarray | None:
    """The column as one numpy array of numbers, or None if it is not numeric or has nulls."""
    kind = column.type
    if column.null_count or not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        return None
    return column.to_numpy()


def codes_of_pair(
    truth: pa.ChunkedArray, made: pa.ChunkedArray
) -> tuple[np.ndarray, np.ndarray, pa.Array]:
    """Both columns as codes on the ascending union of their values (an Arrow array, null last):
    (truth, made, values)."""
    a, b = numbers(truth), numbers(made)
    if a is not None and b is not None and a.dtype.kind in "iu" and b.dtype.kind in "iu":
        fast = _codes_of_ints(a, b)
        if fast is not None:
            return fast
    return _codes_of_any(truth, made)


def _codes_of_ints(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray, pa.Array] | None:
    """`codes_of_pair` of whole numbers, by a lookup table over the range of values; None if the
    range is too large for that."""
    ends = [int(v) for part in (a, b) if len(part) for v in (part.min(), part.max())]
    if not ends:
        return a.astype(np.uint8), b.astype(np.uint8), pa.array([], pa.int64())
    low = min(ends)
    span = max(ends) - min(ends) + 1
    if span > 1 << 22 or max(ends) >= 1 << 62:
        return None
    from .._core.score import mark, recode

    parts = [kernel_ready(part) for part in (a, b)]
    seen = np.zeros(span, dtype=np.uint8)
    for part in parts:
        mark(part, low, seen)
    values = np.flatnonzero(seen)
    table = np.zeros(span, dtype=code_dtype(len(values)))
    table[values] = np.arange(len(values))
    if table.dtype == np.uint8:
        first, second = (recode(part, low, table) for part in parts)
    else:
        first, second = (table.take(part.astype(np.int64) - low) for part in parts)
    return first, second, pa.array(values + low)


def kernel_ready(values: np.ndarray) -> np.ndarray:
    """The integers as a contiguous array of a dtype that the compiled kernels accept."""
    if values.dtype == np.uint64:
        values = values.astype(np.int64)  # callers made sure that the values are below 2**62
    return np.ascontiguousarray(values, values.dtype.newbyteorder("="))


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A dictionary or view column as plain values, since not all Arrow functions accept those
    types."""

    def plain_chunk(array: pa.Array) -> pa.Array:
        """One chunk: its dictionary looked up, its views as plain values."""
        if isinstance(array, pa.DictionaryArray):
            return plain_chunk(array.dictionary).take(array.indices)
        return takeable(array)

    kind = column.type.value_type if isinstance(column.type, pa.DictionaryType) else column.type
    kind = takeable(pa.array([], kind)).type
    return pa.chunked_array([plain_chunk(chunk) for chunk in column.chunks], type=kind)


def _codes_of_any(truth: pa.ChunkedArray, synthetic: pa.ChunkedArray):
    """`codes_of_pair` of columns of any type: Arrow dictionary-encodes the concatenation of
    both."""
    truth = _plain(truth)
    synthetic = _plain(synthetic)
    kind = truth.type
    if kind != synthetic.type:
        both = [pa.types.is_integer(t) or pa.types.is_floating(t) for t in (kind, synthetic.type)]
        kind = pa.float64() if all(both) else pa.string()
    try:
        chunks = truth.cast(kind, safe=False).chunks + synthetic.cast(kind, safe=False).chunks
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise DataError(
            f"it has type {truth.type} in one table and {synthetic.type} in the other; cast "
            "one of them"
        ) from error
    both = pa.chunked_array(chunks, type=kind).combine_chunks()
    if isinstance(both, pa.ChunkedArray):
        both = both.chunk(0) if both.num_chunks else pa.array([], kind)
    coded = pc.dictionary_encode(both)
    values = coded.dictionary
    nulls = both.null_count > 0
    order = pc.sort_indices(values)  # nan last
    rank = np.full(len(values) + 1, len(values))
    rank[order.to_numpy()] = np.arange(len(values))
    index = coded.indices.fill_null(len(values)).to_numpy(zero_copy_only=False)
    codes = rank[index].astype(code_dtype(len(values) + nulls))
    order = pa.concat_arrays([order, pa.nulls(int(nulls), order.type)])
    return codes[: len(truth)], codes[len(truth) :], values.take(order)


@dataclass
class Pair:
    """Truth and synthetic table as codes with a common meaning.

    sizes: number of codes of each column; labels: what a code stands for (see `label`); encoding:
    `schema`, `values` (the union of both tables' values) or `bins` (20 quantile bins of the truth).
    The user column is left out.
    """

    truth: dict[str, np.ndarray]
    synthetic: dict[str, np.ndarray]
    sizes: dict[str, int]
    labels: dict[str, Callable[[int], Any]]
    encoding: dict[str, str]
    rows: tuple[int, int]
    ordered: dict[str, bool] = field(default_factory=dict)

    @property
    def names(self) -> list[str]:
        return list(self.sizes)

    def label(self, name: str, code: int) -> str:
        """What a code of a column stands for."""
        value = self.labels[name](int(code))
        return "null" if value is None else str(value)

    def with_synthetic(self, synthetic: Mapping[str, np.ndarray], rows: int) -> Pair:
        """The same truth with other synthetic codes of the same meaning (a sample of the truth, as
        baseline)."""
        return replace(self, synthetic=dict(synthetic), rows=(self.rows[0], rows))


TRUTH = "truth"


def coded(source: Any, schema: Schema, what: str, *, users: bool = False) -> Table:
    """A table of codes unchanged; any other source read as public rows, with the schema's columns
    that it has. `users`: also its users, where it has their ids, which are taken as they are:
    synthetic ones may be wider. Of the truth, rows of the schema's one period take part and its
    users are pairs of a user and a period. Synthetic rows have such users already."""
    if hasattr(source, "codes"):
        return source
    source = as_arrow(source, what)
    present = set(source.column_names)
    wanted = [n for n, c in schema.columns.items() if c.source in present]
    if not wanted:
        raise DataError(f"{what}: no column of the schema is in the table")
    period = schema.period
    if what != TRUTH or period is None or not {period.of, schema.user} <= present:
        period = None
    schema = replace(schema.select(wanted), user_dtype=None, period=period)
    if schema.user not in present or not (users or period):
        schema = schema.without_users()
    return read(source, schema, public=True)


def pair_up(truth: Any, synthetic: Any, schema: Schema | None, user: str | None = None) -> Pair:
    """Both sources as codes with a common meaning. They are those of the schema if there is one
    (given, or that of a `fastdp.Table`), else made from the values of both."""
    tables = [source for source in (truth, synthetic) if isinstance(source, Table)]
    if schema is None and tables:
        schema = tables[0].schema
    if schema is None:
        return by_values(as_arrow(truth, "truth"), as_arrow(synthetic, "synthetic"), user)
    if any(table.schema.domain != schema.domain for table in tables):
        raise DataError("a table of codes was read with another schema; read it with this one")
    a, b = coded(truth, schema, "truth"), coded(synthetic, schema, "synthetic")
    names = [n for n in schema.columns if n in a.codes and n in b.codes]
    if not names:
        raise DataError(
            "truth and synthetic have no common column in the schema; check the column names"
        )
    return Pair(
        truth={n: np.asarray(a.codes[n]) for n in names},
        synthetic={n: np.asarray(b.codes[n]) for n in names},
        sizes={n: schema.domain[n] for n in names},
        labels={n: schema.columns[n].label for n in names},
        encoding=dict.fromkeys(names, "schema"),
        rows=(a.rows, b.rows),
        ordered={n: schema.columns[n].quantity for n in names},
    )


def by_values(
    truth: pa.Table, synthetic: pa.Table, user: str | None, times: Collection[str] = ()
) -> Pair:
    """Both tables as codes of the union of their values; numbers with many values in quantile bins
    of the truth. `times`: columns of seconds since 1970, which labels name as dates."""
    shared = [n for n in truth.column_names if n in synthetic.column_names]
    if user is not None and user not in truth.column_names:
        raise UsageError(
            f"user: the truth has no column {user!r}{did_you_mean(user, truth.column_names)}"
        )
    skip = {user} if user is not None else set(KNOWN_USERS)
    shared = [n for n in shared if n not in skip]
    if not shared:
        raise DataError("truth and synthetic have no common column; check the column names")
    out = Pair({}, {}, {}, {}, {}, (truth.num_rows, synthetic.num_rows))
    for name in shared:
        a, b = truth[name], synthetic[name]
        numeric = all(pa.types.is_integer(c.type) or pa.types.is_floating(c.type) for c in (a, b))
        written = _time_text if name in times else _number_text
        binned = _in_bins(a, b, written) if numeric else None
        few = _around_values(a, b, written) if numeric and binned is None else None
        if binned is not None:
            out.truth[name], out.synthetic[name], labels = binned
            out.encoding[name] = "bins"
        elif few is not None:
            out.truth[name], out.synthetic[name], labels = few
            out.encoding[name] = "values"
        else:
            try:
                out.truth[name], out.synthetic[name], labels = codes_of_pair(a, b)
            except DataError as error:
                raise DataError(f"column {name!r}: {error}") from error
            out.encoding[name] = "values"
        out.labels[name] = partial(_item, labels)
        out.sizes[name] = max(1, len(labels))
        out.ordered[name] = numeric
    return out


def _item(values: Any, i: int) -> Any:
    return values[i].as_py() if hasattr(values[i], "as_py") else values[i]


def _number_text(number: float) -> str:
    return f"{number:g}"


def _time_text(seconds: float) -> str:
    """A date, with its time of day where that is not midnight."""
    try:
        at = np.datetime64(int(seconds), "s").item()
        return f"{at:%Y-%m-%d}" if seconds % 86_400 == 0 else f"{at:%Y-%m-%d %H:%M:%S}"
    except (AttributeError, ValueError):  # a year that Python has no date of
        return _number_text(seconds)


def _around_values(
    truth: pa.ChunkedArray, synthetic: pa.ChunkedArray, written: Callable[[float], str]
):
    """Both columns as codes of the truth's values and of the gaps between them, and one for null;
    None if the synthetic numbers have few values themselves. A number that the truth does not have
    is wrong in any case. One cell for each such number would make every pair of columns as fine as
    its rows."""
    made = synthetic.drop_null().to_numpy()
    if len(np.unique(made)) <= MANY_VALUES:
        return None
    values = np.unique(truth.drop_null().to_numpy().astype(np.float64))
    values = values[np.isfinite(values)]

    def code(column: pa.ChunkedArray) -> np.ndarray:
        nulls = column.is_null(nan_is_null=True).to_numpy()
        filled = pc.cast(column.fill_null(0), "float64", safe=False).to_numpy()
        at = np.searchsorted(values, filled)
        equal = np.append(values, np.nan)[at] == filled
        codes = (2 * at + equal).astype(np.int64)
        codes[nulls] = 2 * len(values) + 1
        return codes

    text = [written(v) for v in values.tolist()]
    gaps = ["below all", *(f"between {a} and {b}" for a, b in pairwise(text)), "above all"]
    labels = [x for pair in zip(gaps, text) for x in pair] + gaps[len(text) :]
    return code(truth), code(synthetic), [*labels, None]


def _in_bins(truth: pa.ChunkedArray, synthetic: pa.ChunkedArray, written: Callable[[float], str]):
    """Both columns as codes of quantile bins of the truth, plus one code for null; None if the
    truth has few distinct values."""
    values = truth.drop_null().to_numpy()
    if values.dtype.kind == "f":
        values = values[np.isfinite(values)]
    if len(values) == 0 or len(np.unique(values[:100_000])) <= MANY_VALUES:
        return None
    inner = np.linspace(0, 1, BINS + 1)[1:-1]
    edges = np.unique(np.quantile(values, inner, method="inverted_cdf"))

    def code(column: pa.ChunkedArray) -> np.ndarray:
        nulls = column.is_null(nan_is_null=True).to_numpy()
        filled = pc.cast(column.fill_null(0), "float64", safe=False).to_numpy()
        codes = np.searchsorted(edges, filled, side="right").astype(np.uint8)
        codes[nulls] = len(edges) + 1
        return codes

    text = [written(e) for e in edges.tolist()]
    labels = [f"< {text[0]}", *(f"{a} to {b}" for a, b in pairwise(text)), f">= {text[-1]}"]
    return code(truth), code(synthetic), [*labels, None]
