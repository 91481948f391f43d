"""Small coded tables and run facts for the tests of the page."""

from types import SimpleNamespace
from typing import Any

import numpy as np

AREAS = ["-1", *(str(i) for i in range(1, 78))]
EDGES = ["(-inf, 0)", *(f"[{10 * i}, {10 * i + 10})" for i in range(9)), "[90, inf)"]


def column(name: str, labels: list[str], kind: str = "categorical") -> Any:
    ordered = kind != "categorical"
    about = {"name": name, "source": name, "kind": kind, "ordered": ordered}
    return SimpleNamespace(**about, labels=lambda: list(labels))


def schema(user: str | None = "taxi_id") -> Any:
    columns = [
        column("shift", [str(i) for i in range(21)]),
        column("company_id", [f"company {i}" for i in range(57)]),
        column("pickup_community_area", AREAS),
        column("payment_type", ["Cash", "Credit & <Card>", "Mobile|App"]),
        column("fare", EDGES, "numeric"),
    ]
    return SimpleNamespace(columns={c.name: c for c in columns}, user=user, name="taxi <test>")


def table(rows: int = 4000, seed: int = 0, tilt: float = 1.0, like: Any = None) -> Any:
    """Codes with skewed, dependent columns; `tilt` bends their distribution."""
    rng = np.random.default_rng(seed)
    like = like or schema()
    codes = {}
    base = rng.random(rows) ** (2.0 * tilt)
    for name, c in like.columns.items():
        n = len(c.labels())
        mixed = np.where(rng.random(rows) < 0.5, base, rng.random(rows) ** (1.5 * tilt))
        codes[name] = np.minimum((mixed * n).astype(np.uint8), n - 1)
    user = (
        None
        if like.user is None
        else np.minimum((rng.random(rows) ** 2 * rows / 10).astype(np.uint32), rows)
    )
    return SimpleNamespace(codes=codes, user=user, rows=rows, schema=like)


def statement(**changes: Any) -> dict:
    """The parts of a privacy.json that the page reads."""
    one = {"label": "round 1", "kind": "marginal", "law": "gaussian", "sigma": 71.5, "count": 21}
    releases = [one | {"attributes": [a]} for a in ("shift", "fare", "payment_type")]
    users = {
        "label": "rows per user",
        "kind": "user_histogram",
        "attributes": [],
        "sigma": 4.0,
        "count": 12,
    }
    releases.append(one | users)
    document = {
        "private": True,
        "epsilon": 1.0,
        "delta": 2.5e-5,
        "mu": 0.2845,
        "unit": {
            "kind": "user",
            "column": "taxi_id",
            "adjacency": "add or remove one user with all of their rows",
        },
        "parts": [{"asked": {"epsilon": 1.0}, "clip": 150, "releases": releases}],
        "mechanism": {"name": "adagrid"},
        "not_protected": ["the schema, which is public"],
        "public_data": [],
        "ledger": {"counts_other_runs": False},
    }
    return document | changes


def run(**changes: Any) -> dict:
    """Facts of a run: statement and model."""
    model = SimpleNamespace(
        loss=9100.5, iterations=40, ended="noise", domain={}, trace=((40, 9100.5, 0.4),)
    )
    return {"privacy": statement(), "model": model} | changes


def scores(overall: float = 720.0) -> dict:
    """What `fastdp.evaluate` gives, shortened."""

    def deid2(value: float) -> dict:
        parts = ("k_marginal_score", "pickup_dropoff_score", "higher_order_conjunction")
        return dict.fromkeys(parts, value / 1000) | {"overall": value}

    samples = {
        "1 % sample": {"deid2": deid2(560.0), "tv1": {"mean": 0.05}},
        "10 % sample": {"deid2": deid2(810.0), "tv1": {"mean": 0.02}},
    }
    return {
        "private": False,
        "rows": {"truth": 4000, "synthetic": 4000},
        "deid2": deid2(overall),
        "tv1": {"mean": 0.031, "max": 0.2},
        "coverage": {"missing": 0.01, "invented": 0.0, "columns": {}},
        "baselines": samples,
        "seconds": {"deid2": 1.0},
    }
