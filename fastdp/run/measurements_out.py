"""Writes the noisy answers of a run, with what each is an answer to."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .._util.arrow import of_numpy
from .._util.lazy import pa, pq
from ..answers.measurements_file import MEASURED
from ..measurement import Measurement
from ..queries import Binned
from .output import PARQUET, stamped


def write_measurements(
    folder: Path, measurements: Sequence[Measurement], private: bool = True
) -> None:
    """Every released answer with its standard error: `measurements.pq`, described in
    `measurements.json`.

    Columns: measurement (number), row (of its query), cell (flat cell number where the row is a
    single cell, else null), value and standard_error. The last two are in rows, or in users for a
    histogram of users.
    """

    described = []
    parts = []
    for i, m in enumerate(measurements):
        n = m.values.size
        cell = np.full(n, -1, np.int64)
        singles = single_cells(m)
        cell[: singles.size] = singles
        about = {"measurement": i, "clique": list(m.clique), "label": m.label, "rows": n}
        query = "each cell" if m.query is None else repr(m.query)
        described.append(about | {"query": query, **_query_facts(m.query)})
        numbers = (np.full(n, i, np.int32), np.arange(n, dtype=np.int32), cell)
        parts.append((*numbers, m.values, np.sqrt(m.variances)))
    kinds = {"measurement": "i4", "row": "i4", "cell": "i8", "value": "f8", "standard_error": "f8"}
    columns = {
        name: np.concatenate([np.empty(0, kind), *(part[k] for part in parts)])
        for k, (name, kind) in enumerate(kinds.items())
    }
    nulls = {"cell": columns["cell"] < 0}
    table = pa.table({k: of_numpy(v, nulls.get(k)) for k, v in columns.items()})
    pq.write_table(stamped(table, private), folder / MEASURED, **PARQUET)
    head = {"format": 1, "unit": "rows"} | ({} if private else {"private": False})
    text = json.dumps(head | {"measurements": described}, indent=1)
    (folder / "measurements.json").write_text(text + "\n", "utf-8")


def _query_facts(query: Any) -> dict[str, Any]:
    """What a reader of the file needs to know the rows of a query."""
    if isinstance(query, Binned):
        return {"bins": [axis.tolist() for axis in query.maps]}
    return {} if query is None else {"cells": int(query.cells)}


def single_cells(m: Measurement) -> np.ndarray:
    """Flat cell numbers of the leading rows that are single cells of the marginal."""
    return np.arange(m.values.size) if m.query is None else m.query.single_cells()
