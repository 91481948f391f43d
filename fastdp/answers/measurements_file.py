"""What a run folder holds for answers: measurements, read when they are first used, and further
tables."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import overload

import numpy as np

from .._util.lazy import pa, pq, sp
from ..errors import RunError
from ..measurement import Measurement
from ..queries import Binned, Sparse

RELEASED = ".released.pq"
"""End of the names of further tables. They are Parquet, but end in .pq: a pattern such as
`out/**/*.parquet` then finds rows and nothing else."""
MEASURED = "measurements.pq"


def released_tables(folder: Path) -> dict[str, pa.Table]:
    """Further tables that a run released, by name."""
    older = RELEASED.replace(".pq", ".parquet")
    return {
        path.name.removesuffix(end): pq.read_table(path)
        for end in (older, RELEASED)
        for path in sorted(folder.glob(f"*{end}"))
    }


def measured_path(folder: Path) -> Path:
    """Where a run folder keeps its answers. Folders of earlier versions have another name."""
    older = folder / MEASURED.replace(".pq", ".parquet")
    return older if older.is_file() else folder / MEASURED


class StoredMeasurements(Sequence[Measurement]):
    """The released answers in a run folder, as the run had them. Of AdaGrid's answers, those about
    single cells: the file does not hold its other queries."""

    def __init__(self, folder: Path):
        self._folder = folder

    @cached_property
    def _all(self) -> tuple[Measurement, ...]:

        described = self._folder / "measurements.json"
        data = measured_path(self._folder)
        if not described.exists():
            return ()
        try:
            listed = json.loads(described.read_text("utf-8"))["measurements"]
            table = pq.read_table(data)
            columns = {n: table.column(n).to_numpy() for n in ("value", "standard_error")}
            cell = table.column("cell").fill_null(-1).to_numpy()
        except (OSError, ValueError, KeyError) as error:
            raise RunError(
                f"{data}: not a file of measurements ({error}); restore the run folder"
            ) from None
        ends = np.cumsum([0, *(int(m["rows"]) for m in listed)])
        if ends[-1] != cell.size:
            raise RunError(
                f"{data}: {cell.size} answers, but {ends[-1]} are listed; restore the run folder"
            )
        values = columns["value"]
        errors = columns["standard_error"]
        spans = zip(listed, map(slice, ends, ends[1:]))
        return tuple(_measurement(m, values[s], errors[s], cell[s]) for m, s in spans)

    @overload
    def __getitem__(self, i: int) -> Measurement: ...
    @overload
    def __getitem__(self, i: slice) -> Sequence[Measurement]: ...
    def __getitem__(self, i):
        return self._all[i]

    def __len__(self) -> int:
        return len(self._all)


def _measurement(
    entry: dict, values: np.ndarray, errors: np.ndarray, cell: np.ndarray
) -> Measurement:
    clique = tuple(entry["clique"])
    label = entry["label"]
    sigma = float(errors[0]) if errors.size and (errors == errors[0]).all() else errors
    if "bins" in entry:
        maps = [np.asarray(axis, np.int64) for axis in entry["bins"]]
        return Measurement(clique, values, sigma, Binned([m.size for m in maps], maps), label=label)
    if entry["query"] == "each cell" or entry["query"].startswith(("Identity", "Weighted")):
        return Measurement(clique, values, sigma, label=label)

    single = np.flatnonzero(cell >= 0)
    cells = int(entry.get("cells", cell.max(initial=0) + 1))
    rows = np.arange(single.size)
    matrix = sp.csr_array((np.ones(single.size), (rows, cell[single])), (single.size, cells))
    return Measurement(clique, values[single], errors[single], Sparse(matrix), label=label)
