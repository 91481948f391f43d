"""What seeded runs of every mechanism measured and made, in figures: `python -m tests.mechanisms.outcomes`
writes outcomes.json, with which test_outcomes.py compares.

The runs are those of bench.digests. Digests are of one machine; these figures hold on every machine within
the test's tolerances: processors round sums of floats differently, and a fit carries that on. They were made
on ARM64, and held with kernels built without fused or vector arithmetic and with every exp, log and sqrt of
numpy off by a last bit, in nine ways of doing so.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from bench.digests import RUNS

FILE = Path(__file__).with_name("outcomes.json")


def outcome(run: Any) -> dict[str, Any]:
    """Measured marginals, in order, with their cells, least and largest noise and sum of answers; the model's
    loss, total, and its cliques with the sum of squared probabilities; per synthetic column how many values
    occur, and the sum of their squared shares."""
    measured = []
    for m in run.measurements:
        sigma = np.atleast_1d(np.asarray(m.sigma, np.float64))
        figures = [m.values.size, float(sigma.min()), float(sigma.max()), float(np.abs(m.values).sum())]
        measured.append([list(map(str, m.clique)), *figures])
    model = {}
    if run.model is not None:
        total = run.model.total
        nodes = [
            [list(n.axes), n.table.size, float(np.square(n.table / total).sum())] for n in run.model.nodes
        ]
        model = {"loss": run.model.loss, "total": total, "nodes": sorted(nodes)}
    rows = {}
    for name, column in zip(run.data.column_names, run.data.columns):
        counts = column.value_counts().field("counts").to_numpy()
        rows[name] = [counts.size, float(np.square(counts / run.data.num_rows).sum())]
    return {"measured": measured, "model": model, "number": run.data.num_rows, "rows": rows}


if __name__ == "__main__":
    chosen = sys.argv[1:] or list(RUNS)
    kept = json.loads(FILE.read_text()) if FILE.exists() and sys.argv[1:] else {}
    kept |= {name: outcome(RUNS[name]()) for name in chosen}
    lines = ",\n".join(f"{json.dumps(n)}: {json.dumps(kept[n])}" for n in RUNS)
    FILE.write_text("{\n" + lines + "\n}\n")
