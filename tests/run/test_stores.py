"""Object stores, on a real S3 server of the tests' own: reading what was listed, publishing whole or
not at all."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request

import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest
from pyarrow import fs

import fastdp
from fastdp._util import stores
from fastdp.errors import DataError, RunError, UsageError
from fastdp.run import execute, publish as publishing
from fastdp.tables.sources import store_files
from tests.cli.test_app import fastdp_cli
from tests.run.test_source_pins import SCHEMA, add, entries

boto3 = pytest.importorskip("boto3", reason="moto is not installed: fastdp[test-stores]")
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
    put(system, "bucket/delta/_delta_log/0.json", b"{}")
    put(system, "bucket/delta/data/x.parquet", b"")
    put(system, "bucket/ice/metadata/1.metadata.json", b"{}")
    put(system, "bucket/ice/data/x.parquet", b"")
    put(system, "bucket/bad/x.parquet", b"PAR1 and no more")
    put(system, "bucket/odd/x.xlsx", b"PK")
    put(system, "bucket/text/x.csv", b"\xff\xfe\n")
    for path, said in (
        ("odd", "no known ending"),
        ("text/x.csv", "s3://bucket/text/x.csv"),
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
    assert stores.shown("abfs://me:secret@box/a?x=y") == "abfs://box/a"
    assert stores.shown("abfss://box@me.dfs.core.windows.net/a") == (
        "abfss://box@me.dfs.core.windows.net/a"
    )
    assert stores.is_store("gs://b/x") and not stores.is_store("https://b/x")


def test_texts_and_arrow_files_are_read_like_local_ones(store):
    """Rows and bytes are those of the same files on this machine; copies leave no file behind."""
    address, system, place = store
    table = pq.read_table(place / "lake" / "day=1" / "part-0.parquet", partitioning=None)
    folder = place / "texts" / "day=1"
    folder.mkdir(parents=True)
    csv.write_csv(table, folder / "a.csv")
    csv.write_csv(table, pa.output_stream(folder / "b.csv.gz"))
    feather.write_feather(table, str(folder / "c.arrow"), compression="uncompressed")
    lines = "".join(f'{{"a": {row["a"]}, "n": {i}}}\n' for i, row in enumerate(table.to_pylist()))
    (folder / "d.jsonl").write_text(lines)
    for file in folder.iterdir():
        put(system, f"bucket/texts/day=1/{file.name}", file.read_bytes())
    schema = SCHEMA.select(["a"])
    for name in ("a.csv", "b.csv.gz", "c.arrow", "d.jsonl"):
        there = fastdp.read(address(f"texts/day=1/{name}"), schema, public=True)
        here = fastdp.read(folder / name, schema, public=True)
        assert there.rows == here.rows == table.num_rows
        counts = [fastdp.marginals(t, [("a",)], clip=1)["a",].tolist() for t in (there, here)]
        assert counts[0] == counts[1]
    run = synthesized(place, address("texts/day=1/a.csv"), schema=schema, out=place / "t")
    twin = synthesized(place, folder / "a.csv", schema=schema, out=place / "l")
    files = [r.out / "synthetic.parquet" for r in (run, twin)]
    assert files[0].read_bytes() == files[1].read_bytes()


@pytest.mark.parametrize("when", ["after the list", "after the footer"])
def test_an_object_overwritten_in_the_middle_is_refused_before_the_charge(store, monkeypatch, when):
    """Between listing and opening it, or between its footer and its rows: whatever is then read,
    nothing is charged."""
    address, system, place = store
    if when == "after the list":
        before = execute.open_counter

        def open_counter(*given):
            rewritten(address, system)
            return before(*given)

        monkeypatch.setattr(execute, "open_counter", open_counter)
    else:
        opened = store_files.parquet_part

        def part(*given, **options):
            made = opened(*given, **options)
            rewritten(address, system)
            return made

        monkeypatch.setattr(store_files, "parquet_part", part)
    with pytest.raises(DataError):
        ledger = {"ledger": place / "budget.db", "dataset": "lake", "seed": None}
        synthesized(place, address("lake"), **ledger)
    assert entries(place) == []


def test_a_key_that_the_server_refuses_charges_nothing_and_is_not_shown(store, run, server):
    """The server checks keys from here on; the tests' own key is unknown to it."""
    address, _, place = store
    before = entries(place)

    def asked_for_keys(count):
        place = f"http://127.0.0.1:{server}/moto-api/reset-auth"
        kind = {"Content-Type": "text/plain"}
        request = urllib.request.Request(place, str(count).encode(), kind)
        urllib.request.urlopen(request).close()

    asked_for_keys(0)
    try:
        ledger = {"ledger": place / "budget.db", "dataset": "lake", "seed": None}
        for call, kind in (
            (lambda: synthesized(place, address("lake"), out=place / "no", **ledger), DataError),
            (lambda: synthesized(place, place / "lake", out=address("r/no"), **ledger), DataError),
            (lambda: fastdp.publish(run, address("released/refused")), RunError),
            (lambda: fastdp.verify(address("released/1")), DataError),
        ):
            with pytest.raises(kind, match="refused it or could not be reached") as told:
                call()
            assert "SECRET" not in str(told.value)
    finally:
        asked_for_keys(10**9)
    assert entries(place) == before


def test_a_published_run_is_verified_and_loaded_from_its_address(store, run, server):
    address, system, place = store
    fastdp.publish(run, address("released/5"))
    assert fastdp.verify(address("released/5"), ledger=place / "budget.db").ok
    told = fastdp_cli("verify", address("released/5"), cwd=place)
    assert told.stdout.startswith("s3://bucket/released/5: the statement holds")
    loaded = fastdp.load_run(address("released/5"))
    copy = loaded.out
    assert loaded.data.equals(fastdp.load_run(run).data) and loaded.sample(3, seed=1).num_rows == 3
    del loaded
    assert not copy.exists(), "the copy goes with the run"
    put(system, "bucket/released/5/schema.json", b"{}")
    with pytest.raises(RunError, match=r"s3://bucket/released/5 does not verify"):
        fastdp.verify(address("released/5"))
    with pytest.raises(RunError, match="is not a run"):
        fastdp.load_run(address("lake"))
    put(system, "bucket/odd/privacy.json", b"{}")
    client = boto3.client("s3", "us-east-1", endpoint_url=f"http://127.0.0.1:{server}")
    client.put_object(Bucket="bucket", Key="odd/../../outside", Body=b"x")
    with pytest.raises((RunError, DataError)):
        fastdp.verify(address("odd"))
    assert not (place / "outside").exists()


def test_a_run_into_a_store_is_made_here_and_published_there(store, monkeypatch):
    """The run folder, the private folder and the ledger stay; a place that is taken is refused before
    the charge; an upload that fails is completed by the same call with resume, at no charge."""
    address, system, place = store
    monkeypatch.chdir(place)
    ledger = {"ledger": place / "budget.db", "dataset": "lake", "seed": None}
    put(system, "bucket/released/taken/x", b"")
    with pytest.raises(UsageError, match="already holds objects"):
        synthesized(place, place / "lake", out=address("released/taken"), **ledger)
    with pytest.raises(UsageError, match="several epsilons"):
        options = {"schema": SCHEMA, "out": address("released/two")}
        fastdp.synthesize(place / "lake", "mst", [1.0, 2.0], 1e-6, **options)
    with pytest.raises(UsageError, match="names no folder"):
        synthesized(place, place / "lake", out=address(""), **ledger)
    assert entries(place) == []

    def failing(*given):
        raise OSError("AWS Error SLOW_DOWN during PutObject operation")

    with monkeypatch.context() as patch:
        patch.setattr(publishing, "_upload", failing)
        with pytest.raises(RunError, match=r"SLOW_DOWN.*publish it again at no charge"):
            synthesized(place, place / "lake", out=address("released/night"), **ledger)
    charged = entries(place)
    assert len(charged) == 1 and objects(system, "bucket/released/night") == {}
    options = {"out": address("released/night"), "resume": True}
    run = synthesized(place, place / "lake", **options, **ledger)
    assert entries(place) == charged and run.out == place / "night"
    assert fastdp.verify(address("released/night"), ledger=place / "budget.db").ok
    names = set(objects(system, "bucket/released/night"))
    assert names == {f.relative_to(run.out).as_posix() for f in run.out.rglob("*") if f.is_file()}
    assert not any("private" in name or name.endswith(".db") for name in names)
    SCHEMA.save(place / "s.toml")
    words = ["synth", "lake", "-s", "s.toml", "-e", "1", "-d", "1e-6", "-m", "mst", "--seed", "1"]
    told = fastdp_cli(*words, "--out", address("released/cli"), "-q", cwd=place)
    assert not told.stdout and "privacy.json" in objects(system, "bucket/released/cli")


class SlowLink:
    """A link to the server that passes on at most `rate` bytes a second to it, in small pieces."""

    def __init__(self, server, rate):
        self.server = server
        self.rate = rate
        self.sent = 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            far = socket.create_connection(("127.0.0.1", self.server))
            for source, target, slow in ((near, far, True), (far, near, False)):
                threading.Thread(
                    target=self._pass, args=(source, target, slow), daemon=True
                ).start()

    def _pass(self, source, target, slow):
        try:
            while data := source.recv(1024):
                if slow:
                    time.sleep(len(data) / self.rate)
                    self.sent += len(data)
                target.sendall(data)
        except OSError:
            pass
        for end in (source, target):
            end.close()


def test_a_publisher_killed_on_a_slow_link_leaves_no_run_and_is_repeated(store, run, server):
    """SIGKILL when about half of the bytes are sent: no statement is there, `verify` finds no run,
    and the same command over the same slow link then completes it without a charge."""
    address, system, place = store
    before = entries(place)
    size = sum(file.stat().st_size for file in run.rglob("*") if file.is_file())
    link = SlowLink(server, rate=size / 2)
    to = address("released/9").replace(f":{server}&", f":{link.port}&")
    command = [sys.executable, "-m", "fastdp", "publish", str(run), to]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for _ in range(6000):
        if link.sent > size / 2 or process.poll() is not None:
            break
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL, "it ended before it was killed"
    assert "privacy.json" not in objects(system, "bucket/released/9")
    with pytest.raises(RunError, match="is not a run"):
        fastdp.verify(address("released/9"))
    assert fastdp.publish(run, to) == "s3://bucket/released/9"
    link.listener.close()
    assert fastdp.verify(address("released/9"), ledger=place / "budget.db").ok
    assert entries(place) == before
