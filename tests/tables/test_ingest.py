"""Every source gives the same table; user ids of any type; broken sources are DataErrors that quote
nothing."""

import datetime as dt
import decimal
import gzip
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.dataset as pads
import pyarrow.parquet as pq
import pytest

import fastdp
from fastdp._core.codes import joined
from fastdp.errors import DataError, UsageError
from fastdp.tables import ingest, parts, textvalues
from fastdp.tables.userids import UserIndex
from tests.tiers import first

DOMAIN = {"a": 5, "b": 300}
CLIQUES = [("a", "b"), ("b",)]


@pytest.fixture(scope="module")
def frame() -> pa.Table:
    rng = np.random.default_rng(1)
    n = 5003
    return pa.table(
        {
            "extra": pa.array(["secret"] * n),
            "b": rng.integers(0, 300, n),
            "who": rng.integers(0, 400, n).astype(np.int32),
            "a": rng.integers(0, 5, n).astype(np.int16),
        }
    )


@pytest.fixture(scope="module")
def schema():
    return fastdp.Schema.from_domain(DOMAIN, user="who")


@pytest.fixture(scope="module")
def want(frame, schema):
    codes = {n: frame[n].to_numpy() for n in DOMAIN}
    table = fastdp.Table.from_codes(schema, codes, user=frame["who"].to_numpy())
    return fastdp.marginals(table, CLIQUES, clip=9)


def same(table, want) -> bool:
    counts = fastdp.marginals(table, CLIQUES, clip=9)
    return all(np.array_equal(counts[c], want[c]) for c in CLIQUES)


class Capsule:
    """Anything with an Arrow stream."""

    def __init__(self, table):
        self.table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self.table.__arrow_c_stream__(requested_schema)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize(
    "make",
    [
        lambda t: t,
        lambda t: t.to_batches()[0],
        lambda t: t.to_reader(700),
        lambda t: pads.dataset(t),
        lambda t: Capsule(t),
        lambda t: pl.from_arrow(t),
        lambda t: pl.from_arrow(t).lazy(),
        lambda t: t.to_pandas(),
        lambda t: {name: t[name] for name in t.column_names},
        lambda t: [t.slice(0, 1000), pl.from_arrow(t.slice(1000))],
    ],
    ids="table batch reader dataset capsule polars lazy pandas mapping list".split(),
)
def test_frames_of_every_library_are_read_alike(frame, schema, want, make, threads, monkeypatch):
    monkeypatch.setattr(parts, "BATCH_ROWS", 512)
    assert same(fastdp.read(make(frame), schema, threads=threads), want)


def test_a_duckdb_relation_is_read_like_its_frame(frame, schema, want):
    connection = pytest.importorskip("duckdb").connect()
    connection.register("frame", frame)
    assert same(fastdp.read(connection.sql("select * from frame"), schema), want)


def write_all(frame, folder: Path) -> dict[str, Path]:
    table = pl.from_arrow(frame)
    kinds = "parquet one.parquet csv tsv jsonl csv.gz csv.zst jsonl.bz2 arrow arrows".split()
    files = {n: folder / f"t.{n}" for n in kinds}
    pq.write_table(frame, files["parquet"], row_group_size=600)
    pq.write_table(frame, files["one.parquet"])  # one row group, whose columns threads share
    table.write_csv(files["csv"])
    table.write_csv(files["tsv"], separator="\t")
    table.write_ndjson(files["jsonl"])
    for kind, plain in (("csv.zst", "csv"), ("jsonl.bz2", "jsonl")):
        with pa.CompressedOutputStream(
            str(files[kind]), {"zst": "zstd"}.get(kind[-3:], "bz2")
        ) as file:
            file.write(files[plain].read_bytes())
    with gzip.open(files["csv.gz"], "wb") as file:
        table.write_csv(file)
    for kind, new in (("arrow", pa.ipc.new_file), ("arrows", pa.ipc.new_stream)):
        with new(files[kind], frame.schema) as writer:
            writer.write_table(frame, 700)
    return files


@pytest.mark.parametrize("threads", first(1, [3, 1]))
def test_files_of_every_format_are_read_alike(frame, schema, want, tmp_path, threads):
    for kind, path in write_all(frame, tmp_path).items():
        assert same(fastdp.read(path, schema, threads=threads), want), kind


def test_globs_lists_and_bare_names(frame, schema, want, tmp_path):
    pq.write_table(frame.slice(0, 100), tmp_path / "x1.parquet")
    pq.write_table(frame.slice(100), tmp_path / "x2.parquet")
    assert same(fastdp.read(str(tmp_path / "x*.parquet"), schema), want)
    assert same(fastdp.read([tmp_path / "x2.parquet", tmp_path / "x1.parquet"], schema), want)
    assert same(fastdp.read(tmp_path, schema), want)
    (tmp_path / "y").write_bytes((tmp_path / "x1.parquet").read_bytes())
    assert same(fastdp.read([tmp_path / "y", tmp_path / "x2.parquet"], schema), want)


@pytest.mark.parametrize("kind", ["parquet", "csv", "ndjson"])
def test_values_in_names_of_folders_are_columns(frame, schema, want, tmp_path, kind):
    for a in range(5):
        folder = tmp_path / f"a={a}"
        folder.mkdir()
        part = pl.from_arrow(frame).filter(pl.col("a") == a).drop("a")
        getattr(part, f"write_{kind}")(folder / f"p.{kind}")
    (tmp_path / "_metadata").write_bytes(b"not data")
    assert same(fastdp.read(tmp_path, schema), want)


def test_spooled_columns_are_memory_maps_without_files(frame, schema, want, tmp_path, monkeypatch):
    monkeypatch.setattr(parts, "BATCH_ROWS", 512)
    monkeypatch.setattr(ingest, "SPOOL_ROWS", 1500)
    monkeypatch.setattr(ingest.tempfile, "tempdir", str(tmp_path))
    with fastdp.read(frame, schema) as table:
        assert all(isinstance(c, np.memmap) for c in (*table.codes.values(), table.user))
        assert same(table, want)
        assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr(ingest.tempfile, "tempdir", str(tmp_path / "nowhere"))
    with pytest.raises(DataError, match="cannot write temporary codes"):
        fastdp.read(frame, schema)


def test_a_source_without_rows(frame, schema, tmp_path):
    empty = frame.slice(0, 0)
    for source in [empty, pl.from_arrow(empty), *write_all(empty, tmp_path).values()]:
        table = fastdp.read(source, schema)
        assert table.rows == 0 and table.users == 0
        assert not fastdp.marginals(table, CLIQUES, clip=3)[("a", "b")].any()


@pytest.mark.parametrize(("text", "threads"), [(False, 1), (False, 3), (True, 1), (True, 3)])
def test_many_ids_against_a_dictionary(text, threads):
    """Numbers go by first rows, in whatever order threads look batches up; a null is nobody
    else."""
    rng = np.random.default_rng(5)
    ids = rng.integers(-(2**63), 2**63 - 1, 30_000)[rng.integers(0, 30_000, 100_000)]
    index = UserIndex(threads=threads)
    numbers = {}
    kind = pa.string() if text else pa.int64()
    ids = (ids.astype(str) if text else ids).tolist()
    chunks = [ids[:10], ids[10:40_000], ids[40_000:80_000], [], ids[80_000:]]
    chunks[2][::1000] = [None] * len(chunks[2][::1000])
    for some in (chunks[:1], chunks[1:]):
        with ThreadPoolExecutor(threads) as pool:
            ready = [(index.prepare(pa.array(v, kind)), (k + 1) << 32) for k, v in enumerate(some)]
            made = list(pool.map(lambda batch: index.find(*batch), ready[::-1]))[::-1]
        for found in made:
            index.settle(found)
        named = [[v or object() for v in values] for values in some]
        want = [[numbers.setdefault(v, len(numbers)) for v in c] for c in named]
        assert [index.number(found.rows, threads).tolist() for found in made] == want
    assert len(index) == len(numbers) == len(set(index.hashes().tolist())) + 39


@pytest.mark.parametrize("threads", [1, 3])
def test_joined_columns_against_numpy(threads):
    """Chunks that end within large pages, at them and beyond several of them."""
    rng = np.random.default_rng(6)
    sizes = (5, 0, 3_000_000, 1 << 20, 7)
    columns = [[rng.integers(0, 99, n).astype(t) for n in sizes] for t in ("u1", "u2", "u4")]
    for chunks, column in zip(columns, joined(columns, threads), strict=True):
        assert np.array_equal(column, np.concatenate(chunks)) and column.dtype == chunks[0].dtype


def test_columns_that_are_parsed_together_against_each_alone():
    raw = {
        "a": [b"1", b" -2 ", b"+3"],
        "b": [b"4", None, b"5"],
        "c": [b"6", b"x", b"7"],
        "d": [b"1.5"] * 3,
    }
    arrays = {name: pa.array([b"0", *values], pa.binary())[1:] for name, values in raw.items()} | {
        name.upper(): pa.array(values, pa.binary()) for name, values in raw.items()
    }
    types = {name: "float64" if name in "dD" else "int64" for name in arrays}
    made = textvalues.parse_columns(arrays, types)
    assert made == {name: textvalues.parse(array, types[name]) for name, array in arrays.items()}


def test_missing_duplicate_and_mistyped_columns(frame, schema, tmp_path):
    pq.write_table(frame.drop_columns("b"), tmp_path / "m.parquet")
    with pytest.raises(DataError, match=r"m\.parquet.*'b' is missing"):
        fastdp.read(tmp_path / "m.parquet", schema)
    twice = pa.table(
        [frame["a"], frame["a"], frame["b"], frame["who"]], names=["a", "a", "b", "who"]
    )
    with pytest.raises(DataError, match="'a' occurs 2 times"):
        fastdp.read(twice, schema)
    for at, name in ((3, "a"), (2, "who")):
        with pytest.raises(DataError, match=f"'{name}'"):
            fastdp.read(frame.set_column(at, name, pa.array([[1]] * frame.num_rows)), schema)


def test_broken_files_name_the_file_and_quote_nothing(frame, schema, tmp_path):
    files = write_all(frame, tmp_path)
    for kind, path in files.items():
        whole = path.read_bytes()
        for cut in (0, 3, len(whole) // 2, len(whole) - 9):
            broken = tmp_path / f"broken.{kind}"
            broken.write_bytes(whole[:cut])
            if (
                kind == "jsonl"
                or (kind in ("csv", "tsv") and cut)
                or (kind == "jsonl.bz2" and not cut)
            ):
                continue  # part of such a file is such a file
            with pytest.raises(DataError) as caught:
                fastdp.read(broken, schema)
            assert "broken" in str(caught.value) and "secret" not in str(caught.value)
    ragged = tmp_path / "ragged.csv"
    ragged.write_text("a,b,who\n1,2,3\nsecret,5\n")
    table = fastdp.read(ragged, schema)
    assert table.rows == 1 and table._malformed == 1 and "1" not in repr(table)
    others = {"xyz": "known endings are", "sav": "save it as CSV", "duckdb": "by a query"}
    for ending, advice in others.items():
        (tmp_path / f"odd.{ending}").write_bytes(b"hello")
        with pytest.raises(DataError, match=f"unknown format; .*{advice}"):
            fastdp.read(tmp_path / f"odd.{ending}", schema)
    for name, text in (("none.parquet", "no file '"), ("none*.parquet", "no file matches")):
        with pytest.raises(DataError, match=text):
            fastdp.read(str(tmp_path / name), schema)
    with pytest.raises(UsageError, match="cannot read"):
        fastdp.read(42, schema)


def test_text_by_any_name_where_its_delimiter_is_declared(tmp_path):
    (path := tmp_path / "rows.psv").write_text("who|a\n1|2\n'3|4'|1\n")
    schema = fastdp.Schema.from_domain({"a": 5}, user="who")
    with pytest.raises(DataError, match="needs a dialect"):
        fastdp.read(path, schema)
    table = fastdp.read(path, schema, dialect=fastdp.Dialect(delimiter="|", quote="'"))
    assert table.codes["a"].tolist() == [2, 1] and table.schema.dialect.delimiter == "|"


AT = dt.datetime(2020, 1, 2, 3, 4, 5)
UTC = AT.replace(tzinfo=dt.UTC)


@pytest.mark.parametrize(
    ("dtype", "text", "want"),
    [
        ("int64", ["1", " 2 ", None], [1, 2, None]),
        ("int64", ["1", " 2 ", "x", None], ["1", "2", None, None]),
        ("int64", ["1", "99999999999999999999"], ["1", "99999999999999999999"]),
        ("float64", ["1.5", "nope", "inf"], [1.5, None, float("inf")]),
        ("bool", ["true", "F", "1", "maybe"], [True, False, True, None]),
        ("string", ["a", ""], [b"a", b""]),
        ("decimal128(10, 2)", ["1.10", "z"], [decimal.Decimal("1.10"), None]),
        ("timestamp[us]", ["2020-01-02", "2020/01/02"], [dt.datetime(2020, 1, 2)] * 2),
        ("timestamp[us]", ["2020-01-02T03:04:05", "01/02/2020 03:04:05 AM", "no"], [AT, AT, None]),
        ("timestamp[us]", ["01/02/2020 03:04:05 PM"], [AT.replace(hour=15)]),
        (
            "timestamp[us, tz=America/Chicago]",
            ["2020-01-01 21:04:05", "2020-01-02T03:04:05Z"],
            [UTC, UTC],
        ),
        ("timestamp[us, tz=America/Chicago]", ["2020-01-02 04:04:05 +01"], [UTC]),
        ("timestamp[us, tz=+05:30]", ["2020-01-02 08:34:05", "2020-01-02T03:04:05Z"], [UTC, UTC]),
    ],
)
def test_text_is_read_by_the_schema_not_by_guessing(dtype, text, want):
    raw = pa.array([None if t is None else t.encode() for t in text], pa.binary())
    assert textvalues.parse(raw, dtype).to_pylist() == want
    for start in (1, 8, 9, 16):  # parts of a longer array, whose bitmap of nulls begins before
        longer = pa.array(
            [*[b"7", None] * (start // 2), *[None] * (start % 2), *raw.to_pylist(), b"8"], raw.type
        )
        assert textvalues.parse(longer.slice(start, len(raw)), dtype).to_pylist() == want
        assert textvalues.parse(longer.slice(start - 1, 2), "int64").to_pylist()[0] in (7, None)


def test_columns_of_objects_in_pandas_are_read_as_text():
    """Value by value, as from a database driver: a value of another type is outside the domain of
    its row, and no error can quote it."""
    pd = pytest.importorskip("pandas")
    columns = {
        "n": {"kind": "integer", "dtype": "int64", "max": 9},
        "s": {"kind": "categorical", "values": ["x", "7"]},
    }
    schema = fastdp.Schema.from_dict({"user": {"column": "who"}, "columns": columns})
    odd = [3, "4", 5.0, np.float64(6), None, float("nan"), "Erika", pd.NA]
    texts = ["x", 7, None, b"x", "x", "x", "x", ["x"]]
    frame = pd.DataFrame(
        {
            "n": pd.Series(odd, dtype=object),
            "s": texts,
            "who": [1, 1.0, "1", True, "a", "a", b"a", None],
        }
    )
    table = fastdp.read(frame, schema)
    null = schema.columns["n"].null_code
    assert table.codes["n"].tolist() == [3, 4, 5, 6, null, null, null] and table.users == 2
    other = schema.columns["s"]
    assert table.codes["s"].tolist() == [0, 1, other.null_code, 0, 0, 0, 0]
    mixed = frame.assign(s=frame["s"].map(str).astype("category").cat.add_categories([5]))
    assert np.array_equal(fastdp.read(mixed, schema).codes["n"], table.codes["n"])


@pytest.mark.parametrize("lazy", [False, True])
def test_names_that_polars_takes_for_patterns_are_names(lazy):
    """By `select`, `*` would be all columns, and `^a$` the column a: other values, or an error after
    the charge."""
    frame = pl.DataFrame({"who": [1, 2], "a": [5, 6], "*": [7, 8], "^a$": [0, 1]})
    kinds = {name: {"kind": "integer", "max": 9} for name in ("*", "^a$")}
    schema = fastdp.Schema.from_dict({"user": {"column": "who", "max_rows": 1}, "columns": kinds})
    table = fastdp.read(frame.lazy() if lazy else frame, schema)
    assert {n: c.tolist() for n, c in table.codes.items()} == {"*": [7, 8], "^a$": [0, 1]}


def test_objects_in_polars_are_read_by_value():
    """UUIDs of a database become a column of objects, whose Arrow form is where they lie in memory: each
    row was a user of its own. Whole numbers of 128 bits, which Arrow lacks, were an error without a name,
    also where nobody asked for them."""
    ids = [uuid.UUID(int=i // 4) for i in range(40)]
    frame = pl.DataFrame({"who": ids, "n": [i % 3 for i in range(40)]})
    assert frame.schema["who"] == pl.Object
    frame = frame.with_columns(large=pl.col("n").cast(pl.Int128), home=pl.Series(ids))
    places = {"kind": "categorical", "values": [str(ids[0]), str(ids[4])]}
    columns = {
        "n": {"kind": "integer", "max": 2},
        "large": {"kind": "integer", "max": 2},
        "home": places,
    }
    schema = fastdp.Schema.from_dict({"user": {"column": "who"}, "columns": columns})
    other = schema.columns["home"].overflow_code
    for source in (frame, frame.lazy()):
        table = fastdp.read(source, schema)
        assert table.users == 10 and table.rows == 40
        assert (table.codes["large"] == table.codes["n"]).all()
        assert table.codes["home"].tolist() == [0] * 4 + [1] * 4 + [other] * 32
        plain = fastdp.read(source, schema.select(["n"]))
        assert plain.users == 10 and (plain.codes["n"] == table.codes["n"]).all()


def test_files_of_a_partitioned_folder_are_told_to_be_given_as_that_folder(tmp_path):
    """`DIR/*/*.parquet` lacks the column that names the folders, and the error had said to rename it."""
    place = tmp_path / "trips" / "n=1"
    place.mkdir(parents=True)
    pq.write_table(pa.table({"m": [0, 1, 2]}), place / "a.parquet")
    columns = {name: {"kind": "integer", "max": 2} for name in "nm"}
    schema = fastdp.Schema.from_dict({"columns": columns})
    with pytest.raises(DataError, match=r"named by n: give '\S*/trips' instead"):
        fastdp.read(f"{tmp_path}/trips/*/*.parquet", schema)
    assert fastdp.read(tmp_path / "trips", schema).codes["n"].tolist() == [1, 1, 1]


class Wrapped:
    """A frame of which only the Arrow stream is known, as libraries over several frames give it."""

    def __init__(self, frame):
        self.frame = frame

    def __arrow_c_stream__(self, requested_schema=None):
        return self.frame.__arrow_c_stream__(requested_schema)


def test_arrow_data_of_objects_of_polars_has_no_users(tmp_path):
    """It holds addresses: nothing says which rows have the same id. Nothing is charged."""
    frame = pl.DataFrame({"who": [uuid.UUID(int=i // 2) for i in range(6)], "n": [0, 1, 2] * 2})
    columns = {"n": {"kind": "integer", "max": 2}}
    schema = fastdp.Schema.from_dict({"user": {"column": "who"}, "columns": columns})
    book = fastdp.Ledger(tmp_path / "budget.db")
    book.open("d", epsilon=1, delta=1e-6)
    table = pa.table(frame)
    told = r"'who': fixed_size_binary\[8\] is also how Polars"
    for given in (Wrapped(frame), table, frame.to_arrow(), table.to_batches()[0]):
        with pytest.raises(DataError, match=told):
            fastdp.synthesize(given, epsilon=1, delta=1e-6, schema=schema, ledger=book, dataset="d")
    assert not [entry for entry in book.entries() if entry["steps"] or entry["charged"]]
    with pytest.raises(DataError, match=told):
        fastdp.read({name: table[name] for name in table.column_names}, schema)
    assert fastdp.read(frame, schema).users == 3
    assert fastdp.read(Wrapped(frame.with_columns(pl.col("n").alias("who"))), schema).users == 3


def test_complex_numbers_in_pandas_are_refused():
    """Their text is no value of any column, so all rows had become nulls."""
    pd = pytest.importorskip("pandas")
    schema = fastdp.Schema.from_dict({"columns": {"x": {"kind": "numeric", "edges": [0, 1, 2]}}})
    with pytest.raises(DataError, match="column 'x' is struct<real: double, imag: double>"):
        fastdp.read(pd.DataFrame({"x": np.arange(3) + 1j}), schema)
