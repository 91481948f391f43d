"""pandas frames and series as sources."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

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
    driver, since its Arrow type would depend on all values. So is one of categories of several
    types."""

    if not hasattr(frame, "columns"):
        frame = frame.to_frame()
    names = [str(name) for name in frame.columns]
    kinds: dict[int, pa.DataType] = {}
    for i, dtype in enumerate(frame.dtypes):
        with contextlib.suppress(pa.ArrowException):
            if dtype != np.dtype(object):
                kinds[i] = pa.array(frame.iloc[:0, i], from_pandas=True).type
        if dtype.kind == "c":  # two numbers: no text of them is a value of any column
            kinds[i] = pa.struct([("real", pa.float64()), ("imag", pa.float64())])
    text = frozenset(name for i, name in enumerate(names) if i not in kinds)
    schema = pa.schema([(name, kinds.get(i, pa.binary())) for i, name in enumerate(names)])

    def units(columns: Sequence[str], user: str | None) -> Iterator[Unit]:
        at = [names.index(name) for name in columns]

        def column(piece: Any, name: str) -> pa.Array:
            if name in text:
                values = piece.astype(object)
                return sql.column_of_objects(values.where(values.notna(), None), name == user)
            array = pa.array(piece, type=schema.field(name).type, from_pandas=True)
            return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array

        def batch(start: int) -> Iterator[pa.RecordBatch]:
            piece = frame.iloc[start : start + parts.BATCH_ROWS, at]
            arrays = [column(piece.iloc[:, i], name) for i, name in enumerate(columns)]
            yield from cut(pa.record_batch(arrays, names=list(columns)))

        for start in range(0, len(frame), parts.BATCH_ROWS):
            yield partial(batch, start)

    return Part(where, schema, units, text)
