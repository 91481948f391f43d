"""Tables and figures in Markdown."""

from __future__ import annotations

from collections.abc import Iterable


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table in Markdown."""
    titles = list(head)
    lines = [
        "|" + "|".join(f" {title} " if title else " " for title in titles) + "|",
        "|" + "---|" * len(titles),
    ]
    for row in rows:
        lines.append("|" + "|".join(f" {cell} " if cell else " " for cell in row) + "|")
    return "\n".join(lines) + "\n"


def bare(value: float, digits: int = 3) -> str:
    """.063 for 0.063."""
    return f"{value:.{digits}f}".removeprefix("0")
