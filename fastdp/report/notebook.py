"""How a notebook shows a run: the first cards of the report, from released facts only.

The HTML is inside an iframe, so that its styles do not change the notebook's. No synthetic row is
drawn for it.
"""

from html import escape
from typing import Any

from . import runs, sections
from .blocks import page_file


def run_html(run: Any, rows: int | None) -> str:
    """The cards of `run` (a result of `synthesize`). `rows`: its number of synthetic rows."""
    sizes = dict(run.schema.domain)
    data = {
        "with_truth": False,
        "tables": [{"name": "synthetic", "rows": rows or 0, "users": None}],
        "columns": sizes,
        "verdict": [run.verdict.to_dict()],
        "runs": [runs.facts(run, sizes)],
    }
    style = f'<!doctype html><meta charset="utf-8"><style>{page_file("report.css")}</style>'
    page = f'{style}<main style="padding:0 12px 12px">{sections.summary(data)}</main>'
    frame = 'title="fastdp run" style="width:100%;max-width:70rem;height:450px;border:0"'
    return f'<iframe {frame} srcdoc="{escape(page)}"></iframe>'
