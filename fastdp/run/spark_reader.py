"""`spark.read.format("fastdp")`: the rows of a run folder as a Spark DataFrame.

PySpark's Python data sources (Spark 4) read any Arrow batches. Tasks read one file of rows each,
with pyarrow alone: executors need the folder, and no fastdp.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .._util.files import as_path
from ..errors import UsageError, did_you_mean
from .linked_result import LinkedRun
from .loading import load_run
from .spark_output import spark_schema
from .verify import verify

OPTIONS = ("path", "table", "verify")


def register_spark(spark: Any) -> None:
    """Make `format("fastdp")` known to a Spark session.

    Then `spark.read.format("fastdp").load("run")` reads the synthetic rows of a run folder, and
    only these. Options: `table`, one of linked tables; `verify` (`true`): check the whole folder
    first, as `fastdp.verify` does. Column types that Spark lacks become the next larger type.

    Parameters
    ----------
    spark : pyspark.sql.SparkSession
        Classic or Connect, of PySpark 4. The driver and the executors must see the folder.
    """
    try:
        spark.dataSource.register(_source_class())
    except (ImportError, AttributeError):
        raise UsageError("register_spark needs PySpark 4: pip install 'fastdp[spark]'") from None


def rows_of_folder(options: dict[str, str]) -> tuple[list[str], Any]:
    """(files of rows, their Arrow schema in Spark's types) for the options of a reader. Runs on the
    driver; UsageError or RunError if the folder is not a run."""
    for name in options:
        if name not in OPTIONS:
            raise UsageError(f"there is no option {name!r}{did_you_mean(name, OPTIONS)}")
    if "path" not in options:
        raise UsageError('give the run folder: spark.read.format("fastdp").load("run")')
    folder = as_path(options["path"], "the run folder").absolute()
    if options.get("verify", "false").lower() == "true":
        verify(folder)
    found = load_run(folder)
    if isinstance(found, LinkedRun):
        found = found.runs[_table(found, options.get("table"))]
    elif "table" in options:
        raise UsageError("table: this run has one table only; leave the option out")
    dataset = found.dataset
    return [str(Path(file)) for file in sorted(dataset.files)], spark_schema(dataset.schema)


def _table(run: LinkedRun, name: str | None) -> str:
    if name is None:
        raise UsageError(f"table: choose one of the linked tables {', '.join(run.runs)}")
    if name not in run.runs:
        raise UsageError(f"there is no table {name!r}{did_you_mean(name, run.runs)}")
    return name


def _source_class() -> type:
    """The class that Spark makes readers of. It is made here, so that fastdp imports without
    PySpark, and Spark sends it to its executors by value."""
    from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

    class Reader(DataSourceReader):
        def __init__(self, files: list[str], schema: Any):
            self.files = files
            self.schema = schema

        def partitions(self) -> list[Any]:
            return [InputPartition(file) for file in self.files]

        def read(self, partition: Any) -> Any:
            import pyarrow as arrow
            import pyarrow.parquet as parquet

            with parquet.ParquetFile(partition.value) as file:
                for batch in file.iter_batches(1 << 16):
                    rows = arrow.Table.from_batches([batch]).cast(self.schema, safe=False)
                    yield from rows.to_batches()

    class Source(DataSource):
        @classmethod
        def name(cls) -> str:
            return "fastdp"

        def schema(self) -> Any:
            from pyspark.sql.pandas.types import from_arrow_schema

            return from_arrow_schema(rows_of_folder(dict(self.options))[1])

        def reader(self, schema: Any) -> Any:
            return Reader(*rows_of_folder(dict(self.options)))

    return Source
