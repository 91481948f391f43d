"""Rows on demand: seconds for partial rows, and a model's predictions against boosting.

    python -m bench.on_demand [--rows 60000] [--epsilon 4] [--picture FILE]

Simulated taxi trips. Times are of 100,000 partial rows. Predictions of payment_type are scored on fresh
trips; boosting (scikit-learn) is trained on the run's synthetic rows, and on the true rows.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import fastdp
from fastdp.answers.values import values_of

PARTIAL = 100_000
TARGET = "payment_type"
TREES, TRAINED = 30, 20_000
"""Rounds of boosting, and rows that it is trained on: a minute on a busy machine."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=60_000)
    parser.add_argument("--epsilon", type=float, default=4.0)
    parser.add_argument("--mechanism", default="mst")
    parser.add_argument("--picture", type=Path)
    asked = parser.parse_args()
    trips = fastdp.simulate.taxi(asked.rows, seed=1)
    how: dict[str, Any] = {"schema": "taxi-deid2", "mechanism": asked.mechanism}
    run = fastdp.synthesize(
        trips, epsilon=asked.epsilon, delta=2.5e-5, seed=1, sample_seed=2, **how
    )
    print(f"load {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores")
    rare = times(run)
    if asked.picture is not None:
        asked.picture.write_text(picture(run, rare), "utf-8")
    scores(run, trips)


def timed(name: str, run: fastdp.Run, frame: Any) -> pa.Table:
    start = time.perf_counter()
    made = run.complete(frame, seed=1)
    print(f"| {name} | {time.perf_counter() - start:.2f} s |")
    return made


def times(run: fastdp.Run) -> int:
    """Prints a table of seconds; returns the rarest pickup area."""
    areas = run.schema.columns["pickup_community_area"]
    chances = run._law.chances("pickup_community_area", _nothing())[0]
    some = np.flatnonzero((chances > 0) & (np.arange(areas.size) < areas.base))
    code = int(some[np.argmin(chances[some])])
    value = int(values_of(areas)[code].as_py())
    print(f"| {PARTIAL:,} partial rows | seconds |\n|---|---|")
    timed(f"one value of probability {chances[code]:.1e}", run, _one(value))
    source = run.sample(PARTIAL, seed=3)
    timed("three columns given", run, source.select(["pickup_community_area", "fare", TARGET]))
    rng = np.random.default_rng(1)
    holes = {}
    for name in source.column_names:
        if name != run.schema.user:
            lost = pa.array(rng.random(PARTIAL) < 0.5)
            holes[name] = pc.if_else(lost, pa.scalar(None, source[name].type), source[name])
    timed("half of all values null, at random", run, pa.table(holes))
    return value


def _nothing():
    from fastdp.ondemand.row_law import Known

    return Known(1)


def _one(value: int) -> dict[str, list[int]]:
    return {"pickup_community_area": [value] * PARTIAL}


def scores(run: fastdp.Run, trips: pa.Table) -> None:
    """Prints accuracy and logarithmic loss on fresh trips."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.metrics import accuracy_score, log_loss

    fresh = fastdp.simulate.taxi(20_000, seed=2)
    names = [f.source for f in run.schema.fields.values() if f.source != TARGET]
    true = fresh[TARGET].to_numpy()
    made = run.classifier(TARGET)
    chances = {"the model (no training)": (made.classes_, made.predict_proba(fresh.select(names)))}
    for name, rows in (("boosting on synthetic rows", run.data), ("boosting on true rows", trips)):
        booster = HistGradientBoostingClassifier(random_state=1, max_iter=TREES)
        some = rows.slice(0, TRAINED)
        booster.fit(_matrix(some, names), some[TARGET].to_numpy())
        chances[name] = (booster.classes_, booster.predict_proba(_matrix(fresh, names)))
    print("| prediction of payment_type | right | log loss |\n|---|---|---|")
    labels = np.unique(np.concatenate([true, *(c for c, _ in chances.values())]))
    for name, (classes, p) in chances.items():
        wide = np.full((len(true), len(labels)), 1e-6)
        wide[:, np.searchsorted(labels, classes)] += p
        wide /= wide.sum(axis=1, keepdims=True)
        right = accuracy_score(true, labels[wide.argmax(axis=1)])
        print(f"| {name} | {right:.1%} | {log_loss(true, wide, labels=labels):.3f} |")


def _matrix(rows: pa.Table, names: list[str]) -> np.ndarray:
    return np.stack([rows[n].to_numpy(zero_copy_only=False).astype(float) for n in names], axis=1)


def picture(run: fastdp.Run, value: int) -> str:
    """SVG: the shifts of all synthetic rows, and of rows completed from one rare pickup area."""
    count = run.schema.domain["shift"]
    bars = {
        "all synthetic rows": run.data["shift"].to_numpy(),
        f"100,000 rows completed from pickup area {value}": run.complete(_one(value), seed=1)[
            "shift"
        ].to_numpy(),
    }
    out = [
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 720 300" font-family="sans-serif">'
    ]
    out.append('<rect width="720" height="300" fill="white"/>')
    for k, (name, shifts) in enumerate(bars.items()):
        shares = np.bincount(shifts, minlength=count)[:count] / len(shifts)
        color, bottom = ("#8aa4c8", "#d9822b")[k], 140 + 140 * k
        out.append(f'<text x="20" y="{bottom - 112}" font-size="14">{name}</text>')
        for i, share in enumerate(shares):
            high = 100 * share / max(shares.max(), 1e-9)
            at = 20 + i * 680 / count
            out.append(
                f'<rect x="{at:.1f}" y="{bottom - high:.1f}" width="{640 / count:.1f}" '
                f'height="{high:.1f}" fill="{color}"/>'
            )
    out.append(
        '<text x="20" y="295" font-size="12">shift of the week, Monday night first</text></svg>'
    )
    return "\n".join(out) + "\n"


if __name__ == "__main__":
    main()
