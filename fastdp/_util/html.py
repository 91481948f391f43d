"""Facts as HTML for notebooks: a title and a table of two columns. Everything is escaped."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape


def facts_html(title: str, facts: Mapping[str, object]) -> str:
    """A table of the facts that are not empty."""
    left = 'style="text-align:left"'
    rows = "".join(
        f"<tr><th {left}>{escape(name)}</th><td {left}>{escape(str(value))}</td></tr>"
        for name, value in facts.items()
        if value not in ("", None)
    )
    return f"<table><caption>{escape(title)}</caption>{rows}</table>"


def text_html(text: str) -> str:
    """Preformatted text."""
    return f"<pre>{escape(text)}</pre>"
