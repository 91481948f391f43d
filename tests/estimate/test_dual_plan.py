"""The cut of the dual's work: no entry is lost or counted twice, and the room of lanes stays small."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from fastdp._core.dual import Dual
from fastdp.estimate.dual import dual_plan
from fastdp.estimate.dual.dual_plan import Link, Table, plan_dual


def reached(table: Table, link: Link, rows: np.ndarray) -> set[int]:
    """The entries of a link that some rows add to, cell by cell."""
    base = np.zeros(table.rows, int) if link.base is None else link.base
    along = {"row": [0], "cell": range(table.cols)}[link.along] if isinstance(link.along, str) else link.along
    return {int(base[i]) + int(k) for i in rows for k in along}


@st.composite
def tables(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    out, at = [], 0
    for _ in range(draw(st.integers(1, 3))):
        rows, cols = draw(st.integers(1, 40)), draw(st.integers(1, 12))
        links = []
        for _ in range(draw(st.integers(1, 3))):
            kind = draw(st.sampled_from(["row", "cell", "map"]))
            along = np.sort(rng.integers(0, cols, cols)).astype(np.int32) if kind == "map" else kind
            width = 1 if kind == "row" else cols
            steps = np.sort(rng.integers(0, rows, rows)) if draw(st.booleans()) else rng.integers(0, 3, rows)
            base = None if draw(st.booleans()) else (width * steps).astype(np.int32)
            size = width * (rows + 3)
            links.append(Link(at, size, 1.0, base, along))
            at += size
        out.append(Table(rows, cols, np.zeros(rows * cols), 1.0, links))
    return out


@given(tables(), st.sampled_from([1, 7, 64, 16384]), st.sampled_from([1, 5, 4096]))
@settings(max_examples=60, deadline=None)
def test_every_entry_that_a_lane_reaches_is_fed_once(given_tables, lane_cells, piece):
    kept = dual_plan.LANE_CELLS, dual_plan.PIECE
    dual_plan.LANE_CELLS, dual_plan.PIECE = lane_cells, piece
    try:
        plan = plan_dual(given_tables).evaluate
    finally:
        dual_plan.LANE_CELLS, dual_plan.PIECE = kept
    used = np.zeros(plan.edges, int)
    for edge, at, size, _ in plan.feeds.tolist():
        used[edge : edge + size] += 1
        assert any(a <= at and at + size <= a + n for a, n, _, _ in plan.pieces.tolist())
    assert (used == 1).all()
    number = 0
    for table, lanes in zip(given_tables, plan.lanes):
        cuts = table.rows * np.arange(lanes + 1) // lanes
        room = 0
        for link in table.links:
            spans = plan.spans[number]
            number += 1
            for lane, (_, low, size) in enumerate(spans.tolist()):
                entries = reached(table, link, np.arange(cuts[lane], cuts[lane + 1]))
                assert low <= min(entries) and max(entries) < low + size <= link.size
            room += int(spans[:, 2].sum())
        assert lanes == 1 or dual_plan.LANE_SIZES * room <= table.rows * table.cols * len(table.links)


def test_a_product_with_an_inner_table_is_the_same():
    """All segments of the region lie in one of 30 x 20 entries: by its entries or by all cells, conjugate
    gradients are the same but for float32 slopes (2^-24 each) through 5 steps."""
    rng = np.random.default_rng(3)
    rows, cols = 600, 20
    base = np.repeat(np.arange(30), 20).astype(np.int32)
    fine, coarse = (0, 600, 1.0), (600, 30, -1.0)
    links = [Link(*fine, (cols * base).astype(np.int32), "cell"), Link(*coarse, base, "row")]
    own = np.arange(30, dtype=np.int32)
    inner = Table(30, 20, np.zeros(600), 2.0, [Link(*fine, 20 * own, "cell"), Link(*coarse, own, "row")])
    table = Table(rows, cols, rng.normal(size=rows * cols), 2.0, links)
    steps = []
    for given_table in (table, table._replace(inner=(0, inner))):
        core = Dual(plan_dual([given_table]), np.zeros(630), 2)
        gradient, _ = core.evaluate(np.linspace(-0.1, 0.1, 630), np.ones(1), np.ones(1))
        steps.append(core.solve(-gradient, 0.0, 5))
    np.testing.assert_allclose(steps[1], steps[0], rtol=1e-4, atol=1e-6 * np.abs(steps[0]).max())
