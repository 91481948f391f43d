"""Why the default loses, by taking the supposed reason away.

    python -m bench.scoreboard.ablations [--tables TABLE ...] [--seeds 2]

For every loss of the page whose reason names an ablation, the default runs again and the ablation
says what its error is without the reason:

- "redrawn": rows drawn at random from many that the same model gives, which have the association by
  chance that balanced rows lack. If balance is the reason, the loss goes away.
- "same noise": independent columns with the noise that the default's single columns have. If the
  budget is the reason, their error becomes that of the default.

Results are kept beside the store, one line for each table, epsilon, measure and seed.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import numpy as np

import fastdp
from fastdp.mechanisms.registry import DEFAULT
from fastdp.privacy import gdp

from . import compare, measures, reasons, tables
from .contestants import VERSION
from .runs import Codes
from .store import Store

MORE = 10
"""Of so many times the rows, a random tenth is nearly as if drawn one by one."""


def path_of(kept: Store) -> Path:
    return kept.folder / "ablations.json"


def stored(kept: Store) -> list[dict]:
    path = path_of(kept)
    return json.loads(path.read_text("utf-8")) if path.is_file() else []


def independent(task: tables.Task) -> dict:
    """The recipe of the floor: every column by itself."""
    return {"mechanism": "adagrid", "outer": [[name] for name in task.sizes]}


def made(task: tables.Task, recipe, epsilon: float, seed: int) -> tuple[fastdp.Run, Codes]:
    table = fastdp.Table.from_codes(task.sizes, task.codes, user=task.user)
    run = fastdp.synthesize(
        table, recipe, epsilon, task.delta, seed=seed, sample_seed=seed, threads=1
    )
    return run, {name: run.data[name].to_numpy().astype(np.int64) for name in task.sizes}


def noise_of(run: fastdp.Run) -> float:
    """The standard deviation of single columns' counts, all of their measurements together."""
    precision: dict[tuple, float] = defaultdict(float)
    for one in run.measurements:
        if len(one.clique) == 1:
            precision[one.clique] += float(np.mean(1.0 / np.square(one.sigma)))
    return float(np.mean(list(precision.values()))) ** -0.5


def redrawn(task: tables.Task, run: fastdp.Run, rows: Codes, epsilon: float, seed: int) -> Codes:
    """As many rows, chosen at random from `MORE` times as many of the model."""
    count = measures.rows_of(rows)
    many = run.sample(MORE * count, seed=seed)
    drawn = np.random.default_rng(seed).permutation(MORE * count)[:count]
    return {name: many[name].to_numpy().astype(np.int64)[drawn] for name in task.sizes}


def same_noise(task: tables.Task, run: fastdp.Run, rows: Codes, epsilon: float, seed: int) -> Codes:
    floor, _ = made(task, independent(task), epsilon, seed)
    less = gdp.mu_from(epsilon, task.delta) * noise_of(floor) / noise_of(run)
    return made(task, independent(task), gdp.epsilon_of(less, task.delta), seed)[1]


ABLATIONS: dict[str, Callable] = {"redrawn": redrawn, "same noise": same_noise}


def wanted(kept: Store) -> list[tuple[str, float, str, str]]:
    """(table, epsilon, measure, ablation) of every loss that has one, each once."""
    out = {}
    for loss in compare.losses(compare.comparisons(compare.cells(kept.records()))):
        where = (loss.ours.table, loss.ours.measure, loss.rival.mechanism, loss.epsilon)
        name = reasons.reason(*where).ablation
        if name is not None:
            out[loss.ours.table, loss.epsilon, loss.ours.measure, name] = None
    return list(out)


def error(task: tables.Task, rows: Codes, measure: str) -> float:
    return measures.score(task, rows, models=False, quality=False)[measure]


def run(kept: Store, names: list[str] | None, seeds: int) -> None:
    lines = stored(kept)
    known = {(x["table"], x["epsilon"], x["measure"], x["seed"], x["version"]) for x in lines}
    for table, epsilon, measure, ablation in wanted(kept):
        if names and table not in names:
            continue
        task = tables.prepare(tables.BENCHMARKS[table])
        for seed in range(1000, 1000 + seeds):
            if (table, epsilon, measure, seed, VERSION) in known:
                continue
            result, rows = made(task, DEFAULT, epsilon, seed)
            without = ABLATIONS[ablation](task, result, rows, epsilon, seed)
            line = {
                "table": table,
                "epsilon": epsilon,
                "measure": measure,
                "ablation": ablation,
                "seed": seed,
                "version": VERSION,
                "default": error(task, rows, measure),
                "ablated": error(task, without, measure),
            }
            lines.append(line)
            print(json.dumps(line), file=sys.stderr, flush=True)
            path_of(kept).write_text(json.dumps(lines, indent=1) + "\n", "utf-8")


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tables", nargs="+")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--store", type=Path)
    options = parser.parse_args(arguments)
    kept = Store(options.store) if options.store else Store()
    run(kept, options.tables, options.seeds)


if __name__ == "__main__":
    main()
