"""Real processes, really signalled, in every stage: they end soon, say where the run stands, and
the command they name carries on."""

import os
import shlex
import signal
import subprocess
import sys
import time

import pytest

import fastdp
from fastdp.cli import app
from tests.cli.test_app import ROOT, SYNTH, fastdp_cli, place  # noqa: F401  (a fixture)
from tests.tiers import slow_cases

# The stage is entered, then hangs in compiled code that no signal interrupts; it would take many
# minutes.
STUCK = """
import hashlib, pathlib, sys
from fastdp.cli.app import main
import fastdp.engines.local, fastdp.estimate.estimator, fastdp.run.output, fastdp.tables.ingest

def hang(*arguments, **options):
    pathlib.Path(sys.argv[sys.argv.index("--out") + 1]).with_name("there").touch()
    hashlib.pbkdf2_hmac("sha256", b"", b"", 1 << 30)

def after_the_first(real):
    calls = []
    def call(*arguments, **options):
        calls.append(1)
        return real(*arguments, **options) if len(calls) == 1 else hang()
    return call

def half(self, folder, reporter=None):
    (folder / "synthetic.parquet").write_bytes(b"half")
    hang()

stage = sys.argv.pop(1)
if stage == "read":
    fastdp.engines.local.read = hang
elif stage == "measure":
    local = fastdp.engines.local.LocalCounter
    local.marginals = after_the_first(local.marginals)
elif stage == "fit":
    fastdp.estimate.estimator.fit = hang
else:
    fastdp.run.output.Output.write = half
main()
"""


def wait_for(path, process, seconds=60):
    end = time.monotonic() + seconds
    while not path.exists():
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("stage", "kind", "elsewhere"),
    [
        ("measure", signal.SIGINT, False),
        *slow_cases(
            ("fit", signal.SIGKILL, True),
            ("read", signal.SIGINT, True),
            ("fit", signal.SIGTERM, True),
            ("write", signal.SIGINT, False),
        ),
    ],
)
def test_a_signal_ends_any_stage_and_the_named_command_goes_on(
    place,  # noqa: F811
    tmp_path,
    monkeypatch,
    stage,
    kind,
    elsewhere,
):
    ledger = tmp_path / "b.db"
    fastdp.Ledger(ledger).open("people", epsilon=6.0, delta=1e-6)
    out = tmp_path / "new run"
    asked = [*SYNTH, "--out", str(out), "--ledger", str(ledger), "--dataset", "people"]
    private = tmp_path / "new run.private"
    if elsewhere:
        private = tmp_path / "my own" / "private"
        asked += ["--private-dir", str(private)]
    process = subprocess.Popen(
        [sys.executable, "-c", STUCK, stage, *asked],
        cwd=place,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    wait_for(tmp_path / "there", process)
    process.send_signal(kind)
    _, messages = process.communicate(timeout=30)
    assert process.returncode == {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGKILL: -9}[kind]
    assert not out.exists() and not list(tmp_path.glob("*.tmp-*"))
    if kind == signal.SIGKILL:  # it had no time to say anything: the same command says it
        refused = fastdp_cli(*asked, cwd=place, check=False)
        assert refused.returncode == 10 and "--resume" in refused.stderr
        messages = f"go on with: fastdp {shlex.join(asked)} --resume\n"
    line = messages.splitlines()[-1]
    command = shlex.split(line.rpartition("with: ")[2])
    assert command[0] == "fastdp"
    if stage == "read":
        assert "nothing was charged and nothing is kept" in line
        assert command[1:] == asked and not private.exists()
        assert fastdp.Ledger(ledger).spent("people")["epsilon"] == 0
    elif kind != signal.SIGKILL:
        steps = fastdp.Ledger(ledger).entries("people")[0]["steps"]
        assert f"charged: {len(steps)} steps" in line and str(private) in line
        assert f"answers of {sum(s['answered'] for s in steps)} of them" in line
        assert command[1:] == [*asked, "--resume"]
    monkeypatch.chdir(place)
    app.call(command[1:])
    assert len(fastdp.Ledger(ledger).entries("people")) <= 2
    assert fastdp.verify(out, ledger).ok
    assert not list(tmp_path.glob("*.unfinished"))


def test_a_plan_that_is_too_large_exits_8_and_charges_nothing(place):  # noqa: F811
    asked = ("-m", "recipe.toml", "-e", "5", "-d", "1e-6", "--max-cells", "5")
    done = fastdp_cli("plan", *asked, "--rows", "1000", cwd=place, check=False)
    assert done.returncode == fastdp.errors.ModelTooLargeError.exit_code == 8
    assert "the limit is 5" in done.stderr
    done = fastdp_cli("synth", "data.parquet", *asked, "--out", "large", cwd=place, check=False)
    assert done.returncode == 8
    assert not (place / "large.private").exists()


def test_no_memory_ends_in_a_sentence(monkeypatch, capsys):
    from fastdp.cli import app

    def gives_out(*args, **kwargs):
        raise MemoryError("Unable to allocate 157 KiB")

    monkeypatch.setattr(app, "call", gives_out)
    with pytest.raises(SystemExit) as end:
        app.main(["synth", "people.csv", "-e", "1"])
    assert end.value.code == 8
    text = capsys.readouterr().err
    assert text.startswith("fastdp: out of memory; nothing was charged") and "--memory" in text
