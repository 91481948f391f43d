"""Object stores, on a real S3 server of the tests' own: reading what was listed, publishing whole or
not at all."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs

import fastdp
from fastdp._util import stores
from fastdp.errors import DataError, RunError, UsageError
from fastdp.run import execute, publish as publishing
from tests.cli.test_app import fastdp_cli
from tests.run.test_source_pins import SCHEMA, add, entries

moto = pytest.importorskip("moto.server", reason="moto is not installed: fastdp[test-stores]")


@pytest.fixture(scope="module")
def server():
    running = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    running.start()
    yield running.get_host_and_port()[1]
    running.stop()


@pytest.fixture
def store(server, monkeypatch, tmp_path):
    """(function that gives addresses, file system, local folder with the same files)."""
    for name, value in (
        ("AWS_ACCESS_KEY_ID", "key"),
        ("AWS_SECRET_ACCESS_KEY", "SECRET"),
        ("AWS_EC2_METADATA_DISABLED", "true"),
    ):
        monkeypatch.setenv(name, value)
    query = f"?endpoint_override=127.0.0.1:{server}&scheme=http&region=us-east-1"
    system, _ = fs.FileSystem.from_uri(f"s3://bucket/{query}&allow_bucket_creation=true")
    system.create_dir("bucket")
    system.delete_dir_contents("bucket")
    for day in (1, 2):
        for k in range(2):
            file = add(tmp_path / "lake", day, k)
            put(system, f"bucket/lake/day={day}/part-{k}.parquet", file.read_bytes())
    put(system, "bucket/lake/_SUCCESS", b"")
    fastdp.Ledger(tmp_path / "budget.db").open("lake", epsilon=9.0, delta=1e-4)
    return lambda path: f"s3://bucket/{path}{query}", system, tmp_path


def put(system, path, data):
    with system.open_output_stream(path) as stream:
        stream.write(data)


def counted(source):
    table = fastdp.read(source, SCHEMA, public=True)
    return table.rows, fastdp.marginals(table, [("a", "day")], clip=1)["a", "day"].tolist()


def synthesized(place, source, **options):
    given = {"schema": SCHEMA, "seed": 1, "sample_seed": 1, "out": place / "out"}
    return fastdp.synthesize(source, "mst", 1.0, 1e-6, **given | options)


def test_a_prefix_an_object_and_globs_read_what_local_files_hold(store):
    address, _, place = store
    lake = place / "lake"
    assert counted(address("lake")) == counted(address("lake/")) == counted(lake)
    glob = "lake/day=*/part-0.parquet"
    assert counted(address("lake/**/*.parquet"))[0] == counted(lake)[0]
    schema = SCHEMA.select(["a"])
    assert fastdp.read(address(glob), schema).rows == fastdp.read(str(place / glob), schema).rows
    one = "lake/day=1/part-0.parquet"
    assert fastdp.read(address(one), schema).rows == fastdp.read(place / one, schema).rows
    here = synthesized(place, lake, out=place / "here")
    there = synthesized(place, address("lake"), out=place / "there")
    assert here.data.equals(there.data)
    names = [place / name / "synthetic.parquet" for name in ("here", "there")]
    assert names[0].read_bytes() == names[1].read_bytes()


def rewritten(address, system):
    table = pa.table({"a": [0] * 100})
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    put(system, "bucket/lake/day=1/part-0.parquet", sink.getvalue())


def removed(address, system):
    system.delete_file("bucket/lake/day=1/part-0.parquet")


@pytest.mark.parametrize("accident", [rewritten, removed])
def test_an_object_that_changes_while_it_is_read_is_refused_before_the_charge(
    store, monkeypatch, accident
):
    address, system, place = store
    before = execute.open_counter

    def open_counter(*given):
        opened = before(*given)
        accident(address, system)
        return opened

    monkeypatch.setattr(execute, "open_counter", open_counter)
    with pytest.raises(DataError, match=r"objects changed.*nothing was charged"):
        ledger = {"ledger": place / "budget.db", "dataset": "lake", "seed": None}
        synthesized(place, address("lake"), **ledger)
    assert entries(place) == []


def test_what_cannot_be_read_is_refused_before_the_charge(store):
    address, system, place = store
    put(system, "bucket/texts/a.csv", b"a\n1\n")
    put(system, "bucket/delta/_delta_log/0.json", b"{}")
    put(system, "bucket/delta/data/x.parquet", b"")
    put(system, "bucket/ice/metadata/1.metadata.json", b"{}")
    put(system, "bucket/ice/data/x.parquet", b"")
    put(system, "bucket/bad/x.parquet", b"PAR1 and no more")
    for path, said in (
        ("texts", "not a Parquet"),
        ("delta", "lakehouse"),
        ("delta/data/x.parquet", "lakehouse"),
        ("ice/data", "lakehouse"),
        ("bad", "damaged"),
        ("none", "no object matches"),
    ):
        with pytest.raises(DataError, match=said):
            synthesized(place, address(path), seed=None, ledger=place / "budget.db", dataset="lake")
    wrong = address("lake").replace("s3://bucket", "s3://key:SECRET@elsewhere")
    with pytest.raises(DataError, match=r"NO_SUCH_BUCKET|no object") as refused:
        fastdp.read(wrong, SCHEMA)
    assert "SECRET" not in str(refused.value)
    with pytest.raises(UsageError, match="public="):
        synthesized(place, address("lake"), public=address("lake/day=1/part-0.parquet"))
    assert fastdp.Ledger(place / "budget.db").entries() == []


@pytest.fixture
def run(store):
    _, _, place = store
    ledger = {"ledger": place / "budget.db", "dataset": "lake", "seed": None}
    synthesized(place, place / "lake", **ledger)
    return place / "out"


def objects(system, place):
    infos = system.get_file_info(fs.FileSelector(place, allow_not_found=True, recursive=True))
    return {i.path[len(place) + 1 :]: i.size for i in infos if i.type == fs.FileType.File}


def test_a_published_run_is_the_run_folder_and_nothing_else(store, run):
    address, system, place = store
    told = fastdp_cli("publish", run, address("released/1"), cwd=place)
    assert told.stdout.strip() == "s3://bucket/released/1"
    files = {f.relative_to(run).as_posix(): f for f in run.rglob("*") if f.is_file()}
    assert objects(system, "bucket/released/1") == {n: f.stat().st_size for n, f in files.items()}
    copied = place / "copied"
    copied.mkdir()
    fs.copy_files("bucket/released/1", str(copied), source_filesystem=system)
    assert fastdp.verify(copied, ledger=place / "budget.db").ok
    before = entries(place)
    assert fastdp.publish(run, address("released/1")) == "s3://bucket/released/1"  # nothing to do
    put(system, "bucket/released/2/notes.txt", b"x")
    with pytest.raises(UsageError, match="other objects"):
        fastdp.publish(run, address("released/2"))
    put(system, "bucket/released/3/privacy.json", b"{}")
    with pytest.raises(UsageError, match="another run"):
        fastdp.publish(run, address("released/3"))
    assert entries(place) == before


def test_an_upload_that_fails_anywhere_leaves_no_run_and_is_repeated(store, run, monkeypatch):
    """Whichever file fails, before it or in its middle, the statement is not there; the next call
    completes the run and charges nothing."""
    address, system, place = store
    before = entries(place)
    names = publishing.ordered(run)
    assert names[-1] == "privacy.json"
    upload = publishing._upload
    for stop, half in ((stop, half) for stop in names for half in (False, True)):
        to = f"tries/{names.index(stop)}-{half}"

        def failing(system, path, file, stop=stop, half=half):
            if path.endswith(f"/{stop}"):
                if half and stop != "privacy.json":
                    put(system, path, file.read_bytes()[:7])
                raise OSError("AWS Error ACCESS_DENIED during PutObject operation: SECRET")
            upload(system, path, file)

        with monkeypatch.context() as patch:
            patch.setattr(publishing, "_upload", failing)
            with pytest.raises(RunError, match=r"ACCESS_DENIED.*fastdp publish") as told:
                fastdp.publish(run, address(to))
        assert "SECRET" not in str(told.value)
        assert "privacy.json" not in objects(system, f"bucket/{to}")
    fastdp.publish(run, address(to))
    assert set(objects(system, f"bucket/{to}")) == set(names)
    assert entries(place) == before


def test_only_whole_runs_go_to_stores(store, run, tmp_path):
    address, system, place = store
    for source, said in ((place, "not a finished run"), (place / "out.private", "not a finished")):
        with pytest.raises(RunError, match=said):
            fastdp.publish(source, address("x"))
    with pytest.raises(UsageError, match="expected an address"):
        fastdp.publish(run, str(tmp_path / "there"))
    (run / "schema.json").write_text("{}")
    with pytest.raises(RunError):
        fastdp.publish(run, address("x"))
    (run / "schema.json").unlink()
    (run / "schema.json").symlink_to(place / "budget.db")
    with pytest.raises((RunError, UsageError)):
        fastdp.publish(run, address("x"))
    assert objects(system, "bucket/x") == {}


def test_addresses_are_shown_without_keys():
    assert stores.shown("s3://key:secret@bucket/a?region=x") == "s3://bucket/a"
    assert stores.is_store("gs://b/x") and not stores.is_store("https://b/x")
