"""How a notebook shows a run: the first cards of the report, from released facts only.

The HTML is inside an iframe, so that its styles do not change the notebook's. It is as high as its
text where the notebook lets it measure itself; else the reader scrolls. No synthetic row is drawn
for it.
"""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from . import runs, sections
from .blocks import nice, page_file


def run_html(run: Any, rows: int | None) -> str:
    """The cards of `run` (a result of `synthesize`). `rows`: its number of synthetic rows."""
    return _framed(_cards(run, rows))


def linked_html(
    tables: Mapping[str, tuple[Any, int | None]], columns: Mapping[str, Sequence[str]]
) -> str:
    """The cards of the runs of linked tables one below the other; with each, its number of rows.
    `columns`: those of each table; its run also has columns of the tables that it is linked with."""
    drawn = (
        f'<h2 class="of-table">Table {nice(name)}</h2>{_cards(run, rows, columns.get(name))}'
        for name, (run, rows) in tables.items()
    )
    return _framed("".join(drawn))


def _cards(run: Any, rows: int | None, columns: Sequence[str] | None = None) -> str:
    sizes = dict(run.schema.domain)
    data = {
        "with_truth": False,
        "tables": [{"name": "synthetic", "rows": rows or 0, "users": None}],
        "columns": sizes if columns is None else columns,
        "verdict": [run.verdict.to_dict()],
        "runs": [runs.facts(run, sizes)],
    }
    return sections.summary(data)


def _framed(cards: str) -> str:
    style = f'<!doctype html><meta charset="utf-8"><style>{page_file("report.css")}</style>'
    page = f'{style}<main style="padding:0 12px 12px">{cards}</main>'
    grow = "this.style.height=this.contentDocument.documentElement.offsetHeight+'px'"
    style = "width:100%;max-width:70rem;height:450px;border:0"
    frame = f'title="fastdp run" style="{style}" onload="{grow}"'
    return f'<iframe {frame} srcdoc="{escape(page)}"></iframe>'
