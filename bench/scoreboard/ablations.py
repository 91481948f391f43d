"""Why the default loses, by taking the supposed reason away.

    python -m bench.scoreboard.ablations [--tables TABLE ...] [--seeds 2] [--cores 16]

For every loss of the page whose reason names an ablation, the default and the rival run again, and
the ablation changes the rows of one of them. If the reason is right, the loss goes away:

- "redrawn": the default's rows are drawn at random from many that its model gives. They have the
  association by chance that balanced rows lack.
- "shuffled": every column of the default's rows is shuffled by itself. Single columns stay as they
  are; what was learnt of pairs is gone.
- "same noise": the rival gets so little budget that what both measure has the noise that it has
  in the default. Single columns for Wasserstein and beside independent columns, else pairs.
- "same noise, measured alone": the same, and single columns of the rival are as it measured them by
  themselves. Its own fit also takes what its pairs say of them.
- "target": the default is told which column models will predict.
- "coarser codes": values share a code in the default unless they stand `COARSER` standard errors
  above nothing, in place of three.
- "held out": errors are those beside rows that no mechanism saw. What a rival has learnt of the
  chance in the rows that it saw is of no use there.
- "many rows": both give ten times the rows. What is left is the error of the models; rows that do
  not follow their model closely have no part in it.
- "as measured": single columns of the rival are as it measured them, without negative counts. Its
  own rows draw noisy counts together.
- "fresh seeds": nothing changes but the seeds. A loss that came by chance is not seen again.

Results are kept beside the store, one line for each table, epsilon, measure, rival and seed. Those
of another ablation than the reason names today are dropped. After a change of the default, begin
with an empty file: --fresh.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

import fastdp
from fastdp.mechanisms.registry import DEFAULT
from fastdp.privacy import gdp

from . import compare, measures, reasons, runs, tables
from .contestants import NO_EPSILON, VERSION
from .runs import Codes
from .store import Store

MORE = 10
"""Of so many times the rows, a random tenth is nearly as if drawn one by one."""
COARSER = 8.0
"""Standard errors of a count below which a value shares a code, in the ablation of codes."""
FIRST_SEED = 1000
"""The first seed of the store."""
FRESH_SEED = 2000
"""The first of the fresh seeds, which the store does not have."""
FRESH = 8
"""Fresh seeds: more than the store has, so that a loss that is there is seen again."""


def path_of(kept: Store) -> Path:
    return kept.folder / "ablations.json"


def stored(kept: Store) -> list[dict]:
    path = path_of(kept)
    return json.loads(path.read_text("utf-8")) if path.is_file() else []


@dataclass(frozen=True)
class Made:
    """Rows, and the run they are of; None of rows that need no mechanism."""

    rows: Codes
    run: fastdp.Run | None = None


@dataclass(frozen=True)
class Case:
    """One table, epsilon and seed. Every contestant runs once, whatever is asked of it."""

    task: tables.Task
    epsilon: float
    seed: int
    _made: dict[tuple, Made] = field(default_factory=dict)

    def made(self, name: str, epsilon: float | None = None, **options: object) -> Made:
        """Rows of a contestant. epsilon: another one. options: of its recipe."""
        key = (name, epsilon, *options.items())
        if key not in self._made:
            self._made[key] = self._make(name, epsilon or self.epsilon, options)
        return self._made[key]

    def _make(self, name: str, epsilon: float, options: dict) -> Made:
        if name in NO_EPSILON:
            return Made(runs.by_hand(self.task, name, self.seed).codes)
        run = runs.run_of(self.task, name, epsilon, self.seed, **options)
        return Made(runs.codes_of(self.task, run.data), run)


def precisions(run: fastdp.Run, size: int) -> dict[tuple, float]:
    """Of every marginal of so many columns that was measured, the sum of 1/variance of a cell."""
    out: dict[tuple, float] = defaultdict(float)
    for one in run.measurements:
        if len(one.clique) == size:
            out[tuple(sorted(one.clique))] += float(np.mean(1.0 / np.square(one.sigma)))
    return out


def noise_ratio(run: fastdp.Run, rival: fastdp.Run, size: int) -> float:
    """Noise of the rival's marginals over that of the default's: the geometric mean over those that
    both measured. 1 where there are none."""
    own, others = precisions(run, size), precisions(rival, size)
    both = own.keys() & others.keys()
    if not both:
        return 1.0
    return float(np.exp(np.mean([np.log(own[c] / others[c]) / 2 for c in both])))


@dataclass(frozen=True)
class Without:
    """Rows of the default and of the rival without the reason, and what they are compared with."""

    task: tables.Task
    own: Codes
    other: Codes


def redrawn(case: Case, rival: str, measure: str) -> Without:
    """The default's rows are drawn at random from many that its model gives."""
    own = case.made(DEFAULT)
    assert own.run is not None
    count = measures.rows_of(own.rows)
    many = own.run.sample(MORE * count, seed=case.seed)
    drawn = np.random.default_rng(case.seed).permutation(MORE * count)[:count]
    rows = {name: codes[drawn] for name, codes in runs.codes_of(case.task, many).items()}
    return Without(case.task, rows, case.made(rival).rows)


def shuffled(case: Case, rival: str, measure: str) -> Without:
    """Every column of the default's rows is shuffled by itself."""
    rng = np.random.default_rng(case.seed)
    rows = {name: rng.permutation(codes) for name, codes in case.made(DEFAULT).rows.items()}
    return Without(case.task, rows, case.made(rival).rows)


def same_noise(case: Case, rival: str, measure: str) -> Without:
    """The rival gets so little budget that what both measure has the default's noise."""
    size = 1 if measure == "wasserstein" or rival == "independent" else 2
    return Without(case.task, case.made(DEFAULT).rows, _as_noisy(case, rival, size).rows)


def _as_noisy(case: Case, rival: str, size: int) -> Made:
    """The rival with the budget that gives its marginals of so many columns the default's noise."""
    own, other = case.made(DEFAULT), case.made(rival)
    assert own.run is not None and other.run is not None
    ratio = noise_ratio(own.run, other.run, size)
    less = gdp.epsilon_of(ratio * gdp.mu_from(case.epsilon, case.task.delta), case.task.delta)
    return case.made(rival, less)


def measured_alone(case: Case, rival: str, measure: str) -> Without:
    """As `same_noise`, and single columns of the rival are as it measured them by themselves."""
    other = _columns_measured(case, _as_noisy(case, rival, size=1))
    return Without(case.task, case.made(DEFAULT).rows, other)


def many_rows(case: Case, rival: str, measure: str) -> Without:
    """Both give MORE times the rows."""
    return Without(case.task, _many(case, DEFAULT), _many(case, rival))


def _many(case: Case, name: str) -> Codes:
    made = case.made(name)
    assert made.run is not None
    rows = made.run.sample(MORE * measures.rows_of(made.rows), seed=case.seed)
    return runs.codes_of(case.task, rows)


def as_measured(case: Case, rival: str, measure: str) -> Without:
    """Single columns of the rival are as it measured them, without negative counts."""
    other = _columns_measured(case, case.made(rival))
    return Without(case.task, case.made(DEFAULT).rows, other)


def _columns_measured(case: Case, other: Made) -> Codes:
    """Rows whose single columns are those that a run measured by themselves, none of them negative."""
    assert other.run is not None
    rng = np.random.default_rng(case.seed)
    rows = {}
    for name, size in case.task.sizes.items():
        found = [one for one in other.run.measurements if one.clique == (name,)]
        weights = [float(np.mean(1.0 / np.square(one.sigma))) for one in found]
        noisy = np.average([one.values for one in found], axis=0, weights=weights)
        count = measures.rows_of(other.rows)
        shares = on_simplex(noisy / count)
        cuts = np.round(count * np.cumsum(shares)).astype(np.int64)
        rows[name] = rng.permutation(np.repeat(np.arange(size), np.diff(cuts, prepend=0)))
    return rows


def on_simplex(values: np.ndarray) -> np.ndarray:
    """The nearest shares: not negative, one in all."""
    down = np.sort(values)[::-1]
    above = (np.cumsum(down) - 1) / np.arange(1, len(down) + 1)
    return np.maximum(values - above[np.flatnonzero(down > above)[-1]], 0)


def target(case: Case, rival: str, measure: str) -> Without:
    """The default is told which column models will predict."""
    own = case.made(DEFAULT, target=case.task.target)
    return Without(case.task, own.rows, case.made(rival).rows)


def coarser_codes(case: Case, rival: str, measure: str) -> Without:
    """Values share a code in the default unless they stand COARSER standard errors above nothing."""
    own = case.made(DEFAULT, rare=COARSER)
    return Without(case.task, own.rows, case.made(rival).rows)


def held_out(case: Case, rival: str, measure: str) -> Without:
    """Errors are those beside rows that no mechanism saw."""
    unseen = replace(case.task, codes=case.task.held_out)
    return Without(unseen, case.made(DEFAULT).rows, case.made(rival).rows)


def fresh_seeds(case: Case, rival: str, measure: str) -> Without:
    """Nothing changes; `Wanted.seeds` gives other seeds."""
    return Without(case.task, case.made(DEFAULT).rows, case.made(rival).rows)


ABLATIONS: dict[str, Callable[[Case, str, str], Without]] = {
    "redrawn": redrawn,
    "shuffled": shuffled,
    "same noise": same_noise,
    "many rows": many_rows,
    "as measured": as_measured,
    "same noise, measured alone": measured_alone,
    "target": target,
    "coarser codes": coarser_codes,
    "held out": held_out,
    "fresh seeds": fresh_seeds,
}


@dataclass(frozen=True)
class Wanted:
    """A loss that has an ablation."""

    table: str
    epsilon: float
    measure: str
    rival: str
    ablation: str

    @property
    def loss(self) -> tuple:
        return self.table, self.epsilon, self.measure, self.rival, self.ablation

    def seeds(self, count: int) -> range:
        if self.ablation == "fresh seeds":
            return range(FRESH_SEED, FRESH_SEED + max(count, FRESH))
        return range(FIRST_SEED, FIRST_SEED + count)


def wanted(kept: Store) -> list[Wanted]:
    """Every loss that has an ablation, by table and epsilon."""
    out = []
    for loss in compare.losses(compare.comparisons(compare.cells(kept.records()))):
        where = (loss.ours.table, loss.ours.measure, loss.rival.mechanism, loss.epsilon)
        name = reasons.reason(*where).ablation
        if name is not None:
            out.append(Wanted(where[0], loss.epsilon, where[1], where[2], name))
    return sorted(out, key=lambda one: (one.table, one.epsilon))


def error(task: tables.Task, rows: Codes, measure: str) -> float:
    """A measure of the rows beside the task's."""
    if measure in measures.MODELS:
        return measures.efficiency(task, rows)[measure]
    return measures.score(task, rows, models=False, quality=False)[measure]


def without(case: Case, one: Wanted) -> dict[str, Any]:
    """The line of a loss: errors of the default and of the rival without the reason."""
    found = ABLATIONS[one.ablation](case, one.rival, one.measure)
    default, other = (error(found.task, rows, one.measure) for rows in (found.own, found.other))
    return {
        "table": one.table,
        "epsilon": one.epsilon,
        "measure": one.measure,
        "rival": one.rival,
        "ablation": one.ablation,
        "seed": case.seed,
        "version": VERSION,
        "default": float(f"{default:.5g}"),
        "other": float(f"{other:.5g}"),
    }


def loss_of(line: dict) -> tuple:
    return tuple(line[name] for name in ("table", "epsilon", "measure", "rival", "ablation"))


def run(kept: Store, names: list[str] | None, seeds: int, cores: int = 1) -> None:
    """Makes the lines that are not stored yet, `cores` cases at once; each is stored as it comes."""
    asked = wanted(kept)
    today = {one.loss for one in asked}
    lines = [line for line in stored(kept) if loss_of(line) in today]
    known = {(*loss_of(line), line["seed"]) for line in lines}
    waiting = []
    for (table, epsilon, seed), several in by_case(asked, names, seeds).items():
        left = [one for one in several if (*one.loss, seed) not in known]
        if left:
            waiting.append((table, epsilon, seed, left))
    for table in {table for table, *_ in waiting}:
        tables.prepare(tables.BENCHMARKS[table])
    with several_at_once(cores) as made:
        for found in made(_of_case, waiting):
            for line in found:
                print(json.dumps(line), file=sys.stderr, flush=True)
            lines += found
            keep(kept, lines)
    keep(kept, lines)


@contextmanager
def several_at_once(cores: int) -> Iterator[Callable]:
    """`map` over so many processes: in any order with several, lazily with one."""
    if cores == 1:
        yield map
        return
    with get_context("forkserver").Pool(cores, maxtasksperchild=1) as pool:
        yield pool.imap_unordered


def _of_case(given: tuple[str, float, int, list[Wanted]]) -> list[dict]:
    """The lines of a table, epsilon and seed."""
    table, epsilon, seed, several = given
    case = Case(_task(table), epsilon, seed)
    return [without(case, one) for one in several]


@cache
def _task(table: str) -> tables.Task:
    return tables.load(tables.BENCHMARKS[table].copy)


def keep(kept: Store, lines: list[dict]) -> None:
    texts = ",\n".join(f" {json.dumps(line)}" for line in lines)
    path_of(kept).write_text(f"[\n{texts}\n]\n", "utf-8")


def by_case(
    asked: list[Wanted], names: list[str] | None, seeds: int
) -> dict[tuple[str, float, int], list[Wanted]]:
    """Every table, epsilon and seed with the losses that are asked of it."""
    found: dict[tuple, list[Wanted]] = defaultdict(list)
    for one in asked:
        if not names or one.table in names:
            for seed in one.seeds(seeds):
                found[one.table, one.epsilon, seed].append(one)
    return found


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tables", nargs="+")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--cores", type=int, default=1)
    parser.add_argument("--store", type=Path)
    parser.add_argument("--fresh", action="store_true", help="drop all that is stored")
    options = parser.parse_args(arguments)
    kept = Store(options.store) if options.store else Store()
    if options.fresh:
        keep(kept, [])
    run(kept, options.tables, options.seeds, options.cores)


if __name__ == "__main__":
    main()
