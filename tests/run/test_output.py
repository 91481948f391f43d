"""Synthetic rows on their way out: what cannot be made again, written or true is refused; users of
every type."""

import datetime as dt
import json
import pickle
import time
from itertools import count
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

import fastdp
from bench import digests
from fastdp.engines.build import build
from fastdp.errors import DataError, RunError
from fastdp.measurement import Measurement
from fastdp.mechanisms.base import Outcome
from fastdp.queries import AdaGrid, Binned, Grid, Identity, Sparse, Weighted
from fastdp.run import output
from fastdp.run.measurements_out import write_measurements
from fastdp.run.output import Output, user_values
from fastdp.run.spark_output import for_spark, make, spark_schema
from fastdp.users.dealing import Dealer
from fastdp.users.rates import Roles
from tests.tiers import slow_cases

from .runs import rows, run, schema


class Shards:
    """Rows of given codes, so many a shard."""

    columns = None

    def __init__(self, codes, shard_rows=4):
        self.codes = codes
        self.shard_rows = shard_rows
        self.total = len(next(iter(codes.values())))

    def shard(self, i):
        part = slice(i * self.shard_rows, (i + 1) * self.shard_rows)
        return {name: column[part] for name, column in self.codes.items()}


def schema_of(*constraints, user=None):
    plain = {"columns": {n: {"kind": "integer", "max": 3, "null": "drop"} for n in "ab"}}
    plain |= {"constraints": list(constraints)} | ({"user": user} if user else {})
    return fastdp.Schema.from_dict(plain)


def test_rows_that_break_a_constraint_are_never_written(tmp_path):
    codes = {"a": np.array([0, 1, 2], np.uint8), "b": np.array([0, 2, 1], np.uint8)}
    rules = [{"require": "a + b >= 0"}, {"require": "a <= b"}]
    made = Output(schema_of(*rules), Outcome(Shards(codes)), None, 1)
    with pytest.raises(RunError) as caught:
        list(made.tables())
    text = f"synthetic rows violate constraint 2 ({made.schema.constraints[1].text}): "
    assert str(caught.value) == text + "please report this error in fastdp"
    good = {"a": codes["a"][:2], "b": codes["b"][:2]}
    (table,) = Output(schema_of(*rules), Outcome(Shards(good)), None, 1).tables()
    assert table["a"].to_pylist() == [0, 1] and table["b"].to_pylist() == [0, 2]


@pytest.mark.parametrize(
    "name, kind",
    [
        (None, pa.int64()),
        ("int32", pa.int32()),
        ("uint64", pa.uint64()),
        ("float64", pa.float64()),
        ("string", pa.string()),
        ("large_string", pa.large_string()),
    ],
)
def test_users_are_numbered_in_the_type_of_their_column(name, kind):
    schema = SimpleNamespace(user_dtype=name)
    got = user_values(schema, np.array(numbers := [1, 3, 1, 2], np.uint32) - 1, 100)
    assert got.type == kind
    texts = kind in (pa.string(), pa.large_string())
    assert got.to_pylist() == [f"synthetic-{100 + n}" if texts else 100 + n for n in numbers]


@pytest.mark.parametrize("name", ["int8", "uint8", "int16", "uint16", "float16", "float32"])
def test_no_two_users_share_an_id_however_narrow_the_type(name):
    """There may be more synthetic users than a narrow type of ids has values."""
    numbers = np.array([0, 43, 299, 40_000, 70_000, (1 << 24) - 1, 1 << 24], np.uint32)
    got = user_values(SimpleNamespace(user_dtype=name), numbers)
    assert got.to_pylist() == (numbers + 1).tolist()


# measurements.pq: every answer at its place, and the cell it is about where it is about one.


CELLS = 6
GRID = Grid(
    ("a", "b"),
    (2, 3),
    np.array([1, 4]),
    (Grid(("a",), (2,), [0, 1]), Grid(("b",), (3,), [0, 1, 2])),
)
QUERIES = {
    "each cell": None,
    "identity": Identity(CELLS),
    "weighted": Weighted([1, 2, 3, 1, 2, 3], 4),
    "adagrid": AdaGrid(GRID),
    "binned": Binned((2, 3), (None, np.array([0, 0, 1]))),
    "sparse": Sparse(sp.csr_array(np.array([[0, 0, 1, 0, 0, 0], [1, 1, 0, 0, 0, 0]]))),
}


def released(folder, *measurements, private=True) -> tuple[dict, list[dict]]:
    write_measurements(folder, list(measurements), private)
    table = pq.read_table(folder / "measurements.pq")
    return table, json.loads((folder / "measurements.json").read_text())


@pytest.mark.parametrize("name", QUERIES)
def test_a_cell_is_named_where_the_answer_is_that_cells_alone(tmp_path, name):
    """Law: if `cell` is c, the query's row is the indicator of flat cell c; rows of all queries
    that measure cells one by one have it."""
    query = QUERIES[name]
    rows = CELLS if query is None else query.rows
    values = np.arange(rows) + 0.5
    table, described = released(
        tmp_path, Measurement(("a", "b"), values, values + 1, query, label="x")
    )
    frame = table.to_pydict()
    assert table.column_names == ["measurement", "row", "cell", "value", "standard_error"]
    assert frame["row"] == list(range(rows)) and frame["value"] == values.tolist()
    assert np.allclose(frame["standard_error"], values + 1)
    matrix = (
        np.eye(CELLS) if query is None else np.array([query.product(e) for e in np.eye(CELLS)]).T
    )
    for row, cell in enumerate(frame["cell"]):
        if cell is not None:
            assert matrix[row].tolist() == np.eye(CELLS)[cell].tolist()
    named = [cell for cell in frame["cell"] if cell is not None]
    wanted = {"adagrid": [1, 4], "binned": [], "sparse": [2]}.get(name, list(range(CELLS)))
    assert named == wanted
    (told,) = described["measurements"]
    assert told["rows"] == rows and told["clique"] == ["a", "b"]


# Rows made elsewhere: an output that went to another process makes each block as it is made here.


def made_elsewhere(output):
    """The rows, made block by block, the last one first: no block may need another."""
    twin = pickle.loads(pickle.dumps(output.shipped()))
    blocks = [list(twin.block_tables(i)) for i in reversed(range(output.blocks))]
    return pa.concat_tables(table for block in reversed(blocks) for table in block)


@pytest.mark.parametrize(
    "mechanism",
    ["cliquetree", *slow_cases("mst"), {"mechanism": "usercounts", "columns": ["a", "b"]}],
)
def test_blocks_made_elsewhere_are_the_same(mechanism, monkeypatch):
    """With `cliquetree` rows are dealt to users. A dealer that goes on from its last block is found
    out."""
    clip = {"clip": 3} if isinstance(mechanism, str) else {}
    plain = schema().to_dict()
    plain["columns"]["a"] |= {"user": "constant"} if mechanism == "cliquetree" else {}
    made = run(rows(800), mechanism=mechanism, schema=fastdp.Schema.from_dict(plain), **clip)
    assert made_elsewhere(made._output).equals(made.data)
    monkeypatch.setattr(type(made._output.rows), "shard_rows", 16)
    shards = -(-made.data.num_rows // 16)
    assert made._output.blocks == -(-shards // made._output.block_shards)
    assert made_elsewhere(made._output).equals(pa.concat_tables(made._output.tables()))
    deal = Dealer.deal
    calls = count()
    monkeypatch.setattr(
        Dealer, "deal", lambda self, codes, _, *rest: deal(self, codes, next(calls), *rest)
    )
    again = made_elsewhere(made._output), pa.concat_tables(made._output.tables())
    assert again[0].equals(again[1]) == (mechanism != "cliquetree")


class Pool(Shards):
    """Three rows for each that is wanted."""

    def shard(self, i):
        return {name: np.repeat(column, 3) for name, column in super().shard(i).items()}


class OneInThree:
    """Chooses one row in three; users are those of the block, numbered from 0. The first blocks take
    longest."""

    times = 3
    roles = Roles((), ())

    def deal(self, codes, seed, threads, tell):
        time.sleep(0.05 / (1 + codes["a"][0]))
        some = {name: column[::3] for name, column in codes.items()}
        some["b"] = some["b"] + np.uint8(seed % 2)
        return some, np.arange(len(some["a"]), dtype=np.uint32) // 2


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_pools_that_are_made_at_once_come_in_order(threads, monkeypatch):
    """Blocks have shards of one pool (here two). A block that comes when it is ready, and not in its turn,
    is found out, and so are users of two blocks."""
    monkeypatch.setattr(output, "POOL_ROWS", 24)
    codes = {"a": np.arange(38, dtype=np.uint8) // 10, "b": np.zeros(38, np.uint8)}
    source = output.IdSource(dealer=OneInThree())
    made = Output(schema_of(user="u"), Outcome(Pool(codes)), source, 1, threads)
    assert made.block_shards == 2 and made.blocks == 5
    tables = list(made.tables())
    assert [len(table) for table in tables] == [4] * 9 + [2]
    rows = pa.concat_tables(tables)
    assert rows["a"].to_pylist() == codes["a"].tolist()
    assert rows["u"].to_pylist() == [1 + 8 * (i // 8) + i % 8 // 2 for i in range(38)]
    assert made_elsewhere(made).equals(rows)


@pytest.mark.slow
def test_every_mechanism_s_rows_can_be_made_elsewhere():
    for name, begun in digests.RUNS.items():
        made = begun()
        assert made_elsewhere(made._output).equals(made.data), name


# Rows that executors make, and types that Spark has: values come through, and what would not is
# refused (Spark itself: tests/spark).


WIDER = [
    (pa.uint8(), pa.int16(), [0, 255]),
    (pa.uint16(), pa.int32(), [0, 65_535]),
    (pa.uint32(), pa.int64(), [0, 2**32 - 1]),
    (pa.uint64(), pa.decimal128(20, 0), [0, 2**64 - 1]),
    (pa.float16(), pa.float32(), [0.5, -2.0]),
    (pa.date64(), pa.date32(), [dt.date(1, 1, 1), dt.date(9999, 12, 31)]),
    (pa.timestamp("s"), pa.timestamp("us"), [dt.datetime(2020, 1, 2, 3, 4, 5)]),
    (pa.timestamp("ms", "Asia/Tokyo"), pa.timestamp("us", "Asia/Tokyo"), [1, 2]),
    (pa.large_string(), pa.string(), ["a", "é", None]),
    (pa.dictionary(pa.int8(), pa.string()), pa.string(), ["a", "b", None]),
    (pa.dictionary(pa.int8(), pa.uint8()), pa.int16(), [200, None]),
]
SAME = [pa.int8(), pa.int64(), pa.float32(), pa.float64(), pa.bool_(), pa.string(), pa.date32()]


@pytest.mark.parametrize("kind, wider, values", WIDER, ids=str)
def test_values_of_every_type_come_through_spark_unchanged(kind, wider, values):
    given = pa.table({"a": pa.array(values, kind), "b": pa.array([1] * len(values), pa.int32())})
    asked = spark_schema(given.schema)
    assert asked.names == ["a", "b"] and asked.types == [wider, pa.int32()]
    made = given.cast(asked)
    assert made["a"].to_pylist() == given["a"].to_pylist()


def test_types_that_spark_has_stay_and_times_of_pandas_are_in_microseconds():
    """pandas keeps times in nanoseconds: runs on its frames could not be published."""
    assert spark_schema(pa.schema([(str(kind), kind) for kind in SAME])).types == SAME
    days = pa.array([dt.datetime(2024, 2, 29), None], pa.timestamp("ns"))
    made = for_spark(pa.table({"day": days, "at": pa.array([1_234_567, 0], pa.timestamp("ns"))}))
    assert made.schema.types == [pa.timestamp("us")] * 2
    assert made["day"].to_pylist() == [dt.datetime(2024, 2, 29), None]
    assert made["at"].cast(pa.int64()).to_pylist() == [1_234, 0]


class Blocks:
    """An output of given tables, one a block."""

    def __init__(self, *tables):
        self.tables = tables
        self.blocks = len(tables)

    def block_tables(self, number):
        return iter([self.tables[number]])


def numbers(*values):
    return [pa.record_batch({"id": pa.array(values, pa.int64())})]


def test_an_executor_of_another_build_makes_no_rows():
    table = pa.table({"a": [1]})
    for other in ({"sources": "0"}, {"kernels": "0"}):
        with pytest.raises(DataError, match="an executor runs another build of fastdp"):
            next(make(Blocks(table), build() | other, numbers(0)))
