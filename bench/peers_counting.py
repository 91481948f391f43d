"""How others count weighted marginals, each with the data already in its own form: codes and
weights in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

Clique = tuple[str, ...]
Count = Callable[[Sequence[Clique]], list]


def numpy_(domain: dict, codes: dict, user: np.ndarray, weight: np.ndarray) -> Count:
    """Mixed-radix cell numbers, then bincount with float64 weights."""
    weights = weight.astype(np.float64)

    def count(cliques):
        out = []
        for clique in cliques:
            shape = [domain[n] for n in clique]
            cells = np.ravel_multi_index([codes[n] for n in clique], shape)
            out.append(np.bincount(cells, weights=weights, minlength=int(np.prod(shape))))
        return out

    return count


def mbi(domain: dict, codes: dict, user: np.ndarray, weight: np.ndarray) -> Count:
    """`Dataset.project` of mbi 2.0."""
    from mbi import Dataset, Domain

    data = Dataset(
        {n: np.asarray(c) for n, c in codes.items()},
        Domain(list(domain), list(domain.values())),
        weights=weight.astype(np.float32),
    )
    return lambda cliques: [np.asarray(data.project(c).datavector()) for c in cliques]


def polars(domain: dict, codes: dict, user: np.ndarray, weight: np.ndarray) -> Count:
    """One lazy group_by per clique, all collected together."""
    import polars as pl

    frame = pl.DataFrame({**codes, "weight": weight.astype(np.int64)}).lazy()

    def count(cliques):
        return pl.collect_all(
            [frame.group_by(list(c)).agg(pl.col("weight").sum()) for c in cliques]
        )

    return count


def duckdb(domain: dict, codes: dict, user: np.ndarray, weight: np.ndarray) -> Count:
    """GROUP BY over a table in memory."""
    import duckdb as db
    import pyarrow as pa

    connection = db.connect(config={"threads": 2})
    rows = pa.table({**codes, "weight": weight.astype(np.int64)})
    connection.execute("create table data as select * from rows")
    del rows

    def count(cliques):
        out = []
        for clique in cliques:
            names = ", ".join(clique)
            query = f"select {names}, sum(weight) from data group by {names}"
            out.append(connection.execute(query).to_arrow_table())
        return out

    return count


def pandas(domain: dict, codes: dict, user: np.ndarray, weight: np.ndarray) -> Count:
    """groupby and sum."""
    import pandas as pd

    frame = pd.DataFrame({**codes, "weight": weight.astype(np.int64)})
    return lambda cliques: [frame.groupby(list(c), sort=False)["weight"].sum() for c in cliques]


def fastdp(
    domain: dict, codes: dict, user: np.ndarray, weight: np.ndarray, threads: int = 2
) -> Count:
    """Ours: weights are looked up by user in the same pass."""
    import fastdp as package
    from fastdp.tables.table import Table

    table = Table.from_codes(domain, codes, user=user)
    table.rows_per_user()
    return lambda cliques: list(
        package.marginals(table, cliques, clip=150, threads=threads).values()
    )


PEERS: dict[str, Callable] = {
    "fastdp": fastdp,
    "fastdp-1-thread": lambda *a: fastdp(*a, threads=1),
    "numpy": numpy_,
    "mbi": mbi,
    "polars": polars,
    "duckdb": duckdb,
    "pandas": pandas,
}
