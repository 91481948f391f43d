"""Fixes what a run reads before anything is charged, and looks afterwards whether it changed.

A listing of files is private, since sizes tell of rows: a digest of it stays in the run's private
folder. The version of a lakehouse table counts as public, and the statement records it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from msgspec.structs import replace

from ..errors import DataError
from ..mechanisms.base import Outcome
from ..tables.ingest import guarded
from ..tables.sources.source import Source
from .folder import RunFolder

Sources = Source | Mapping[str, Source]
STATE = "pins"
"""Where the state of a run keeps what it fixed."""


def pin_sources(sources: Sources, folder: RunFolder | None) -> dict[str, Any]:
    """Fix what is read, by table; what the state of the run keeps. A resumed run reads the version
    that it began with, or raises DataError."""
    resumed = folder is not None and folder.resume
    before = folder.state.get(STATE, {}) if folder is not None and resumed else {}
    return {
        name: guarded(partial(source.pin, before.get(name)))
        for name, source in _named(sources).items()
    }


def check_unchanged(sources: Sources, charged: bool) -> tuple[str, ...]:
    """Look whether a source changed while it was read. If nothing is charged yet, DataError. Else a
    note for the statement, since the answers may be of two states of the table."""
    changes = [text for source in _named(sources).values() if (text := source.changes())]
    if changes and not charged:
        raise DataError(
            f"{'; '.join(changes)}; nothing was charged: start again when nobody writes to it"
        )
    if not changes:
        return ()
    return (
        "the source changed while it was read, or since the run began; numbers and rows may mix two"
        " states of the table",
    )


def with_source_facts(outcome: Outcome, sources: Sources, notes: tuple[str, ...]) -> Outcome:
    """The outcome with these notes, and with the versions of tables that were read."""
    versions = {name: source.version for name, source in _named(sources).items()}
    found: Any = {name: version for name, version in versions.items() if version is not None}
    if not found:
        return replace(outcome, notes=(*outcome.notes, *notes))
    details = {**outcome.details, "source": found[""] if "" in found else found}
    return replace(outcome, notes=(*outcome.notes, *notes), details=details)


def _named(sources: Sources) -> Mapping[str, Source]:
    return {"": sources} if isinstance(sources, Source) else sources
