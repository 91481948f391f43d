"""Chooses the engine that counts a run's private rows, and opens it over the run's source."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from ..engines import Counter
from ..engines.engine import ENGINES, EngineOptions, KeySource, OpenCounter
from ..errors import UsageError
from ..schema import Schema
from ..tables.sources.source import Source
from .spec import RunOptions

if TYPE_CHECKING:
    from ..tables.linked_tables import Links


def engine_for(source: Source, options: RunOptions) -> str:
    """The name of the engine that counts a source: its own unless another is asked for. UsageError
    if an engine is unknown or cannot do what is asked."""
    name = source.engines[0] if options.engine is None else options.engine
    engine = ENGINES.get(name)()
    if name not in source.engines:
        counted = f"which {' or '.join(map(repr, source.engines))} counts"
        raise UsageError(f"engine={name!r} needs {engine.counts}, got a {source.kind}, {counted}")
    engine.check(_options(options))
    if options.report and not engine.holds_rows:
        raise UsageError(
            f"report= needs the true rows in one table, and engine={name!r} leaves them where they are;"
            " call fastdp.evaluate afterwards, on a machine where they fit"
        )
    return name


def open_counter(source: Source, schema: Schema, options: RunOptions) -> OpenCounter:
    """Reads the source and opens the engine over it. The caller closes the engine after the last
    count."""
    return ENGINES.get(options.engine)().open(source, schema, _options(options))


def key_source(source: Source, options: RunOptions) -> Source | KeySource:
    """What the run's key selection reads."""
    return ENGINES.get(options.engine)().key_source(source)


def open_linked(
    sources: Mapping[str, Source], links: Links, options: RunOptions
) -> list[OpenCounter]:
    """The same of linked tables: an engine over the parents' table and over each child's table."""
    return ENGINES.get(options.engine)().open_linked(sources, links, _options(options))


@contextlib.contextmanager
def counter_for(source: Source, schema: Schema, options: RunOptions) -> Iterator[Counter]:
    """A context with an engine over the source, for a few counts; the engine is closed at its
    end."""
    opened = open_counter(source, schema, options)
    try:
        yield opened.counter
    finally:
        opened.close()


def _options(options: RunOptions) -> EngineOptions:
    return EngineOptions(threads=options.threads, partitions=options.partitions)
