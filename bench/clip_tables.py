"""What the rule that chooses a clip costs, on tables with users of very different kinds.

    python -m bench.clip_tables [--tables purchases visits clinic sensors trips chicago flights]
                                [--flights flights.parquet] [--epsilons 1 5] [--seeds 2]

Every table is made with the clip set to each of a grid in turn; everything else is as in a run that
chooses. Error: half the L1 distance of the counts from the truth, relative to the rows, so that a
wrong total counts; mean over single columns and over pairs of at most 20,000 cells. Then the clip
that the rule takes from the same noisy histogram, and how far its error is above the least, for
several values of `TV_WITHOUT_MARGINAL`.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pyarrow as pa

import fastdp
from fastdp.privacy import clip as clip_rules

from .coverage import binned, chicago, codes_of, schema_of, simulated

DELTA = 1e-6
GRID = (1, 2, 3, 4, 6, 8, 13, 16, 23, 32, 64, 128)
TRIED_DISTANCES = (0.05, 0.1, 0.2, 0.3, 0.5, 1.0)
SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"


def purchases(_):
    """3,000 users with 6 daily dates in the mean; busy ones buy in the other season."""
    rng = np.random.default_rng(0)
    n = np.maximum(1, rng.poisson(6 * rng.gamma(1.0, 1.0, 3000)))
    who = np.repeat(np.arange(3000), n)
    busy = n[who] > 10
    rows = len(who)
    season = 1 + 0.5 * np.sin(np.arange(365) / 365 * 2 * np.pi)
    first, second = (rng.choice(365, rows, p=s / s.sum()) for s in (season, season[::-1]))
    shop = 1 / np.arange(1, 13)
    columns = {
        "day": np.where(busy, second, first),
        "amount": np.minimum(rng.lognormal(3, 0.7, rows) * np.where(busy, 1.3, 1) / 5, 18).astype(
            int
        ),
        "kind": rng.choice(12, rows, p=shop / shop.sum()),
        "store": (rng.choice(20, rows) + busy * 5) % 20,
    }
    return dict(zip(columns, (365, 19, 12, 20))), columns, who


def visits(_):
    """2,000 users with a Pareto number of rows, and small columns in which busy users are of
    another kind."""
    rng = np.random.default_rng(1)
    n = np.minimum((rng.pareto(1.1, 2000) + 1) * 2, 1000).astype(int)
    who = np.repeat(np.arange(2000), n)
    kind = ((rng.random(2000) < 0.3) | (n > 30))[who].astype(int)
    sizes = (4, 6, 2, 8, 5, 3)
    columns = {}
    for i, (size, share) in enumerate(zip(sizes, (0.8, 0.5, 0.2, 0.4, 0.0, 0.6))):
        by_kind = np.array(
            [rng.choice(size, len(who), p=rng.dirichlet(np.ones(size))) for _ in range(2)]
        )
        plain = rng.choice(size, len(who), p=rng.dirichlet(np.ones(size)))
        own = by_kind[kind, np.arange(len(who))]
        columns[f"v{i}"] = np.where(rng.random(len(who)) < share, own, plain)
    return dict(zip(columns, sizes)), columns, who


def sensors(_):
    """500 users with about 200 rows, and 16 columns of 8 values, each like the one before."""
    rng = np.random.default_rng(2)
    who = np.repeat(np.arange(500), np.minimum(rng.lognormal(5, 0.8, 500), 1000).astype(int) + 1)
    columns = {}
    for i in range(16):
        new = rng.choice(8, len(who), p=rng.dirichlet(np.ones(8)))
        again = rng.random(len(who)) < (0.6 if i else 0.0)
        columns[f"s{i}"] = np.where(again, (columns[f"s{i - 1}"] + i) % 8, new) if i else new
    return dict.fromkeys(columns, 8), columns, who


def clinic(_):
    """10,000 users with 1 + Poisson rows; those with many are sicker."""
    rng = np.random.default_rng(3)
    n = 1 + rng.poisson(2 * rng.gamma(2, 0.5, 10_000))
    who = np.repeat(np.arange(10_000), n)
    sick = np.minimum(n / 10, 1)[who]
    columns = {}
    sizes = (60, 24, 12, 10, 5, 3, 2, 2)
    for i, size in enumerate(sizes):
        z = 0.5 * rng.beta(1 + 3 * sick, 3 - 2 * sick) + 0.5 * rng.random(len(who))
        columns[f"c{i}"] = np.minimum((z * size).astype(int), size - 1)
    return dict(zip(columns, sizes)), columns, who


def flights(path):
    import polars as pl

    rows = pl.read_parquet(path).drop_nulls("tailnum")
    names = ("month", "day", "hour", "carrier", "dest", "origin")
    columns = {name: codes_of(rows[name].cast(pl.String)) for name in names}
    delay, miles = (
        rows[c].cast(pl.Float64).fill_null(0).to_numpy() for c in ("arr_delay", "distance")
    )
    columns["delay"] = binned(delay, [-20, -10, -5, 0, 5, 10, 20, 40, 80, 160])
    columns["distance"] = binned(miles, [200, 400, 600, 800, 1000, 1500, 2000, 2500])
    return {a: int(c.max()) + 1 for a, c in columns.items()}, columns, codes_of(rows["tailnum"])


TABLES: dict[str, Callable] = {
    "purchases": purchases,
    "visits": visits,
    "clinic": clinic,
    "sensors": sensors,
    "trips": lambda _: simulated(SHARED, 100_000),
    "chicago": lambda _: chicago(SHARED),
    "flights": flights,
}


def errors(
    table, mechanism: str, epsilon: float, clip: int, seeds: int
) -> tuple[float, list[dict]]:
    """(mean error with this clip, what the clip would have been chosen from)."""
    domain = table.schema.domain
    rows = table.rows
    asked = [(a,) for a in domain] + [
        p for p in combinations(domain, 2) if domain.cells(p) <= 20_000
    ]
    truth = fastdp.marginals(table, asked)
    real = clip_rules.choose
    got = []
    choices = []

    def forced(sizes, users, noise, clips, **options):
        chosen = real(sizes, users, noise, clips, **options)
        nearest = min(clips, key=lambda c: abs(math.log(c / clip)))
        return clip_rules.ClipChoice(nearest, chosen.lines, chosen.rows)

    for seed in range(seeds):
        with patch.object(clip_rules, "choose", forced):
            run = fastdp.synthesize(
                table,
                mechanism,
                epsilon,
                DELTA,
                clip="private",
                seed=100 * seed + 7,
                sample_seed=seed,
            )
        choices.append(run.privacy["parts"][0]["clip_choice"])
        made = run.sample(200_000, seed=1)
        total = run.data.num_rows
        codes = {a: made[a].to_numpy().astype(np.int64) for a in domain}
        for clique in asked:
            cells = np.ravel_multi_index([codes[a] for a in clique], domain.shape(clique))
            counts = np.bincount(cells, minlength=domain.cells(clique)) * (total / made.num_rows)
            got.append((len(clique), np.abs(counts - truth[clique].ravel()).sum() / 2 / rows))
    return float(np.mean([np.mean([e for k, e in got if k == n]) for n in (1, 2)])), choices


def excess(by_clip: dict[int, float], choices: list[dict], alone: float) -> tuple[float, list[int]]:
    """(error of the clips that the rule takes over the least, these clips)."""
    with patch.object(clip_rules, "TV_WITHOUT_MARGINAL", alone):
        keys = ("users", "noise", "bound", "sigma", "displaced")
        rule = [clip_rules.from_release(*(c[k] for k in keys)).clip for c in choices]
    at = np.interp(np.log(rule), np.log(list(by_clip)), list(by_clip.values()))
    return float(at.mean() / min(by_clip.values()) - 1), rule


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument(
        "--tables", nargs="+", choices=TABLES, default=[t for t in TABLES if t != "flights"]
    )
    parser.add_argument("--mechanisms", nargs="+", default=["cliquetree", "mst"])
    parser.add_argument("--flights", type=Path)
    parser.add_argument("--epsilons", type=float, nargs="+", default=[1.0, 5.0])
    parser.add_argument("--seeds", type=int, default=2)
    options = parser.parse_args()
    cases: list[list[float]] = []
    for name in options.tables:
        sizes, columns, who = TABLES[name](options.flights)
        table = fastdp.read(pa.table({**columns, "uid": who}), schema_of(sizes, True))
        for mechanism in options.mechanisms:
            for epsilon in options.epsilons:
                got = {c: errors(table, mechanism, epsilon, c, options.seeds) for c in GRID}
                by_clip = {c: e for c, (e, _) in got.items()}
                tried = {a: excess(by_clip, got[1][1], a) for a in TRIED_DISTANCES}
                cases.append([e for e, _ in tried.values()])
                best = min(by_clip, key=lambda c: by_clip[c])
                texts = "  ".join(f"{a:g}: {e:.0%} {clips}" for a, (e, clips) in tried.items())
                print(
                    f"{name}, {mechanism}, {epsilon:g}: best {best} ({by_clip[best]:.4f})  {texts}",
                    flush=True,
                )
    means = "  ".join(f"{a:g}: {m:.1%}" for a, m in zip(TRIED_DISTANCES, np.mean(cases, axis=0)))
    print(f"mean excess by TV_WITHOUT_MARGINAL, {len(cases)} cases: {means}")


if __name__ == "__main__":
    main()
