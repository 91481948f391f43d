"""Tables whose codes do not fit: counted from partitions on disk by processes that may not hold them."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.skipif(
    "san" in os.environ.get("LD_PRELOAD", ""), reason="a sanitiser's own memory is within the limit"
)
COLUMNS, CODES = 24, 300
"""Columns of 300 codes, two bytes each: a row takes 48 bytes, and 4 for its user."""

CHILD = """
import json, re, resource, sys
from pathlib import Path

import pyarrow.parquet, scipy.cluster.hierarchy

import fastdp
from fastdp.engines.local import local
from fastdp.engines.processes import partitioned

path, schema, engine, parts, room = sys.argv[1:]
held = int(re.search(r"VmData:\\s*(\\d+)", Path("/proc/self/status").read_text())[1]) << 10
resource.setrlimit(resource.RLIMIT_DATA, (held + int(room), held + int(room)))
schema = fastdp.Schema.load(schema)
cliques = [("c0", "c1"), ("c2",)]
try:
    if engine == "local":
        counter = local(fastdp.read(path, schema, threads=1), 1)
    else:
        counter = partitioned(path, schema, int(parts), 1)
    counts = counter.marginals(cliques, 5)
    print(json.dumps({"pair": int(counts["c0", "c1"].sum()), "one": counts["c2",].tolist()}))
except MemoryError:
    print(json.dumps("no memory"))
finally:
    if engine != "local" and "counter" in globals():
        counter.close()
"""


def write(folder: Path, rows: int) -> int:
    """Rows i = 0, 1, ... of user i // 10, whose columns are i + k modulo CODES; bytes that its codes take."""
    import fastdp

    plain = fastdp.Schema.from_domain({f"c{k}": CODES for k in range(COLUMNS)}, user="u").to_dict()
    plain["user"]["max_rows"] = 10
    fastdp.Schema.from_dict(plain).save(folder / "schema.json")
    kind = pa.schema([*((f"c{k}", pa.int16()) for k in range(COLUMNS)), ("u", pa.int32())])
    with pq.ParquetWriter(folder / "rows.parquet", kind, compression="zstd") as writer:
        for start in range(0, rows, 1 << 16):
            i = np.arange(start, min(start + (1 << 16), rows))
            columns = {f"c{k}": ((i + k) % CODES).astype(np.int16) for k in range(COLUMNS)}
            writer.write_table(pa.table({**columns, "u": (i // 10).astype(np.int32)}, kind))
    return rows * (2 * COLUMNS + 4)


def count(folder: Path, engine: str, partitions: int, room: int):
    paths = [str(folder / "rows.parquet"), str(folder / "schema.json")]
    done = subprocess.run(
        [sys.executable, "-c", CHILD, *paths, engine, str(partitions), str(room)],
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "TMPDIR": str(folder),
            "ARROW_DEFAULT_MEMORY_POOL": "system",
            "OMP_NUM_THREADS": "1",
            "POLARS_MAX_THREADS": "1",
        },
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="needs /proc to see how much memory is used"
)
@pytest.mark.parametrize(
    ("rows", "partitions", "room"),
    [
        pytest.param(2_000_000, 16, 80 << 20),
        pytest.param(20_000_000, 64, 200 << 20, marks=pytest.mark.slow),
    ],
)
def test_codes_that_do_not_fit_are_counted_from_disk(tmp_path, rows, partitions, room):
    """Driver and workers may take `room` bytes more than the interpreter and its libraries: less than the
    codes, which the local engine does not get into it. Every user has 10 rows and clip 5 counts half of each,
    in units of 2^-20 rows."""
    assert write(tmp_path, rows) > room
    assert count(tmp_path, "local", 1, room) == "no memory"
    counts = count(tmp_path, "partitioned", partitions, room)
    half = 1 << 19
    assert counts["pair"] == rows * half
    expected = np.bincount((np.arange(CODES * 10) + 2) % CODES, minlength=CODES) * (rows // (CODES * 10))
    left = np.bincount((np.arange(rows // (CODES * 10) * CODES * 10, rows) + 2) % CODES, minlength=CODES)
    assert counts["one"] == ((expected + left) * half).tolist()
    assert not list(tmp_path.glob("fastdp-*"))
