"""The command line: in this process, and where the process itself matters in one of its own."""

import contextlib
import io
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pyarrow.parquet as pq
import pytest

import fastdp
from fastdp.cli import app
from fastdp.privacy.accountant import Gaussian
from fastdp.privacy.unit import Unit
from tests.run.test_synthesize import RELEASED, small_data, small_schema
from tests.snapshots.cases import commands

ROOT = Path(__file__).parents[2]
TOML = """mechanism = "adagrid"
outer = [["a", "b"], ["a", "c"]]
clip = [{ up_to = 1, value = 4 }, { value = 5 }]
threshold = 3.0
"""


def fastdp_cli(*arguments, cwd, check=True):
    """What `fastdp` with these arguments prints and returns; in this process, which saves its
    imports."""
    out = io.StringIO()
    err = io.StringIO()
    code = None
    with contextlib.chdir(cwd), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            app.main([str(a) for a in arguments])
        except SystemExit as ended:
            code = ended.code
    if check:
        assert not code, err.getvalue()
    return SimpleNamespace(returncode=code or 0, stdout=out.getvalue(), stderr=err.getvalue())


def fastdp_process(*arguments, cwd):
    command = [sys.executable, "-m", "fastdp", *map(str, arguments)]
    env = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "100"}
    return subprocess.run(
        command, cwd=cwd, env=env, capture_output=True, text=True, timeout=120, check=True
    )


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cli")
    pq.write_table(small_data(), folder / "data.parquet")
    pq.write_table(small_data(seed=7), folder / "public.parquet")
    small_schema().save(folder / "schema.toml")
    (folder / "recipe.toml").write_text(TOML + 'schema = "schema.toml"\n')
    return folder


SYNTH = ("synth", "data.parquet", "-m", "recipe.toml", "-e", "5", "-d", "1e-6")


def test_a_run_of_the_command_line_can_be_verified_and_evaluated(place):
    done = fastdp_process(*SYNTH, "--public", "public.parquet", "--out", "run", cwd=place)
    assert {p.name for p in (place / "run").iterdir()} == RELEASED
    assert "reading and encoding" in done.stderr
    assert "epsilon 5" in done.stdout and "fastdp verify run" in done.stdout
    checked = json.loads(fastdp_cli("verify", "run", "--json", cwd=place).stdout)
    assert checked["ok"] and checked["private"]
    scores = json.loads(fastdp_cli("evaluate", "data.parquet", "run", "--json", cwd=place).stdout)
    assert scores
    (place / "run" / "timings.json").write_text("{}")
    broken = fastdp_cli("verify", "run", cwd=place, check=False)
    assert broken.returncode == fastdp.errors.RunError.exit_code
    assert "timings.json" in broken.stderr


def test_quiet_says_nothing_and_json_says_it_all(place):
    done = fastdp_cli(*SYNTH, "--out", "quiet", "--quiet", cwd=place)
    assert done.stdout == "" and done.stderr == ""
    done = fastdp_cli(*SYNTH[:5], "1,10", *SYNTH[6:], "--out", "both", "--json", cwd=place)
    printed = json.loads(done.stdout)
    assert [Path(r["out"]).name for r in printed["runs"]] == ["eps-1", "eps-10"]
    assert done.stderr == ""
    assert printed["runs"][0]["privacy"]["parts"][0]["clip"] == 4
    assert printed["runs"][0]["privacy"]["parts"][1]["clip"] == 5


@pytest.mark.parametrize(
    ("change", "code", "match"),
    [
        ({"-e": "0"}, 2, "epsilon"),
        ({"-e": "one"}, 2, "--epsilon"),
        ({"-d": "1"}, 2, "delta"),
        ({"-m": "nope"}, 2, "taxi-adagrid"),
        ({"-m": "adagrid"}, 2, "schema"),
        ({"--out": "data.parquet/run"}, 10, "cannot write"),
        ({"data": "missing.parquet"}, 4, "missing.parquet"),
        ({"data": "wrong.parquet"}, 4, "'b'"),
    ],
)
def test_errors_have_their_exit_codes_and_leave_nothing(place, change, code, match):
    pq.write_table(small_data(10).drop_columns(["b"]), place / "wrong.parquet")
    arguments = {"-m": "recipe.toml", "-e": "5", "-d": "1e-6", "--out": "bad"} | change
    data = arguments.pop("data", "data.parquet")
    before = {p.name for p in place.iterdir()}
    done = fastdp_cli(
        "synth", data, *[x for item in arguments.items() for x in item], cwd=place, check=False
    )
    assert done.returncode == code
    assert match in done.stderr
    assert "Traceback" not in done.stderr
    assert {p.name for p in place.iterdir()} == before


def test_every_verb_speaks_json_and_is_documented_with_its_options():
    pages = ("cli.md", "cli-budget.md")
    text = "".join((ROOT / "docs" / "reference" / page).read_text("utf-8") for page in pages)
    for path, command in commands().items():
        name = " ".join(path)
        assert f"fastdp {name}" in text, name
        assert command.about and f"fastdp {name}" in command.examples, name
        assert any({"--json", "--as"} & set(names) for names in command.options), name
        for *_, longest in command.options:
            assert longest == "--help" or f"`{longest}`" in text, f"{name} {longest}"


# `fastdp ledger`, `fastdp verify --ledger`, and promises that protect next to nothing.


USERS = Unit("user", "u")


def test_the_ledger_from_open_to_release(place):
    cli = lambda *words, **options: fastdp_cli(*words, cwd=place, **options)  # noqa: E731
    cli("ledger", "open", "c.db", "people", "-e", "12", "-d", "1e-6", "--unit", "user:u")
    cli(*SYNTH, "--ledger", "c.db", "--out", "kept", "-q")
    over = cli(
        *SYNTH[:5], "20", *SYNTH[6:], "--ledger", "c.db", "--out", "over", "--json", check=False
    )
    assert over.returncode == 5 and json.loads(over.stdout)["error"]["kind"] == "BudgetError"
    assert not (place / "over").exists() and not (place / "over.private").exists()
    assert "intact" in cli("ledger", "verify", "c.db").stdout
    assert (
        cli("ledger", "show", "none.db", check=False).returncode
        == fastdp.errors.LedgerError.exit_code
    )
    shown = cli("ledger", "show", "c.db").stdout
    assert "protects: one user (column 'u', rows without an id left out)" in shown
    for text in (
        "UTC",
        "adagrid",
        str(place / "kept"),
        "finished",
        "Epsilons of runs do not add up",
    ):
        assert text in shown
    assert "Note" not in cli("verify", "kept", "--ledger", "c.db").stdout
    assert "forged consistently" in cli("verify", "kept").stdout

    run = fastdp.Ledger(place / "c.db").reserve("people", "abandoned", [Gaussian(0.5)], unit=USERS)
    run.enter(0, 0, "q", "s", [Gaussian(0.3)], draws=1)
    before = json.loads(cli("ledger", "show", "c.db", "--json").stdout)["people"]["left"]["mu"]
    assert "is over" in cli("ledger", "release", "c.db", "aban").stdout
    after = json.loads(cli("ledger", "show", "c.db", "--json").stdout)["people"]["left"]["mu"]
    assert after**2 - before**2 == pytest.approx(0.5**2 - 0.3**2)
    assert "over already" in cli("ledger", "release", "c.db", "abandoned").stdout
    assert cli("ledger", "release", "c.db", "nothing", check=False).returncode == 2

    other = cli("ledger", "open", "c.db", "rows", "-e", "9", "-d", "1e-6", "--unit", "row")
    assert other.returncode == 0
    refused = cli(*SYNTH, "--ledger", "c.db", "--dataset", "rows", "--out", "no", check=False)
    assert refused.returncode == 6 and "different units" in refused.stderr
    assert not (place / "no").exists()


@pytest.mark.parametrize(
    "changes,text",
    [
        (("-e", "1e9"), "protects next to nothing"),
        (("-d", "0.1"), "far below 1 / number of people"),
    ],
)
def test_promises_that_protect_nothing_need_a_yes(place, changes, text):
    asked = [*SYNTH, *changes, "--out", "weak"]
    refused = fastdp_cli(*asked, cwd=place, check=False)
    assert refused.returncode == 2 and text in refused.stderr and "--yes" in refused.stderr
    opened = fastdp_cli(
        "ledger", "open", "w.db", "d", "-e", "1", "-d", "1e-6", *changes, cwd=place, check=False
    )
    assert opened.returncode == 2 and "--yes" in opened.stderr
    after = fastdp_cli(*asked, "--yes", "-q", cwd=place, check=False)
    if changes[0] == "-e":  # the sampler's own distance, times e^1e9, is no promise at all
        assert after.returncode == 7 and "ask for an epsilon of at most" in after.stderr
    else:
        assert after.returncode == 0 and "warning" in after.stderr
        notes = json.loads((place / "weak" / "privacy.json").read_text())["notes"]
        assert any("delta 0.1 is above" in note for note in notes)


def test_a_delta_of_one_is_refused_before_yes_is_offered(tmp_path):
    """No confirmation makes a delta of 1 a promise; the text must not advise one."""
    (tmp_path / "t.csv").write_text("a\n1\n")
    fastdp.Schema.from_domain({"a": 2}).save(tmp_path / "t.toml")
    for more in ((), ("--yes",)):
        done = fastdp_cli("synth", "t.csv", "-e", "1", "-d", "1", *more, cwd=tmp_path, check=False)
        assert done.returncode == 2
        assert "must lie in [0, 1)" in done.stderr and "--yes" not in done.stderr


def test_linked_tables_with_a_schema_of_one_table_are_told_so(tmp_path):
    """Not that there is no file of the name `a=a.csv`, which nobody meant."""
    (tmp_path / "a.csv").write_text("a\n1\n")
    fastdp.Schema.from_domain({"a": 2}).save(tmp_path / "one.toml")
    for schema, why in (("one.toml", "the schema is that of one table"), ("no.toml", "'no.toml'")):
        asked = ("synth", "a=a.csv", "-s", schema, "-e", "1", "--out", "run")
        done = fastdp_cli(*asked, cwd=tmp_path, check=False)
        assert done.returncode == 2 and "names one of linked tables" in done.stderr
        assert why in done.stderr and not (tmp_path / "run").exists()
