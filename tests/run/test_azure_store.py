"""Azure's Blob storage (`abfs://`), on the emulator Azurite: what `test_stores` shows for S3, in short.

`npm install azurite`, and put its `azurite-blob` on the path, or its name into FASTDP_AZURITE.
"""

import os
import shutil
import socket
import subprocess
import time

import pytest
from pyarrow import fs

import fastdp
from fastdp._util import stores
from fastdp.errors import DataError, RunError
from fastdp.run import execute, publish as publishing
from tests.run.test_source_pins import SCHEMA, add, entries

AZURITE = os.environ.get("FASTDP_AZURITE") or shutil.which("azurite-blob")
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""The account that Azurite's documentation names; every copy of Azurite has it."""
WRONG = "A" * 86 + "=="

pytestmark = pytest.mark.skipif(AZURITE is None, reason="Azurite is not installed (npm)")


@pytest.fixture(scope="module")
def server():
    assert AZURITE is not None
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [AZURITE, "--blobPort", str(port), "--inMemoryPersistence", "--silent"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen([*command, "--skipApiVersionCheck", "--disableTelemetry"], **quiet)
    for _ in range(600):
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            break
        except OSError:
            time.sleep(0.1)
    yield port
    process.terminate()
    process.wait()


@pytest.fixture
def store(server, tmp_path, monkeypatch):
    """(function that gives addresses, file system, local folder with the same files). An address
    cannot give pyarrow a key for a server without TLS, so the tests open the file system for it."""
    here = f"127.0.0.1:{server}"
    options = {
        "blob_storage_authority": here,
        "dfs_storage_authority": here,
        "blob_storage_scheme": "http",
        "dfs_storage_scheme": "http",
    }

    def opened(address):
        key = WRONG if "wrong" in address.partition("@")[0] else KEY
        path = stores.shown(address).partition("://")[2]
        return fs.AzureFileSystem(ACCOUNT, account_key=key, **options), path

    def address(path, key="right"):
        return f"abfs://{ACCOUNT}:{key}@bucket/{path}"

    monkeypatch.setattr(stores, "opened", opened)
    system, _ = opened(address("lake"))
    system.create_dir("bucket")
    for day in (1, 2):
        file = add(tmp_path / "lake", day, 0)
        put(system, f"bucket/lake/day={day}/part-0.parquet", file.read_bytes())
    fastdp.Ledger(tmp_path / "budget.db").open("lake", epsilon=9.0, delta=1e-4)
    yield address, system, tmp_path
    system.delete_dir("bucket")


def put(system, path, data):
    with system.open_output_stream(path) as stream:
        stream.write(data)


def synthesized(place, source, **options):
    given = {"schema": SCHEMA, "sample_seed": 1, "out": place / "out"}
    return fastdp.synthesize(source, "mst", 1.0, 1e-6, **given | options)


def test_rows_are_those_of_local_files_and_a_run_goes_there_whole(store, monkeypatch):
    address, _, place = store
    here = synthesized(place, place / "lake", seed=1, out=place / "here")
    there = synthesized(place, address("lake"), seed=1, out=place / "there")
    files = [r.out / "synthetic.parquet" for r in (here, there)]
    assert files[0].read_bytes() == files[1].read_bytes()
    monkeypatch.chdir(place)
    ledger = {"ledger": place / "budget.db", "dataset": "lake"}
    upload = publishing._upload

    def failing(system, path, file):
        if path.endswith("schema.json"):
            raise OSError("the link broke")
        upload(system, path, file)

    with monkeypatch.context() as patch:
        patch.setattr(publishing, "_upload", failing)
        with pytest.raises(RunError, match="publish it again at no charge"):
            synthesized(place, place / "lake", out=address("released/1"), **ledger)
    with pytest.raises(RunError, match="is not a run"):
        fastdp.verify(address("released/1"))
    charged = entries(place)
    run = synthesized(place, place / "lake", out=address("released/1"), resume=True, **ledger)
    assert fastdp.verify(address("released/1"), ledger=place / "budget.db").ok
    assert fastdp.load_run(address("released/1")).data.equals(run.data)
    assert entries(place) == charged and len(charged) == 1


def test_changed_objects_and_refused_keys_charge_nothing(store, monkeypatch):
    address, system, place = store
    ledger = {"ledger": place / "budget.db", "dataset": "lake"}
    with pytest.raises(DataError, match="refused it or could not be reached") as told:
        synthesized(place, address("lake", key="wrong"), **ledger)
    assert "wrong" not in str(told.value)
    before = execute.open_counter

    def open_counter(*given):
        opened = before(*given)
        data = (place / "lake" / "day=2" / "part-0.parquet").read_bytes()
        put(system, "bucket/lake/day=1/part-0.parquet", data)
        return opened

    monkeypatch.setattr(execute, "open_counter", open_counter)
    with pytest.raises(DataError, match=r"objects changed.*nothing was charged"):
        synthesized(place, address("lake"), **ledger)
    assert entries(place) == []
