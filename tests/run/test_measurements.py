"""measurements.parquet: every answer at its place, and the cell it is about where it is about one."""

import json

import numpy as np
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

from fastdp.measurement import Measurement
from fastdp.queries import AdaGrid, Binned, Grid, Identity, Sparse, Weighted
from fastdp.run.output import write_measurements

CELLS = 6
GRID = Grid(("a", "b"), (2, 3), np.array([1, 4]), (Grid(("a",), (2,), [0, 1]), Grid(("b",), (3,), [0, 1, 2])))
QUERIES = {
    "each cell": None,
    "identity": Identity(CELLS),
    "weighted": Weighted([1, 2, 3, 1, 2, 3], 4),
    "adagrid": AdaGrid(GRID),
    "binned": Binned((2, 3), (None, np.array([0, 0, 1]))),
    "sparse": Sparse(sp.csr_array(np.array([[0, 0, 1, 0, 0, 0], [1, 1, 0, 0, 0, 0]]))),
}


def released(folder, *measurements, private=True) -> tuple[dict, list[dict]]:
    write_measurements(folder, list(measurements), private)
    table = pq.read_table(folder / "measurements.parquet")
    return table, json.loads((folder / "measurements.json").read_text())


@pytest.mark.parametrize("name", QUERIES)
def test_a_cell_is_named_where_the_answer_is_that_cells_alone(tmp_path, name):
    """Law: if `cell` is c, the query's row is the indicator of flat cell c; rows of all queries that measure
    cells one by one have it."""
    query = QUERIES[name]
    rows = CELLS if query is None else query.rows
    values = np.arange(rows) + 0.5
    table, described = released(tmp_path, Measurement(("a", "b"), values, 2.0, query, label="x"))
    frame = table.to_pydict()
    assert table.column_names == ["measurement", "row", "cell", "value", "standard_error"]
    assert frame["row"] == list(range(rows)) and frame["value"] == values.tolist()
    matrix = np.eye(CELLS) if query is None else np.array([query.product(e) for e in np.eye(CELLS)]).T
    for row, cell in enumerate(frame["cell"]):
        if cell is not None:
            assert matrix[row].tolist() == np.eye(CELLS)[cell].tolist()
    named = [cell for cell in frame["cell"] if cell is not None]
    wanted = {"adagrid": [1, 4], "binned": [], "sparse": [2]}.get(name, list(range(CELLS)))
    assert named == wanted
    assert described["measurements"][0]["rows"] == rows
