"""HTML pieces that sections are built from: a heading with a body, one body per table, readable names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from .svg import text

KEY = '<p class="key"><span><i class="kt"></i>truth</span><span><i class="ks"></i>synthetic</span></p>'


def nice(name: str) -> str:
    """A readable name of a column: underscores become spaces, at which a line may break."""
    return text(name.replace("_", " "))


def section(ident: str, title: str, lead: str, body: str) -> str:
    if not body:
        return ""
    return (
        f'<section id="{ident}" aria-labelledby="{ident}-h"><h2 id="{ident}-h">{text(title)}</h2>'
        f'<p class="lead">{lead}</p>{body}</section>'
    )


def per_table(data: dict, draw: Callable[[int], str]) -> str:
    """The HTML `draw(i)` of every table i; the page shows that of the table which the reader selects."""
    drawn = [draw(i) for i in range(len(data["tables"]))]
    if len(drawn) == 1:
        return drawn[0]
    return "".join(
        f'<div class="of" data-of="{i}"><p class="which">{text(data["tables"][i]["name"])}</p>{html}</div>'
        for i, html in enumerate(drawn)
        if html
    )


def table_html(heads: Sequence[str], rows: Iterable[Sequence[str]], kind: str = "worst") -> str:
    """A table whose first column names its rows; heads and cells are texts, which are escaped."""
    head = "".join(f'<th scope="col">{text(name)}</th>' for name in heads)
    body = "".join(
        f'<tr><th scope="row">{text(row[0])}</th>{"".join(f"<td>{text(cell)}</td>" for cell in row[1:])}</tr>'
        for row in rows
    )
    return (
        f'<div class="scroll"><table class="{kind}"><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )
