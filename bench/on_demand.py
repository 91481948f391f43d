"""Rows on demand: seconds for partial rows, and a model's predictions against boosting.

    python -m bench.on_demand [--rows 60000] [--epsilon 4] [--picture FILE]

Simulated taxi trips. Times are of 100,000 partial rows, of runs by `mst` and by `cliquetree` (whose users
are in groups). One value has its probability set to 1e-6 in the model. Predictions of payment_type are
scored on fresh trips. Boosting (scikit-learn, one thread) is trained on the run's synthetic rows, and on the
true rows. Figures go to bench/results/on-demand.json.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

# On a busy machine boosting's threads wait for each other.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import fastdp
from fastdp.answers.values import values_of
from fastdp.model.graphical_model import Model, Node
from fastdp.ondemand.known_rows import Known

from . import machine

PARTIAL = 100_000
RARE = 1e-6
TARGET = "payment_type"
AREA = "pickup_community_area"
TREES = 100
"""Rounds of boosting."""
TRAINED = 20_000
"""Rows that it is trained on."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=60_000)
    parser.add_argument("--epsilon", type=float, default=4.0)
    parser.add_argument("--picture", type=Path)
    parser.add_argument("--no-save", action="store_true")
    asked = parser.parse_args()
    trips = fastdp.simulate.taxi(asked.rows, seed=1)
    fresh = fastdp.simulate.taxi(20_000, seed=2)
    figures: dict[str, Any] = {"rows": asked.rows, "epsilon": asked.epsilon, "partial": PARTIAL}
    for mechanism in ("mst", "cliquetree"):
        how = {"schema": "taxi-deid2", "mechanism": mechanism, "seed": 1, "sample_seed": 2}
        run = fastdp.synthesize(trips, epsilon=asked.epsilon, delta=2.5e-5, **how)
        print(f"{mechanism}, load {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores")
        figures[mechanism] = {"seconds": times(run), "prediction": scores(run, fresh)}
        if asked.picture is not None and mechanism == "mst":
            asked.picture.write_text(picture(run, telling(run)), "utf-8")
    names = [f.source for f in run.schema.fields.values() if f.source != TARGET]
    figures["boosting on true rows"] = boosted(trips, names, fresh)
    if not asked.no_save:
        machine.keep("on-demand", figures)


def timed(name: str, run: fastdp.Run, frame: Any) -> dict[str, float]:
    start = time.perf_counter()
    processor = machine.processor_seconds()
    run.complete(frame, seed=1)
    found = {
        "seconds": round(time.perf_counter() - start, 2),
        "of processors": round(machine.processor_seconds() - processor, 2),
    }
    print(
        f"| {name} | {found['seconds']} s, {found['of processors']} s of processors |", flush=True
    )
    return found


def rarest(run: fastdp.Run) -> tuple[int, int]:
    """(value, code) of the rarest pickup area of the model."""
    areas = run.schema.columns[AREA]
    chances = run._law.chances(AREA, _nothing())[0]
    some = np.flatnonzero((chances > 0) & (np.arange(areas.size) < areas.base))
    code = int(some[np.argmin(chances[some])])
    return int(values_of(areas)[code].as_py()), code


def with_rare(run: fastdp.Run) -> tuple[fastdp.Run, int, float]:
    """The run with a model in which the rarest pickup area has about the probability `RARE`; that
    area, and its probability."""
    value, code = rarest(run)
    chance = float(run._law.chances(AREA, _nothing())[0, code])
    other = replace(run, model=_scaled(run.model, code, RARE / chance))
    return other, value, float(other._law.chances(AREA, _nothing())[0, code])


def _scaled(model: Any, code: int, part: float) -> Model:
    """The model with the weights of one pickup area times `part`."""
    own = int(model.merged[AREA][code]) if AREA in model.merged else code
    nodes = []
    for node in model.nodes:
        table = np.array(node.table, np.float64)
        if AREA in node.axes:  # the area is rare: what others lose by it is less than its share
            cube = table.reshape(model.domain.shape(node.axes))
            np.moveaxis(cube, node.axes.index(AREA), 0)[own] *= part
        nodes.append(Node(node.sep, node.res, table))
    scaled = Model(model.domain, nodes, total=model.total)
    scaled.merged = model.merged
    scaled.facts = model.facts
    return scaled


def times(run: fastdp.Run) -> dict[str, dict[str, float]]:
    """Prints a table of seconds."""
    other, value, chance = with_rare(run)
    print(f"| {PARTIAL:,} partial rows | seconds |\n|---|---|")
    rare = timed(f"one value of probability {chance:.1e}", other, _one(value))
    source = run.sample(PARTIAL, seed=3)
    three = timed("three columns given", run, source.select([AREA, "fare", TARGET]))
    rng = np.random.default_rng(1)
    holes = {}
    for name in source.column_names:
        if name != run.schema.user:
            lost = pa.array(rng.random(PARTIAL) < 0.5)
            holes[name] = pc.if_else(lost, pa.scalar(None, source[name].type), source[name])
    half = timed("half of all values null, at random", run, pa.table(holes))
    return {"one rare value": {**rare, "probability": chance}, "three columns": three, "half": half}


def _nothing() -> Known:
    return Known(1)


def _one(value: int) -> dict[str, list[int]]:
    return {"pickup_community_area": [value] * PARTIAL}


def scores(run: fastdp.Run, fresh: pa.Table) -> dict[str, Mapping[str, float]]:
    """Prints accuracy and logarithmic loss on fresh trips."""
    names = [f.source for f in run.schema.fields.values() if f.source != TARGET]
    made = run.classifier(TARGET)
    start = time.perf_counter()
    chances = made.predict_proba(fresh.select(names))
    model = score("the model (no training)", fresh, made.classes_, chances)
    model["seconds"] = round(time.perf_counter() - start, 2)
    return {"model": model, "boosting on synthetic rows": boosted(run.data, names, fresh)}


def boosted(rows: pa.Table, names: list[str], fresh: pa.Table) -> dict[str, float]:
    """The score of boosting that was trained on these rows."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    start = time.perf_counter()
    booster = HistGradientBoostingClassifier(random_state=1, max_iter=TREES)
    some = rows.slice(0, TRAINED)
    values, times_seen = np.unique(some[TARGET].to_numpy(), return_counts=True)
    common = pa.array(values[times_seen >= 10])  # boosting stops by rows that it sets aside
    some = some.filter(pc.is_in(some[TARGET], common))
    booster.fit(_matrix(some, names), some[TARGET].to_numpy())
    chances = booster.predict_proba(_matrix(fresh, names))
    found = score("boosting", fresh, booster.classes_, chances)
    return {**found, "seconds": round(time.perf_counter() - start, 2)}


def score(name: str, fresh: pa.Table, classes: np.ndarray, chances: np.ndarray) -> dict[str, float]:
    """The share of right guesses, and the mean of -log(probability of the truth), at most that of
    1e-6."""
    true = fresh[TARGET].to_numpy()
    at = np.searchsorted(classes, true).clip(0, len(classes) - 1)
    p = np.where(classes[at] == true, chances[np.arange(len(true)), at], 0.0)
    right = float(np.mean(classes[chances.argmax(axis=1)] == true))
    loss = float(-np.log(np.maximum(p, 1e-6)).mean())
    print(f"| {name} | {right:.1%} | {loss:.3f} |", flush=True)
    return {"right": round(right, 4), "log loss": round(loss, 4)}


def _matrix(rows: pa.Table, names: list[str]) -> np.ndarray:
    return np.stack([rows[n].to_numpy(zero_copy_only=False).astype(float) for n in names], axis=1)


def telling(run: fastdp.Run) -> int:
    """The pickup area of at most 1 % of the rows whose fares differ most from those of all rows."""
    areas = run.schema.columns[AREA]
    codes = np.arange(areas.base, dtype=np.int32)
    chances = run._law.chances(AREA, _nothing())[0, : areas.base]
    fares = run._law.chances("fare", Known(areas.base, {AREA: codes}))
    differ = np.abs(fares - run._law.chances("fare", _nothing())).sum(axis=1)
    rare = (chances > 0) & (chances < 0.01)
    return int(values_of(areas)[int(np.argmax(np.where(rare, differ, 0)))].as_py())


def picture(run: fastdp.Run, value: int) -> str:
    """SVG: the fares of all synthetic rows, and of rows completed from one rare pickup area."""
    column = run.schema.columns["fare"]
    labels = [str(v) for v in values_of(column).to_pylist()[: column.base]]
    chance = run._law.chances(AREA, _nothing())[0]
    at = values_of(run.schema.columns[AREA]).to_pylist().index(value)
    bars = {
        "Fares of all synthetic trips": run.data,
        f"Fares of 100,000 trips completed from pickup area {value}, {chance[at]:.1%} of all": (
            run.complete(_one(value), seed=1)
        ),
    }
    out = [
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 720 338" font-family="sans-serif">',
        '<rect width="720" height="338" fill="white"/>',
    ]
    wide = 680 / len(labels)
    for k, (name, rows) in enumerate(bars.items()):
        fares = rows["fare"].to_numpy().astype(float)
        edges = [*column.edges[:-1], np.inf]
        shares = np.histogram(fares, edges)[0] / len(fares)
        color = ("#8aa4c8", "#d9822b")[k]
        bottom = 145 + 150 * k
        out.append(f'<text x="20" y="{bottom - 118}" font-size="14">{name}</text>')
        for i, share in enumerate(shares):
            high = 95 * share / max(shares.max(), 1e-9)
            at = 20 + i * wide
            out.append(
                f'<rect x="{at:.1f}" y="{bottom - high:.1f}" width="{wide - 3:.1f}" '
                f'height="{high:.1f}" fill="{color}"/>'
            )
            middle = at + wide / 2 - 1.5
            out.append(
                f'<text x="{middle:.1f}" y="{bottom - high - 3:.1f}" font-size="10" '
                f'text-anchor="middle">{share:.0%}</text>'
            )
            if k:
                out.append(
                    f'<text x="{middle:.1f}" y="{bottom + 14}" font-size="10" '
                    f'text-anchor="middle">{labels[i]}</text>'
                )
    out.append('<text x="20" y="326" font-size="12">fare in dollars</text></svg>')
    return "\n".join(out) + "\n"


if __name__ == "__main__":
    main()
