"""The page of linked tables: one page, on which the reader chooses the table, and a section on how
the tables are linked."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from .._util.files import synthetic_path
from .._util.lazy import pa, pc
from ..metrics.inputs import as_arrow
from ..schema.linked_schema import LinkedSchema
from ..tables.linked_tables import Links
from . import body as bodies, page_data, quotes, runs
from .blocks import KEY, figures, halves, nice, section, sections_said, table_html
from .charts import distribution
from .collect import bin_names
from .svg import percent, text

MOST_PAIRS = 3
"""Pairs of a parent's and a child's column that are named."""


def collect(
    linked: LinkedSchema,
    truth: Mapping[str, Any] | None,
    synthetic: Mapping[str, Any],
    scores: Mapping[str, Any] | None,
    facts: Mapping[str, Any],
    *,
    title: str | None = None,
    about: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The data of the page: `pages`, those of each table; `links`, how each child is linked with the
    parents. Without the truth it holds released facts only."""
    made = {name: as_arrow(rows, name) for name, rows in synthetic.items()}
    true = None
    if truth is not None:
        true = {name: as_arrow(rows, name) for name, rows in truth.items()}
    found = []
    for name, schema in linked.tables.items():
        own = None if scores is None else scores["tables"][name]
        real = None if true is None else true[name]
        found.append(page_data.collect(real, made[name], schema, own, facts.get(name)))
    usual = "Linked synthetic tables" + ("" if truth is None else " against the truth")
    return {
        "title": title or (f"{linked.name}: {usual.lower()}" if linked.name else usual),
        "about": about,
        "with_truth": truth is not None,
        "names": list(linked.tables),
        "parent": linked.parent,
        "pages": found,
        "links": [_link(linked, child, true, made, scores, facts) for child in linked.children],
    }


def collect_public(
    folder: Path, title: str | None, released: Callable[..., dict[str, Any]]
) -> dict[str, Any]:
    """The data of the page that may be published, from a run folder of linked tables. `released`:
    facts of the release of a folder."""
    linked = LinkedSchema.load(folder / "tables.json")
    places = {name: folder / f"table-{name}" for name in linked.tables}
    facts = {name: runs.folder(place) for name, place in places.items()}
    rows = {name: synthetic_path(place) for name, place in places.items()}
    each = [released(folder=place) for place in places.values()]
    files = [file for one in each for file in one["files"]]
    for one, name in zip(each, places):
        for file in one["files"]:
            file["name"] = f"{name}: {file['name']}" if len(one["files"]) > 1 else name
    about = each[0] | {"files": files}
    return collect(linked, None, rows, None, facts, title=title, about=about)


def _link(
    linked: LinkedSchema,
    child: str,
    truth: Mapping[str, pa.Table] | None,
    made: Mapping[str, pa.Table],
    scores: Mapping[str, Any] | None,
    facts: Mapping[str, Any],
) -> dict[str, Any]:
    """Rows per parent, and what the scores say of the link."""
    links = Links(linked)
    edges = links.edges(child)
    column = links.schemas[0].columns[links.counts[child]]
    share = [
        None if tables is None else _rows_per_parent(linked, child, tables, edges)
        for tables in (truth, made)
    ]
    span = None
    run = facts.get(linked.parent)
    own = quotes.facts_of(run, links.schemas[0]) if truth is None and run is not None else None
    if own is not None and column.name in own.schema.modelled:
        span = quotes.Intervals(own).bars(column.name, np.arange(column.size), column.size)
    last = _last(share[0], share[1])
    return {
        "child": child,
        "labels": bin_names(edges.tolist())[:last],
        "truth": None if share[0] is None else share[0][:last],
        "share": (share[1] or [])[:last],
        "span": None if span is None else [end[:last] for end in span],
        "scores": None if scores is None else scores["links"][child],
    }


def _rows_per_parent(
    linked: LinkedSchema, child: str, tables: Mapping[str, pa.Table], edges: np.ndarray
) -> list[float]:
    """Share of the parents with each number of child rows."""
    keys = pc.unique(tables[linked.parent][linked.key]).drop_null()
    own = tables[child][str(linked.tables[child].user)].cast(keys.type, safe=False)
    at = pc.index_in(own, value_set=keys).drop_null().to_numpy()
    rows = np.bincount(at, minlength=len(keys))
    bins = np.bincount(np.searchsorted(edges, rows, "right") - 1, minlength=len(edges))
    return (bins / max(bins.sum(), 1)).tolist()


def _last(*shares: list[float] | None) -> int:
    """The number of bins up to the last one that holds parents."""
    there = [i for share in shares for i, x in enumerate(share or ()) if x > 0]
    return max(there, default=0) + 1


def body(data: dict[str, Any]) -> bodies.Body:
    """The tables' bodies, of which the page shows the one that the reader chooses."""
    main = []
    nav = []
    for i, (name, own) in enumerate(zip(data["names"], data["pages"])):
        drawn = _renamed(bodies.drawn(own), f"-{i}")
        hidden = "" if i == 0 else " hidden"
        which = f'<p class="which">{text(name)}</p><h2 class="of-table">Table {nice(name)}</h2>'
        main.append(f'<div class="of" data-of="{i}"{hidden}>{which}{drawn}</div>')
        nav.append(f'<div class="of" data-of="{i}"{hidden}>{bodies.links(drawn, f"-{i}")}</div>')
    main.append(_section(data))
    links = "".join(nav) + bodies.links(main[-1])
    sizes = [f"{n}: {bodies.subtitle(p)}" for n, p in zip(data["names"], data["pages"])]
    return bodies.Body(
        subtitle="<br>".join(sizes) if data["with_truth"] else " · ".join(map(_short, sizes)),
        nav=f'<nav aria-label="Sections">{links}</nav>',
        picker=bodies.picker(data["names"], "Table shown"),
        main="\n".join(main),
    )


def _short(size: str) -> str:
    return size.replace(": synthetic: ", ": ")


def _renamed(html: str, suffix: str) -> str:
    """The HTML with all ids followed by the suffix, since several tables share the page."""
    return re.sub(r'\b(id|aria-labelledby)="([\w-]+)"', rf'\1="\2{suffix}"', html)


def _section(data: dict[str, Any]) -> str:
    parent = data["parent"]
    drawn = []
    cards = []
    for link in data["links"]:
        name = f"rows of {link['child']} per row of {parent}"
        about = {"name": name, "labels": link["labels"], "truth": link["truth"]}
        made = {"share": link["share"], "span": link["span"]}
        drawn.append((name, "", distribution(about, made)))
        if link["scores"]:
            cards.append((nice(link["child"]), _scores(link["scores"], parent)))
    key = KEY if data["with_truth"] else ""
    said = sections_said()["links"]
    lead = said["truth"] if data["with_truth"] else said["lead"]
    return section("links", key + figures(drawn) + halves(cards), lead)


def _scores(link: Mapping[str, Any], parent: str) -> str:
    """What was compared of one link, with the truth."""
    children = link["children"]
    pairs = link["pairs"]
    both = ("truth", "synthetic")
    rows = [
        ["rows whose key has a parent", "", percent(link["integrity"])],
        [f"mean rows per row of {parent}", *(f"{children['mean'][k]:.3g}" for k in both)],
        [f"rows of {parent} without any", *(percent(children["none"][k]) for k in both)],
    ]
    for name, share in (link.get("between") or {}).items():
        rows.append([f"{name}: variance between parents", *(percent(share[k]) for k in both)])
    table = table_html(("", *both), rows, "quotes numbers")
    worst = "; ".join(f"{a} × {b} {percent(tv)}" for a, b, tv in pairs["worst"][:MOST_PAIRS])
    note = (
        f"{percent(children['variation'])} of the parents have a wrong number of rows."
        f" Pairs of a parent's and a child's column: {percent(pairs['mean'])} of the rows in a wrong"
        f" cell on average; worst {worst}."
    )
    return f'{table}<p class="note">{text(note)}</p>'
