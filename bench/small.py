"""Small tables: `cliquetree` against the best of `mst`, independent columns and uniform rows.

`python -m bench.small [--seeds 100] [--jobs N]` generates tables of 300 rows and 4 columns and
prints, by table and epsilon, mean total variations of all pairs, and how far `cliquetree` is above
the best. The independent columns are released with the whole budget. Nothing was chosen on the
seeds from 1000 on.
"""

from __future__ import annotations

import argparse
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import combinations

import numpy as np

import fastdp
from fastdp.privacy.gdp import mu_from

DELTA = 1e-9
TABLES = {
    "chain": ((4, 6, 10, 3), 0.6, 3),
    "wider": ((2, 5, 8, 12), 0.6, 4),
    "weak": ((3, 3, 4, 6), 0.2, 5),
    "unrelated": ((4, 6, 10, 3), 0.0, 6),
}


def table(sizes, strength, seed, rows=300):
    """Each column follows from the one before in a part of the rows and is drawn afresh in the
    others."""
    rng = np.random.default_rng(seed)
    columns = [rng.choice(sizes[0], rows, p=rng.dirichlet(np.full(sizes[0], 2.0)))]
    for n in sizes[1:]:
        follows = rng.integers(0, n, max(sizes))[columns[-1]]
        afresh = rng.choice(n, rows, p=rng.dirichlet(np.full(n, 2.0)))
        columns.append(np.where(rng.random(rows) < strength, follows, afresh))
    return {f"c{i}": (n, codes) for i, (n, codes) in enumerate(zip(sizes, columns))}


def error(columns, pair_of) -> float:
    """Mean total variation of all pairs; `pair_of(a, b)` gives the probabilities to compare
    with."""
    gaps = []
    for a, b in combinations(columns, 2):
        n, x = columns[a]
        m, y = columns[b]
        truth = np.bincount(x * m + y, minlength=n * m) / len(x)
        gaps.append(np.abs(truth - np.asarray(pair_of(a, b)).reshape(-1)).sum() / 2)
    return float(np.mean(gaps))


def drawn(mechanism, columns, epsilon, seed) -> float:
    domain = {a: n for a, (n, _) in columns.items()}
    private = fastdp.Table.from_codes(domain, {a: c for a, (_, c) in columns.items()})
    data = fastdp.synthesize(private, mechanism, epsilon, DELTA, seed=seed, sample_seed=seed).data
    codes = {a: data[a].to_numpy().astype(np.int64) for a in domain}

    def pair_of(a, b):
        cell = codes[a] * domain[b] + codes[b]
        return np.bincount(cell, minlength=domain[a] * domain[b]) / max(1, len(cell))

    return error(columns, pair_of)


def independent(columns, epsilon, seed) -> float:
    rng = np.random.default_rng(seed)
    sigma = np.sqrt(len(columns)) / mu_from(epsilon, DELTA)
    ones = {}
    for a, (n, codes) in columns.items():
        noisy = np.maximum(np.bincount(codes, minlength=n) + sigma * rng.standard_normal(n), 0)
        ones[a] = noisy / noisy.sum() if noisy.sum() > 0 else np.full(n, 1 / n)
    return error(columns, lambda a, b: np.multiply.outer(ones[a], ones[b]))


def one_seed(name, epsilon, seed) -> tuple[float, ...]:
    columns = table(*TABLES[name])
    uniform = error(
        columns,
        lambda a, b: np.full(columns[a][0] * columns[b][0], 1 / (columns[a][0] * columns[b][0])),
    )
    ours = drawn("cliquetree", columns, epsilon, seed), drawn("mst", columns, epsilon, seed)
    return (*ours, independent(columns, epsilon, seed), uniform)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--first-seed", type=int, default=1000)
    parser.add_argument("--epsilon", nargs="+", type=float, default=[0.1, 1.0, 10.0])
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    differences = {}
    with ProcessPoolExecutor(options.jobs) as pool:
        for name in TABLES:
            for epsilon in options.epsilon:
                runs = np.array(list(pool.map(partial(one_seed, name, epsilon), seeds)))
                means = runs.mean(0)
                differences.setdefault(epsilon, []).append(means[0] - means[1:].min())
                ours, mst, alone, uniform = means
                line = f"{name:10s} epsilon {epsilon:<4g} cliquetree {ours:.4f}  mst {mst:.4f}"
                line += f"  independent {alone:.4f}  uniform {uniform:.4f}"
                print(f"{line}  above the best {differences[epsilon][-1]:+.4f}", flush=True)
    for epsilon, above in differences.items():
        print(f"mean over tables, epsilon {epsilon:g}: {np.mean(above):+.4f}")


if __name__ == "__main__":
    main()
