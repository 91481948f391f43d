"""An engine is one object: which rows it can count, where it runs, and how it is opened.

A module of this folder defines a subclass of `Engine` and registers it with `@ENGINES.add(NAME)`.
`synthesize(engine=NAME)` chooses it; without a name the source's first engine counts.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from msgspec import Struct, field

from .._util.registries import Registry
from ..errors import UsageError
from ..schema import Schema
from ..tables.sources.source import Source
from ..tables.table import Table
from . import Counter

if TYPE_CHECKING:
    from ..tables.linked_tables import Links


class EngineOptions(Struct, frozen=True):
    """Options of a run that an engine is given; `synthesize` documents both."""

    threads: int | None = None
    partitions: int | None = None


class OpenCounter(Struct):
    """An engine over a run's rows. table: the rows, where the engine holds them in this process.
    reading: PRIVATE numbers of rows and users that were read; empty if nothing was read. about: what
    the statement says of the engine; public."""

    counter: Counter
    table: Table | None
    close: Callable[[], None]
    reading: Mapping[str, int] = field(default_factory=dict)
    about: Mapping[str, str] = field(default_factory=dict)


ValueUsers = tuple[list[Any], np.ndarray, np.ndarray]
"""(values, t, users): PRIVATE. Of the users who count in exactly t[i] values, users[i] have
values[i] among them. A value may occur several times, with different t."""


@runtime_checkable
class KeySource(Protocol):
    """A source that counts the users of each value itself, for key selection, so that no rows
    move."""

    def users_by_value(
        self,
        schema: Schema,
        name: str,
        dtype: str,
        cap: int,
        known: Collection[int | str],
        places: int | None,
    ) -> ValueUsers:
        """Users of each value of a source column, as `release.key_counts.count_keys` describes them.
        A user counts in at most `cap` values, chosen by that user's rows and id alone."""
        ...


class Engine:
    """Counts a run's rows.

    name: as it is registered. counts: a noun phrase for error texts, the sources that it takes.
    divides: it takes the option `partitions`. holds_rows: the rows are in this process while it is
    open, so that a report can use them. links: it counts linked tables. periods: it counts by user
    and period.
    """

    name: ClassVar[str]
    counts: ClassVar[str] = "a source that this process can read"
    divides: ClassVar[bool] = False
    holds_rows: ClassVar[bool] = True
    links: ClassVar[bool] = True
    periods: ClassVar[bool] = False

    def check(self, options: EngineOptions) -> None:
        """Raise UsageError if an option is set that the engine does not have, or is out of
        range."""
        if options.partitions is not None and not self.divides:
            dividing = [engine.name for engine in ENGINES if engine.divides]
            raise UsageError(f"partitions= needs engine={' or '.join(map(repr, dividing))}")

    def check_unit(self, schema: Schema) -> None:
        """Raise UsageError, before anything is charged, if the engine cannot count by the schema's
        unit of privacy."""
        if schema.period is not None and not self.periods:
            raise UsageError(
                f"engine={self.name!r} does not count by user and period; use engine='local' on "
                "the same source. Nothing was charged"
            )

    def check_run(self, source: Source, schema: Schema, numbers: bool) -> None:
        """Raise, before anything is charged, if the engine cannot count what a run asks of a source.
        numbers: the run asks for numbers (`Counter.user_sums`)."""

    def key_source(self, source: Source) -> Source | KeySource:
        """What key selection reads: the source itself, or what counts users by value."""
        return source

    def open(self, source: Source, schema: Schema, options: EngineOptions) -> OpenCounter:
        """Read the source and count over it. The caller closes it after the last count."""
        raise NotImplementedError

    def open_linked(
        self, sources: Mapping[str, Source], links: Links, options: EngineOptions
    ) -> list[OpenCounter]:
        """`open` for linked tables: one engine over the parents' table and one over each
        child's."""
        raise UsageError(no_links_text(self.name))


ENGINES: Registry[type[Engine]] = Registry("engine", __package__)


def no_links_text(name: str) -> str:
    """The error text of an engine that cannot count linked tables."""
    return f"engine={name!r} cannot count linked tables; use engine='local' on the same sources"


def reading_facts(rows: int, users: int, dropped: int, malformed: int) -> dict[str, int]:
    """`OpenCounter.reading`, by its keys. dropped: rows that the schema's policies leave out.
    malformed: lines of files that could not be parsed."""
    return {"rows": rows, "users": users, "dropped_rows": dropped, "malformed_lines": malformed}
