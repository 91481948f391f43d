"""Facts as HTML for notebooks: a title and a table of two columns. Everything is escaped."""

from __future__ import annotations

from html import escape


def text_html(text: str) -> str:
    """Preformatted text."""
    return f"<pre>{escape(text)}</pre>"
