"""HTML pieces that sections are built from: a heading with a body, one body per table, tables,
lists, names. The sections' texts are in static/sections.toml."""

import tomllib
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from importlib.resources import files

from .svg import Html, text

KEY = (
    '<p class="key"><span><i class="kt"></i>truth</span><span><i'
    ' class="ks"></i>synthetic</span></p>'
)


def page_file(name: str) -> str:
    return (files(__package__) / "static" / name).read_text(encoding="utf-8")


@cache
def sections_said() -> dict[str, dict[str, str]]:
    """What the page says above each section, by the section's name."""
    return tomllib.loads(page_file("sections.toml"))


def nice(name: str) -> str:
    """A column's name, as the data and the verdict have it."""
    return text(name)


def section(ident: str, body: str, lead: str | None = None) -> str:
    """A section with its heading; `lead` in place of the sentences that it usually has."""
    if not body:
        return ""
    said = sections_said()[ident]
    return (
        f'<section id="{ident}" aria-labelledby="{ident}-h"><h2 id="{ident}-h">{said["title"]}</h2>'
        f'<p class="lead">{said["lead"] if lead is None else lead}</p>{body}</section>'
    )


def per_table(data: dict, draw: Callable[[int], str]) -> str:
    """The HTML `draw(i)` of every table i; the page shows that of the table which the reader
    selects."""
    drawn = [draw(i) for i in range(len(data["tables"]))]
    if len(drawn) == 1:
        return drawn[0]
    return "".join(
        f'<div class="of" data-of="{i}"><p'
        f' class="which">{text(data["tables"][i]["name"])}</p>{html}</div>'
        for i, html in enumerate(drawn)
        if html
    )


def table_html(
    heads: Sequence[str],
    rows: Sequence[Sequence[str]],
    kind: str = "worst",
    classes: Sequence[str] = (),
) -> str:
    """A table whose first column names its rows. Heads and cells are escaped unless they are
    `Html`; `classes` has the CSS class of each column."""
    styles = [f' class="{name}"' if name else "" for name in (*classes, *[""] * len(heads))]
    head = "".join(
        f'<th scope="col"{style}>{_breakable(name)}</th>' for name, style in zip(heads, styles)
    )
    body = ""
    for row in rows:
        cells = (f"<td{style}>{text(cell)}</td>" for cell, style in zip(row[1:], styles[1:]))
        body += f'<tr><th scope="row"{styles[0]}>{_breakable(row[0])}</th>{"".join(cells)}</tr>'
    whole = f'<table class="{kind}"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
    return f'<div class="scroll">{whole}</div>'


def _breakable(name: object) -> str:
    """A name that may break after its underscores, where a table is narrow."""
    return name if isinstance(name, Html) else text(name).replace("_", "_<wbr>")


def folded_table(
    heads: Sequence[str],
    rows: Sequence[Sequence[str]],
    shown: int,
    kind: str = "worst",
    classes: Sequence[str] = (),
) -> str:
    """A table of which only the first rows are shown until the reader opens the rest."""
    first = table_html(heads, rows[:shown], kind, classes)
    if not rows[shown:]:
        return first
    rest = table_html(heads, rows[shown:], kind, classes)
    return first + details(f"{len(rows) - shown} more", rest)


def details(summary: str, body: str) -> str:
    return f"<details><summary>{summary}</summary>{body}</details>"


def listed(texts: Iterable[object]) -> str:
    """A list of texts; nothing without any."""
    items = "".join(f"<li>{text(one)}</li>" for one in texts)
    return f"<ul>{items}</ul>" if items else ""


def bold(value: str) -> Html:
    return Html(f"<b>{text(value)}</b>")


def bars(marks: Iterable[tuple[str, int, float]], tip: str = "") -> Html:
    """Thin horizontal bars in one cell of a table: (CSS class, height from the top, length as a
    share)."""
    drawn = "".join(
        f'<rect class="{k}" y="{y}" height="6" width="{100 * x:.2f}%"/>' for k, y, x in marks
    )
    said = f' data-tip="{text(tip)}"' if tip else ""
    return Html(f'<svg class="duo"{said} aria-hidden="true">{drawn}</svg>')


def figures(drawn: Iterable[tuple[str, str, str]]) -> str:
    """Small charts side by side: (name of the column, what stands beside it, chart) of each."""
    heads = ((f"<b>{nice(name)}</b><span>{aside}</span>", body) for name, aside, body in drawn)
    cards = (
        f'<figure class="card"><figcaption>{h}</figcaption>{body}</figure>' for h, body in heads
    )
    return f'<div class="multiples">{"".join(cards)}</div>'


def halves(cards: Iterable[tuple[str, str]]) -> str:
    """Cards in two columns: (HTML of the heading, body) of each."""
    drawn = "".join(f'<div class="card">{f"<h3>{h}</h3>" if h else ""}{b}</div>' for h, b in cards)
    return f'<div class="halves">{drawn}</div>' if drawn else ""
