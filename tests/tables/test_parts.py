"""What others filled: Arrow buffers whose offsets lie, panics of native code, and public data that
is the private data."""

import os
import subprocess
import sys

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as pads
import pyarrow.parquet as pq
import pytest

import fastdp
from fastdp.codec import encode
from fastdp.errors import DataError, PrivacyError, UsageError, redact_errors
from fastdp.release.keyselect import count_keys
from fastdp.tables import identity
from fastdp.tables.sources import source as door
from fastdp.tables.sources.source import Source, source_of
from fastdp.tables.textvalues import parse
from tests.builders import schema_with_users
from tests.tiers import slow_cases

SCHEMA = fastdp.Schema.from_domain({"a": 5}, user="who")
ROWS = pa.table({"who": ["x", "yy", "zzz"], "a": [1, 2, 3]})

READ = """
import sys, fastdp
from fastdp.errors import DataError
try:
    fastdp.read(sys.argv[1], fastdp.Schema.from_domain({"a": 5}, user="who"))
except DataError as error:
    sys.exit(f"refused: {error}")
"""


def overlap(one, other):
    return identity.overlap(source_of(one), source_of(other))


def crafted(path, make, kind):
    """An IPC file in which the last offset of the ids points 2^30 bytes past their end."""
    rows = ROWS.set_column(0, "who", ROWS["who"].cast(kind))
    with make(path, rows.schema) as writer:
        writer.write_table(rows)
    data = bytearray(path.read_bytes())
    width = np.dtype(np.int32 if kind in (pa.string(), pa.binary()) else np.int64)
    offsets = np.array([0, 1, 3, 6], width).tobytes()
    assert data.count(offsets) == 1
    at = data.index(offsets) + 3 * width.itemsize
    data[at : at + width.itemsize] = np.array([1 << 30], width).tobytes()
    path.write_bytes(bytes(data))


@pytest.mark.parametrize(
    "kind", [pa.string(), *slow_cases(pa.large_string(), pa.binary())], ids=str
)
@pytest.mark.parametrize("make", [pa.ipc.new_file, pa.ipc.new_stream], ids=["file", "stream"])
def test_offsets_that_lead_out_of_a_file_are_refused(tmp_path, make, kind):
    """In a process of its own: what is to be shown is that it does not die."""
    path = tmp_path / ("x.arrow" if make is pa.ipc.new_file else "x.arrows")
    crafted(path, make, kind)
    done = subprocess.run([sys.executable, "-c", READ, str(path)], capture_output=True, text=True)
    assert done.returncode == 1, done.returncode
    assert "refused" in done.stderr and "damaged" in done.stderr


@pytest.mark.parametrize(
    "make", [pa.ipc.new_file, pa.ipc.new_stream, None], ids=["file", "stream", "table"]
)
def test_damaged_arrow_data_is_refused_before_the_charge(tmp_path, make):
    """Nothing is entered into the ledger: the file can be repaired and the run begun again."""
    ledger = tmp_path / "ledger"
    if make is None:
        offsets = pa.py_buffer(np.array([0, 1 << 30, 3, 6], np.int32))
        who = pa.Array.from_buffers(pa.string(), 3, [None, offsets, pa.py_buffer(b"abcdef")])
        source = pa.table({"who": who, "a": [0, 1, 2]})
    else:
        source = tmp_path / ("x.arrow" if make is pa.ipc.new_file else "x.arrows")
        crafted(source, make, pa.string())
    schema = schema_with_users({"a": 5}, "who", max_rows=3)
    with pytest.raises(DataError, match="damaged"):
        fastdp.synthesize(source, "mst", schema=schema, epsilon=1, delta=1e-6, ledger=ledger)
    assert not ledger.exists()


def test_indices_that_lead_out_of_a_dictionary_are_refused(tmp_path):
    good = pa.DictionaryArray.from_arrays(pa.array([0, 1, 0], pa.int32()), ["x", "y"])
    bad = pa.DictionaryArray.from_arrays(
        pa.array([0, 1, 1 << 20], pa.int32()), ["x", "y"], safe=False
    )
    for ids in (good, bad):
        table = pa.table({"who": ids, "a": [1, 2, 3]})
        sources = [table, table.to_batches()[0], table.to_reader(), pads.dataset(table)]
        path = tmp_path / "x.arrow"
        with pa.ipc.new_file(path, table.schema) as writer:
            writer.write_table(table)
        for source in (*sources, path):
            if ids is good:
                assert fastdp.read(source, SCHEMA).users == 2
            else:
                with pytest.raises(DataError):
                    fastdp.read(source, SCHEMA)


def test_a_value_that_is_no_utf8_does_not_stop_anybody(tmp_path):
    """It is one row's business: text of Arrow is not checked, only where it lies."""
    ids = pa.array([b"x", b"\xff\xfe", b"x"]).view(pa.string())
    table = pa.table({"who": ids, "a": [1, 2, 3]})
    with pa.ipc.new_file(tmp_path / "x.arrow", table.schema) as writer:
        writer.write_table(table)
    for source in (table, tmp_path / "x.arrow"):
        assert fastdp.read(source, SCHEMA).users == 2


def test_text_files_are_not_read_by_another_reader(tmp_path):
    """Arrow's own reader lets an open quote swallow the lines behind it."""
    (tmp_path / "x.csv").write_bytes(b'who,a\n1,"1\n2,2\n')
    (tmp_path / "x.json").write_bytes(b'{"who": 1, "a": 1}\n')
    for form in ("csv", "json"):
        with pytest.raises(UsageError, match="give the paths of the files"):
            fastdp.read(pads.dataset(tmp_path / f"x.{form}", format=form), SCHEMA)
    assert fastdp.read(tmp_path / "x.csv", SCHEMA).rows == 1


PANIC = """
import sys, polars as pl, fastdp
moment = pl.col("t").cast(pl.Datetime("ms")).dt.to_string("%Y")
rows = pl.LazyFrame({"who": [1], "t": [2**63 - 1]}).with_columns(a=moment.cast(pl.Int64))
print("before", file=sys.stderr)
try:
    fastdp.read(rows, fastdp.Schema.from_domain({"a": 5}, user="who"))
except fastdp.errors.DataError as error:
    print("refused:", error, file=sys.stderr)
"""


def test_a_panic_is_an_error_like_any_other_and_says_nothing():
    done = subprocess.run([sys.executable, "-c", PANIC], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith(
        "before\nrefused: reading the private data failed (PanicException)"
    )
    assert done.stderr.count("\n") == 2 and done.stdout == ""


class Odd(BaseException):
    pass


@pytest.mark.parametrize("kind", [Odd, ValueError, KeyboardInterrupt, SystemExit, GeneratorExit])
def test_all_but_a_wish_to_stop_is_redacted(kind):
    def fail():
        raise kind("Erika")

    stops = kind in (KeyboardInterrupt, SystemExit, GeneratorExit)
    with pytest.raises(kind if stops else PrivacyError) as caught:
        redact_errors(fail, "no memory", lambda name: PrivacyError(f"failed ({name})"))
    if not stops:
        assert "Erika" not in str(caught.value) and caught.value.__context__ is None


def test_public_data_that_is_the_private_file(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    path = folder / "x.parquet"
    pq.write_table(ROWS, path)
    other = tmp_path / "y.parquet"
    pq.write_table(ROWS, other)
    os.link(path, tmp_path / "hard.parquet")
    os.symlink(path, tmp_path / "soft.parquet")
    found = [str(folder / "*.parquet"), tmp_path / "hard.parquet", [other, path]]
    for same in (path, str(path), folder, *found):
        assert overlap(same, path) and overlap(path, same)
        with pytest.raises(UsageError, match="is the private data"):
            fastdp.synthesize(path, "mst", 1.0, schema=SCHEMA, public=same)
    assert overlap(tmp_path / "soft.parquet", folder) and overlap(pads.dataset(str(path)), path)
    assert (
        not overlap(other, path)
        and not overlap(other, folder)
        and not overlap(tmp_path / "none", path)
    )


def test_a_file_that_is_gone_hides_none_of_the_others(tmp_path):
    paths = [tmp_path / name for name in ("first.parquet", "second.parquet", "third.parquet")]
    for path in paths:
        pq.write_table(ROWS, path)
    several = pads.dataset([str(path) for path in paths])
    for gone in paths:
        gone.rename(tmp_path / "aside")
        for path in paths:
            assert overlap(several, path) == (path != gone) == overlap(path, several)
        (tmp_path / "aside").rename(gone)


SLICED = {
    "arrow": (
        lambda t: t,
        lambda t, start, n: t.slice(start, n),
        lambda t: pa.table(t.to_pydict()),
    ),
    "polars": (
        lambda t: pl.DataFrame(pl.from_arrow(t)).rechunk(),
        lambda t, start, n: t.slice(start, n),
        lambda t: pl.DataFrame(t.to_dict(as_series=False)),
    ),
    "pandas": (
        pa.Table.to_pandas,
        lambda t, start, n: t.iloc[start : start + n],
        lambda t: pd.DataFrame(t.to_dict("list")),  # a plain copy of pandas 3 shares its texts
    ),
}


@pytest.mark.parametrize("make, cut, copy", SLICED.values(), ids=SLICED)
def test_public_data_that_is_a_slice_of_the_private_frame(make, cut, copy):
    people = [f"person {i:010d}" for i in range(100)]
    frame = make(pa.table({"who": people, "a": np.arange(100) % 5, "f": np.arange(100.0)}))
    assert overlap(cut(frame, 10, 20), frame) and overlap(frame, cut(frame, 10, 20))
    assert overlap(cut(frame, 0, 40), cut(frame, 32, 10)) and overlap([frame], {"a": frame["a"]})
    assert not overlap(cut(frame, 0, 32), cut(frame, 32, 10)), (
        "other rows of one frame are other rows"
    )
    assert not overlap(copy(frame), frame)
    with pytest.raises(UsageError, match="is the private data"):
        fastdp.synthesize(frame, "mst", 1.0, schema=SCHEMA, public=cut(frame, 3, 5))


def test_an_encoder_that_leaves_its_domain_is_stopped_before_any_count(monkeypatch):
    monkeypatch.setattr(
        encode, "number_map", lambda *of: encode.core.Map(encode.core.AFFINE, count=9)
    )
    schema = fastdp.Schema.from_dict(
        {"columns": {"a": {"kind": "integer", "max": 3, "null": "drop"}}}
    )
    size = schema.domain["a"]
    assert fastdp.read(pa.table({"a": [0, size - 1]}), schema).codes["a"].tolist() == [0, size - 1]
    with pytest.raises(
        RuntimeError, match="column 'a': the encoder made a code outside its domain"
    ):
        fastdp.read(pa.table({"a": [0, size]}), schema, public=True)


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.binary()], ids=str)
def test_text_that_is_not_utf8_is_found_and_counted_as_the_same(kind):
    """It is outside every list of values: found, it would be written as a replacement character,
    under which no row is counted."""
    values = [b"ab\xff"] * 40 + [b"ok"] * 40 + ["\ufffd".encode()] * 40
    column = pa.array(values, pa.large_binary() if kind == pa.large_string() else pa.binary()).view(
        kind
    )
    schema = fastdp.Schema.from_dict({"columns": {"x": {"kind": "string", "domain": "private"}}})
    found, counts = count_keys(pa.table({"x": column}), schema, "x", "string", 1)
    assert dict(zip(found, counts.tolist(), strict=True)) == {"ok": 40 << 20, "\ufffd": 40 << 20}
    listed = fastdp.Schema.from_dict(
        {"columns": {"x": {"kind": "categorical", "values": sorted(found)}}}
    )
    codes = fastdp.read(pa.table({"x": column}), listed).codes["x"]
    assert np.bincount(codes)[:3].tolist() == [40, 40, 40]
    parsed = parse(column.cast(pa.large_binary()), "string")
    assert np.array_equal(encode.encode_batch(listed, pa.table({"x": parsed}))[0]["x"], codes)


class Records(Source):
    """Files with an ending of their own, as a further kind of source would have them."""

    @classmethod
    def takes(cls, given):
        return isinstance(given, str) and given.endswith(".records")


def test_a_kind_that_knows_an_ending_is_asked_before_files(monkeypatch):
    monkeypatch.setattr(door, "SOURCES", [*door.SOURCES, Records])
    assert isinstance(door.source_of("trips.records"), Records)
    assert type(door.source_of("trips.csv")).__name__ == "Files"
