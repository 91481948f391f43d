"""What a new user runs into: each mistake is answered at once, in the words of who asked
(parameters in Python, options on the command line), with what to do."""

import json
import subprocess
import sys

import pyarrow as pa
import pyarrow.csv as pacsv
import pytest

import fastdp
from fastdp._util.progress import Progress
from fastdp.cli import common, doctor, show
from fastdp.cli.completion import script
from fastdp.errors import FastdpError, RunError
from tests.cli.test_app import TOML, fastdp_cli
from tests.run.test_synthesize import small_data, small_schema

SCHEMA = fastdp.Schema.from_domain({"a": 3, "b": 2})
ROWS = pa.table({"a": [0, 1, 2] * 40, "b": [0, 1, 1] * 40})


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("none.csv", "no file 'none.csv'"),
        ("https://example.org/a.csv", "download it first"),
        ("book.xlsx", "save the sheet as CSV"),
        ("cars.json", "JSON lines, one object per line"),
        ([{"a": 0, "b": 1}], "list of dicts.*polars.DataFrame"),
    ],
)
def test_sources_that_cannot_be_read_come_with_advice(source, says):
    for call in (fastdp.draft, lambda s: fastdp.check(s, SCHEMA), lambda s: fastdp.read(s, SCHEMA)):
        with pytest.raises(FastdpError, match=says):
            call(source)
    with pytest.raises(FastdpError, match=says):
        fastdp.synthesize(source, "mst", 1.0, 1e-6, schema=SCHEMA)


OPTIONS = {
    "give one (schema=).": "give one (--schema).",
    "go on with: the same call and resume=True": "go on with: the same call and --resume",
    "domain='private', with user=": "--domain private, with --user",
    'give dialect={"delimiter": ";"}, or': "give --dialect 'delimiter = \";\"', or",
    "raise max_cells= or memory=": "raise --max-cells or --memory",
    "public data must be read with public=True": "public data must be read with public=True",
    "no file 'data/user=5/a.csv'": "no file 'data/user=5/a.csv'",
}


def test_the_command_line_names_options_where_the_library_names_parameters():
    assert {text: common.as_options(text) for text in OPTIONS} == OPTIONS


def test_a_full_disk_tells_what_is_charged_and_how_to_go_on(tmp_path, monkeypatch):
    import pyarrow.parquet as pq

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    call = {"schema": SCHEMA, "out": tmp_path / "run"}
    with monkeypatch.context() as patch:
        patch.setattr(pq, "ParquetWriter", full)
        with pytest.raises(RunError, match=r"No space left.*charged: \d steps.*resume=True"):
            fastdp.synthesize(ROWS, "mst", 1.0, 1e-6, **call)
    fastdp.synthesize(ROWS, "mst", 1.0, 1e-6, resume=True, **call)
    assert fastdp.verify(tmp_path / "run").ok


# Version, doctor, log and what a beginner trips over.


def test_a_log_gets_a_line_per_stage_and_more_of_long_ones(capsys):
    log = show._lines()
    for seconds in (0.0, 9.0, 10.0, 39.0, 41.0):
        log(Progress("read" if seconds < 10 else "measure", seconds / 100, seconds))
    lines = capsys.readouterr().err.splitlines()
    assert [line.split("s  ")[1] for line in lines] == [
        "reading and encoding",
        "measuring",
        "measuring, 41% of the run done",
    ]


def test_a_terminal_without_a_bar_sees_the_seconds_pass(capsys, monkeypatch):
    """Each report writes the line anew, and a shorter text leaves nothing of a longer one."""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(show, "find_spec", lambda name: None)
    with show.progress_for(False, "auto") as callback:
        callback(Progress("read", 0.0, 0.1))
        callback(Progress("read", 0.1, 0.5))
        callback(Progress("fit", 0.9, 1.5, "fitting"))
    text = capsys.readouterr().err
    assert text.endswith("\n") and text.count("\n") == 1
    _, *lines = text.rstrip("\n").split("\r")
    assert [line.rstrip() for line in lines] == [
        "fastdp     0.1 s  reading and encoding, 0% of the run done",
        "fastdp     0.5 s  reading and encoding, 10% of the run done",
        "fastdp     1.5 s  fitting, 90% of the run done",
    ]
    assert len(lines[2]) >= len(lines[1])


def test_version_and_doctor_also_where_a_kernel_is_missing(monkeypatch):
    assert fastdp_cli("--version", cwd=".").stdout.strip() == f"fastdp {fastdp.__version__}"
    text = fastdp_cli("doctor", cwd=".").stdout
    assert "compiled kernels: " in text and "numpy" in text and "no problem" in text

    def broken(name):
        raise ImportError("no such file")

    monkeypatch.setattr(doctor, "import_module", broken)
    report = doctor.facts()
    assert report["kernels"] == [] and "build fastdp again" in report["problems"][0]
    assert "PROBLEM" in doctor.text(report)


# `--dialect`: text files in another dialect than their names say, from the command line.


def test_synth_reads_another_dialect_and_tells_the_owner_what_it_dropped(tmp_path):
    small_schema().save(tmp_path / "schema.toml")
    (tmp_path / "recipe.toml").write_text(TOML + 'schema = "schema.toml"\n')
    rows = small_data()
    pacsv.write_csv(
        rows, tmp_path / "data.csv", pacsv.WriteOptions(delimiter=";", quoting_style="none")
    )
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
    wrong = fastdp_cli(
        *synth, "--out", "run2", "--dialect", "delimiter = ;", cwd=tmp_path, check=False
    )
    assert wrong.returncode == 3 and "dialect" in wrong.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("sinth",), "did you mean 'synth'"),
        (("ledger", "opne"), "did you mean 'open'"),
        (("plan", "--rows", "10"), "required: -e/--epsilon (see: fastdp plan --help)"),
        (("plan", "-e", "1", "--user", "3"), "there is no option '--user'; did you mean '--users'"),
        (("plan", "-e", "1", "--users", "few"), "--users: expected a whole number, got 'few'"),
        (("schema", "show", "a", "b"), "unexpected argument 'b'"),
        (("doctor", "--json=1"), "--json"),
    ],
)
def test_wrong_words_of_a_command_line_end_in_a_sentence_that_names_them(arguments, says):
    done = fastdp_cli(*arguments, cwd=".", check=False)
    assert (
        done.returncode == 2
        and done.stdout == ""
        and says in done.stderr
        and done.stderr.count("\n") == 1
    )


def test_the_script_for_a_shell_completes_commands_and_options():
    """bash itself is asked, with the words that it would put into COMP_WORDS."""
    asks = {
        "sy": "synth",
        "schema dr": "draft",
        "synth a.csv --ou": "--out",
        "ledger open --ep": "--epsilon",
    }
    for words, wanted in asks.items():
        at = (
            f"COMP_WORDS=(fastdp {words}); COMP_CWORD={len(words.split())}; _fastdp; echo"
            " ${COMPREPLY[*]}"
        )
        done = subprocess.run(
            ["bash", "-c", script("bash") + at], capture_output=True, text=True, check=True
        )
        assert done.stdout.split() == [wanted], words
