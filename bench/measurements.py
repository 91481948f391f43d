"""Noisy measurements of simulated taxi rows for the estimator's benchmarks, kept in
`bench/out/*.npz`.

The noise is numpy's: good for timing, not private. A file holds, per measurement i of its cliques:
`y_i` (float64, rows; AdaGrid's coarse rows without their scalar), `sigma_i` (per row, so that (y -
count) / sigma is standard normal) and, for AdaGrid, `fine_i` (one bool per cell). `truth_i` are the
plain counts of the outer marginals, `weighted_i` the counts with weights min(1, C/R), which is what
was measured.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fastdp._util.files import replacing
from fastdp.domain import Clique, Domain, downward_closure

from . import adagrid_queries as grid

OUT = Path(__file__).parent / "out"
BINS = 11
PAYMENTS = [-1, 0, 1, 2, 3, 5, 6, 7, 8]
DOMAIN = Domain(
    {
        "pickup_community_area": 78,
        "shift": 21,
        "company_id": 57,
        "dropoff_community_area": 78,
        "payment_type": 9,
        "fare": BINS,
        "tips": BINS,
        "trip_total": BINS,
        "trip_seconds": BINS,
        "trip_miles": BINS,
    }
)
PAIRS = [
    ("fare", "trip_total"),
    ("trip_total", "trip_seconds"),
    ("dropoff_community_area", "fare"),
    ("payment_type", "trip_total"),
    ("fare", "trip_miles"),
    ("company_id",),
    ("tips", "trip_total"),
]
OUTER = [DOMAIN.canonical(("pickup_community_area", "shift", *pair)) for pair in PAIRS]
COPIED = ("pickup_community_area", "dropoff_community_area")
COPIES = 8
CLIP = {1.0: 150, 10.0: 200}
SIGMA = {  # 66 measurements of sensitivity C at delta 2.5e-5
    "gdp": {1.0: 4290.2421, 10.0: 784.1204},
    "classic": {1.0: 5739.3613, 10.0: 895.4163},
}


@dataclass(frozen=True)
class Measured:
    """One noisy marginal: identity where `fine` is None, else AdaGrid's rows over those masks."""

    clique: Clique
    y: np.ndarray
    sigma: np.ndarray
    fine: np.ndarray | None


@dataclass(frozen=True)
class Problem:
    """The measurements of one run and what the rows were (weighted truth: what was measured)."""

    name: str
    domain: Domain
    measured: list[Measured]
    outer: list[Clique]
    truth: list[np.ndarray]
    weighted: list[np.ndarray]
    rows: int

    @property
    def fine(self) -> dict[Clique, np.ndarray]:
        return {m.clique: m.fine for m in self.measured if m.fine is not None}

    def product(self, m: Measured, x: np.ndarray) -> np.ndarray:
        """The rows of one measurement, without scalars, of the marginal `x` over its clique."""
        return x if m.fine is None else grid.product(self.domain, self.fine, m.clique, x)

    def loss(self, marginals: dict[Clique, np.ndarray]) -> float:
        """The common loss: half the sum of ((Q mu - y) / sigma)^2; `marginals` are those of the
        outer cliques, from which all others are projected."""
        total = 0.0
        for m in self.measured:
            source = next(c for c in marginals if set(m.clique) <= set(c))
            x = grid.project(self.domain, source, np.asarray(marginals[source], float), m.clique)
            total += 0.5 * np.sum(((self.product(m, x) - m.y) / m.sigma) ** 2)
        return float(total)


def to_fastdp(problem: Problem) -> list:
    """The problem as `fastdp.Measurement`s: identity, or structured AdaGrid queries."""
    from fastdp.measurement import Measurement
    from fastdp.queries import AdaGrid, Grid

    grids: dict[Clique, Grid] = {}
    out = []
    for m in problem.measured:
        query = None
        if m.fine is not None:
            below = tuple(grids[c] for c in grid.children(m.clique))
            shape = problem.domain.shape(m.clique)
            grids[m.clique] = Grid(m.clique, shape, np.flatnonzero(m.fine), below)
            query = AdaGrid(grids[m.clique])
        sigma = float(m.sigma[0]) if m.fine is None else m.sigma
        out.append(Measurement(m.clique, m.y, sigma, query))
    return out


def taxi_codes(table) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Codes of a taxi table in the DeID2 columns (values as in `sprint3_parameters.json`), and its
    taxi ids."""
    codes = {}
    for name, n in DOMAIN.items():
        v = table[name].to_numpy()
        if n == BINS:
            step = 200 if name == "trip_seconds" else 10
            code = np.where(v < 0, 0, 1 + np.minimum(v // step, BINS - 2))
        elif name.endswith("community_area"):
            code = np.where(v < 0, 0, v)
        else:
            code = np.searchsorted(PAYMENTS, v) if name == "payment_type" else v
        code = code.astype(np.uint8)
        if code.max(initial=0) >= n:
            raise ValueError(f"{name}: a value lies outside its {n} codes")
        codes[name] = code
    return codes, table["taxi_id"].to_numpy()


def count(codes: dict[str, np.ndarray], clique: Clique, weights: np.ndarray | None) -> np.ndarray:
    index = np.zeros(next(iter(codes.values())).size, dtype=np.int64)
    for name in clique:
        index *= DOMAIN[name]
        index += codes[name]
    return np.bincount(index, weights, minlength=DOMAIN.cells(clique)).astype(float)


def measure(weighted: list[np.ndarray], sigma: float, kind: str, seed: int, threshold: float = 5.0):
    """Noisy marginals: "identity" the seven outer ones, "closure" all 59 cell by cell, "adagrid"
    all 59 with AdaGrid's queries. In the latter two the eight copies of pickup-dropoff come as
    their average (sigma / sqrt(8))."""
    rng = np.random.default_rng(seed)
    if kind == "identity":
        noisy = [x + rng.normal(0, sigma, x.size) for x in weighted]
        return [
            Measured(c, y, np.full(y.size, sigma), None) for c, y in zip(OUTER, noisy, strict=True)
        ]
    fine: dict[Clique, np.ndarray] = {}
    above: dict[Clique, np.ndarray] = {}
    measured = []
    for clique in sorted(downward_closure(OUTER), key=len):
        source = next(i for i, c in enumerate(OUTER) if set(clique) <= set(c))
        x = grid.project(DOMAIN, OUTER[source], weighted[source], clique)
        noise = sigma / np.sqrt(COPIES) if clique == COPIED else sigma
        if kind == "closure":
            y = x + rng.normal(0, noise, x.size)
            measured.append(Measured(clique, y, np.full(x.size, noise), None))
            continue
        mask = fine[clique] = grid.plausible(DOMAIN, clique, above)
        rows = grid.product(DOMAIN, fine, clique, x)
        spread = noise / grid.scalars(DOMAIN, fine, clique)
        y = rows + rng.normal(0, 1, rows.size) * spread
        above[clique] = np.zeros(mask.size, dtype=bool)
        above[clique][mask] = y[: np.count_nonzero(mask)] >= threshold * noise
        measured.append(Measured(clique, y, spread, mask))
    return measured


def path_of(kind: str, epsilon: float, calibration: str, rows: int) -> Path:
    suffix = "" if calibration == "gdp" else f"-{calibration}"
    size = "" if rows == 10_000_000 else f"-{rows}"
    return OUT / f"{kind}-eps{epsilon:g}{suffix}{size}.npz"


def save(path: Path, problem: Problem) -> None:
    arrays: dict[str, np.ndarray] = {}
    for i, m in enumerate(problem.measured):
        arrays[f"y_{i}"] = m.y
        arrays[f"sigma_{i}"] = m.sigma
        if m.fine is not None:
            arrays[f"fine_{i}"] = m.fine
    for i in range(len(problem.outer)):
        arrays[f"truth_{i}"] = problem.truth[i]
        arrays[f"weighted_{i}"] = problem.weighted[i]
    about = {
        "domain": dict(problem.domain),
        "cliques": [m.clique for m in problem.measured],
        "outer": problem.outer,
        "rows": problem.rows,
    }
    save_arrays(path, {"about": np.array(json.dumps(about)), **arrays})


def save_arrays(path: Path, arrays: dict[str, np.ndarray]) -> None:
    """One .npz file, whole or not at all: several benchmarks may fill the cache at once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as aside, open(aside, "wb") as file:
        np.savez(file, **arrays)


def load(path: str | Path) -> Problem:
    """A cached problem."""
    with np.load(path, allow_pickle=False) as file:
        about = json.loads(str(file["about"]))
        cliques = [tuple(c) for c in about["cliques"]]
        measured = [
            Measured(c, file[f"y_{i}"], file[f"sigma_{i}"], file.get(f"fine_{i}"))
            for i, c in enumerate(cliques)
        ]
        outer = [tuple(c) for c in about["outer"]]
        truth = [file[f"truth_{i}"] for i in range(len(outer))]
        weighted = [file[f"weighted_{i}"] for i in range(len(outer))]
    for m in measured:  # so that nobody has to copy them
        m.y.flags.writeable = m.sigma.flags.writeable = False
    return Problem(
        Path(path).stem,
        Domain(about["domain"]),
        measured=measured,
        outer=outer,
        truth=truth,
        weighted=weighted,
        rows=about["rows"],
    )


def counts(rows: int, seed: int = 0) -> dict[str, list[np.ndarray]]:
    """Outer marginals of simulated trips: "truth" as they are, and with weights min(1, C/R) by the
    clip; cached."""
    path = OUT / f"counts-{rows}-{seed}.npz"
    names = ["truth", *map(str, sorted(set(CLIP.values())))]
    if not path.exists():
        from fastdp import simulate

        codes, taxi = taxi_codes(simulate.taxi(rows, seed=seed))
        user = np.unique(taxi, return_inverse=True)[1]
        trips = np.bincount(user)
        arrays = {}
        for name in names:
            weights = None if name == "truth" else np.minimum(1.0, int(name) / trips)[user]
            arrays.update({f"{name}_{i}": count(codes, c, weights) for i, c in enumerate(OUTER)})
        save_arrays(path, arrays)
    with np.load(path, allow_pickle=False) as file:
        return {name: [file[f"{name}_{i}"] for i in range(len(OUTER))] for name in names}


def make(
    kind: str, epsilon: float, calibration: str, rows: int, noise_seed: int = 1, seed: int = 0
) -> Problem:
    """One problem: `noise_seed` fixes the noise, `seed` the simulated rows."""
    exact = counts(rows, seed)
    weighted = exact[str(CLIP[epsilon])]
    noisy = measure(weighted, SIGMA[calibration][epsilon], kind, noise_seed)
    name = path_of(kind, epsilon, calibration, rows).stem
    return Problem(
        name,
        DOMAIN,
        measured=noisy,
        outer=OUTER,
        truth=exact["truth"],
        weighted=weighted,
        rows=rows,
    )


def prepare(rows: int, wanted: list[tuple[str, float, str]]) -> list[Path]:
    """Make the cached files that are missing; `wanted` holds (kind, epsilon, calibration)."""
    for one in wanted:
        if not path_of(*one, rows).exists():
            save(path_of(*one, rows), make(*one, rows))
    return [path_of(*one, rows) for one in wanted]
