"""Output of synthetic rows: drawn in shards, given user ids, decoded, and written shard by shard.

Rows are handled in blocks of at most `BLOCK_SHARDS` shards, so that memory does not grow with their
number. Users never span two blocks. Everything here is post-processing and depends on (outcome, seed)
alone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from .._util.arrow import of_numpy
from .._util.lazy import pa, pc, pq
from .._util.progress import Reporter
from .._util.threads import resolve
from ..codec.decode import decode
from ..codec.per_user import drawn_fields, once_for_each_user
from ..codec.possible import compiled_constraints
from ..codec.violations import broken_codes
from ..errors import RunError, UsageError
from ..mechanisms.base import Outcome
from ..mechanisms.shared.model_rows import ModelRows
from ..privacy.statement import file_hash
from ..schema import Schema, dtypes

if TYPE_CHECKING:
    from ..public.ids import Habits
    from ..users.dealing import Dealer

PARQUET: dict[str, Any] = {"compression": "zstd", "compression_level": 1, "write_statistics": True}
"""How files of rows and answers are written, unless the kind of a column asks for more."""
BLOCK_SHARDS = 16
ONE_FILE_SHARDS = 4
"""Up to this many shards the synthetic rows are one file, beyond a folder with one file per shard.
"""


POOL_ROWS = 1 << 22
"""Rows of a pool from which users are chosen, at most, unless one shard has more."""
ROWS_AT_ONCE = 1 << 24
"""Rows of pools from which users are chosen at the same time, at most."""


def block_shards(times: int, shard_rows: int) -> int:
    """Shards of a block of which each row is drawn `times` times. Pools are small: choosing from one is
    mostly the work of a single thread, so several blocks are made at once."""
    if times == 1:
        return BLOCK_SHARDS
    return max(1, min(BLOCK_SHARDS // times, POOL_ROWS // (times * shard_rows)))


def blocks_at_once(times: int, shard_rows: int, threads: int) -> int:
    """Blocks that are made at the same time."""
    if times == 1:
        return 1
    rows = times * shard_rows * block_shards(times, shard_rows)
    return max(1, min(threads, ROWS_AT_ONCE // rows))


class IdSource(Struct, frozen=True):
    """Where user ids come from: the habits of public users, what was released about users, or a
    histogram (`users[i]` users have `sizes[i]` rows)."""

    habits: Habits | None = None
    dealer: Dealer | None = None
    sizes: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))
    users: np.ndarray = field(default_factory=lambda: np.empty(0))
    bound: int | None = None


def spawned_seeds(seed: int, count: int, key: tuple[int, ...] = ()) -> list[int]:
    """Unrelated seeds of 63 bits, all from one."""
    states = np.random.SeedSequence(seed, spawn_key=key).generate_state(count, np.uint64)
    return [int(state >> np.uint64(1)) for state in states]


@dataclass(eq=False, repr=False)
class Output:
    """The synthetic rows of one run, as Arrow tables in the order of the rows."""

    schema: Schema
    outcome: Outcome
    source: IdSource | None
    seed: int
    threads: int | None = None
    extra: bool = False
    private: bool = True

    def __post_init__(self) -> None:
        self.rows = self.outcome.rows
        self._seeds = spawned_seeds(self.seed, 2)
        self._threads = resolve(self.threads)
        has_ids = self.source is not None or self.outcome.owners is not None
        self._has_user = self.schema.user is not None and has_ids
        dealer = None if self.source is None else self.source.dealer
        roles = None if dealer is None else dealer.roles
        fixed = () if roles is None else (*roles.constant, *roles.following)
        self._per_user = drawn_fields(self.schema, fixed)

    def again(self, rows: int, seed: int) -> Output:
        """`rows` other rows of the same outcome; everything random in them comes from `seed`. It
        costs no budget, since the outcome is released already. UsageError if a mechanism makes its
        rows only once.
        """
        source = self.outcome.rows
        if not isinstance(source, ModelRows) or self.outcome.owners or self.outcome.counts:
            raise UsageError(
                "rows: this mechanism makes its rows only once, as many as it counted; use the "
                "run's rows"
            )
        outcome = replace(self.outcome, rows=source.again(rows, seed))
        return Output(
            schema=self.schema,
            outcome=outcome,
            source=self.source,
            seed=seed,
            threads=self.threads,
            extra=self.extra,
            private=self.private,
        )

    @property
    def shards(self) -> int:
        return -(-self.rows.total // self.rows.shard_rows)

    @property
    def block_shards(self) -> int:
        """Shards of a block; fewer where a dealer draws several times as many rows."""
        return block_shards(self._times, self.rows.shard_rows)

    @property
    def _times(self) -> int:
        """How many times as many rows as there will be are drawn."""
        return 1 if self.source is None or self.source.dealer is None else self.source.dealer.times

    @property
    def blocks(self) -> int:
        return -(-self.shards // self.block_shards)

    def arrow_schema(self) -> pa.Schema:
        names = self.rows.columns
        names = tuple(self.schema.modelled) if names is None else names
        empty = compiled_constraints(self.schema).complete(
            {name: np.empty(0, np.uint32) for name in names}
        )
        owner = np.empty(0, np.uint32) if self._has_user else None
        counts = None if self.outcome.counts is None else np.empty(0, np.int64)
        return self._completed(self._decode(empty, 0), owner, 0, counts).schema

    def tables(self, reporter: Reporter | None = None) -> Iterator[pa.Table]:
        """One table per shard, in order; threads decode the next shards ahead. Always at least one
        table."""
        if self.rows.total == 0:
            yield pa.Table.from_batches([], self.arrow_schema())
            return
        yield from self._finished(reporter, lambda table, i: table)

    def block_tables(self, number: int) -> Iterator[pa.Table]:
        """The tables of one block of shards, equal to those that `tables` gives for these shards.
        Other blocks are not made."""
        start = number * self.block_shards
        stop = min(start + self.block_shards, self.shards)
        with ThreadPoolExecutor(self._threads) as pool:
            block = self._draw(pool, start, stop, Reporter())
        owners = self._owners(block, start, Reporter(), self._threads)
        for k, i in enumerate(range(start, stop)):
            codes = block[k]
            block[k] = None
            yield self._finish(codes, owners[k], start, i, lambda table, _: table)

    def shipped(self) -> Output:
        """A copy to send to another process, which uses one thread; without what making rows does
        not need."""
        bare = replace(
            self.outcome,
            measurements=(),
            model=None,
            users=None,
            dealer=None,
            tables={},
            details={},
        )
        return Output(
            schema=self.schema,
            outcome=bare,
            source=self.source,
            seed=self.seed,
            threads=1,
            extra=self.extra,
            private=self.private,
        )

    def write(self, folder: Path, reporter: Reporter | None = None) -> dict[str, str]:
        """`synthetic.parquet`, or `synthetic/part-00000.parquet` ... where there are many rows.
        Returns the sha256 of shards by their names in the folder; each is taken while others are
        written."""

        hashes: dict[str, str] = {}
        try:
            if self.shards <= ONE_FILE_SHARDS:
                kind = self.arrow_schema()
                with pq.ParquetWriter(
                    folder / "synthetic.parquet", kind, **self._parquet(kind)
                ) as writer:
                    for table in self.tables(reporter):
                        writer.write_table(table)
                return hashes
            (folder / "synthetic").mkdir()

            def save(table: pa.Table, i: int) -> None:
                name = f"synthetic/part-{i:05d}.parquet"
                pq.write_table(table, folder / name, **self._parquet(table.schema))
                hashes[name] = file_hash(folder / name)

            for _ in self._finished(reporter, save):
                pass
            return hashes
        except OSError as error:
            raise RunError(
                f"cannot write the synthetic rows to {folder.parent}: {error.strerror}"
            ) from error

    def _parquet(self, kind: pa.Schema) -> dict[str, Any]:
        """Parquet options. Dictionaries suit values that repeat; user numbers hardly do: as packed
        differences they are a quarter smaller and written three times as fast."""

        user = self.schema.user
        if not self._has_user or user is None or not pa.types.is_integer(kind.field(user).type):
            return PARQUET
        dictionaries = [name for name in kind.names if name != user]
        return PARQUET | {
            "use_dictionary": dictionaries,
            "column_encoding": {user: "DELTA_BINARY_PACKED"},
        }

    def _finished(self, reporter: Reporter | None, last) -> Iterator[Any]:
        """last(table, shard) of every shard in order. Few shards are in flight at a time."""
        reporter = reporter or Reporter()
        waiting: list[tuple[int, Future]] = []
        with ThreadPoolExecutor(self._threads) as pool:
            try:
                with closing(self._submitted(pool, reporter, last)) as works:
                    for work in works:
                        waiting.append(work)
                        if len(waiting) > self._threads + 1:
                            yield self._next(waiting, reporter)
                while waiting:
                    yield self._next(waiting, reporter)
            finally:
                for _, future in waiting:
                    future.cancel()

    def _submitted(
        self, pool: ThreadPoolExecutor, reporter: Reporter, last
    ) -> Generator[tuple[int, Future]]:
        """(shard, future of last(table, shard)) of every shard, each submitted when it is asked for."""
        with closing(self._dealt(pool, reporter)) as blocks:
            for start, block, owners in blocks:
                for k, owner in enumerate(owners):
                    reporter.check()
                    codes = block[k]
                    block[k] = None  # memory is freed once the shard is written
                    work = pool.submit(self._finish, codes, owner, start, start + k, last)
                    yield start + k, work

    def _dealt(
        self, pool: ThreadPoolExecutor, reporter: Reporter
    ) -> Generator[tuple[int, list, Sequence[np.ndarray | None]]]:
        """(first shard, codes of its shards or futures of their values, their owners) of every block in
        order. While ids are dealt, which does not keep all threads busy, the first shards are decoded,
        or further blocks are drawn and dealt."""
        at_once = blocks_at_once(self._times, self.rows.shard_rows, self._threads)
        starts = range(0, self.shards, self.block_shards)
        # the last blocks may be fewer than are made at the same time: each has more threads
        last = len(starts) % at_once or at_once
        early = self.source is not None and self.source.dealer is None
        blocks: deque[tuple[int, list, Future]] = deque()
        with ThreadPoolExecutor(at_once) as dealers:
            try:
                for start in starts:
                    stop = min(start + self.block_shards, self.shards)
                    reporter.update("sample", start / self.shards)
                    with reporter.stage("sample"):
                        block = self._draw(pool, start, stop, reporter)
                    ahead = min(self._threads + 1, len(block)) if early else 0
                    decoded = [pool.submit(self._decode, block[k], start + k) for k in range(ahead)]
                    if self.schema.user is not None:
                        reporter.update("ids", start / self.shards)
                    beside = last if start in starts[-last:] else at_once
                    threads = max(1, self._threads // beside)
                    owners = dealers.submit(self._owners, block, start, reporter, threads)
                    blocks.append((start, block, owners))
                    while len(blocks) == at_once or (blocks and start == starts[-1]):
                        first, block, owners = blocks.popleft()
                        with reporter.stage("ids"):
                            found = owners.result()
                        block[: len(decoded)] = decoded
                        yield first, block, found
            finally:
                for *_, owners in blocks:
                    owners.cancel()

    def _next(self, waiting, reporter):
        i, future = waiting.pop(0)
        result = future.result()
        reporter.update("write", (i + 1) / self.shards)
        return result

    def _draw(self, pool, start: int, stop: int, reporter) -> list:
        """The codes of a block's shards."""
        futures = [pool.submit(self._shard, i) for i in range(start, stop)]
        block = []
        for i, future in enumerate(futures, start):
            block.append(future.result())
            reporter.check()
            reporter.update("sample", (i + 1) / self.shards)
        return block

    def _shard(self, i: int) -> dict[str, np.ndarray]:
        """The codes of a shard, with the columns that follow from others. RunError if a row breaks
        a constraint of the schema, so that no such row is ever written."""
        codes = compiled_constraints(self.schema).complete(self.rows.shard(i))
        broken = broken_codes(self.schema, codes)
        if broken:
            listed = ", ".join(f"{n + 1} ({self.schema.constraints[n].text})" for n in broken)
            raise RunError(
                f"synthetic rows violate constraint {listed}: please report this error in fastdp"
            )
        return codes

    def _owners(
        self, block: list, start: int, reporter: Reporter, threads: int
    ) -> Sequence[np.ndarray | None]:
        """User numbers of the rows of each shard; users are assigned over the whole block at once.
        A dealer also exchanges rows: the block is changed in place."""
        if self.schema.user is not None and self.outcome.owners is not None:
            return [self.outcome.owners(start + k) for k in range(len(block))]
        if self.schema.user is None or self.source is None:
            return [None] * len(block)
        from ..public import ids

        ends = [
            min((start + k + 1) * self.rows.shard_rows, self.rows.total) for k in range(len(block))
        ]
        lengths = np.diff(ends, prepend=start * self.rows.shard_rows).tolist()
        total = sum(lengths)
        seed = self._seeds[1] + start
        if self.source.dealer is not None:
            joined = {c: np.concatenate([codes[c] for codes in block]) for c in block[0]}

            def tell(part: float, text: str) -> None:
                reporter.check()
                done = (start + part * len(block)) / self.shards
                reporter.update("ids", done, text)

            dealt, owner = self.source.dealer.deal(joined, seed, threads, tell)
            for k, end in enumerate(np.cumsum(lengths).tolist()):
                block[k] = {c: column[end - lengths[k] : end] for c, column in dealt.items()}
        elif self.source.habits is not None:
            columns = self.source.habits.columns
            joined = {c: np.concatenate([codes[c] for codes in block]) for c in columns}
            habits = self.source.habits
            most = self.source.bound
            owner, _ = ids.deal(joined, total, habits, bound=most, seed=seed, threads=threads)
        else:
            owner, _ = ids.deal_by_size(total, self.source.sizes, self.source.users, seed=seed)
        return np.split(owner, np.cumsum(lengths)[:-1])

    def _finish(self, codes: dict[str, np.ndarray] | Future, owner, block_start: int, i: int, last):
        """last(table, i) of shard i, from its codes or from the future of their values."""
        # A block has at most as many users as rows, so user numbers that start at the number of the
        # block's first row are never those of another block.
        first = 0 if self.outcome.owners is not None else block_start * self.rows.shard_rows
        counts = None if self.outcome.counts is None else self.outcome.counts(i)
        values = codes.result() if isinstance(codes, Future) else self._decode(codes, i)
        if self._per_user and owner is not None and not isinstance(codes, Future):
            whole = (self.schema, self._per_user, values, codes, owner)
            values = once_for_each_user(*whole, self._seeds[0], first)
        return last(self._completed(values, owner, first, counts), i)

    def _decode(self, codes: dict[str, np.ndarray], i: int) -> pa.Table:
        """The values of shard i, without users."""

        offset = i * self.rows.shard_rows
        return decode(self.schema, codes, self._seeds[0], offset, outputs=self.extra, threads=1)

    def _completed(self, table: pa.Table, owner, first_user: int, counts=None) -> pa.Table:
        """The values with their counts or users, stamped."""
        table = stamped(table, self.private)
        if counts is not None:
            table = table.append_column("count", of_numpy(np.asarray(counts, np.int64)))
            return table.replace_schema_metadata({**(table.schema.metadata or {}), **HISTOGRAM})
        if owner is None:
            return table
        return table.add_column(0, self.schema.user, user_values(self.schema, owner, first_user))


HISTOGRAM = {b"fastdp.count": b"count"}
"""Metadata of a table whose rows stand for as many events as its column `count` says."""


def stamped(table: pa.Table, private: bool) -> pa.Table:
    """The table, marked in its metadata as not private if a seed fixed the noise: a file may be
    separated from its statement."""
    if private:
        return table
    return table.replace_schema_metadata(
        {**(table.schema.metadata or {}), b"fastdp.private": b"false"}
    )


def user_values(schema: Schema, owner: np.ndarray, first: int = 0) -> pa.Array:
    """User numbers as values of the schema's user type: 1, 2, ... or "synthetic-1" ... for text. A
    type whose values would run out, or come twice, gives way to a wider one: there may be more
    synthetic users."""

    name = schema.user_dtype or "int64"
    numbers = of_numpy(owner.astype(np.int64) + (first + 1))
    if dtypes.family(name) == "string":
        text = pc.cast(numbers, pa.string())
        joined = pc.binary_join_element_wise(pa.scalar("synthetic"), text, pa.scalar("-"))
        return joined.cast(pa.large_string() if name == "large_string" else pa.string())
    kind = pa.type_for_alias(name) if dtypes.family(name) in ("int", "float") else pa.int64()
    if kind.bit_width < 32 or pa.types.is_float32(kind):
        kind = pa.float64() if pa.types.is_floating(kind) else pa.int32()
    return numbers.cast(kind)
