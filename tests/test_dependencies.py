"""What fastdp needs: the page on dependencies is complete, and a run from Parquet to Parquet needs
neither Polars nor rich."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "reference" / "dependencies.md"
RUN = """
import sys

sys.modules["polars"] = sys.modules["rich"] = None  # an import of either fails
import pyarrow.parquet as pq
import fastdp
from fastdp.cli import app

pq.write_table(fastdp.simulate.taxi(300, seed=1), "trips.parquet")
app.main("synth trips.parquet -s taxi-deid2 -e 1 -d 1e-5 --out run".split())
"""


def names(requirements):
    return {re.match(r"[\w-]+", text)[0] for text in requirements}


def test_the_page_names_every_dependency_and_every_extra_of_users():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    text = PAGE.read_text("utf-8")
    always, _, optional = text.partition("## Optional")
    rows = set(re.findall(r"^\| `([\w-]+)` \|", always, re.M))
    assert rows == names(project["dependencies"])
    for_developers = {"bench", "mutants", "dist", "docs", "lint"}
    of_users = {
        extra
        for extra in project["optional-dependencies"]
        if extra not in for_developers and not extra.startswith("test")
    }
    assert set(re.findall(r"^\| `\[([\w-]+)\]` \|", optional, re.M)) == of_users


def test_a_run_from_parquet_imports_neither_polars_nor_rich(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", RUN],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "run" / "synthetic.parquet").is_file()
