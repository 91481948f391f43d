"""Synthesis, planning, verification and scores where numba and autodp cannot be imported: both are extras.

Each test runs in a process of its own whose imports of both fail.
"""

import json
import subprocess
import sys

import pyarrow.parquet as pq
import pytest

import fastdp

BLOCKED = ("numba", "llvmlite", "autodp", "matplotlib")
BLOCK = f"""
import sys
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {BLOCKED!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}} (blocked)", name=name)
sys.meta_path.insert(0, Block())
"""
WORK = """
import json, fastdp
schema = fastdp.Schema.load("taxi-deid2")
truth, other = fastdp.simulate.taxi(1500, seed=1), fastdp.simulate.taxi(1500, seed=2)
plan = fastdp.plan(schema, "taxi-adagrid", epsilon=1.0, delta=1e-6, rows=10_000_000)
run = fastdp.synthesize(truth, "taxi-adagrid", epsilon=1.0, delta=1e-6, schema=schema, out=sys.argv[1])
fastdp.verify(sys.argv[1])  # raises where something is wrong
accountant = json.load(open(sys.argv[1] + "/privacy.json"))["accountant"]["second"]
fastdp.evaluate(truth, other, schema, metrics=["deid2"])
assert fastdp.compiled(len)([1, 2]) == 2
loaded = [m for m in %r if m in sys.modules]
print(json.dumps([run.data.num_rows > 0, len(plan.lines) > 0, accountant, loaded]))
"""


def run(code, *arguments):
    out = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True)
    assert out.returncode == 0, out.stderr[-2000:]
    return json.loads(out.stdout.splitlines()[-1])


def test_everything_works_without_numba_and_autodp(tmp_path):
    made, planned, accountant, loaded = run(BLOCK + WORK % (BLOCKED,), str(tmp_path / "run"))
    assert made and planned and loaded == []
    assert accountant.startswith("mpmath"), "the statement says which accountant agreed"


def test_the_hook_blocks():
    code = BLOCK + "\ntry:\n    import numba\n    print('1')\nexcept ImportError:\n    print('0')"
    assert run(code) == 0


UNUSED = ("pandas", "polars", "numba", "scipy.cluster", "pyspark", "duckdb", "sklearn")
JOB = """
import json, sys
from fastdp.cli.app import main
sys.argv = ["fastdp", "synth", sys.argv[1] + "/trips.parquet", "--public", sys.argv[1] + "/public.parquet",
            "-m", sys.argv[2], "-s", "taxi-deid2", "-e", "1", "-d", "2.5e-5", "--out", sys.argv[1] + "/run"]
try:
    main()
except SystemExit:
    pass
print(json.dumps([m for m in %r if m in sys.modules]))
"""


@pytest.mark.parametrize("mechanism, more", [("taxi-adagrid", ()), ("mst", ("scipy",))])
def test_a_run_from_parquet_to_parquet_imports_only_what_it_needs(tmp_path, mechanism, more):
    """pyarrow.array alone would import pandas."""
    for name, seed in (("trips", 1), ("public", 2)):
        pq.write_table(fastdp.simulate.taxi(1500, seed=seed), tmp_path / f"{name}.parquet")
    assert run(BLOCK + JOB % (UNUSED + more,), str(tmp_path), mechanism) == []
    assert (tmp_path / "run" / "synthetic.parquet").exists()
