"""Hypothesis strategies shared by the tests of tables, engines and bounds."""

import numpy as np
from hypothesis import strategies as st

from fastdp.domain import code_dtype
from fastdp.tables.table import Table

SIZES = [1, 2, 3, 7, 255, 256, 257, 70_000]


@st.composite
def tables(draw, users: bool | None = None, max_rows: int = 300):
    """(table, domain, codes, ids or None): ragged sizes, all three code widths."""
    names = "abcd"[: draw(st.integers(1, 4))]
    domain = {name: draw(st.sampled_from(SIZES)) for name in names}
    rows = draw(st.integers(0, max_rows))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    codes = {n: (rng.random(rows) ** 3 * s).astype(code_dtype(s)) for n, s in domain.items()}
    with_users = draw(st.booleans()) if users is None else users
    ids = None
    if with_users:
        ids = (rng.random(rows) ** 2 * draw(st.integers(1, 40))).astype(np.int64) - 5
    return Table.from_codes(domain, codes, user=ids), domain, codes, ids
