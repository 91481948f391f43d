"""The body of the page of one table: its sections in reading order, and the links to them."""

from __future__ import annotations

from typing import Any, NamedTuple

from . import causes_section, people_section, runs, sections, workload
from .blocks import sections_said
from .svg import big, text


class Body(NamedTuple):
    """Pieces of HTML, under the names that the template has for them."""

    subtitle: str
    nav: str
    picker: str
    main: str


def body(data: dict[str, Any]) -> Body:
    """Draw the data that `page.collect` returns."""
    main = drawn(data)
    return Body(
        subtitle(data), f'<nav aria-label="Sections">{links(main)}</nav>', _pick(data), main
    )


def drawn(data: dict[str, Any]) -> str:
    """All sections that the data has something for."""
    other = {
        "noise": runs.noise_section,
        "workload": workload.sets,
        "people": people_section.draw,
        "causes": causes_section.draw,
    }
    names = ("summary", *(name for name in sections_said() if name != "links"))
    return "\n".join((other.get(name) or getattr(sections, name))(data) for name in names)


def links(main: str, suffix: str = "") -> str:
    """Links to the sections that the page has; `suffix`: what follows their names."""
    said = sections_said().items()
    shown = {k: v["nav"] for k, v in said if f'<section id="{k}{suffix}"' in main}
    return "".join(f'<a href="#{k}{suffix}">{v}</a>' for k, v in shown.items())


def subtitle(data: dict[str, Any]) -> str:
    """How many rows and users the tables have."""

    def size(t: dict) -> str:
        return f"{big(t['rows'])} rows" + (f" of {big(t['users'])} users" if t.get("users") else "")

    tables = [*([{"name": "truth", **data["truth"]}] if data["truth"] else []), *data["tables"]]
    return text(" · ".join(f"{t['name']}: {size(t)}" for t in tables))


def _pick(data: dict[str, Any]) -> str:
    names = [t["name"] for t in data["tables"]]
    return picker(names, "Synthetic table shown") if len(names) > 1 else ""


def picker(names: list[str], label: str) -> str:
    """Buttons by which the reader chooses what the page shows."""
    buttons = "".join(
        f'<button type="button" data-pick="{i}"'
        f' aria-pressed="{"false" if i else "true"}">{text(name)}</button>'
        for i, name in enumerate(names)
    )
    shown = f"<div><span>Showing</span>{buttons}</div>"
    return f'<div class="picker" role="group" aria-label="{label}">{shown}</div>'
