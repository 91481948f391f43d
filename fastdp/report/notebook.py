"""How a notebook shows a run: the first cards of the report and a heat map of pairs, from released facts
only.

The HTML is inside an iframe, so that its styles do not change the notebook's. No synthetic row is drawn for
it.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from importlib.resources import files
from itertools import combinations
from typing import Any

import numpy as np

from ..model import Model
from ..model.marginals import marginals
from . import runs, sections
from .blocks import section
from .charts import heat
from .quotes import Intervals, facts_of

MOST_COLUMNS = 12
MOST_CELLS = 200_000


def run_html(run: Any, rows: int | None) -> str:
    """The HTML of `run` (a result of `synthesize`): its cards and its pairs. `rows`: its number of synthetic
    rows."""
    sizes = dict(run.schema.domain)
    spans = Intervals(facts_of(run, run.schema))
    data = {
        "with_truth": False,
        "tables": [{"name": "synthetic", "rows": rows or 0, "users": None}],
        "columns": [{"tables": [{"span": spans.bars(a, np.arange(n), n)}]} for a, n in sizes.items()],
        "runs": [runs.facts(run, sizes)],
    }
    names, depth = ([], []) if run.model is None else dependence(run.model, list(sizes))
    body = sections.summary(data)
    if len(names) > 1:
        lead = (
            "Share of rows, in per cent, that would sit in another cell if two columns had nothing to do "
            "with each other: by the model, without the truth. A stronger colour is a stronger tie."
        )
        picture = heat(names, depth, "away from independence")
        body += section("ties", "Which columns go together", lead, f'<div class="card">{picture}</div>')
    css = (files("fastdp.report") / "static" / "report.css").read_text("utf-8")
    page = (
        f'<!doctype html><meta charset="utf-8"><style>{css}</style>'
        f'<main style="padding:0 12px 12px">{body}</main>'
    )
    height = 450 + (30 * len(names) + 210 if len(names) > 1 else 0)
    return (
        f'<iframe title="fastdp run" style="width:100%;max-width:70rem;height:{height}px;border:0" '
        f'srcdoc="{escape(page)}"></iframe>'
    )


def dependence(model: Model, order: Sequence[str]) -> tuple[list[str], list[list[float | None]]]:
    """The at most MOST_COLUMNS columns of largest entropy, in the order of `order`, and for each pair of them
    (lower triangle) the total variation between the model's 2-way marginal and the product of its two 1-way
    marginals."""
    ones = marginals(model, [(a,) for a in model.domain if model.domain[a] > 1])
    share = {
        c[0]: np.clip(m, 0, None) / max(1e-12, float(np.clip(m, 0, None).sum())) for c, m in ones.items()
    }

    def entropy(p: np.ndarray) -> float:
        p = p[p > 0]
        return float(-(p * np.log(p)).sum())

    widest = sorted(share, key=lambda a: -entropy(share[a]))[:MOST_COLUMNS]
    names = [a for a in order if a in widest]
    cliques = [p for p in combinations(names, 2) if model.domain.cells(p) <= MOST_CELLS]
    tables = marginals(model, cliques)
    far: dict[tuple[str, str], float] = {}
    for a, b in cliques:
        joint = np.clip(tables[(a, b)], 0, None)
        joint = joint / max(1e-12, float(joint.sum()))
        far[(a, b)] = 0.5 * float(np.abs(joint - np.outer(joint.sum(1), joint.sum(0))).sum())
    return names, [[far.get((names[j], names[i])) for j in range(i)] for i in range(len(names))]
