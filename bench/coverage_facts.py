"""Do intervals of pairs of facts about users cover that nobody measured, so that the model says them?

    python -m bench.coverage_facts [--tables cohorts few patients events] [--epsilon 1 3] [--seeds 900 903]
    [--jobs 1]

Of each pair of facts whose interval rests on the model's distance (`answers.coherent`): the share of true
numbers of users inside 95 % intervals, and the median half-width; `alone`: of intervals as if errors of
cells had signs of their own. cell: one cell of the table of the pair. half: users of one code of one fact
(of 30 or more) who are above the median of the other. quarter: above both. back: users of a cohort with
two rows or more. Intervals of one pair are not independent: errors are those of means over pairs.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from itertools import combinations

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

import fastdp
from fastdp.answers import coherent, people_facts
from fastdp.answers.best_linear import Table
from fastdp.engines.local import local
from fastdp.mechanisms.with_users import chosen_users

from . import machine
from .users import DELTA, HELD_OUT, inputs, load

LEAST = 30
"""Users of a code whose half is asked for."""


def known(name: str, epsilon: float, seed: int):
    """(what answers about users are made from, the listed facts, true users by pair of facts)."""
    truth = load(name, None)
    assert truth is not None
    schema, values, _ = inputs(name, truth, "order")
    table, views = pa.table(values), []

    class Kept(chosen_users.TableAboutUsers):
        def __init__(self, asked):
            super().__init__(asked)
            views.append(self.view)

    before, chosen_users.TableAboutUsers = chosen_users.TableAboutUsers, Kept  # type: ignore[misc]
    try:
        recipe = {"mechanism": "cliquetree", "ids": {"source": "auto"}}
        run = fastdp.synthesize(
            table, recipe, epsilon, DELTA, schema=schema, seed=seed, sample_seed=seed, threads=1
        )
    finally:
        chosen_users.TableAboutUsers = before  # type: ignore[misc]
    pairs = list(combinations([views[0].name, *(fact[0] for fact in views[0].facts)], 2))
    counted = local(fastdp.read(table, schema), 1).marginals(pairs, 1, view=views[0])
    sizes = views[0].domain(schema.modelled)
    users = {p: np.asarray(counted[p]).reshape(sizes.shape(p)) / 2**20 for p in pairs}
    listed = run.privacy["mechanism"]["users"].get("people", ())
    facts = people_facts.people_facts(run.privacy, schema, run.measurements, run.tables)
    return facts, {one["name"]: people_facts._fact(one) for one in listed}, users


def _upper(counts: np.ndarray) -> np.ndarray:
    """1 for codes above the median."""
    cut = int(np.argmin(np.abs(np.cumsum(counts)[:-1] / counts.sum() - 0.5))) + 1
    return (np.arange(len(counts)) >= cut).astype(float)


def _only(size: int, place: int) -> np.ndarray:
    return (np.arange(size) == place).astype(float)


def questions(true: np.ndarray, cohorts: int | None) -> Iterator[tuple[str, np.ndarray]]:
    """(kind, weight of each cell). `cohorts`: the axis of first periods, if the other is rows."""
    for i in np.flatnonzero(true.reshape(-1) >= 1).tolist():
        yield "cell", _only(true.size, i)
    if min(true.shape) < 2:
        return
    above = [_upper(true.sum(axis=1)), _upper(true.sum(axis=0))]
    yield "quarter", np.outer(*above).reshape(-1)
    for axis, size in enumerate(true.shape):
        for code in np.flatnonzero(true.sum(axis=1 - axis) >= LEAST).tolist():
            only = _only(size, code)
            many = (np.arange(true.shape[1 - axis]) > 0).astype(float)
            for kind, other in (("half", above[1 - axis]), ("back", many)):
                if kind == "half" or axis == cohorts:
                    both = (only, other) if axis == 0 else (other, only)
                    yield kind, np.outer(*both).reshape(-1)


def one(name: str, epsilon: float, seed: int) -> list[tuple[str, str, float, float]]:
    """(question, rule, share of intervals that hold, median half-width) by pair of facts."""
    facts, listed, users = known(name, epsilon, seed)
    out = []
    for pair, counts in users.items():
        two = [listed[fact] for fact in pair]
        table = facts.table((two[0].asked, two[1].asked))
        if not isinstance(table, coherent.CoherentTable):
            continue
        maps = [np.array(f.merged or range(n)) for f, n in zip(two, counts.shape)]
        true = np.zeros(table.shape)
        np.add.at(true, np.ix_(*maps), counts)
        kinds = [fact.kind for fact in two]
        cohorts = kinds.index("first") if {*kinds} == {"first", people_facts.ROWS} else None
        asked = defaultdict(list)
        for kind, weight in questions(true, cohorts):
            asked[kind].append(weight)
        for kind, rows in asked.items():
            weights = sp.csr_array(np.array(rows))
            apart = np.abs(weights @ (true.reshape(-1) - table.x))
            for rule, found in (("", table.variances), ("alone", super_variances(table))):
                half = 1.96 * table.inflation["count"] * np.sqrt(found(weights))
                out.append((kind, rule, float((apart <= half).mean()), float(np.median(half))))
    return out


def super_variances(table: coherent.CoherentTable):
    """Variances of the table, if errors of cells had signs of their own."""
    plain = Table(table.axes, table.maps, table.x, table.spread, table.factor)
    return replace(plain, inflation=table.inflation).variances


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    chosen = ["cohorts", "few", "patients", "events"]
    parser.add_argument("--tables", nargs="+", default=chosen, choices=list(HELD_OUT))
    parser.add_argument("--epsilon", nargs="+", type=float, default=[1.0, 3.0])
    parser.add_argument("--seeds", nargs=2, type=int, default=[900, 903], metavar=("FIRST", "END"))
    parser.add_argument("--jobs", type=int, default=1, help="parallel processes")
    parser.add_argument("--no-save", action="store_true", help="keep nothing in bench/results")
    options = parser.parse_args()
    cases = [
        (t, e, s) for t in options.tables for e in options.epsilon for s in range(*options.seeds)
    ]
    kept: dict[str, list[float]] = {}
    with ProcessPoolExecutor(options.jobs) as pool:
        found = defaultdict(list)
        for case, lines in zip(cases, pool.map(one, *zip(*cases))):
            for kind, rule, cover, half in lines:
                found[kind, rule, "all"].append((cover, half))
                found[kind, rule, case[0]].append((cover, half))
    for (kind, rule, name), pairs in sorted(found.items()):
        cover, half = np.array(pairs).T
        error = float(cover.std() / np.sqrt(len(cover)))
        label = f"{name}, {kind}{', ' * bool(rule)}{rule}"
        kept[label] = [len(pairs), float(cover.mean()), error, float(half.mean())]
        print(
            f"{label:28} {len(pairs):5} pairs {cover.mean():7.3f} ± {error:.3f} {half.mean():9.1f}"
        )
    if not options.no_save:
        machine.keep(
            "coverage_facts", {"seeds": options.seeds, "epsilon": options.epsilon, "found": kept}
        )


if __name__ == "__main__":
    main()
