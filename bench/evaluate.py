"""Seconds of the deid2 and k-marginal scores, beside plain numpy in the same run.

    python -m bench.evaluate [--rows 1000000] [--numpy-rows 1000000] [--repeat 3]

numpy counts each of the 28 pairs with its group by one bincount per table, as anyone would; its
k-marginal score must equal ours to 1e-9.
"""

from __future__ import annotations

import argparse
import platform
import resource
import time
from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np

from fastdp import simulate
from fastdp._util.threads import available
from fastdp.metrics import kmarginal
from fastdp.metrics.challenges import deid2
from fastdp.metrics.inputs import pair_up


def best(work: Callable[[], Any], repeat: int) -> tuple[float, Any]:
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        out = work()
        times.append(time.perf_counter() - start)
    return min(times), out


def numpy_codes(table: Any) -> tuple[np.ndarray, list[np.ndarray], list[int]]:
    """Group number, codes and sizes of the eight paired columns, by numpy over the official
    domains."""

    def values(name: str) -> np.ndarray:
        return table[name].to_numpy().astype(np.int64)

    group = np.maximum(values("pickup_community_area"), 0) * 21 + values("shift")
    columns = [
        values("company_id"),
        np.maximum(values("dropoff_community_area"), 0),
        values("payment_type") + 1,
    ]
    columns += [np.clip(values(name) // step + 1, 0, 10) for name, step in deid2.BIN_WIDTHS.items()]
    return group, columns, [57, 78, 10, *[11] * 5]


def numpy_k_marginal(truth: Any, synthetic: Any) -> float:
    """The k-marginal score, one dense 4-way bincount per pair and table."""
    sides = [numpy_codes(t) for t in (truth, synthetic)]
    groups = 78 * 21
    rows = [np.bincount(s[0], minlength=groups) for s in sides]
    present = (rows[0] > 0) | (rows[1] > 0)
    distances = []
    for a, b in combinations(range(8), 2):
        shares = []
        for (group, columns, sizes), count in zip(sides, rows, strict=True):
            cells = sizes[a] * sizes[b]
            counts = np.bincount(
                group * cells + columns[a] * sizes[b] + columns[b], minlength=groups * cells
            )
            shares.append(counts.reshape(groups, cells) / np.maximum(count, 1)[:, None])
        distance = np.abs(shares[0] - shares[1]).sum(axis=1)
        distances.append(np.where((rows[0] == 0) | (rows[1] == 0), 2.0, distance))
    return float((2.0 - np.mean(distances, axis=0)[present].mean()) / 2.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--numpy-rows", type=int, default=1_000_000)
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    print(
        f"{platform.machine()}, {available()} cores, Python {platform.python_version()}, numpy "
        f"{np.__version__}"
    )

    def tables(rows: int) -> list[Any]:
        return [simulate.taxi(rows, seed=s) for s in (1, 2)]

    # Outside the clock: numba's loops come from its cache or are compiled once.
    deid2.score(*tables(1000))
    truth, synthetic = tables(options.numpy_rows)
    plain, expected = best(lambda: numpy_k_marginal(truth, synthetic), options.repeat)
    print(f"{'work':<44}{'rows':>12}{'seconds':>10}{'numpy / ours':>14}")
    print(f"{'numpy: k-marginal alone':<44}{options.numpy_rows:>12,}{plain:>10.2f}{'':>14}")
    ours, scores = best(lambda: deid2.score(truth, synthetic), options.repeat)
    if abs(scores["k_marginal_score"] - expected) > 1e-9:
        raise SystemExit(f"k-marginal: ours {scores['k_marginal_score']!r}, numpy {expected!r}")
    print(
        f"{'fastdp: all three deid2 scores, from Arrow':<44}{options.numpy_rows:>12,}{ours:>10.2f}"
        f"{plain / ours:>13.1f}x"
    )
    bare = [t.drop_columns("taxi_id") for t in (truth, synthetic)]  # without ids: no conjunctions
    alone, _ = best(lambda: deid2.score(*bare), options.repeat)
    label = "fastdp: k-marginal and pickup-dropoff alone"
    print(f"{label:<44}{options.numpy_rows:>12,}{alone:>10.2f}{plain / alone:>13.1f}x")
    if options.rows != options.numpy_rows:
        truth, synthetic = tables(options.rows)
        ours, _ = best(lambda: deid2.score(truth, synthetic), options.repeat)
        print(
            f"{'fastdp: all three deid2 scores, from Arrow':<44}{options.rows:>12,}{ours:>10.2f}{'':>14}"
        )
    pair = pair_up(truth, synthetic, None)
    ours, _ = best(lambda: kmarginal.score(pair, 3), 1)
    print(
        f"{'fastdp: 3-way k-marginal, 200 of 220 marginals':<44}{options.rows:>12,}{ours:>10.2f}{'':>14}"
    )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"peak memory of this process, tables and numpy included: {peak:.2f} GiB")


if __name__ == "__main__":
    main()
