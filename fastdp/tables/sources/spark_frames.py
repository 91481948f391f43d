"""Spark DataFrames as sources. Spark counts them unless another engine is asked for."""

from __future__ import annotations

from typing import Any

from ..._util.lazy import pa
from ...schema.dialect import Dialect
from ..parts import Part
from .arrow_frames import of_table
from .source import SOURCES, Source
from .streams import of_reader


@SOURCES.add("spark")
class SparkFrame(Source):
    """A Spark DataFrame, of a classic session or of Spark Connect (not pandas' on Spark)."""

    engines = ("spark", "local")
    opens_freely = False

    @classmethod
    def takes(cls, given: Any) -> bool:
        kind = type(given)
        return kind.__module__.startswith("pyspark.sql.") and kind.__name__ == "DataFrame"

    def parts(self, dialect: Dialect) -> list[Part]:
        try:
            reader = pa.RecordBatchReader.from_stream(self.given)
        except AssertionError:
            # PySpark 4.3 cannot stream timestamps with a zone, but it can return them as a table.
            return [of_table(self.given.toArrow())]
        return [of_reader(reader, self.given)]

    def why_not_learnt(self, domains: bool) -> str:
        if not domains:
            return ""
        return (
            "a private domain cannot be found in a Spark DataFrame; write it to Parquet and give "
            "the path, or write the domain down in the schema"
        )

    def why_not_diagnosed(self) -> str:
        return (
            "diagnose reads the values in this process, and Spark's rows stay on the cluster; leave "
            "diagnose out, or run on the files that the DataFrame reads"
        )
