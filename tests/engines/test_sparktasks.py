"""What Spark's executors run, without Spark: a frame of Arrow batches in lists, shuffled here,
gives the integers of every engine. (tests/spark runs the same on Spark itself.)"""

from contextlib import contextmanager
from itertools import product
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from fastdp.engines import (
    build as builds,
    messages,
    pieces,
    spark as driver,
    sparkfiles,
    sparktasks as tasks,
)
from fastdp.engines.local import local
from fastdp.engines.partitioned import PartitionedCounter
from fastdp.errors import DataError, FastdpError, UsageError
from fastdp.schema.linked_schema import LinkedSchema
from fastdp.tables import part_checks
from fastdp.tables.ingest import read
from fastdp.tables.linked_tables import Links, read_linked
from fastdp.userkeys import RowsPerUser
from tests.tiers import first

from .conformance import CLIQUES, cases, check

CASES = {case.name: case for case in cases()}
HOLES = "null ids, each a user"


class Frame:
    """A DataFrame: tables, one a task. Rows are shuffled by key modulo the number of tasks, and
    arrive in any order."""

    def __init__(self, parts, seed=0):
        self.parts, self.seed, self.sparkSession = list(parts), seed, self

    @property
    def columns(self):
        return self.parts[0].column_names

    def toDF(self, *names):
        return Frame([part.rename_columns(names) for part in self.parts])

    def select(self, *names):
        return Frame([part.select(names) for part in self.parts])

    def where(self, condition):
        """Conditions such as "key = 0" and "partition >= 3 and partition < 6"."""
        parts = self.parts
        same = {"=": pc.equal, ">=": pc.greater_equal, "<": pc.less}
        for name, sign, number in (one.split() for one in condition.split(" and ")):
            parts = [part.filter(same[sign](part[name], int(number))) for part in parts]
        return Frame(parts)

    def limit(self, rows):
        return Frame([part.slice(0, rows) for part in self.parts])

    def toArrow(self):
        return pa.concat_tables(self.parts)

    def createDataFrame(self, table):
        return Frame([table])

    def unionByName(self, other):
        return Frame([*self.parts, *other.parts])

    def repartition(self, count, key):
        whole = self.toArrow()
        order = np.random.default_rng(self.seed).permutation(whole.num_rows)
        whole = whole.take(pa.array(order))
        where = whole[key].to_numpy() % count
        return Frame([whole.filter(pa.array(where == task)) for task in range(count)])

    def mapInArrow(self, task, _):
        return Frame(
            [pa.Table.from_batches(task(iter(part.to_batches(700)))) for part in self.parts]
        )

    def unpersist(self):
        self.parts = []


@contextmanager
def spark_here():
    """The driver's calls of Spark are answered in this process."""
    with (
        patch.object(driver, "persisted", lambda frame: frame),
        patch.object(driver, "shuffle_keys", lambda count: np.arange(count, dtype=np.int32)),
    ):
        yield


@contextmanager
def engine_over(frame, schema, partitions=3):
    with spark_here():
        counter = PartitionedCounter(schema, driver.SparkPartitions([frame], [schema], partitions))
        try:
            yield counter
        finally:
            counter.close()


def opened(source, schema, partitions=3, split=2):
    """The engine over a table in `split` parts."""
    step = max(1, -(-source.num_rows // split))
    parts = [source.slice(start, step) for start in range(0, max(1, source.num_rows), step)]
    return engine_over(Frame(parts), schema, partitions)


@pytest.mark.parametrize("name", first(2, [name for name in CASES if name != "no rows"]))
def test_tasks_of_spark_count_as_every_engine_must(name):
    check(opened, lambda case: case.name == name)


KEYS = {"integers": lambda ids: ids, "texts": lambda ids: ids.cast(pa.string())}


@pytest.mark.parametrize("keys", first(1, list(KEYS)))
@pytest.mark.parametrize("policy", [{}, {"orphans": "keep"}, {"orphans": "keep", "null": "own"}])
def test_linked_tables_are_counted_as_in_one_process(keys, policy):
    """Duplicate parents, orphans, childless parents and null keys, in any number of partitions: the
    integers of every table are those of the local engine, clipped too, and of users."""
    rng = np.random.default_rng(4)
    column = {"kind": "integer", "max": 9}
    tables = {
        "p": {"key": "id", "columns": {"a": column}, "null": policy.get("null", "drop")},
        "c": {
            "parent": "p",
            "key": "of",
            "columns": {"x": column},
            "order": "x",
            "max_rows": 50,
            **policy,
        },
    }
    links = Links(LinkedSchema.from_dict({"tables": tables}))
    ids = [pa.array(rng.integers(0, 60, n), mask=rng.random(n) < 0.05) for n in (80, 500)]
    ids = [KEYS[keys](one) for one in ids]
    sources = {
        "p": pa.table({"id": ids[0], "a": rng.integers(0, 10, 80)}),
        "c": pa.table({"of": ids[1], "x": rng.integers(0, 10, 500)}),
    }
    want, _ = read_linked(sources, links, 1)
    for partitions in (1, 4):
        frames = {name: Frame([t.slice(0, 30), t.slice(30)]) for name, t in sources.items()}
        with spark_here():
            counters = driver.linked_spark(frames, links, partitions)
        for table, counter in zip(want, counters, strict=True):
            names = list(table.schema.domain)
            asked = [(n,) for n in names] + [tuple(names[:2])]
            for clip in (None, 2):
                one = local(table, 1).marginals(asked, clip)
                two = counter.marginals(asked, clip)
                assert all(np.array_equal(one[c], two[c]) for c in asked)
            key = RowsPerUser((1, 2, 4, 8))
            assert (
                local(table, 1).user_histogram(key).tolist() == counter.user_histogram(key).tolist()
            )
    other = {**frames, "c": Frame([sources["c"].set_column(0, "of", pa.array([1.5] * 500))])}
    with spark_here(), pytest.raises(DataError, match="cast it"):
        driver.linked_spark(other, links, 2)


@pytest.mark.parametrize("blob", [200, 1 << 16])
@pytest.mark.parametrize("name", list(CASES))
def test_pieces_and_blobs_give_the_table_back(name, blob):
    """However a table is dealt to partitions and cut into blobs: every row is there once, with its
    user, and all rows of a user in one partition."""
    case = CASES[name]
    table = read(CASES[name].source, CASES[name].schema, threads=1)
    secret = bytes(range(16))
    users = None if case.schema.user is None else pieces.UserIndex(case.schema.user, secret)
    parts = tasks._parts(iter(case.source.to_batches(500)), {"columns": case.source.column_names})
    wanted = part_checks.checked_columns(parts, case.schema) if parts else []
    with patch.object(pieces, "BLOB", blob), patch.object(pieces, "DEAL_ROWS", 1000):
        made = list(pieces.dealt(tasks.ingest.encoded(parts, case.schema, wanted, users, 1), 4))
        tables = []
        for partition in range(4):
            joined = pieces.Joined(case.schema, pieces.UserIndex(secret=secret))
            for place, piece in made:
                if place == partition:
                    joined.add(piece)
            head, *rest = pieces.blobs(joined.table())
            assert all(len(content) <= blob for content in rest)
            room = pieces.Tables(case.schema, head)
            for content in rest:
                room.add(content)
            tables.append(room.table())
            assert pieces.fingerprint(tables[-1]) == room.head["fingerprint"]
    assert sum(t.rows for t in tables) == table.rows and sum(t.users for t in tables) == table.users
    assert sum(t._dropped for t in tables) == table._dropped
    for clip in (None, 2):
        want = local(table, 1).marginals(CLIQUES, clip)
        seen = [local(t, 1).marginals(CLIQUES, clip) for t in tables]
        assert all(np.array_equal(sum(s[c] for s in seen), want[c]) for c in CLIQUES)
    if users is not None and table.rows:
        hashes = np.concatenate([t.user_hash for t in tables])
        assert sorted(hashes.tolist()) == sorted(table.user_hash.tolist())
        assert np.array_equal(
            np.sort(np.concatenate([t.rows_per_user() for t in tables])),
            np.sort(table.rows_per_user()),
        )


def test_a_partition_that_comes_back_with_other_rows_is_refused():
    case = CASES[HOLES]
    with opened(case.source, case.schema) as counter:
        partitions = counter.partitions
        partitions._fingerprints = [*partitions._fingerprints[1:], partitions._fingerprints[0]]
        with pytest.raises(DataError, match="with other rows"):
            counter.marginals([("a",)], 1)


def test_batches_with_ids_of_two_kinds_are_refused():
    """The text "7" and the number 7 would be two users."""
    index = pieces.UserIndex()
    with pytest.raises(DataError, match="string in another"):
        pieces._users([index.prepare(pa.array([7])), index.prepare(pa.array(["7"]))])


def test_errors_of_tasks_reach_the_driver_without_what_they_say():
    """Another build is refused in words; an error that is not fastdp's own may quote rows, so only
    its class is passed on."""
    case = CASES[HOLES]
    (batch,) = tasks.encode(
        messages.packed({"build": {"fastdp": "0.0"}}), iter(case.source.to_batches())
    )
    assert batch["failed"][0].as_py() is not None
    quoting = patch.object(tasks.ingest, "encoded", side_effect=ValueError("the row of Ann"))
    with quoting, pytest.raises(FastdpError) as caught, opened(case.source, case.schema):
        pass
    assert "Ann" not in str(caught.value) and "ValueError" in str(caught.value)


@pytest.mark.parametrize("rows", [1 << 20, 7])
def test_fingerprints_name_the_rows_and_their_users_and_not_their_order(rows, monkeypatch):
    """However many rows are hashed at a time."""
    monkeypatch.setattr(pieces, "HASH_ROWS", rows)
    case = CASES[HOLES]
    table = read(case.source, case.schema, threads=1)
    turned = read(
        case.source.take(pa.array(np.arange(case.source.num_rows)[::-1])), case.schema, threads=1
    )
    assert pieces.fingerprint(table) == pieces.fingerprint(turned)
    other = case.source.set_column(0, "a", pa.array(np.roll(case.source["a"].to_numpy(), 1)))
    strange = case.source.set_column(3, "who", pa.array([*case.source["who"].to_pylist()[1:], 77]))
    who = case.source["who"].to_pylist()
    rows = list(zip(who, case.source.select([0, 1, 2]).to_pylist()))
    i, j = next(
        (i, j)
        for i, j in np.ndindex(len(who), len(who))
        if None not in (who[i], who[j]) and all(a != b for a, b in zip(rows[i], rows[j]))
    )
    who[i], who[j] = who[j], who[i]
    exchanged = case.source.set_column(3, "who", pa.array(who, case.source["who"].type))
    for changed in (other, strange, exchanged, case.source.slice(1)):
        assert pieces.fingerprint(read(changed, case.schema, threads=1)) != pieces.fingerprint(
            table
        )


def failing(error):
    def work():
        raise error

    return work


@pytest.mark.parametrize(
    "error, kind, text",
    [
        (UsageError("say it"), "UsageError", "say it"),
        (DataError("and this"), "DataError", "and this"),
        (ValueError("a person's row"), "DataError", "a partition failed (ValueError)"),
        (MemoryError("a person's row"), "MemoryError", ""),
        (
            OSError(13, "a person's path"),
            "DataError",
            "a partition cannot be read or written (Permission denied)",
        ),
    ],
)
def test_errors_hold_no_rows(error, kind, text):
    assert tasks.attempt(failing(error)) == {"failed": (kind, text)}


# Which builds may count together: the same sources, and on the same platform the same kernels.


@pytest.mark.parametrize("sources, platform, kernels", list(product([True, False], repeat=3)))
def test_what_must_be_the_same(sources, platform, kernels):
    here = dict(builds.build())
    same = {"sources": sources, "platform": platform, "kernels": kernels}
    asked = {key: value if same[key] else value + "x" for key, value in here.items()}
    if sources and (kernels or not platform):
        builds.check(asked)
    else:
        with pytest.raises(DataError, match="another build of fastdp"):
            builds.check(asked)


def test_row_groups_of_files_are_dealt_in_order_where_spark_reads_the_same(tmp_path):
    """Every row group goes to one task, as evenly as whole groups allow: thirty groups of one size.
    Files whose columns differ, or whose days may be of the Julian calendar, are left to Spark."""
    days = {"a": np.zeros(1000, np.int64), "d": pa.array(np.zeros(1000, np.int32), pa.date32())}
    files = [str(tmp_path / f"{n}.parquet") for n in range(3)]
    for path in files:
        pq.write_table(pa.table(days), path, row_group_size=100)
    kinds = {"a": "int64", "d": "date32[day]"}
    for count, shares in ((1, 1), (2, 2), (7, 6), (100, 30)):
        dealt = sparkfiles._shares(files, kinds, count)
        groups = [(path, number) for share in dealt for path, number, _ in share]
        assert groups == list(product(files, range(10))) and len(dealt) == shares
    assert sparkfiles._shares(files, {"a": "int32"}, 2) is None
    assert sparkfiles._shares(files, {"b": "int64"}, 2) is None
    noted = pa.table(days).replace_schema_metadata({"org.apache.spark.legacyDateTime": ""})
    pq.write_table(noted, files[1], row_group_size=100)
    assert sparkfiles._shares(files, kinds, 2) is None and sparkfiles._shares(
        files, {"a": "int64"}, 2
    )
