"""A clip chosen from a noisy histogram of rows per user, beside that of the exact rows per user.

    python -m bench.clip                  simulated trips

How often a noisy histogram leads to the clip that the exact one would, and how much error it costs
by the same criterion (`fastdp.privacy.clip`) where it does not. What the criterion is worth:
`bench.clip_tables`.
"""

from __future__ import annotations

import argparse
import math

import numpy as np

import fastdp
from fastdp import simulate
from fastdp.mechanisms import recipe as recipes
from fastdp.privacy import clip as clip_rules
from fastdp.privacy.calibrate import mu_of_method

from . import machine

DELTA = 2.5e-5


def extra_errors(rows: int, epsilons: list[float], draws: int) -> list[dict]:
    """Noisy histograms of simulated trips against their exact sizes, for what MST would measure."""
    schema = fastdp.Schema.load("taxi-deid2")
    table = fastdp.read(simulate.taxi(rows, seed=5), schema)
    sizes, users = np.unique(table.rows_per_user(), return_counts=True)
    edges = clip_rules.size_edges(200)
    exact = np.histogram(table.rows_per_user(), [*edges, np.inf])[0].astype(float)
    rng = np.random.default_rng(0)
    out = []
    for epsilon in epsilons:
        mu = mu_of_method(epsilon, DELTA, "gdp")
        clip_criteria = (
            recipes.load({"mechanism": "mst", "clip": "private"})
            .config(epsilon)
            .clip_criteria(schema.domain)
        )
        noise = clip_rules.unit_noise(mu, ((p.cells, p.weight) for p in clip_criteria))
        grid = clip_rules.candidates(200)
        rule = {"displaced": clip_rules.TV_PER_LOST_ROW, "alone": clip_rules.TV_WITHOUT_MARGINAL}
        best = clip_rules.choose(sizes.tolist(), users.tolist(), noise, grid, **rule)
        error = {line.clip: line.error / best.line.error - 1 for line in best.lines}
        sigma = 1 / (mu * math.sqrt(0.02))
        chosen = [
            clip_rules.from_release(
                exact + rng.normal(0, sigma, exact.size), noise, 200, sigma
            ).clip
            for _ in range(draws)
        ]
        away = np.array([abs(grid.index(c) - grid.index(best.clip)) for c in chosen])
        extra = [error[c] for c in chosen]
        line = {
            "rows": rows,
            "epsilon": epsilon,
            "best": best.clip,
            "found": float(np.mean(away == 0)),
            "within_a_step": float(np.mean(away <= 1)),
            "mean_extra_error": float(np.mean(extra)),
            "largest_extra_error": float(np.max(extra)),
            "extra_error_at_200": error[200],
        }
        print(
            f"{rows:>9,} rows, epsilon {epsilon:>4g}: best {best.clip:>3}, found"
            f" {line['found']:.0%}, within a step of the grid {line['within_a_step']:.0%}; extra"
            f" error {np.mean(extra):.2%} (at most {np.max(extra):.2%}; of clip 200"
            f" {error[200]:.1%})",
            flush=True,
        )
        out.append(line)
    return out


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rows", type=int, nargs="+", default=[20_000, 200_000, 2_000_000])
    parser.add_argument("--epsilons", type=float, nargs="+", default=[1.0, 5.0, 10.0])
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--no-save", action="store_true")
    options = parser.parse_args()
    finds = [
        line
        for rows in options.rows
        for line in extra_errors(rows, options.epsilons, options.draws)
    ]
    if not options.no_save:
        machine.keep("clip", {"delta": DELTA, "found": finds})


if __name__ == "__main__":
    main()
