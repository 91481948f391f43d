"""What sections are made of: a heading over a body, one body for each table, names for reading."""

from __future__ import annotations

from collections.abc import Callable

from .svg import text

KEY = '<p class="key"><span><i class="kt"></i>truth</span><span><i class="ks"></i>synthetic</span></p>'


def nice(name: str) -> str:
    """A column's name for reading: underscores become spaces that may break."""
    return text(name.replace("_", " "))


def section(ident: str, title: str, lead: str, body: str) -> str:
    if not body:
        return ""
    return (
        f'<section id="{ident}" aria-labelledby="{ident}-h"><h2 id="{ident}-h">{text(title)}</h2>'
        f'<p class="lead">{lead}</p>{body}</section>'
    )


def per_table(data: dict, draw: Callable[[int], str]) -> str:
    """`draw(i)` for every table; the page shows the one that is picked."""
    drawn = [draw(i) for i in range(len(data["tables"]))]
    if len(drawn) == 1:
        return drawn[0]
    return "".join(
        f'<div class="of" data-of="{i}"><p class="which">{text(data["tables"][i]["name"])}</p>{html}</div>'
        for i, html in enumerate(drawn)
        if html
    )
