"""The report page: one HTML file that loads nothing from the network.

`collect` turns tables into small plain data, `render` turns that data into HTML, `write` does both.
There are two kinds of pages: with the truth (marked as not private), and without it (`truth=None`),
which holds released facts only and may be published.
"""

import os
from collections.abc import Mapping
from functools import partial
from string import Template
from typing import Any

from .. import __version__
from .._util.files import as_path, synthetic_path, write_atomic
from ..catalogs.about import About, read_about
from . import linked_page, runs, words
from .blocks import page_file
from .body import body
from .page_data import ReportData, collect
from .release_facts import release_facts, release_html
from .svg import text


def render(data: ReportData) -> str:
    """The page as one HTML text, of one table or of linked ones (`linked_page`)."""
    drawn = linked_page.body(data) if "pages" in data else body(data)
    kind = "private" if data["with_truth"] else "public"
    banner, end = words.SAID[kind]
    fields = {
        "title": text(data["title"]),
        "release": release_html(data["about"]),
        "kind": kind,
        "banner": banner,
        "footer": (
            f"Made by fastdp {text(__version__)}. {end} Arrow keys walk through a focused chart."
        ),
        "css": page_file("report.css"),
        "js": page_file("report.js"),
        **drawn._asdict(),
    }
    return Template(page_file("report.html")).substitute(fields)


def write(path: str | os.PathLike[str], data: ReportData) -> ReportData:
    """Renders the page and writes it to `path` (atomically); returns its data."""
    write_atomic(path, render(data).encode())
    return data


def write_public(
    path: str | os.PathLike[str],
    run: Any,
    about: About | Mapping[str, Any] | str | os.PathLike[str] | None = None,
) -> ReportData:
    """Write the page that may be published, from a finished run folder alone; the true rows are not
    read. `run`: the folder, of one table or of linked ones, or a run that was written to one.
    `about`: what the publisher says, as in `catalogs.about`."""
    target = as_path(path, "the page")
    folder = as_path(getattr(run, "out", run), "a run folder")
    publisher = read_about(about)
    released = partial(release_facts, publisher, page=target)
    if (folder / "tables.json").is_file():
        return write(target, linked_page.collect_public(folder, publisher.title, released))
    facts = runs.folder(folder)
    rows = synthetic_path(folder)
    head = released(folder=folder)
    schema = facts["schema"]
    title = publisher.title
    return write(target, collect(None, rows, schema, None, facts, title=title, about=head))
