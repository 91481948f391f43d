"""Schema documents from code books that offices publish: Frictionless, CSVW, DDI-Codebook.

Each module reads one standard and returns `PublicColumn`s; `document` turns them into a schema. A
code book is public, so its value lists and bounds may be in a schema. What it leaves open (a text
without a list, a number without bounds) is found by the run, within its budget.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from ...errors import SchemaError, UsageError
from . import csvw, ddi, frictionless
from .public_column import PublicTable, document

READERS: dict[str, Callable[[Path], list[PublicTable]]] = {
    "frictionless": frictionless.tables,
    "csvw": csvw.tables,
    "ddi": ddi.tables,
}
"""By the name of the standard."""


def from_codebook(
    form: str, source: str | Path, *, table: str | None = None, user: str | None = None
) -> dict[str, Any]:
    """The schema document of one table of a code book. `table` names it if there are several;
    `user` is the column of user ids."""
    if form not in READERS:
        raise UsageError(f"there is no code book {form!r}; choose one of {', '.join(READERS)}")
    path = Path(source)
    found = {each.name: each for each in READERS[form](path)}
    if not found:
        raise SchemaError(f"file {path}: it describes no table")
    if table is None and len(found) > 1:
        raise SchemaError(f"file {path}: it describes the tables {', '.join(found)}; give table=")
    name = next(iter(found)) if table is None else table
    if name not in found:
        raise SchemaError(f"file {path}: it has no table {name!r}; it has {', '.join(found)}")
    return document(found[name], form, path.name, user)
