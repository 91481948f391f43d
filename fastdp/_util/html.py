"""Text as HTML for notebooks."""

from html import escape


def text_html(text: str) -> str:
    """Preformatted text."""
    return f"<pre>{escape(text)}</pre>"
