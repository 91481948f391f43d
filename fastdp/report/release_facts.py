"""What the head of the page says of a release: its date, licence, contact, and where the rows are.

The publisher's words come from `About`; the date, if they name none, is that of the statement's
file. Nothing here depends on private rows.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from .._util.files import synthetic_path
from .._util.texttable import size
from ..catalogs.about import About
from .blocks import details
from .svg import text

STATEMENT = "privacy.json"
SHOWN = 4
"""Files of rows that are linked at once; the others are shown when the reader opens the list."""


def release_facts(about: About, folder: Path | None = None, page: Path | None = None) -> dict:
    """Facts of the release. With `page`, also links to the files of rows: by the address that
    `about` names, else by the way from the page to the folder, where the two lie beside each
    other."""
    named = {"license": about.license, "contact": about.contact, "creator": about.creator}
    return {
        "date": about.date or _date(folder),
        **named,
        "description": about.description,
        "url": about.url,
        "version": about.version,
        "files": [] if folder is None or page is None else _files(about, folder, page),
    }


def _date(folder: Path | None) -> str | None:
    """The day on which the statement was written, in UTC."""
    if folder is None:
        return None
    written = (folder / STATEMENT).stat().st_mtime
    return datetime.fromtimestamp(written, UTC).date().isoformat()


def _files(about: About, folder: Path, page: Path) -> list[dict[str, Any]]:
    """Name, link and size of each file with synthetic rows. Empty if a link would lead through
    folders that the reader does not have."""
    if about.base is not None:
        prefix = about.base.rstrip("/") + "/"
    else:
        way = Path(os.path.relpath(folder.resolve(), page.resolve().parent))
        if ".." in way.parts[1:] or way.is_absolute():
            return []
        prefix = "" if str(way) == "." else quote(way.as_posix()) + "/"
    rows = synthetic_path(folder)
    files = sorted(rows.glob("*.parquet")) if rows.is_dir() else [rows]
    names = [file.relative_to(folder).as_posix() for file in files]
    return [
        {"name": name, "href": prefix + quote(name), "bytes": file.stat().st_size}
        for name, file in zip(names, files)
    ]


def release_html(facts: dict | None) -> str:
    """The line below the title; empty if nothing is known."""
    found = facts or {}
    parts = [
        _item(label, text(found[key]))
        for key, label in (("date", "Released"), ("version", "Version"), ("creator", "By"))
        if found.get(key)
    ]
    for key, label in (("license", "Licence"), ("contact", "Contact"), ("url", "More")):
        if found.get(key):
            parts.append(_item(label, _linked(str(found[key]))))
    links = [_download(file) for file in found.get("files") or ()]
    if links:
        more = details(f"{len(links) - SHOWN} more files", " ".join(links[SHOWN:]))
        rest = more if links[SHOWN:] else ""
        parts.append(_item("Download", " ".join(links[:SHOWN]) + rest))
    about = ""
    if found.get("description"):
        about = f'<p class="about">{text(found["description"])}</p>'
    return about + (f'<dl class="release">{"".join(parts)}</dl>' if parts else "")


def _item(label: str, html: str) -> str:
    return f"<div><dt>{label}</dt><dd>{html}</dd></div>"


def _linked(said: str) -> str:
    """An address as a link, anything else as text."""
    if said.startswith(("https://", "http://")):
        shown = said.split("://", 1)[1].rstrip("/")
        return f'<a href="{text(said)}" rel="noopener">{text(shown)}</a>'
    if "@" in said and " " not in said:
        return f'<a href="mailto:{text(quote(said, safe="@"))}">{text(said)}</a>'
    return text(said)


def _download(file: dict[str, Any]) -> str:
    shown = size(file["bytes"])
    return (
        f'<a href="{text(file["href"])}" download>{text(file["name"])}</a> <small>{shown}</small>'
    )
