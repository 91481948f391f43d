"""Tables to try a mechanism on: generated ones, and those of the shared data; and their errors.

A table is a mapping from the name of a column to (number of codes, codes). `bench.scoreboard`
compares mechanisms on them; other benches take a table and a `Scorer`.
"""

from __future__ import annotations

import json
import math
from itertools import combinations
from pathlib import Path

import numpy as np

import fastdp

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"
DELTA = 1e-9
Columns = dict[str, tuple[int, np.ndarray]]


def functional(rows=100_000, columns=20, seed=11):
    """Columns that nearly follow from an earlier one: 1 to 30 % of the rows are redrawn."""
    rng = np.random.default_rng(seed)
    sizes = rng.choice([2, 5, 12, 40, 90], columns)
    out = [rng.choice(sizes[0], rows, p=rng.dirichlet(np.full(sizes[0], 0.5)))]
    for n in sizes[1:]:
        parent = out[rng.integers(0, len(out))]
        values = rng.integers(0, n, parent.max() + 1)[parent]
        again = rng.random(rows) < rng.choice([0.01, 0.05, 0.3])
        out.append(np.where(again, rng.choice(n, rows, p=rng.dirichlet(np.full(n, 0.3))), values))
    return {f"c{i}": (int(n), codes) for i, (n, codes) in enumerate(zip(sizes, out))}


def factors(rows=30_000, columns=32, seed=12):
    """Small and wide: four hidden normal factors, cut into 2 to 120 unequal classes."""
    rng = np.random.default_rng(seed)
    hidden = rng.normal(size=(rows, 4))
    out = {}
    for i, n in enumerate(rng.choice([2, 3, 6, 15, 50, 120], columns)):
        score = hidden @ (rng.normal(size=4) * rng.choice([0.2, 1.0], 4)) + rng.normal(size=rows)
        rank = score.argsort().argsort() / rows
        out[f"c{i}"] = (int(n), np.minimum((rank ** rng.choice([1, 3]) * n).astype(int), n - 1))
    return out


def independent(rows=20_000, columns=10, seed=21):
    """Columns that know nothing of each other."""
    rng = np.random.default_rng(seed)
    sizes = [2, 3, 5, 8, 12, 20, 30, 50, 80, 100][:columns]
    return {
        f"c{i}": (n, rng.choice(n, rows, p=rng.dirichlet(np.ones(n)))) for i, n in enumerate(sizes)
    }


def wide(rows=600, columns=50, seed=22):
    """Few rows, many columns, two hidden classes."""
    rng = np.random.default_rng(seed)
    hidden = rng.integers(0, 2, rows)
    out = {}
    for i, n in enumerate(rng.choice([2, 3, 4, 8, 16], columns)):
        law = rng.dirichlet(np.ones(n), 2)
        draws = [rng.choice(n, rows, p=p) for p in law]
        out[f"c{i}"] = (int(n), np.where(hidden == 0, *draws))
    return out


def huge(rows=50_000, values=20_000, seed=23):
    """One column of many values, few of them common, and five that depend on it a little."""
    rng = np.random.default_rng(seed)
    law = 1 / np.arange(1, values + 1) ** 1.2
    large = rng.choice(values, rows, p=law / law.sum())
    out = {"large": (values, large)}
    for i, n in enumerate((2, 4, 8, 12, 20)):
        follows = rng.integers(0, n, values)[large]
        out[f"c{i}"] = (n, np.where(rng.random(rows) < 0.4, follows, rng.integers(0, n, rows)))
    return out


def copies(rows=30_000, columns=12, seed=24):
    """Every column follows from the one before it but for one row in a hundred."""
    rng = np.random.default_rng(seed)
    sizes = [40, 40, 20, 20, 10, 10, 30, 30, 5, 5, 60, 60][:columns]
    out = [rng.choice(sizes[0], rows, p=rng.dirichlet(np.ones(sizes[0])))]
    for n in sizes[1:]:
        follows = rng.permutation(max(n, out[-1].max() + 1))[out[-1]] % n
        out.append(np.where(rng.random(rows) < 0.01, rng.integers(0, n, rows), follows))
    return {f"c{i}": (n, codes) for i, (n, codes) in enumerate(zip(sizes, out))}


def two(rows=5_000, seed=25):
    """Two columns that depend on each other."""
    rng = np.random.default_rng(seed)
    a = rng.choice(30, rows, p=rng.dirichlet(np.ones(30)))
    b = np.where(rng.random(rows) < 0.5, a % 25, rng.integers(0, 25, rows))
    return {"a": (30, a), "b": (25, b)}


def binary(rows=20_000, columns=16, classes=5, seed=26):
    """Yes and no, five hidden classes."""
    rng = np.random.default_rng(seed)
    hidden = rng.choice(classes, rows, p=rng.dirichlet(np.ones(classes)))
    chance = rng.random((classes, columns))
    return {
        f"c{i}": (2, (rng.random(rows) < chance[hidden, i]).astype(int)) for i in range(columns)
    }


def adult():
    import pyarrow.csv as csv

    sizes = json.loads((SHARED / "adult" / "adult-domain.json").read_text())
    frame = csv.read_csv(SHARED / "adult" / "adult.csv")
    return {name: (n, frame[name].to_numpy()) for name, n in sizes.items()}


def massachusetts(most=100, bins=64):
    """ma2019 with every column of more than `most` values in equal-count bins (and one for what is
    not a number)."""
    import pyarrow as pa
    import pyarrow.csv as csv

    options = csv.ConvertOptions(strings_can_be_null=False)
    frame = csv.read_csv(SHARED / "acs-ma" / "ma2019.csv", convert_options=options)
    out = {}
    for name in frame.column_names:
        text = frame[name].cast(pa.string()).fill_null("").to_pylist()
        values, codes = np.unique(text, return_inverse=True)
        if len(values) > most:
            number = np.array(
                [
                    float(t) if t.replace(".", "", 1).lstrip("-").isdigit() else math.nan
                    for t in text
                ]
            )
            rank = np.argsort(np.argsort(number, kind="stable"), kind="stable")
            codes = np.where(np.isnan(number), bins, rank * bins // len(text))
            values = range(bins + 1)
        out[name] = (len(values), codes)
    return out


class Scorer:
    """Mean and largest total variation of all pairs and of 50 triples from one truth."""

    def __init__(self, columns: Columns):
        self.domain = {name: n for name, (n, _) in columns.items()}
        self.table = coded(columns, public=True)
        triples = list(combinations(self.domain, 3))
        chosen = np.random.default_rng(0).choice(len(triples), min(50, len(triples)), replace=False)
        self.groups = [list(combinations(self.domain, 2)), [triples[i] for i in chosen]]
        self.truth = [fastdp.marginals(self.table, g) for g in self.groups]

    def __call__(self, codes) -> tuple[float, float, float, float]:
        """(mean of pairs, worst pair, mean of triples, worst triple)."""
        made = fastdp.Table.from_codes(self.domain, codes, public=True)
        out = []
        for cliques, truth in zip(self.groups, self.truth):
            counts = fastdp.marginals(made, cliques)
            gaps = [
                np.abs(truth[c] / self.table.rows - counts[c] / max(1, made.rows)).sum() / 2
                for c in cliques
            ]
            out += [float(np.mean(gaps)), float(np.max(gaps))] if gaps else [0.0, 0.0]
        return out[0], out[1], out[2], out[3]


def coded(columns: Columns, *, public: bool) -> fastdp.Table:
    """The columns as a table of codes."""
    domain = {name: n for name, (n, _) in columns.items()}
    codes = {name: c for name, (_, c) in columns.items()}
    return fastdp.Table.from_codes(domain, codes, public=public)


def made_by(mechanism, columns: Columns, epsilon: float, seed: int) -> dict[str, np.ndarray]:
    """Codes of the synthetic rows of one run."""
    table = coded(columns, public=False)
    data = fastdp.synthesize(table, mechanism, epsilon, DELTA, seed=seed, sample_seed=seed).data
    return {name: data[name].to_numpy() for name in columns}
