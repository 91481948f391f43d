"""pandas frames and series as sources."""

from __future__ import annotations

import contextlib
import decimal
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from ..._util.arrow import decoded, of_numpy
from ..._util.lazy import pa
from ...schema.dialect import Dialect
from .. import parts, sql
from ..parts import Part, Unit, cut
from .source import SOURCES, Source, module_of


@SOURCES.add("pandas")
class PandasFrame(Source):
    """A pandas DataFrame or Series."""

    @classmethod
    def takes(cls, given: Any) -> bool:
        return module_of(given) == "pandas"

    def parts(self, dialect: Dialect) -> list[Part]:
        return [of_pandas(self.given, f"<pandas.{self.kind}>")]

    def held(self) -> Iterable[Any]:
        if not hasattr(self.given, "columns"):
            return [self.given]
        return [self.given.iloc[:, position] for position in range(self.given.shape[1])]


def of_pandas(frame: Any, where: str) -> Part:
    """The part of a pandas frame or series. A column of Python objects is text, as from a database
    driver: its Arrow type would depend on all values, and Arrow cannot hold each of them (half of a
    surrogate pair is no UTF-8)."""

    if not hasattr(frame, "columns"):
        frame = frame.to_frame()
    names = [str(name) for name in frame.columns]
    kinds: dict[int, pa.DataType] = {}
    for i, dtype in enumerate(frame.dtypes):
        with contextlib.suppress(pa.ArrowException):
            if not _of_objects(dtype):
                kinds[i] = pa.array(frame.iloc[:0, i], from_pandas=True).type
        if dtype.kind == "c":  # two numbers: no text of them is a value of any column
            kinds[i] = pa.struct([("real", pa.float64()), ("imag", pa.float64())])
    text = frozenset(name for i, name in enumerate(names) if i not in kinds)
    schema = pa.schema([(name, kinds.get(i, pa.binary())) for i, name in enumerate(names)])

    def units(columns: Sequence[str], user: str | None) -> Iterator[Unit]:
        at = [names.index(name) for name in columns]

        def column(piece: Any, name: str) -> pa.Array:
            if name in text:
                return _texts(piece, name == user)
            array = pa.array(piece, type=schema.field(name).type, from_pandas=True)
            return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array

        def batch(start: int) -> Iterator[pa.RecordBatch]:
            piece = frame.iloc[start : start + parts.BATCH_ROWS, at]
            arrays = [column(piece.iloc[:, i], name) for i, name in enumerate(columns)]
            yield from cut(pa.record_batch(arrays, names=list(columns)))

        for start in range(0, len(frame), parts.BATCH_ROWS):
            yield partial(batch, start)

    return Part(where, schema, units, text, unread=_unread(frame.index))


def _of_objects(dtype: Any) -> bool:
    """Whether values of a column, or its categories, are Python's objects; its texts as well."""
    categories = getattr(dtype, "categories", None)
    own = dtype if categories is None else categories.dtype
    return own == np.dtype(object) or getattr(own, "storage", None) == "python"


def _texts(column: Any, ids: bool) -> pa.Array:
    """A column of objects as text; of categories, each is written once."""
    if hasattr(column, "cat"):
        codes = column.cat.codes.to_numpy()
        written = sql.column_of_objects(column.cat.categories.tolist(), ids)
        indices = of_numpy(codes.astype(np.int32), codes < 0)
        return decoded(pa.DictionaryArray.from_arrays(indices, written, safe=False))
    values = column.astype(object)
    try:
        there = values.notna()
    except decimal.InvalidOperation:  # pandas compares each decimal with itself: a signalling NaN
        quiet = (None if _signals(value) else value for value in values)
        values = type(values)(np.fromiter(quiet, object, len(values)), dtype=object)
        there = values.notna()
    return sql.column_of_objects(values.where(there, None).tolist(), ids)


def _signals(value: Any) -> bool:
    return isinstance(value, decimal.Decimal) and value.is_snan()


def _unread(index: Any) -> str:
    """A text on an index that was made of columns: it has a name, or several levels."""
    names = [str(name) for name in index.names if name is not None]
    if not names and index.nlevels == 1:
        return ""
    which = f" of {', '.join(map(repr, names))}" if names else ""
    return f"the frame's index{which} is not read: make columns of it by reset_index()"
