"""Tables that a model of pairs finds hard: columns that follow from others, fine bins, an exclusive
or.

    python -m bench.hard [--tables zip zipf copy xor rows60 bins wide dense30 ...] [--epsilon 1 10]
    [--seeds 5] [--jobs N]

- `zip`, `zipf`: 1,500 zips, each in one of 900 towns, 100,000 rows, with about equally many rows
  each or by Zipf's law; `copy`: 2,000 codes and a permutation of them; `zipf3`, `copy3`: with three
  other columns. Part of the synthetic rows whose second column is the right one for their first.
- `xor`: a target that is the exclusive or of 2 of 10 binary features, 50,000 rows. AUC, on the real
  rows, of a model trained on the synthetic ones (scikit-learn).
- `xor3`, `xor4`, `xor4of15`, `xor3of30`: a target that is the parity of 3 or 4 of 8, 15 or 30 binary
  features, 10,000 rows, flipped in one of twenty. Accuracy of a forest on fresh rows, that of a
  forest trained on the true rows, and the part of the synthetic rows that have the parity.
- `target`: eight columns of 32 bins and a target, 20,000 rows, with `target=` and without it. The part of
  the correlations among the columns that is kept, and AUC on fresh rows of a forest.
- `rows60`: 60 rows, 4 columns. The number of synthetic rows.
- `bins`: 48,842 rows, 8 columns of 32 bins of equal counts with three hidden factors, and 4 others;
  a table for every seed. Mean error of the 28 correlations, the largest one, and the part within
  .03.
- `wide`: 30,000 rows, 60 columns of 2 to 120 classes (`bench.tables`). Mean and largest total
  variation of all pairs, and of 50 triples.
- `dense30`, `dense80`: 20,000 rows, 30 columns of 8 bins, normal with all correlations .3 or .8;
  `dense50`: 50 columns, .3; `blocks`: two blocks with correlations of both signs; `probit`: 40 binary
  columns; `classes`: 30 unordered columns of 8 codes with six hidden classes. Mean total variation of
  pairs, and mean error of correlations of codes. `codes1000`: ten columns of 1,000 codes and
  correlations of .8, 50,000 rows; pairs over 10 groups of neighbouring codes.

Delta is 1e-9, a user has one row, a run one thread. Processor seconds come last. Runs are kept by
table and epsilon in `bench/results/hard.json`; those of other tables stay there.
Nothing was chosen on the seeds from 1000 on.
"""

from __future__ import annotations

import argparse
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial

import numpy as np

import fastdp
from fastdp.mechanisms.cliquetree import CliqueTree

from . import machine
from .small import TABLES as SMALL, table as small_table
from .tables import DELTA, Scorer, factors


def made(columns, epsilon, seed, **options):
    """The codes of the synthetic rows of one run."""
    domain = {a: n for a, (n, _) in columns.items()}
    private = fastdp.Table.from_codes(domain, {a: c for a, (_, c) in columns.items()})
    mechanism = CliqueTree(**options)
    data = fastdp.synthesize(
        private, mechanism, epsilon, DELTA, seed=seed, sample_seed=seed, threads=1
    ).data
    return {a: data[a].to_numpy().astype(np.int64) for a in domain}


def follows(sizes, law, epsilon, seed, rows=100_000, others=0):
    """Part of the rows whose second column is the right one for their first. `others`: columns that
    depend on the first a little."""
    rng = np.random.default_rng(seed)
    first = rng.choice(sizes[0], rows, p=law / law.sum())
    second = rng.permutation(np.arange(sizes[0]) % sizes[1])
    columns = {"first": (sizes[0], first), "second": (sizes[1], second[first])}
    for i in range(others):
        columns[f"other{i}"] = (
            5,
            np.where(rng.random(rows) < 0.5, first % 5, rng.integers(0, 5, rows)),
        )
    codes = made(columns, epsilon, seed)
    return {"right": float(np.mean(second[codes["first"]] == codes["second"]))}


def xor(epsilon, seed, rows=50_000):
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.metrics import roc_auc_score

    rng = np.random.default_rng(seed)
    bits = rng.integers(0, 2, (rows, 10))
    columns = {f"x{i}": (2, bits[:, i]) for i in range(10)} | {
        "target": (2, bits[:, 3] ^ bits[:, 7])
    }
    codes = made(columns, epsilon, seed, target="target")
    model = RandomForestClassifier(50, min_samples_leaf=5, random_state=0)
    model.fit(np.stack([codes[f"x{i}"] for i in range(10)], 1), codes["target"])
    return {"AUC": roc_auc_score(columns["target"][1], model.predict_proba(bits)[:, 1])}


def parity(epsilon, seed, order=3, columns=8, rows=10_000):
    """A target that is the parity of `order` of the columns, but for one row in twenty."""
    from sklearn.ensemble import RandomForestClassifier

    rng = np.random.default_rng(seed)
    bits = rng.integers(0, 2, (2 * rows, columns))
    target = bits[:, 1 : 1 + order].sum(axis=1) % 2 ^ (rng.random(2 * rows) < 0.05)
    names = [f"x{i}" for i in range(columns)]
    table = {a: (2, bits[:rows, i]) for i, a in enumerate(names)} | {"y": (2, target[:rows])}
    codes = made(table, epsilon, seed, target="y")

    def accuracy(features, labels):
        forest = RandomForestClassifier(100, min_samples_leaf=3, max_features=None, random_state=0)
        return forest.fit(features, labels).score(bits[rows:], target[rows:])

    held = sum(codes[a] for a in names[1 : 1 + order]) % 2 == codes["y"]
    return {
        "accuracy": accuracy(np.stack([codes[a] for a in names], 1), codes["y"]),
        "true rows": accuracy(bits[:rows], target[:rows]),
        "parity kept": held.mean(),
    }


def target(epsilon, seed, rows=20_000, bins=32):
    """A target that two hidden factors decide, and eight columns of bins that depend on them: what naming it
    changes. "Kept": correlations among the columns, as part of the true ones (least squares)."""
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.metrics import roc_auc_score

    rng = np.random.default_rng(seed)
    hidden = rng.normal(size=(2 * rows, 2))
    scores = hidden @ rng.normal(size=(2, 8)) * 0.7 + rng.normal(size=(2 * rows, 8))
    codes = scores.argsort(axis=0).argsort(axis=0) * bins // len(scores)
    labels = (hidden.sum(axis=1) + rng.normal(size=2 * rows) > 0.5).astype(np.int64)
    names = [f"x{i}" for i in range(8)]
    table = {a: (bins, codes[:rows, i]) for i, a in enumerate(names)} | {"y": (2, labels[:rows])}
    truth = {a: c for a, (_, c) in table.items()}
    true = correlations(truth, names)

    def auc(rows_of):
        forest = RandomForestClassifier(100, min_samples_leaf=10, random_state=0)
        forest.fit(np.stack([rows_of[a] for a in names], 1), rows_of["y"])
        return roc_auc_score(labels[rows:], forest.predict_proba(codes[rows:])[:, 1])

    found = {"AUC, true rows": auc(truth)}
    for word, options in (("with", {"target": "y"}), ("without", {})):
        synthetic = made(table, epsilon, seed, **options)
        found[f"AUC {word}"] = auc(synthetic)
        found[f"kept {word}"] = float(correlations(synthetic, names) @ true / (true @ true))
    return found


def rows60(epsilon, seed):
    columns = small_table(*SMALL["chain"], rows=60)
    return {"rows": len(made(columns, epsilon, seed)["c0"])}


def correlations(codes, names):
    values = np.corrcoef([codes[a] for a in names])
    return values[np.triu_indices(len(names), 1)]


def bins(epsilon, seed, rows=48_842):
    """Eight columns of 32 bins and four of 2 to 9 classes with three hidden factors."""
    rng = np.random.default_rng(seed)
    hidden = rng.normal(size=(rows, 3))
    columns = {}
    for i, n in enumerate((32,) * 8 + (2, 4, 6, 9)):
        score = hidden @ rng.normal(size=3) * rng.choice([0.3, 0.7]) + rng.normal(size=rows)
        columns[f"c{i}"] = (n, score.argsort().argsort() * n // rows)
    names = list(columns)[:8]
    truth = correlations({a: columns[a][1] for a in names}, names)
    gaps = np.abs(correlations(made(columns, epsilon, seed), names) - truth)
    return {"mean": gaps.mean(), "largest": gaps.max(), "within .03": np.mean(gaps <= 0.03)}


def wide(epsilon, seed):
    columns = factors(30_000, 60, seed=5)
    two, worst, three, _ = Scorer(columns)(made(columns, epsilon, seed))
    return {"pairs": two, "worst pair": worst, "triples": three}


def normal(correlation, rows, rng):
    """Normal numbers with all correlations the same, or with this matrix of them."""
    return rng.normal(size=(rows, len(correlation))) @ np.linalg.cholesky(correlation).T


def equal(columns, correlation):
    """A matrix of equal correlations."""
    return np.full((columns, columns), correlation) + (1 - correlation) * np.eye(columns)


def blocks(columns=30, correlation=0.6):
    """Two blocks of columns; a third of the columns point the other way."""
    number = np.arange(columns)
    signs = np.where(number % 3 == 0, -1.0, 1.0)
    same = np.equal.outer(number % 2, number % 2)
    made = np.where(same, correlation, correlation / 3) * np.outer(signs, signs)
    np.fill_diagonal(made, 1.0)
    return made


def dense(correlation, size, epsilon, seed, rows=20_000, groups=None, unequal=False):
    """Columns of normal numbers in `size` bins of equal counts; `groups`: neighbouring codes that
    are compared together. `unequal`: the bins are cut at random quantiles, for binary columns."""
    rng = np.random.default_rng(seed)
    numbers = normal(correlation, rows, rng)
    if unequal:
        codes = (numbers > 0.5 * rng.normal(size=len(correlation))).astype(np.int64)
    else:
        codes = numbers.argsort(axis=0).argsort(axis=0) * size // rows
    return compared(codes, size, epsilon, seed, groups or size)


def classes(epsilon, seed, rows=20_000, columns=30, size=8, hidden=6):
    """Unordered columns that are independent within each of some hidden classes."""
    rng = np.random.default_rng(seed)
    own = rng.integers(0, hidden, rows)
    ends = rng.dirichlet([0.7] * size, (columns, hidden)).cumsum(axis=2)
    drawn = rng.random((columns, rows, 1))
    codes = np.stack([(u > e[own, :-1]).sum(axis=1) for u, e in zip(drawn, ends)], axis=1)
    return compared(codes, size, epsilon, seed, size)


def compared(codes, size, epsilon, seed, groups):
    """Errors of the synthetic rows: pairs over groups of neighbouring codes, and correlations."""
    names = [f"c{i}" for i in range(codes.shape[1])]
    columns = {a: (size, codes[:, i]) for i, a in enumerate(names)}
    synthetic = made(columns, epsilon, seed)
    truth = {a: columns[a][1] for a in names}
    gaps = np.abs(correlations(synthetic, names) - correlations(truth, names))
    coarse = {a: (groups, truth[a] * groups // size) for a in names}
    two, worst, three, *_ = Scorer(coarse)({a: synthetic[a] * groups // size for a in names})
    return {"pairs": two, "worst pair": worst, "triples": three, "correlations": gaps.mean()}


TABLES = {
    "dense30": partial(dense, equal(30, 0.3), 8),
    "dense80": partial(dense, equal(30, 0.8), 8),
    "dense50": partial(dense, equal(50, 0.3), 8),
    "blocks": partial(dense, blocks(), 8),
    "probit": partial(dense, equal(40, 0.4), 2, unequal=True),
    "classes": classes,
    "codes1000": partial(dense, equal(10, 0.8), 1000, rows=50_000, groups=10),
    "zip": partial(follows, (1500, 900), np.ones(1500)),
    "zipf": partial(follows, (1500, 900), 1 / np.arange(1, 1501)),
    "zipf3": partial(follows, (1500, 900), 1 / np.arange(1, 1501), others=3),
    "copy": partial(follows, (2000, 2000), np.ones(2000)),
    "copy3": partial(follows, (2000, 2000), np.ones(2000), others=3),
    "xor": xor,
    "xor3": parity,
    "xor4": partial(parity, order=4),
    "xor4of15": partial(parity, order=4, columns=15),
    "xor3of30": partial(parity, columns=30),
    "target": target,
    "rows60": rows60,
    "bins": bins,
    "wide": wide,
}
SEEDS = {"rows60": 20}
"""Times as many seeds."""


def one(name, epsilon, seed):
    start = time.process_time()
    return TABLES[name](epsilon, seed) | {"seconds": time.process_time() - start}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=list(TABLES))
    parser.add_argument("--epsilon", nargs="+", type=float, default=[1.0, 10.0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first-seed", type=int, default=1000)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--no-save", action="store_true", help="keep nothing in bench/results")
    options = parser.parse_args()
    kept = {}
    with ProcessPoolExecutor(options.jobs) as pool:
        asked = [(name, epsilon) for name in options.tables for epsilon in options.epsilon]
        runs = {}
        for name, epsilon in asked:
            seeds = range(
                options.first_seed, options.first_seed + options.seeds * SEEDS.get(name, 1)
            )
            runs[name, epsilon] = [pool.submit(one, name, epsilon, seed) for seed in seeds]
        for (name, epsilon), done in runs.items():
            done = [run.result() for run in done]
            line = f"{name:7s} epsilon {epsilon:<4g} {len(done):3d} seeds"
            kept[f"{name}, epsilon {epsilon:g}"] = {key: [r[key] for r in done] for key in done[0]}
            for key in done[0]:
                values = np.array([r[key] for r in done])
                line += f"  {key} {values.mean():.4f} ({values.min():.4f} to {values.max():.4f})"
            print(line, flush=True)
    if not options.no_save:
        machine.keep_cells("hard", kept)


if __name__ == "__main__":
    main()
