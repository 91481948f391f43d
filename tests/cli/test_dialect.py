"""`--dialect`: text files in another dialect than their names say, from the command line."""

import json

import pyarrow.csv as pacsv

from tests.cli.test_app import TOML, fastdp_cli
from tests.run.test_synthesize import small_data, small_schema


def test_synth_reads_another_dialect_and_tells_the_owner_what_it_dropped(tmp_path):
    small_schema().save(tmp_path / "schema.toml")
    (tmp_path / "recipe.toml").write_text(TOML + 'schema = "schema.toml"\n')
    rows = small_data()
    pacsv.write_csv(rows, tmp_path / "data.csv", pacsv.WriteOptions(delimiter=";", quoting_style="none"))
    with open(tmp_path / "data.csv", "ab") as file:
        file.write(b'"open;1\n\xe9;1;1;1\n')
    synth = ("synth", "data.csv", "-m", "recipe.toml", "-e", "5", "-d", "1e-6", "--quiet")
    refused = fastdp_cli(*synth, "--out", "run", cwd=tmp_path, check=False)
    assert refused.returncode == 4 and "set the dialect" in refused.stderr
    fastdp_cli(*synth, "--out", "run", "--dialect", 'delimiter = ";"', cwd=tmp_path)
    reading = json.loads((tmp_path / "run.private/reading.json").read_text())
    assert reading["rows"] == rows.num_rows and reading["malformed_lines"] == 2
    released = "".join(p.read_text("utf-8") for p in (tmp_path / "run").glob("*.json"))
    assert "malformed_lines" not in released
    wrong = fastdp_cli(*synth, "--out", "run2", "--dialect", "delimiter = ;", cwd=tmp_path, check=False)
    assert wrong.returncode == 3 and "dialect" in wrong.stderr
