"""Linked tables completed from given parents: `LinkedRun.complete`.

Partial parents are completed from the parents' model, which also says how many child rows each of
them has. Then child rows are drawn from the children's models given their parents, as in the run
itself. Everything is drawn from what the run released, so a run that was loaded from its folder
gives the same rows. Nothing here is private unless the caller's own frames are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Protocol

import numpy as np
from msgspec import Struct

from .._util.arrow import takeable
from .._util.lazy import pa, pc
from ..codec.violations import numbers_of
from ..errors import DataError, UsageError, did_you_mean
from ..measurement import Measurement
from ..ondemand.complete import complete_codes, completed_values
from ..ondemand.frames import Given, given_rows
from ..ondemand.known_rows import Codes, Known
from ..ondemand.row_law import RowLaw
from ..schema.linked_schema import LinkedSchema
from ..tables.linked_tables import LEVELS, Links, level_codes
from .linked_children import child_codes, last_clear_bin, parts_between, places_of, rows_of
from .linked_levels import clear_levels
from .on_demand import frame_of, seed_of, users_of
from .output import spawned_seeds, stamped, user_values

OTHERS = 2048
"""Parents that are drawn beside the given ones where children have levels. A level is a place among
the parents of the table, and a single given parent has no others to be placed among. Their own
chance moves a level by 1 / sqrt(2 * 2048), a 64th of a standard deviation."""


class TableRun(Protocol):
    """What is needed of the part of one table (`fastdp.Run`)."""

    @property
    def privacy(self) -> dict: ...
    @property
    def measurements(self) -> Sequence[Measurement]: ...
    @property
    def _law(self) -> RowLaw: ...


class _Parents(Struct, frozen=True, eq=False):
    """Completed parents: their codes and values, the key of each, and by child table how many rows
    each of them has."""

    codes: Codes
    values: pa.Table
    keys: pa.Array
    wanted: Mapping[str, np.ndarray]


class _Children(Struct, frozen=True, eq=False):
    """Given rows of a child table: what is known of them, and the parent of each row."""

    given: Given
    owner: np.ndarray


def complete_linked(
    runs: Mapping[str, TableRun],
    linked: LinkedSchema,
    frames: Any,
    seed: int | None,
    nulls: str,
    threads: int | None,
) -> dict[str, pa.Table]:
    """See `LinkedRun.complete`."""
    links = Links(linked)
    _check_frames(linked, frames)
    seeds = spawned_seeds(seed_of(seed), len(links.names), (4,))
    parent = linked.parent
    table = frame_of(links.schemas[0], frames[parent], f"complete, table {parent!r}")
    keys = _parent_keys(linked, table)
    children = {
        name: _given_children(runs[name], linked, name, frames[name], keys, nulls)
        for name in linked.children
        if name in frames
    }
    parents = _completed_parents(
        run=runs[parent],
        links=links,
        table=table,
        keys=keys,
        children=children,
        seeds=seeds,
        nulls=nulls,
        threads=threads,
    )
    own = [f.source for f in linked.tables[parent].fields.values()]
    out = {parent: _keyed(runs[parent], linked, parent, parents.values.select(own), parents.keys)}
    others = _other_parents(runs[parent], links, seeds[0], threads)
    for i, name in enumerate(linked.children, 1):
        asked = children.get(name)
        parts = parts_between(links, name, runs[parent].measurements, runs[name].measurements)
        draw = partial(_child_rows, runs[name], links, name, parents, others, parts)
        rows, owner = draw(asked, seeds[i], threads)
        out[name] = _keyed(runs[name], linked, name, rows, parents.keys.take(pa.array(owner)))
    return out


def _check_frames(linked: LinkedSchema, frames: Any) -> None:
    """UsageError unless the frames are of tables of the run, and the parents' is among them."""
    listed = ", ".join(linked.tables)
    if not isinstance(frames, Mapping):
        raise UsageError(
            f"complete: expected a mapping from table to frame, got {type(frames).__name__}; this "
            f"run has the tables {listed}"
        )
    for name in frames:
        if name not in linked.tables:
            more = did_you_mean(name, linked.tables) if isinstance(name, str) else ""
            raise UsageError(
                f"complete: there is no table {name!r}{more}; this run has the tables {listed}"
            )
    if linked.parent not in frames:
        raise UsageError(
            f"complete: give the rows of the parent table {linked.parent!r}; children are drawn "
            "given their parents"
        )


def _parent_keys(linked: LinkedSchema, table: pa.Table) -> pa.Array:
    """The key of each parent; new ones where the frame has none."""
    schema = linked.tables[linked.parent]
    if schema.user not in table.column_names:
        return user_values(schema, np.arange(table.num_rows))
    owner, keys = users_of(schema, table.column(schema.user).combine_chunks())
    firsts = np.full(len(owner), -1)
    firsts[owner[::-1]] = np.arange(len(owner))[::-1]
    twice = np.flatnonzero(firsts[owner] != np.arange(len(owner)))
    if len(twice):
        raise DataError(
            f"table {linked.parent!r}, row {twice[0] + 1}: its key is that of row "
            f"{firsts[owner[twice[0]]] + 1}; a parent has one row"
        )
    return keys


def _given_children(
    run: TableRun, linked: LinkedSchema, name: str, frame: Any, keys: pa.Array, nulls: str
) -> _Children:
    """The rows of a child frame, and the parent of each; UsageError if a key names no parent."""
    schema = linked.tables[name]
    table = frame_of(schema, frame, f"complete, table {name!r}")
    if schema.user not in table.column_names:
        raise UsageError(
            f"complete, table {name!r}: the column {schema.user!r} is missing; it names the parent "
            "of each row"
        )
    named = takeable(table.column(schema.user).combine_chunks())
    named = named.dictionary_decode() if pa.types.is_dictionary(named.type) else named
    try:
        found = pc.index_in(named.cast(keys.type), keys)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise DataError(
            f"table {name!r}: its key column {schema.user!r} is {named.type}, that of "
            f"{linked.parent!r} is {keys.type}; cast one of them"
        ) from None
    owner = found.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    owner[named.is_null().to_numpy(zero_copy_only=False).astype(bool)] = -1
    lost = np.flatnonzero(owner < 0)
    if len(lost):
        raise DataError(
            f"table {name!r}, row {lost[0] + 1}: no row of {linked.parent!r} has its key; add the "
            "parent, all its columns may be null"
        )
    left = [n for n in table.column_names if n != schema.user]
    given = given_rows(run._law.schema, table.select(left), nulls)
    given.known.rows = table.num_rows
    return _Children(given, owner)


def _completed_parents(
    run: TableRun,
    links: Links,
    table: pa.Table,
    keys: pa.Array,
    children: Mapping[str, _Children],
    seeds: Sequence[int],
    nulls: str,
    threads: int | None,
) -> _Parents:
    """Whole parents from partial ones, given their child rows."""
    law = run._law
    given = given_rows(law.schema, table, nulls)
    fixed: dict[str, np.ndarray] = {}
    for name, count in links.counts.items():
        if name in children:
            if count in table.column_names:
                raise UsageError(
                    f"complete: rows of {name!r} are given; leave out the column {count!r}"
                )
            fixed[name] = np.bincount(children[name].owner, minlength=table.num_rows)
            bins = np.searchsorted(links.edges(name), fixed[name], "right") - 1
            given.known.codes[count] = bins.astype(np.int32)
            given.known.codes |= _given_levels(links, name, children[name], table.num_rows)
    rule_out_hidden(given.known, links, run.measurements)
    codes = complete_codes(law, given, seeds[0], None, threads)
    values = completed_values(law.schema, given, codes, seeds[0], threads=threads)
    wanted = {}
    for i, (name, count) in enumerate(links.counts.items(), 1):
        rows = rows_of(codes[count], links, name, seeds[i])
        asked = given.pinned.get(count, np.full(table.num_rows, np.nan))
        rows = np.where(np.isnan(asked), rows, np.nan_to_num(asked)).astype(np.int64)
        wanted[name] = fixed.get(name, rows)
    return _Parents(codes, values, keys, wanted)


def _given_levels(links: Links, name: str, children: _Children, parents: int) -> Codes:
    """The levels of parents by the numbers of their given rows; -1 where none is given."""
    out: Codes = {}
    for level, a in links.levels[name].items():
        codes = children.given.known.codes.get(a)
        if codes is not None:
            base = links.linked.tables[name].columns[a].base
            there = np.where(codes < 0, base, codes)
            found = level_codes(children.owner, there, base, parents)
            out[level] = np.where(found < LEVELS, found, -1).astype(np.int32)
    return out


def rule_out_hidden(known: Known, links: Links, measurements: Sequence[Measurement]) -> None:
    """Rule out numbers of rows and levels of which noise hides whether anybody has them. Those that are
    given stay."""
    every = np.ones(known.rows, bool)
    for name, count in links.counts.items():
        bins = len(links.edges(name))
        last = last_clear_bin(measurements, count, bins)
        if last is not None:
            known.multiply(count, every, (np.arange(bins) <= last).astype(float))
        for level in links.levels[name]:
            clear = clear_levels(measurements, level)
            if clear is not None and clear.any():
                known.multiply(level, every, clear.astype(float))


def _other_parents(run: TableRun, links: Links, seed: int, threads: int | None) -> Codes:
    """Codes of `OTHERS` parents drawn from the model; none where no child table has levels."""
    known = Known(OTHERS if any(links.levels.values()) else 0)
    if not known.rows:
        return {a: np.empty(0, np.int32) for a in run._law.columns}
    rule_out_hidden(known, links, run.measurements)
    return run._law.draw(known, seed, "other parents", threads)[0]


def _child_rows(
    run: TableRun,
    links: Links,
    name: str,
    parents: _Parents,
    others: Codes,
    parts: Mapping[str, tuple[float, float] | None],
    asked: _Children | None,
    seed: int,
    threads: int | None,
) -> tuple[pa.Table, np.ndarray]:
    """(a child's rows without their key, the parent of each). `asked`: the given rows, if any. Rows of
    the other parents are drawn with them, and then left out."""
    law = run._law
    linked = links.linked
    parent_codes = {a: np.concatenate([parents.codes[a], others[a]]) for a in others}
    owner = np.repeat(np.arange(len(parents.keys)), parents.wanted[name])
    if asked is not None:
        owner = asked.owner
    other_owner = np.empty(0, np.int64)
    if links.levels[name]:
        rows = rows_of(others[links.counts[name]], links, name, seed)
        other_owner = np.repeat(len(parents.keys) + np.arange(len(rows)), rows)
    every_owner = np.concatenate([owner, other_owner])
    given = Given(Known(len(owner))) if asked is None else asked.given
    _add_parents(links, name, given, parents, owner)

    def draw(known: Known) -> tuple[Codes, np.ndarray]:
        logs = np.zeros(len(every_owner))

        def draw_child(fixed: Codes) -> Codes:
            own = _with_fixed(known, fixed, len(every_owner))
            codes, logs[:] = law.draw(own, seed, "children", threads, soften=True)
            lost = np.flatnonzero(~np.isfinite(logs))
            if len(lost):  # a level's number does not go together with what is given
                plain = {a: c for a, c in fixed.items() if a in links.given(name)}
                own = _with_fixed(known, plain, len(every_owner)).of_rows(lost)
                again, logs[lost] = law.draw(own, seed, "children again", threads)
                for a, column in codes.items():
                    column[lost] = again[a]
            return codes

        codes = child_codes(links, name, parent_codes, every_owner, draw_child, parts, seed)
        return {a: codes[a][: len(owner)].astype(np.int32) for a in law.columns}, logs[: len(owner)]

    codes: Codes = {a: np.empty(0, np.int32) for a in law.columns}
    if len(owner):
        codes = complete_codes(law, given, seed, draw, threads)
    if asked is None and name in links.places:  # rows of one parent in their order
        order = np.lexsort((codes[linked.order[name]], owner))
        fixed = links.given(name)
        codes = {a: c if a in fixed else c[order] for a, c in codes.items()}
    values = completed_values(law.schema, given, codes, seed, threads=threads)
    own = [f.source for f in linked.tables[name].fields.values()]
    return values.select(own), owner


def _with_fixed(known: Known, fixed: Codes, rows: int) -> Known:
    """`known` for so many `rows`: it speaks of the first of them. Where it has no code of a column, the
    row has the `fixed` one."""
    codes: Codes = {}
    for a in {**known.codes, **fixed}:
        own = np.full(rows, -1, np.int32)
        if a in known.codes:
            own[: known.rows] = known.codes[a]
        codes[a] = np.where(own < 0, fixed[a], own).astype(np.int32) if a in fixed else own
    likelihood = {}
    for a, (ids, matrix) in known.likelihood.items():
        none = np.full(rows - known.rows, -1, np.int32)
        likelihood[a] = (np.concatenate([ids, none]), matrix)
    return Known(rows, codes, likelihood)


def _add_parents(
    links: Links, name: str, given: Given, parents: _Parents, owner: np.ndarray
) -> None:
    """Give child rows the columns of their parents: the codes, and numbers that constraints must
    respect."""
    count = links.counts[name]
    given.known.codes[count] = parents.codes[count][owner].astype(np.int32)
    if name in links.places:
        place = links.place_codes(places_of(owner), name)
        given.known.codes[links.places[name]] = place.astype(np.int32)
    own = links.linked.tables[links.linked.parent].fields
    beside = links.schemas[links.names.index(name)].fields
    for column, a in links.joined[name].items():
        given.known.codes[column] = parents.codes[a][owner].astype(np.int32)
        field = own.get(a)
        child = beside.get(column)
        if field is not None and field.binned and child is not None and child.binned:
            values = takeable(parents.values.column(field.source).combine_chunks())
            given.pinned[column] = numbers_of(field, values)[owner]


def _keyed(
    run: TableRun, linked: LinkedSchema, name: str, rows: pa.Table, keys: pa.Array
) -> pa.Table:
    """The rows with their key as the first column, marked as private or not like the run."""
    rows = stamped(rows, run.privacy.get("private") is not False)
    return rows.add_column(0, linked.tables[name].user, keys)
