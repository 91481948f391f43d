"""A run on linked tables. Each table is measured as a part of one run. Synthetic parents are drawn
first, then the child rows of each parent given its columns.

The joint distribution is p(parent, numbers of child rows) of the parents' model times p(child row |
parent, number of rows, level) of each child's model. Child rows depend on their parent as was
measured, and every child row has a parent. Everything after the measurements is post-processing.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
from msgspec.structs import replace

from ..errors import UsageError
from ..mechanisms.base import Outcome, run_checked
from ..mechanisms.shared.model_rows import ModelRows
from ..model.sampler import default_shard_rows
from ..release.reserve import Reserved
from ..schema.linked_schema import LinkedSchema
from ..tables.linked_tables import Links
from .counter import open_linked
from .execute import checked_outcome, early_stop_of, job_of, was_charged
from .finalize import finalize, write_json
from .folder import RunFolder
from .linked_children import Codes, child_codes, parts_between, rows_of, without_noise
from .linked_levels import levels_of_parents
from .linked_spec import LinkedSpec
from .output import Output, spawned_seeds
from .owner_files import Comparison
from .result import Run
from .source_pins import check_unchanged, with_source_facts


class CodeRows:
    """Rows whose codes are in memory, in shards."""

    columns: tuple[str, ...] | None = None

    def __init__(self, codes: Mapping[str, np.ndarray], owner: np.ndarray):
        self.codes = codes
        self.owner = owner
        self.total = len(owner)

    @property
    def shard_rows(self) -> int:
        return default_shard_rows(self.total)

    def shard(self, i: int) -> Codes:
        return {name: column[self._slice(i)] for name, column in self.codes.items()}

    def owners(self, i: int) -> np.ndarray:
        return self.owner[self._slice(i)]

    def _slice(self, i: int) -> slice:
        return slice(i * self.shard_rows, (i + 1) * self.shard_rows)


def linked_notes(linked: LinkedSchema) -> tuple[str, ...]:
    """What a statement on linked tables says about its unit, its orphans and its child rows."""
    dropped = [name for name, action in linked.orphans.items() if action == "drop"]
    children = ", ".join(dropped or linked.orphans)
    orphans = "are left out" if dropped else "count as rows of a parent without values"
    return (
        f"the unit is one key of {linked.parent} with its rows in all tables; of several rows of "
        f"{linked.parent} with one key, the first by a hash of the key counts",
        f"rows of {children} whose key is not in {linked.parent} {orphans}",
        "rows of one parent are drawn independently of each other, given the parent's columns, the "
        "number of rows and the parent's levels",
    )


def measure_linked(
    spec: LinkedSpec,
    reserved: Reserved,
    source: Any,
    public: None,
    folder: RunFolder | None,
    seed: int,
) -> tuple[list[Run], list[Comparison]]:
    """Reads the private tables, measures each as a part of the run, draws all tables and finalizes
    them. Also returns what the report is to compare."""
    options = spec.options
    links = spec.links
    with spec.reporter.stage("read", "reading and encoding"):
        opened = open_linked(source, links, options)
    if folder is not None:
        write_json(
            folder.private / "reading.json", {n: o.reading for n, o in zip(links.names, opened)}
        )
    seeds = spawned_seeds(seed, len(opened))
    outcomes = []
    notes = linked_notes(links.linked)
    try:
        changed = check_unchanged(source, was_charged(reserved))
        for i, session in enumerate(reserved.sessions([one.counter for one in opened])):
            spec.reporter.begin(i, spec.label(i))
            one = spec.table(i)
            with spec.reporter.stage("measure", "measuring"):
                job = job_of(one, i, seeds[i], None)
                if i > 0:
                    job = replace(job, given=links.given(links.names[i]))
                made = run_checked(one.configs[i], session, job, early_stop_of(one, i))
                outcome = checked_outcome(one, made, session, seeds[i])
            outcome = with_source_facts(outcome, source, changed)
            outcomes.append(replace(outcome, notes=outcome.notes + notes))
    finally:
        opened[0].close()
    with spec.reporter.stage("sample"):
        drawn = draw(links, outcomes, seeds)
    if folder is not None:
        links.linked.save(folder.staging() / "tables.json")
    runs: list[Run] = []
    for i, (outcome, (codes, owner)) in enumerate(zip(outcomes, drawn)):
        output = _output(spec, i, codes, owner, seeds[i])
        runs.append(finalize(spec.table(i), i, outcome, reserved, output, folder))
    if not options.report or folder is None or opened[0].table is None:
        return runs, []
    return runs, [Comparison(source, folder.out)]


def _output(spec: LinkedSpec, i: int, codes: Codes, owner: np.ndarray, seed: int) -> Output:
    """The rows of one table as they are written: its own columns, and its key."""
    name = spec.links.names[i]
    schema = spec.links.linked.tables[name]
    rows = CodeRows({column: codes[column] for column in schema.modelled}, owner)
    private = spec.options.seed is None
    written = Outcome(rows=rows, owners=rows.owners)
    return Output(
        schema=schema,
        outcome=written,
        source=None,
        seed=seed,
        threads=spec.options.threads,
        extra=spec.configs[i].outputs,
        private=private,
    )


def draw(links: Links, outcomes: list[Outcome], seeds: list[int]) -> list[tuple[Codes, np.ndarray]]:
    """(codes of all columns that were counted, number of the parent of each row) of every table."""
    rows = outcomes[0].rows
    if not all(isinstance(o.rows, ModelRows) for o in outcomes):
        raise UsageError("linked tables need a mechanism that draws its rows from a model")
    shards = [rows.shard(i) for i in range(-(-rows.total // rows.shard_rows))]
    empty = {a: np.empty(0, np.uint32) for a in links.schemas[0].modelled}
    parents = {a: np.concatenate([s[a] for s in shards] or [empty[a]]) for a in empty}
    out = [(parents, np.arange(rows.total, dtype=np.int64))]
    measured = outcomes[0].measurements
    for i, name in enumerate(links.linked.children, 1):
        child = outcomes[i].rows
        if not isinstance(child, ModelRows):  # refused above
            raise UsageError("linked tables need a mechanism that draws its rows from a model")
        count = links.counts[name]
        parents[count] = without_noise(
            parents[count], measured, count, len(links.edges(name)), seeds[i]
        )
        wanted = rows_of(parents[count], links, name, seeds[i])
        shown = dict(parents)
        for level in links.levels[name]:
            shown[level] = levels_of_parents(parents[level], measured, level, seeds[i])
        owner = np.repeat(out[0][1], wanted)
        draw_child = partial(child.given, seed=seeds[i])
        parts = parts_between(links, name, measured, outcomes[i].measurements)
        codes = child_codes(links, name, shown, owner, draw_child, parts, seeds[i])
        if name in links.places:
            given = links.given(name)
            order = np.lexsort((codes[links.linked.order[name]], owner))
            codes = {column: c if column in given else c[order] for column, c in codes.items()}
        out.append((codes, owner))
    return out
