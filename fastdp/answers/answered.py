"""What `run.answer` returns: a table of numbers with intervals that shows itself to people."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from .._util.lazy import pa, pl
from .._util.texttable import table as text_table
from .values import MISSING, OTHER

if TYPE_CHECKING:
    import pandas as pd

SHOWN = ("estimate", "low", "high", "basis")
"""Columns that `print` and a notebook show."""
MOST_LINES = 60
"""The most groups that `print` and a notebook show; the table holds all."""
WIDTH = 320
"""Width of the picture, in pixels."""
BAR = 14
"""Height of a line, in pixels."""
GAP = 6
"""Space between lines, in pixels."""


class Answer:
    """Numbers with intervals: one row per group, in Arrow.

    `table` is the `pyarrow.Table`; every attribute and method of it also works on the answer, and
    whatever takes Arrow data takes it. `notes` has each note once. `by` names the columns of
    groups. `print` shows lines and notes; a notebook draws the intervals.
    """

    def __init__(self, table: pa.Table, by: Sequence[str] = ()):
        self.table = table
        self.by = tuple(by)

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader must know besides the numbers. What is true of a single group is left to
        its own line."""
        every = [_parts(note) for note in self.table.column("note").to_pylist()]
        common = dict.fromkeys(text for parts in every for text in parts)
        return tuple(t for t in common if not any(t.startswith(f"{name}: ") for name in self.by))

    def keys(self) -> list[tuple[str, ...]]:
        """The values of each group as text. Missing values and those outside the schema, both null
        in the table, are told apart."""
        out = []
        for row in self.table.to_pylist():
            parts = _parts(row["note"])
            out.append(tuple(_key(name, row[name], parts) for name in self.by))
        return out

    def _groups(self) -> list[str]:
        return [", ".join(key) for key in self.keys()]

    def to_pandas(self) -> pd.DataFrame:
        """The table as a `pandas.DataFrame` (needs pandas)."""
        return self.table.to_pandas()

    def to_polars(self) -> pl.DataFrame:
        """The table as a `polars.DataFrame`."""
        frame = pl.from_arrow(self.table)
        assert isinstance(frame, pl.DataFrame)
        return frame

    def to_pylist(self) -> list[dict[str, Any]]:
        return self.table.to_pylist()

    def column(self, name: str) -> pa.ChunkedArray:
        return self.table.column(name)

    def __getitem__(self, key: Any) -> Any:
        return self.table[key]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "table":
            raise AttributeError(name)
        return getattr(self.table, name)

    def __len__(self) -> int:
        return self.table.num_rows

    def __iter__(self) -> Iterator[Any]:
        return iter(self.table.to_pylist())

    def equals(self, other: Any, *, check_metadata: bool = False) -> bool:
        """Whether both have the same columns and numbers; `other` may be a `pyarrow.Table`."""
        table = other.table if isinstance(other, Answer) else other
        return self.table.equals(table, check_metadata=check_metadata)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Answer | pa.Table) and self.equals(other)

    __hash__ = None  # type: ignore[assignment]

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.table.__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        rows = [
            [name, *(_text(row[key]) for key in SHOWN)]
            for name, row in zip(self._groups(), self.table.to_pylist())
        ]
        lines = text_table([[", ".join(self.by) or "", *SHOWN], *rows[:MOST_LINES]])
        if len(rows) > MOST_LINES:
            lines.append(f"... and {len(rows) - MOST_LINES:,} more")
        return "\n".join([*lines, *self.notes])

    def _repr_html_(self) -> str:
        """For notebooks: each group with its interval, and the notes once."""
        rows = self.table.to_pylist()[:MOST_LINES]
        numbers = [row[key] for row in rows for key in ("low", "high", "estimate")]
        ends = [x for x in numbers if x is not None and math.isfinite(x)]
        low = min([0.0, *ends])
        high = max([0.0, *ends])
        scale = WIDTH / (high - low or 1.0)
        lines = []
        for name, row in zip(self._groups(), rows):
            shown = "".join(f"<td>{escape(_text(row[key]))}</td>" for key in SHOWN)
            lines.append(
                f"<tr><th>{escape(name)}</th><td>{_drawn(row, low, scale)}</td>{shown}</tr>"
            )
        heads = "".join(f"<th>{key}</th>" for key in SHOWN)
        more = len(self) - len(rows)
        rest = f"<p>... and {more:,} more</p>" if more else ""
        notes = "".join(f"<p>{escape(note)}</p>" for note in self.notes)
        head = f"<tr><th>{escape(', '.join(self.by))}</th><th></th>{heads}</tr>"
        return f"<table>{head}{''.join(lines)}</table>{rest}{notes}"


def _parts(note: str | None) -> list[str]:
    """The separate notes of one row's `note`."""
    return [text for text in (note or "").split("; ") if text]


def _key(name: str, value: Any, notes: Sequence[str]) -> str:
    """A group's value as text. For a null, the row's notes say whether it stands for a missing
    value or for values outside the schema."""
    if value is not None:
        return str(value)
    if f"{name}: {OTHER}" in notes:
        return f"({OTHER})"
    return f"({MISSING})" if f"{name}: {MISSING}" in notes else "(null)"


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return str(value)


def _drawn(row: dict[str, Any], low: float, scale: float) -> str:
    """An SVG picture of one interval, a line with a mark at the estimate; empty without an
    estimate. low: the number at the left end. scale: pixels per unit."""
    middle = row["estimate"]
    if middle is None or not math.isfinite(middle):
        return ""
    at = (middle - low) * scale
    ends = [row["low"], row["high"]]
    inner = ""
    if all(x is not None and math.isfinite(x) for x in ends):
        left, right = ((x - low) * scale for x in ends)
        inner = (
            f'<line x1="{left:.1f}" x2="{right:.1f}" y1="7" y2="7" stroke="#888" stroke-width="3"/>'
        )
    inner += f'<circle cx="{at:.1f}" cy="7" r="4" fill="#2a6fdb"/>'
    size = f'width="{WIDTH + 2 * GAP}" height="{BAR}" viewBox="-{GAP} 0 {WIDTH + 2 * GAP} {BAR}"'
    return f'<svg {size} role="img">{inner}</svg>'
