"""The private rows of `fastdp synth`, as the command line names them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

from ..errors import UsageError
from . import common

NO_FOLDER = "--out is required: it names the run folder"


@dataclass(frozen=True)
class RunSource:
    """DATA and the options that say what it is.

    `data`: DATA as it is written. `tables`: the files of linked tables by name; None: one table.
    `kind`: of --source. `query`: of --sql.
    """

    data: Sequence[str]
    tables: dict[str, str] | None
    kind: str | None
    query: str | None
    engine: str | None
    master: str | None

    @property
    def spark(self) -> bool:
        """Whether Spark reads DATA, and not this process."""
        return self.engine == "spark"

    def files(self) -> list[str]:
        """The paths that this process will read."""
        if self.spark or self.kind is not None:
            return []
        return list(self.data if self.tables is None else self.tables.values())

    def check(self) -> None:
        """Raise UsageError unless --engine, --master, --source, --sql and DATA fit together."""
        if not self.spark:
            if self.master is not None:
                raise UsageError("--master needs --engine spark")
            if (self.query is None) == (not self.data):
                raise UsageError("synth needs the private data: give DATA, or --sql with a select")
        elif self.query is not None or not self.data:
            raise UsageError(
                "--engine spark needs DATA: files that Spark can see, or table:NAME of its catalog"
            )
        elif self.kind is not None:
            raise UsageError("--source is not for --engine spark, which reads DATA itself")

    def opened(self) -> AbstractContextManager[Any]:
        """A block in which the rows can be read; it gives the source. A Spark session ends with it."""
        if self.spark:
            from ..engines.sparksource import opened

            return opened(self.data, self.master)
        return nullcontext(self._source())

    def _source(self) -> Any:
        """The named files, the rows of the query, or what --source makes of DATA. Linked tables have
        one each, by name."""
        if self.tables:
            return common.named_sources(self.kind, self.tables)
        if self.kind is not None:
            return common.named_source(self.kind, self.data)
        if self.query is None:
            return list(self.data) if len(self.data) > 1 else self.data[0]
        from ..tables.sql import connect, sql as rows_of

        return rows_of(connect(), self.query)

    def default_folder(self) -> str:
        """The run folder next to the only table's first file; UsageError if there is no such file."""
        named = self.kind is not None or bool(self.tables)
        first = None if named or not self.data else self.data[0]
        if first is None or first.startswith("table:") or common.is_url(first):
            raise UsageError(NO_FOLDER)
        return str(common.sibling_path(first, ".synthetic"))

    def default_schema(self, mechanism: str) -> str | None:
        """The schema file next to the first file, where the mechanism's recipe has no schema."""
        if not self.data or self.kind is not None or self.tables:
            return None
        from ..mechanisms.recipe import load

        recipe = load(mechanism)
        return None if recipe.schema is not None else common.schema_beside(self.data[0])
