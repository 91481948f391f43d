"""Rows on demand of a finished run: `complete`, `sample` under conditions or designs, and
`predict`.

Everything is drawn from the run's model and its statement. So a run that was loaded from its folder
gives the same rows as the one that made it. Nothing here is private unless the caller's own frame
is.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from .._util.lazy import pa, pc
from ..codec.encode import encode_batch
from ..errors import RunError, UsageError, is_whole
from ..ondemand.classifier import ModelClassifier
from ..ondemand.complete import complete_rows
from ..ondemand.conditions import add_design, conditioned, conditions_to_check, probability
from ..ondemand.frames import Given, check_names, given_rows
from ..ondemand.known_rows import Codes, Known, Law
from ..ondemand.row_law import RowLaw
from ..ondemand.stored_law import StoredLaw
from ..ondemand.user_habits import Habits, draw_rows_of_users
from ..schema import Schema
from ..tables import reading, textvalues
from ..tables.sources.source import open_parts
from .matching_rows import matches
from .output import HISTOGRAM, Output, spawned_seeds, stamped, user_values

NO_MODEL = (
    "this run has no model of its rows ({name} makes rows in another way), so no row can be drawn given "
    "others; filter the run's own rows (run.data)"
)
SIZES_FROM = 1 << 15
"""Synthetic rows from which numbers of rows per user are taken."""
ROUNDS = 24
"""How often rows are drawn again in place of those whose written values miss a condition. Only
conditions that codes cannot express need it, such as an hour of a timestamp."""


class Run(Protocol):
    """What is needed of a finished run (`fastdp.Run`)."""

    @property
    def schema(self) -> Schema: ...
    @property
    def privacy(self) -> dict: ...
    @property
    def out(self) -> Path | None: ...
    @property
    def _output(self) -> Output | None: ...
    @property
    def model(self) -> Any: ...
    @property
    def data(self) -> pa.Table: ...
    @property
    def _law(self) -> RowLaw: ...
    @property
    def _stored_law(self) -> StoredLaw: ...
    @property
    def _user_sizes(self) -> np.ndarray: ...
    def reader(self) -> pa.RecordBatchReader: ...


def law_of(schema: Schema, model: Any, privacy: Mapping[str, Any]) -> RowLaw:
    """The distribution of a run's rows; UsageError if the run has none."""
    if model is None:
        mechanism = privacy.get("mechanism") or {}
        raise UsageError(NO_MODEL.format(name=mechanism.get("name", "its mechanism")))
    return RowLaw(schema, model)


def stored_law_of(run: Run) -> StoredLaw:
    """The distribution of a run's own rows; UsageError if they lack columns of the schema."""
    schema = run.schema
    rows = run.data
    if not all(f.source in rows.column_names for f in schema.fields.values()) or not rows.num_rows:
        law_of(schema, None, run.privacy)
    weights = np.ones(rows.num_rows)
    if HISTOGRAM.items() <= (rows.schema.metadata or {}).items():
        weights = rows.column("count").to_numpy().astype(float)
    parts = [encode_batch(schema, pa.Table.from_batches([b])) for b in rows.to_batches()]
    codes = {a: np.concatenate([c[a] for c, _ in parts]) for a in parts[0][0]}
    kept = [np.ones(len(next(iter(c.values()))), bool) if k is None else k for c, k in parts]
    return StoredLaw(schema, codes, weights * np.concatenate(kept))


def frame_of(schema: Schema, frame: Any, what: str) -> pa.Table:
    """A frame, a file or anything else that `fastdp.read` takes, as one table. UsageError names a
    column that the schema does not have."""
    kinds = {f.source: f.dtype for f in schema.fields.values()}
    tables = []
    for part in open_parts(frame, schema.dialect):
        names = part.schema.names
        check_names(schema, names, what)
        batches = []
        for unit in reading.guarded(part.where, part.units(names, None)):
            for batch in reading.guarded(part.where, unit()):
                columns = list(batch.columns)
                for i, name in enumerate(names):
                    if part.is_text(name) and name in kinds:
                        columns[i] = textvalues.parse(columns[i], kinds[name])
                batches.append(pa.RecordBatch.from_arrays(columns, names))
        if batches:
            tables.append(pa.Table.from_batches(batches))
        elif names:
            tables.append(part.schema.empty_table())
    if not tables:
        raise UsageError(f"{what}: the frame has no columns; give at least one of the schema's")
    return pa.concat_tables(tables, promote_options="permissive")


def seed_of(seed: int | None) -> int:
    """The seed, or one by the operating system."""
    if seed is None:
        return secrets.randbits(63)
    if not is_whole(seed, 0):
        raise UsageError(f"seed must be a whole number >= 0 or None, got {seed!r}")
    return int(seed)


def completed_frame(
    run: Run, frame: Any, seed: int | None, nulls: str, threads: int | None
) -> pa.Table:
    """See `Run.complete`."""
    law: Law = run._law if run.model is not None else run._stored_law
    schema = law.schema
    table = frame_of(schema, frame, "complete")
    given = given_rows(schema, table, nulls)
    if schema.user is None or schema.user not in table.column_names:
        owner = np.arange(table.num_rows)
        made = _completed(run, law, given, owner, seed_of(seed), threads)
        return _with_users(run, made, user_values(schema, owner) if schema.user else None)
    ids = table.column(schema.user).combine_chunks()
    owner, values = users_of(schema, ids)
    made = _completed(run, law, given, owner, seed_of(seed), threads)
    return _with_users(run, made, values)


def _completed(
    run: Run, law: Law, given: Given, owner: np.ndarray, seed: int, threads: int | None
) -> pa.Table:
    """Whole rows of these users (numbers from 0), without the user column."""
    habits = Habits.of(law.schema, run.privacy)

    def draw(known: Known) -> tuple[Codes, np.ndarray]:
        return draw_rows_of_users(law, known, owner, habits, seed, threads)

    several = len(owner) > 0 and int(owner.max()) + 1 < len(owner)
    config = (run.privacy.get("mechanism") or {}).get("config") or {}
    return complete_rows(
        law,
        given,
        seed,
        draw=draw if several else None,
        outputs=bool(config.get("outputs")),
        threads=threads,
        users=(owner, habits.constant) if several else None,
    )


def _with_users(run: Run, rows: pa.Table, values: pa.Array | None) -> pa.Table:
    rows = stamped(rows, run.privacy.get("private") is not False)
    return rows if values is None else rows.add_column(0, run.schema.user, values)


def users_of(schema: Schema, ids: pa.Array) -> tuple[np.ndarray, pa.Array]:
    """(number of each row's user, ids to write). A row without an id is a user of its own, with a
    new id."""
    if isinstance(ids, pa.ChunkedArray):
        ids = pa.concat_arrays(ids.chunks) if ids.num_chunks else pa.array([], pa.int64())
    if pa.types.is_dictionary(ids.type):
        ids = ids.dictionary_decode()
    coded = ids.dictionary_encode()
    there = ids.is_valid().to_numpy(zero_copy_only=False).astype(bool)
    owner = pc.fill_null(coded.indices, -1).to_numpy(zero_copy_only=False).astype(np.int64)
    known = len(coded.dictionary)
    lost = np.flatnonzero(~there)
    owner[lost] = known + np.arange(len(lost))
    if not len(lost):
        return owner, ids
    fresh = _fresh(schema, ids, coded.dictionary, len(lost))
    place = np.zeros(len(owner), np.int64)
    place[lost] = np.arange(len(lost))
    return owner, pc.if_else(pa.array(there), ids, fresh.take(pa.array(place)))


def _fresh(schema: Schema, ids: pa.Array, used: pa.Array, count: int) -> pa.Array:
    """`count` ids that are not among those used."""
    made = user_values(schema, np.arange(count + len(used)))
    kind = made.type if pa.types.is_null(ids.type) else ids.type
    try:
        made = made.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise UsageError(
            f"complete: rows without a user id cannot get one of type {kind}; fill in column {schema.user!r}"
        ) from None
    if pa.types.is_null(ids.type) or not len(used):
        return made.slice(0, count)
    free = pc.invert(pc.is_in(made, used.cast(kind)))
    return made.filter(free).slice(0, count)


def sampled(
    run: Run,
    n: int,
    seed: int,
    where: Mapping[str, Any] | None,
    weights: Mapping[str, Any] | None,
) -> pa.Table:
    """`n` rows of a run's model that match conditions and follow a design; see `Run.sample`."""
    law = run._law
    where = {} if where is None else where
    parts: list[pa.Table] = []
    owners: list[np.ndarray] = []
    unsure = conditions_to_check(law, where) if isinstance(where, Mapping) else {}
    missing = n
    users = 0
    for own in spawned_seeds(seed, ROUNDS, (3,)):
        given = conditioned(law, missing, where)
        if weights:
            add_design(law, given, weights, own)
        owner = _owners(run, law, missing, where, own)
        rows = _completed(run, law, given, owner, own, None)
        keep = matches(rows, unsure) if unsure and rows.num_rows else None
        if keep is not None:
            rows = rows.filter(keep)
            owner = owner[keep.to_numpy().astype(bool)]
        parts.append(rows)
        owners.append(owner + users)
        users += missing
        missing = n - sum(part.num_rows for part in parts)
        if not missing or weights:
            break
    if missing:
        raise RunError(
            f"where: {n - missing:,} of {n:,} rows were found after {ROUNDS} attempts; use a wider "
            "condition, or one that the schema's codes can express"
        )
    owner = np.concatenate(owners)
    _, owner = np.unique(owner, return_inverse=True)
    values = user_values(run.schema, owner.reshape(-1)) if run.schema.user is not None else None
    return _with_users(run, pa.concat_tables(parts), values)


def _owners(run: Run, law: RowLaw, n: int, where: Mapping[str, Any], seed: int) -> np.ndarray:
    """The user of each of n rows, numbers from 0. Users have as many rows as those of the run's
    synthetic rows; under a condition, those of them that match by chance."""
    if run.schema.user is None or not n:
        return np.arange(n)
    rng = np.random.Generator(np.random.Philox(key=[seed, 9]))
    sizes = run._user_sizes
    constant = set(Habits.of(run.schema, run.privacy).constant)
    fixed = {a: c for a, c in where.items() if a in constant}
    chance = probability(law, where) / probability(law, fixed) if where else 1.0
    found = np.empty(0, np.int64)
    if chance < 1:
        some = -np.expm1(sizes * np.log1p(-min(chance, 1 - 1e-12)))
        sizes = rng.choice(sizes, max(1, min(n, len(sizes) * 4)), p=some / some.sum())
        sizes = np.maximum(rng.binomial(sizes, chance), 1)
    while found.sum() < n:
        found = np.append(found, rng.choice(sizes, max(16, n // max(1, int(sizes.mean())))))
    owner = np.repeat(np.arange(len(found)), found)[:n]
    return owner[rng.permutation(n)]


def user_sizes(run: Run) -> np.ndarray:
    """Rows of each user among the first synthetic rows of a run; 1 where these have no users."""
    found = np.zeros(0, np.int64)
    user = run.schema.user
    batches = _first_rows(run)
    seen = [b.column(user) for b in batches if user in b.schema.names]
    if seen:
        ids = pa.chunked_array([s for s in seen if len(s)] or [seen[0]])
        counts = ids.combine_chunks().value_counts()
        found = counts.field("counts").to_numpy(zero_copy_only=False).astype(np.int64)
    return found if len(found) else np.ones(1, np.int64)


def _first_rows(run: Run) -> Iterator[pa.RecordBatch]:
    """The rows of the run, up to the batch that completes SIZES_FROM of them."""
    rows = 0
    if run.out is None and run._output is not None and run._output.rows.total > SIZES_FROM:
        try:
            reader = pa.concat_tables(run._output.again(SIZES_FROM, 1).tables()).to_reader()
        except UsageError:
            reader = run.reader()
    else:
        reader = run.reader()
    for batch in reader:
        yield batch
        rows += batch.num_rows
        if rows >= SIZES_FROM:
            return


def classifier_of(run: Run, target: str, threads: int | None) -> ModelClassifier:
    """See `Run.classifier`."""
    law = run._law

    def read(frame: Any, what: str) -> pa.Table:
        return frame_of(law.schema, frame, what)

    return ModelClassifier(law, target, read, threads)
