"""Notes to the data's owner: what a run could not read, and what the domains that it found leave
out. PRIVATE: they count the true rows, and are written into the private folder alone."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..metrics.check import ColumnCheck, check
from ..schema import Schema
from ..tables.sources.source import Source
from ..tables.whole_table import other_encoding
from .plan_result import two_digits

NOTES = "notes.txt"
HEAD = "For the data's owner. These numbers are not private: do not release them."
LEAST = 0.0005
"""The smallest share of the rows that is noted."""


def owner_notes(source: Source, asked: Schema, schema: Schema, private: Path) -> list[str]:
    """Sentences for the owner; none if all was read and the domains are public. `asked`: the schema
    as it was given; `schema`: the finished one; `private`: the folder with `reading.json`."""
    notes = _notes_on_reading(source, schema, private / "reading.json")
    found = set(asked.unfinished)
    if found and source.again and source.encoded is None:
        columns = check(source, schema, mechanism=None).columns
        notes += [
            note for column in columns if column.name in found for note in _notes_on_domain(column)
        ]
    return notes


def _notes_on_reading(source: Source, schema: Schema, file: Path) -> list[str]:
    """What to try where lines of text files could not be read."""
    numbers: dict[str, Any] = json.loads(file.read_text("utf-8")) if file.is_file() else {}
    wrong = numbers.get("malformed_lines", 0)
    if not wrong:
        return []
    of = wrong + numbers.get("rows", 0) + numbers.get("dropped_rows", 0)
    note = f"{wrong:,} of {of:,} lines could not be read"
    encoding = other_encoding(source) if schema.dialect.encoding == "utf-8" else None
    if encoding is not None:
        return [
            f'{note}: the files look like {encoding}; give dialect={{"encoding": "{encoding}"}}'
        ]
    return [f"{note}: fastdp check names the first of them; see docs/guide/text-files.md"]


def _notes_on_domain(column: ColumnCheck) -> list[str]:
    """A sentence for each kind of value that lies outside the domain which the run found."""
    name = column.name
    kinds = [
        (column.negative, "negative numbers"),
        (column.outside - column.negative, "other values" if column.negative else "values"),
        (column.wrong, "values of another kind"),
    ]
    return [
        f"{name}: {what}: {two_digits(share)} % of the rows lie outside the domain that the run found"
        for share, what in ((100 * part, what) for part, what in kinds if part >= LEAST)
    ]


def notes_text(notes: Sequence[str]) -> str:
    return "\n".join([HEAD, *(notes or ["Nothing to note."])])
