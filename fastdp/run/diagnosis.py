"""Writes what `fastdp.check` says of a run's source into the run's private folder, for the data's owner."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._util.files import write_atomic
from ..engines.sparkcheck import is_spark
from ..errors import UsageError
from .counting import is_table, read_once

if TYPE_CHECKING:
    from ..schema import Schema


def check_rereadable(source: Any) -> None:
    """UsageError where a source can be read only once, holds codes instead of values, or is a Spark
    DataFrame."""
    if is_spark(source):
        raise UsageError("diagnose reads the values in this process, and Spark's rows do not come here")
    if is_table(source) or read_once(source):
        raise UsageError(
            "diagnose reads the values a second time: give a path or a frame, not a fastdp.Table or a stream"
        )


def write_diagnosis(source: Any, schema: Schema, private: Path, threads: int | None) -> None:
    """Writes check.json and check.txt into the private folder."""
    from ..metrics.check import check

    report = check(source, schema, threads=threads)
    write_atomic(private / "check.json", (json.dumps(report.to_dict(), indent=1) + "\n").encode(), 0o600)
    write_atomic(private / "check.txt", f"{report}\n".encode(), 0o600)
