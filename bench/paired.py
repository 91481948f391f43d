"""Never worse: `cliquetree` beside `mst` and the independent model, seed by seed, on different
tables.

    python -m bench.paired [--tables adult wide ...] [--epsilon 0.1 1 10] [--seeds 5]

Errors are mean total variations of all pairs and of 50 triples (`bench.tables`). The independent
model is every 1-way with the whole budget. `mst every value` merges nothing but what came out below
zero. For every other mechanism the mean difference of `cliquetree` from it is printed with its 95 %
interval over the seeds; a line is marked where the whole interval is above 0. Kept in
bench/results/paired.json, line by line, with what it holds of other tables and epsilons.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time

import numpy as np
from scipy import stats

import fastdp

from . import machine
from .tables import DELTA, NEEDS, SHARED, Scorer, adult, factors, functional, massachusetts

FIRST = "cliquetree"


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


TABLES = {
    "adult": adult,
    "ma2019": massachusetts,
    "independent": independent,
    "wide": wide,
    "huge": huge,
    "copies": copies,
    "two": two,
    "binary": binary,
    "functional": functional,
    "factors": factors,
}
WHO = {
    FIRST: {"mechanism": "cliquetree"},
    "mst": {"mechanism": "mst"},
    "mst every value": {"mechanism": "mst", "rare": 0.0},
    "independent": {"mechanism": "adagrid"},
}


def made_by(who, columns, epsilon, seed):
    """(codes, processor seconds)."""
    domain = {name: n for name, (n, _) in columns.items()}
    recipe = dict(WHO[who])
    if who == "independent":
        recipe["outer"] = [[name] for name in domain]
    table = fastdp.Table.from_codes(domain, {a: c for a, (_, c) in columns.items()})
    used = time.process_time()
    data = fastdp.synthesize(table, recipe, epsilon, DELTA, seed=seed, sample_seed=seed).data
    return {name: data[name].to_numpy() for name in domain}, time.process_time() - used


def interval(differences) -> tuple[float, float]:
    """Mean, and half of its 95 % interval by Student's law."""
    n = len(differences)
    if n < 2:
        return float(np.mean(differences)), math.nan
    spread = float(np.std(differences, ddof=1)) / math.sqrt(n)
    return float(np.mean(differences)), float(stats.t.ppf(0.975, n - 1)) * spread


def lines_of(name, columns, epsilon, options) -> list[dict]:
    score = Scorer(columns)
    runs = {}
    for who in options.who:
        runs[who] = []
        for seed in range(options.first_seed, options.first_seed + options.seeds):
            codes, used = made_by(who, columns, epsilon, seed)
            runs[who].append((*score(codes)[::2][:2], used))
    out = []
    for who, values in runs.items():
        means = np.mean(values, 0)
        line = {"table": name, "epsilon": epsilon, "who": who, "runs": values}
        text = f"{name:12s} {epsilon:<5g} {who:16s} {means[0]:.4f} {means[1]:.4f} {means[2]:6.2f} s"
        if who != FIRST and FIRST in runs:
            for k, way in enumerate(("two", "three")):
                differences = [a[k] - b[k] for a, b in zip(runs[FIRST], values)]
                mean, half = interval(differences)
                worse = bool(mean - half > 0)
                line[way] = {"above": mean, "half": half, "worse": worse}
                text += f"   {mean:+.4f} +- {half:.4f}" + (" WORSE" if worse else "")
        print(text, flush=True)
        out.append(line)
    return out


def main(arguments=None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=list(TABLES))
    parser.add_argument("--epsilon", nargs="+", type=float, default=[0.1, 1.0, 10.0])
    parser.add_argument("--who", nargs="+", choices=WHO, default=list(WHO))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first-seed", type=int, default=4000)
    parser.add_argument("--no-save", action="store_true")
    options = parser.parse_args(arguments)
    path = machine.RESULTS / "paired.json"
    for name in options.tables:
        if name in NEEDS and not (SHARED / NEEDS[name]).exists():
            print(f"{name}: {SHARED.name} is not here")
            continue
        columns = TABLES[name]()
        for epsilon in options.epsilon:
            lines = lines_of(name, columns, epsilon, options)
            if options.no_save:
                continue
            held = json.loads(path.read_text())["lines"] if path.is_file() else []
            key = lambda line: (line["table"], line["epsilon"], line["who"])  # noqa: E731
            fresh = {key(line) for line in lines}
            machine.keep(
                "paired", {"lines": [line for line in held if key(line) not in fresh] + lines}
            )


if __name__ == "__main__":
    main(sys.argv[1:])
