"""What released histograms say of rows per user: the clip chosen, the number of rows and its
interval, and how users are spread over rows.

    python -m bench.rows_per_user [--repeats 12] [--users 300 3000 30000 1000000]
                                  [--epsilon 0.1 1 10] [--shapes NAME ...]
                                  [--set users.people.CROWDED=8] [--save FILE] [--against FILE]

Rows per user are generated: geometric, lognormal, Pareto, panels (all users alike, two kinds), a
mixture of ordinary and heavy users, buyers (half come once, the others as in `simulate.purchases`).
Every repeat draws the users and the noise of all releases of a run with users at this epsilon (delta
1e-5) and asks what runs ask: `privacy.clip` for the clip, `answers.clipping` for the interval of the
number of rows without a count, and `users.people` for synthetic users. Columns, all medians over
repeats but the last five:

regret      error of the clip chosen over that of the best clip, less 1 (`privacy.clip.choose` with
            the true rows per user)
rows        relative error of the number of rows by the histogram alone; `counted`: with the count,
            `mean`: its mean over repeats, `over`: the share of repeats with half too many or more
tv          total variation distance of drawn rows per user, over quarters of an octave
upper       upper end of the interval over the truth
covers      share of repeats whose interval of `answers` holds the number of rows; `people`: of
            `users.people`
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path

import numpy as np

from fastdp.answers import clipping
from fastdp.privacy import clip as clip_rules
from fastdp.users import people

from .users import with_constants

BOUND = 1 << 14
MU = {0.1: 0.0325, 1.0: 0.268, 3.0: 0.719, 10.0: 2.02}
"""Of Gaussian differential privacy, for epsilon at delta 1e-5."""
SHARE = 0.02
"""Of mu^2, of each of the three releases about rows per user."""
PAIRS = 20
CELLS = 100

SHAPES = {
    "geometric": lambda rng, n: rng.geometric(1 / 12, n),
    "lognormal": lambda rng, n: np.ceil(rng.lognormal(1.5, 1.2, n)),
    "pareto 2": lambda rng, n: np.ceil(3 * rng.random(n) ** (-1 / 2.0)),
    "pareto 1.2": lambda rng, n: np.ceil(3 * rng.random(n) ** (-1 / 1.2)),
    "panel": lambda rng, n: np.full(n, 17),
    "two panels": lambda rng, n: np.where(rng.random(n) < 0.7, 4, 52),
    "heavy users": lambda rng, n: np.where(
        rng.random(n) < 0.01, rng.integers(300, 900, n), rng.geometric(0.2, n)
    ),
    "pareto 1.6": lambda rng, n: np.ceil(rng.random(n) ** (-1 / 1.6)),
    "buyers": lambda rng, n: np.where(
        rng.random(n) < 0.5, 1 + np.ceil(rng.lognormal(1.1, 1.1, n)), 1
    ),
}


def one(shape: str, users: int, epsilon: float, seed: int) -> dict[str, float]:
    rng = np.random.default_rng([seed, users, int(1000 * epsilon), sorted(SHAPES).index(shape)])
    rows = np.clip(SHAPES[shape](rng, users), 1, BOUND).astype(np.int64)
    mu = MU[epsilon]
    sigma = 1 / (mu * math.sqrt(SHARE))

    def noisy(edges) -> np.ndarray:
        counts = np.bincount(np.searchsorted(edges, rows, "right") - 1, minlength=len(edges))
        return counts + rng.normal(0, sigma, len(edges))

    total = float(rows.sum())
    edges = clip_rules.size_edges(BOUND)
    values = noisy(edges)
    noise = clip_rules.unit_noise(mu, [(CELLS, 1 / PAIRS)])
    chosen = clip_rules.from_release(values.tolist(), noise, BOUND, sigma)
    true_sizes, true_users = np.unique(rows, return_counts=True)
    options = clip_rules.choose(
        true_sizes.tolist(),
        true_users.tolist(),
        noise,
        clip_rules.candidates(BOUND),
        displaced=clip_rules.TV_PER_LOST_ROW,
        alone=clip_rules.TV_WITHOUT_MARGINAL,
    )
    by_clip = {line.clip: line.error for line in options.lines}
    out = {"regret": by_clip[chosen.clip] / options.line.error - 1}
    out["rows"] = abs(chosen.rows / total - 1)
    scaled = clipping.from_histogram(chosen.clip, values.tolist(), BOUND, sigma)
    out["known"] = float(scaled.known)
    if scaled.known:
        kept = float(np.minimum(rows, chosen.clip).sum())
        center = scaled.factor * kept
        low, high = (center * (1 + s * 1.96 * e) for s, e in zip((-1, 1), scaled.spread))
        out["covers"] = float(low <= total <= high)
        out["upper"] = high / total
    coarse = people.Histogram(edges, values, sigma)
    fine_edges = people.size_bins(BOUND, coarse, sigma)
    fine = people.Histogram(fine_edges, noisy(fine_edges), sigma)
    most = people.rows_limit(coarse, BOUND)
    count = people.RowCount(most, np.minimum(rows, most).sum() / most + rng.normal(0, sigma), sigma)
    sizes = people.sizes_of(fine, coarse, count, BOUND)
    out["counted"] = out["mean"] = abs(sizes.rows / total - 1)
    out["over"] = float(sizes.rows / total > 1.5)
    out["people"] = float(sizes.interval[0] <= total <= sizes.interval[1])
    drawn = sizes.draw(50_000, rng)
    cuts = np.append(people.size_bins(BOUND), BOUND + 1)
    shares = [np.histogram(x, cuts)[0] / len(x) for x in (rows, drawn)]
    out["tv"] = float(abs(shares[0] - shares[1]).sum() / 2)
    return out


MEANS = ("mean", "over", "covers", "people")
COLUMNS = ("regret", "rows", "counted", "tv", "upper", *MEANS)


def summary(found: list[dict[str, float]]) -> dict[str, float]:
    out = {}
    for name in COLUMNS:
        values = [f[name] for f in found if name in f]
        middle = np.mean if name in MEANS else np.median
        out[name] = float(middle(values)) if values else math.nan
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--repeats", type=int, default=12)
    parser.add_argument("--users", type=int, nargs="*", default=[300, 3000, 30_000, 1_000_000])
    parser.add_argument("--epsilon", type=float, nargs="*", default=[0.1, 1.0, 10.0])
    parser.add_argument("--shapes", nargs="*", default=list(SHAPES), choices=list(SHAPES))
    parser.add_argument(
        "--set", nargs="*", default=[], help="constants of fastdp to try, MODULE.NAME=VALUE"
    )
    parser.add_argument("--save", type=Path)
    parser.add_argument("--against", type=Path)
    args = parser.parse_args()
    before = json.loads(args.against.read_text()) if args.against else {}
    results = {}
    print(f"{'':32}" + "".join(f"{c:>16}" for c in COLUMNS))
    for shape in args.shapes:
        for users in args.users:
            for epsilon in args.epsilon:
                key = f"{shape}, {users:,} users, {epsilon:g}"
                with with_constants(args.set):
                    found = [one(shape, users, epsilon, seed) for seed in range(args.repeats)]
                results[key] = summary(found)
                old = before.get(key, {})
                cells = [
                    f"{old[c]:7.3f} >{v:7.3f}" if c in old else f"{v:16.3f}"
                    for c, v in results[key].items()
                ]
                print(f"{key:32}" + "".join(f"{c:>16}" for c in cells), flush=True)
    for which, table in (("before", before), ("now", results)):
        common = [table[k] for k in results if k in table]
        if common:
            means = {c: np.nanmean([r.get(c, math.nan) for r in common]) for c in COLUMNS}
            print(f"{which + ', mean':32}" + "".join(f"{means[c]:16.3f}" for c in COLUMNS))
    if args.save:
        args.save.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
