"""Spark sessions and DataFrames for the command line."""

import glob
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from .._util.files import local_path, scheme_of
from ..errors import DataError, UsageError
from ..tables.lakehouse import STREAM, check_plain
from ..tables.sources.file_paths import listed
from .spark import guarded

TABLE = "table:"
TEXT = (".csv", ".tsv", ".txt", ".json", ".jsonl", ".ndjson", ".gz", ".zst", ".bz2")


def format_of(sources: Sequence[str]) -> str:
    """`table`, `parquet` or `orc`; UsageError if the sources differ in kind or are of another
    kind."""
    kinds = set()
    for source in sources:
        name = source.lower().rstrip("/*")
        if source.startswith(TABLE):
            kinds.add("table")
        elif name.endswith(TEXT):
            raise UsageError(
                "--engine spark reads Parquet, ORC and table:NAME. Spark splits the rows of "
                "text files differently; convert the files to Parquet, or use another engine"
            )
        else:
            kinds.add("orc" if name.endswith(".orc") else "parquet")
    if len(kinds) != 1 or (kinds == {"table"} and len(sources) > 1):
        raise UsageError("--engine spark needs files of one format, or one table:NAME")
    return kinds.pop()


def _check_mounted(sources: Sequence[str]) -> None:
    """Raise DataError if a source that this machine can see is a lakehouse table: Spark's Parquet
    reader would take rows that were deleted. Spark itself sees whether files exist."""
    for source in sources:
        scheme = scheme_of(source)
        path = local_path(source)
        if scheme in (None, "file") and glob.glob(path):
            check_plain(source, [file for file, _ in listed(path)], known_logs=(STREAM,))


@contextmanager
def opened(sources: Sequence[str], master: str | None) -> Iterator[Any]:
    """The rows of files that Spark can see, or of `table:NAME` of its catalog, as a DataFrame of a
    session that ends with the block. master: Spark's, or sc://... of Spark Connect; None: as Spark
    is set up."""
    kind = format_of(sources)
    if kind != "table":
        _check_mounted(sources)
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise UsageError(
            "--engine spark needs the package pyspark: install fastdp[spark]"
        ) from None
    builder = SparkSession.builder
    if master is not None and master.startswith("sc://"):
        builder = builder.remote(master)
    else:
        settings = {
            "spark.app.name": "fastdp",
            "spark.ui.showConsoleProgress": "false",
            "spark.log.level": "ERROR",
        }
        if master is not None and master.startswith("local"):
            settings["spark.shuffle.compress"] = (
                "false"  # codes are packed, and stay on this machine
            )
        for name, value in settings.items():
            builder = builder.config(name, value)
        if master is not None:
            builder = builder.master(master)
            if master.startswith("local"):
                os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    try:
        session = builder.getOrCreate()
    except Exception as error:  # of Py4J, of gRPC or of Java: no common base
        raise DataError(
            f"could not start a Spark session ({type(error).__name__}); Spark needs Java, and "
            "a master or sc:// address that responds"
        ) from None
    try:
        if kind == "table":
            yield guarded(lambda: session.table(sources[0].removeprefix(TABLE)))
        else:
            yield guarded(lambda: session.read.format(kind).load(list(sources)))
    finally:
        session.stop()
