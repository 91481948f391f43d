"""A table every month: errors of pairs with the last release as a prior, and without.

`python -m bench.series` simulates months of a table of people. The months of one table are drawn
anew from one population; before month BREAK the codes of every column are permuted at random, which
leaves some columns of two or three codes as they were. Each month is released by `cliquetree` at
epsilon 1 and delta 1e-6 a month, once with the release before it (`previous=`), which had one too,
and once without, on the same seeds. Rows get no ids, which take most of the time and change no
pair.
The ratio of errors (mean
total variation of all pairs) is given for steady months and for the month of the break, with the
half width of a 95 % interval of the mean over the tables. Kept in bench/results/series.json.
"""

from __future__ import annotations

import argparse
import json
import math
from itertools import combinations

import numpy as np
import pyarrow as pa

import fastdp

from . import machine

SIZES = (2, 3, 4, 6, 8, 12, 5, 3)
MONTHS = 6
BREAK = 5
"""Months before this one are steady; the first of them has no prior."""
EPSILON = 1.0
DELTA = 1e-6


def population(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """How the columns' scores follow from three hidden traits, and how uneven their classes are."""
    weights = rng.normal(size=(3, len(SIZES))) * rng.choice([0.3, 1.2], (3, len(SIZES)))
    return weights, rng.choice([1.0, 2.0], len(SIZES))


def month(rng: np.random.Generator, traits, people: int, rows: int, turns=None) -> pa.Table:
    """Rows of one month: each person has `rows` of them, which share the person's traits."""
    weights, powers = traits
    who = np.repeat(np.arange(people), rows)
    hidden = rng.normal(size=(people, 3))[who] + 0.5 * rng.normal(size=(who.size, 3))
    score = hidden @ weights + rng.normal(size=(who.size, len(SIZES)))
    share = score.argsort(0).argsort(0) / who.size
    columns = {"person": who}
    for i, n in enumerate(SIZES):
        code = np.minimum((share[:, i] ** powers[i] * n).astype(np.int64), n - 1)
        columns[f"c{i}"] = code if turns is None else turns[i][code]
    return pa.table(columns)


def schema(rows: int) -> fastdp.Schema:
    columns = {f"c{i}": {"kind": "integer", "max": n - 1} for i, n in enumerate(SIZES)}
    user = {"column": "person", "max_rows": 2 * rows}
    return fastdp.Schema.from_dict({"user": user, "columns": columns})


def pair_error(truth: pa.Table, made: pa.Table) -> float:
    """Mean total variation of all pairs of columns, as shares of rows."""
    errors = []
    for a, b in combinations(range(len(SIZES)), 2):
        shares = []
        for table in (truth, made):
            codes = [table[f"c{i}"].fill_null(0).to_numpy() for i in (a, b)]
            cell = codes[0] * SIZES[b] + codes[1]
            counts = np.bincount(cell, minlength=SIZES[a] * SIZES[b])
            shares.append(counts / max(1, counts.sum()))
        errors.append(0.5 * float(np.abs(shares[0] - shares[1]).sum()))
    return float(np.mean(errors))


def one_table(seed: int, people: int, rows: int, mechanism: str) -> dict[str, list[float]]:
    """Errors of each month, with the last release and without."""
    rng = np.random.default_rng(seed)
    traits = population(rng)
    turns = [rng.permutation(n) for n in SIZES]
    previous = None
    errors: dict[str, list[float]] = {"with": [], "without": []}
    for number in range(1, MONTHS + 1):
        truth = month(rng, traits, people, rows, turns if number >= BREAK else None)
        call = {"schema": schema(rows), "seed": 1000 * seed + number, "threads": 2}
        recipe = {"mechanism": mechanism, "ids": {"source": "none"}}
        plain = fastdp.synthesize(truth, recipe, EPSILON, DELTA, **call)
        errors["without"].append(pair_error(truth, plain.data))
        run = fastdp.synthesize(truth, recipe, EPSILON, DELTA, previous=previous, **call)
        errors["with"].append(pair_error(truth, run.data))
        previous = run
    return errors


def summary(tables: list[dict[str, list[float]]]) -> dict[str, dict[str, float]]:
    """Ratios of errors, with and without, by kind of month."""
    kinds = {"steady": slice(1, BREAK - 1), "break": slice(BREAK - 1, BREAK)}
    out = {}
    for name, chosen in kinds.items():
        ratios = [np.mean(t["with"][chosen]) / np.mean(t["without"][chosen]) for t in tables]
        half = (
            1.96 * float(np.std(ratios, ddof=1)) / math.sqrt(len(ratios)) if len(ratios) > 1 else 0
        )
        figures = {"ratio": float(np.mean(ratios)), "half": half}
        figures["error"] = float(np.mean([np.mean(t["without"][chosen]) for t in tables]))
        out[name] = {key: round(value, 4) for key, value in figures.items()}
    return out


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", type=int, default=8)
    parser.add_argument("--people", type=int, default=4000)
    parser.add_argument("--rows", type=int, default=4)
    parser.add_argument("--mechanism", default="cliquetree")
    parser.add_argument("--keep", action="store_true")
    options = parser.parse_args(arguments)
    about = {
        "people": options.people,
        "rows_each": options.rows,
        "mechanism": options.mechanism,
        "epsilon": EPSILON,
        "delta": DELTA,
    }
    tables: list[dict[str, list[float]]] = []
    for seed in range(options.tables):
        tables.append(one_table(seed, options.people, options.rows, options.mechanism))
        print(seed, {k: [round(x, 4) for x in v] for k, v in tables[-1].items()}, flush=True)
        found = about | {"tables": len(tables), **summary(tables)}
        if options.keep:
            machine.keep("series", found)
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
