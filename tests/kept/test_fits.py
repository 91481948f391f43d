"""Small fits of every strategy go the way that is kept: calls and losses on the way, where they end and why,
and the tables. Domains are small, so that what processors round differently stays far below 1e-6."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from fastdp.domain import Domain
from fastdp.measurement import Measurement
from fastdp.model import Model, fit
from fastdp.queries import AdaGrid, Binned

from ..test_queries import family
from .figures import check, plain

DOMAIN = Domain({"a": 5, "b": 4, "c": 3, "d": 6, "e": 2})
STEEP = Domain({"p": 6, "q": 5, "r": 4, "s": 3})
BINARY = Domain({a: 2 for a in "pqrstu"})
SHAPES: dict[str, list[tuple[str, ...]]] = {
    "single": [("a",), ("d",)],
    "pair": [("b", "d")],
    "tree": [("a",), ("b",), ("c",), ("a", "b"), ("b", "c"), ("b", "d")],
    "loop": [("a", "b"), ("b", "c"), ("c", "a"), ("a",), ("d", "e")],
    "pairs": [*((x,) for x in "abcde"), *combinations("abcde", 2)],
    "triples": [("a",), ("d",), ("a", "b", "c"), ("b", "c"), ("c", "d"), ("e", "d", "a")],
}


def truth(seed: int, rows: float) -> np.ndarray:
    joint = np.random.default_rng(seed).gamma(0.4, size=DOMAIN.shape(tuple(DOMAIN))) + 1e-3
    return joint * (rows / joint.sum())


def marginal(joint: np.ndarray, clique: tuple[str, ...]) -> np.ndarray:
    kept = [a for a in DOMAIN if a in clique]
    summed = joint.sum(axis=tuple(i for i, a in enumerate(DOMAIN) if a not in clique))
    return summed.transpose([kept.index(a) for a in clique]).reshape(-1)


def measured(shape: str, seed: int = 1, sigma: float = 15.0, rows: float = 4000.0) -> list[Measurement]:
    rng, joint = np.random.default_rng(seed), truth(seed + 100, rows)
    return [
        Measurement(c, (x := marginal(joint, c)) + sigma * rng.normal(size=x.size), sigma)
        for c in SHAPES[shape]
    ]


def uneven(shape: str, seed: int = 2) -> list[Measurement]:
    """Some merged, some twice, some with a sigma per cell."""
    rng, joint, out = np.random.default_rng(seed), truth(seed + 200, 5000.0), []
    for n, clique in enumerate(SHAPES[shape]):
        counts, query = marginal(joint, clique), None
        if n % 3 == 2:
            maps = [rng.integers(0, max(1, m - 1), m).tolist() for m in DOMAIN.shape(clique)]
            query = Binned(DOMAIN.shape(clique), maps)
            counts = query.product(counts)
        for k in range(1 + n % 2):
            sigma = rng.uniform(5, 30, counts.size) if (n + k) % 4 == 1 else 12.0
            out.append(Measurement(clique, counts + sigma * rng.normal(size=counts.size), sigma, query))
    return out


def grids(seed: int = 3, sigma: float = 25.0) -> list[Measurement]:
    """AdaGrid's rows."""
    rng, joint, out = np.random.default_rng(seed), truth(seed + 300, 20_000.0), []
    for clique in (("a", "b", "c"), ("b", "d")):
        query = AdaGrid(family({x: DOMAIN[x] for x in clique}, 0.7, rng))
        counts, noise = query.product(marginal(joint, clique)), query.row_sigma(sigma)
        out.append(Measurement(clique, counts + noise * rng.normal(size=counts.size), noise, query))
    return out


def steep(
    seed: int, sigma: float, power: float = 1.0, columns: int = 4, rows: float = 3e6
) -> list[Measurement]:
    """AdaGrid's rows of few large and many small counts, far above the noise: strides are cut short."""
    rng, names = np.random.default_rng(seed), "pqrstu"[:columns]
    sizes = STEEP if columns == 4 else BINARY
    joint = rng.gamma(0.4, size=sizes.shape(tuple(names))) ** power + 1e-6
    joint *= rows / joint.sum()
    out = []
    for clique in (names[:3], names[1:]) if columns == 4 else (names,):
        query = AdaGrid(family({a: sizes[a] for a in clique}, 0.8 if columns == 4 else 0.99, rng))
        counts = query.product(
            joint.sum(axis=tuple(i for i, a in enumerate(names) if a not in clique)).reshape(-1)
        )
        noise = query.row_sigma(sigma)
        out.append(Measurement(tuple(clique), counts + noise * rng.normal(size=counts.size), noise, query))
    return out


def impossible(clique: tuple[str, ...] = ("a", "b"), seed: int = 4) -> dict[tuple[str, ...], np.ndarray]:
    mask = np.random.default_rng(seed).random(DOMAIN.cells(clique)) < 0.3
    mask[0] = False
    return {clique: mask}


def facts(model: Model) -> Any:
    """Ints and positive sums, which keep their digits: of losses on the way and of tables by place."""
    losses = np.array([loss for _, loss, _ in model.trace])
    tables = []
    for node in model.nodes:
        table = np.asarray(node.table, np.float64).reshape(-1)
        tables.append([list(node.axes), table.size, float(np.square(table).sum()), _by_place(table)])
    errors = [
        [list(c), int(np.isfinite(e).sum()), float(np.where(np.isfinite(e), e, 0).sum())]
        for c, e in sorted(model.errors.items())
    ]
    return plain(
        {
            "calls": [calls for calls, _, _ in model.trace[:25]],
            "losses": [*losses[:3].tolist(), float(losses.sum()), _by_place(losses)],
            "iterations": model.iterations,
            "ended": model.ended,
            "loss": model.loss,
            "total": model.total,
            "tables": tables,
            "errors": errors,
        }
    )


def _by_place(x: np.ndarray) -> float:
    return float((x * (1 + np.arange(x.size) % 7)).sum())


def _fit(measurements: Callable[[], list[Measurement]], domain: Domain = DOMAIN, **options: Any) -> Any:
    start = options.pop("start", None)
    if start is not None:
        options["warm_start"] = fit(DOMAIN, start(), stop="risk", threads=1)
    return facts(fit(domain, measurements(), threads=1, **options))


CASES: dict[str, Callable[[], Any]] = {}
for _shape in SHAPES:
    for _stop in ("noise", "risk", "tol"):
        CASES[f"{_shape}, {_stop}"] = partial(_fit, partial(measured, _shape), stop=_stop, tol=1e-3)
        if _shape in ("tree", "pairs", "triples"):
            CASES[f"{_shape}, uneven, {_stop}"] = partial(_fit, partial(uneven, _shape), stop=_stop, tol=1e-2)
    for _stop in ("noise", "risk", "refined"):
        for _method in ("accelerated", "mirror-descent"):
            if _shape in ("tree", "loop", "triples") and (_method == "accelerated" or _stop == "noise"):
                _name = f"{_shape}, {_stop}, {_method}"
                CASES[_name] = partial(_fit, partial(measured, _shape), stop=_stop, method=_method, iters=60)
CASES |= {
    "loud": partial(_fit, partial(measured, "pairs", 5, 200.0), stop="risk"),
    "quiet": partial(_fit, partial(measured, "pairs", 6, 4.0), stop="risk"),
    "loud, noise": partial(_fit, partial(measured, "loop", 5, 200.0), stop="noise"),
    "quiet, noise": partial(_fit, partial(measured, "loop", 6, 0.5), stop="noise"),
    "slack": partial(_fit, partial(measured, "pairs"), stop="noise", slack=2.0),
    "slack, tree": partial(_fit, partial(measured, "tree"), stop="noise", slack=1.0),
    "iters": partial(_fit, partial(measured, "triples"), stop="iters", iters=12),
    "iters, one": partial(_fit, partial(measured, "tree"), stop="iters", iters=1),
    "tol": partial(_fit, partial(measured, "tree"), stop="tol", tol=1e-4, method="accelerated"),
    "total": partial(_fit, partial(measured, "tree"), stop="risk", total=3900.0),
    "zeros": partial(_fit, partial(measured, "tree"), stop="risk", zeros=impossible()),
    "zeros, loop": partial(_fit, partial(measured, "pairs"), stop="noise", zeros=impossible(("c", "d"))),
    "zeros, outside": partial(_fit, partial(measured, "loop"), stop="risk", zeros=impossible(("a", "d"))),
    "start": partial(_fit, partial(measured, "pairs"), stop="risk", start=partial(measured, "tree", 9)),
    "start, noise": partial(_fit, partial(measured, "pairs"), stop="noise", start=partial(measured, "tree")),
    "start, descent": partial(
        _fit, partial(measured, "loop"), stop="noise", start=partial(measured, "tree"), method="accelerated"
    ),
    "uneven, descent": partial(_fit, partial(uneven, "pairs"), stop="noise", method="accelerated"),
}
for _stop in ("noise", "refined"):
    for _seed, _sigma in ((3, 25.0), (5, 3.0), (6, 150.0)):
        CASES[f"grids {_sigma:g}, {_stop}"] = partial(_fit, partial(grids, _seed, _sigma), stop=_stop)
CASES |= {
    "grids, slack": partial(_fit, grids, stop="noise", slack=3.0),
    "grids, less": partial(_fit, grids, stop="noise", slack=-3.0),
    "grids, slack, refined": partial(_fit, grids, stop="refined", slack=-9.0),
    "five columns": partial(_fit, partial(steep, 1, 30.0, 1.0, 5, 2e4), BINARY, stop="refined", iters=60),
    "six columns": partial(_fit, partial(steep, 2, 30.0, 1.0, 6, 2e4), BINARY, stop="refined", iters=60),
    "five columns, noise": partial(_fit, partial(steep, 3, 8.0, 1.0, 5, 2e4), BINARY, stop="noise", iters=60),
    "grids, capped": partial(_fit, grids, stop="refined", iters=30),
    "grids, zeros": partial(_fit, grids, stop="refined", zeros=impossible()),
    "grids, start": partial(_fit, grids, stop="noise", start=partial(measured, "tree", 9)),
    "grids, descent": partial(_fit, grids, stop="risk", iters=200),
    "grids, mixed": partial(_fit, lambda: [*grids(), *measured("tree")], stop="noise", iters=200),
}
for _seed, _sigma, _power, _iters in (
    (15, 1.0, 1.0, 40),
    (13, 30.0, 1.0, 60),
    (4, 0.05, 1.0, 50),
    (5, 30.0, 1.0, 60),
    (3, 30.0, 4.0, 50),
    (1, 2000.0, 4.0, 200),
):
    for _stop in ("noise", "refined"):
        CASES[f"steep {_seed}, {_sigma:g}, {_stop}"] = partial(
            _fit, partial(steep, _seed, _sigma, _power), STEEP, stop=_stop, iters=_iters
        )
for _slack in (-3.0, 4.0):
    for _shape in ("loop", "triples"):
        CASES[f"{_shape}, slack {_slack:g}"] = partial(
            _fit, partial(measured, _shape), stop="noise", slack=_slack
        )
        for _method in ("accelerated", "mirror-descent"):
            CASES[f"{_shape}, slack {_slack:g}, {_method}"] = partial(
                _fit, partial(measured, _shape), stop="noise", slack=_slack, method=_method, iters=80
            )
CASES |= {
    "one column": partial(_fit, partial(measured, "single"), stop="noise", method="accelerated"),
    "tol, long": partial(
        _fit, partial(measured, "loop"), stop="tol", tol=1e-7, method="accelerated", iters=150
    ),
    "tol, descent": partial(_fit, partial(measured, "tree"), stop="tol", tol=1e-3, method="mirror-descent"),
    "risk, descent": partial(_fit, partial(uneven, "triples"), stop="risk", method="accelerated", iters=150),
    "tol, quiet": partial(
        _fit, partial(measured, "tree", 3, 0.01), stop="tol", tol=1e-5, method="accelerated", iters=150
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_small_fit_goes_the_way_that_is_kept(name):
    check("fits", name, CASES[name]())
