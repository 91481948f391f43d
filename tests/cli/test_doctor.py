"""Version, doctor, log and what a beginner trips over."""

from typer.testing import CliRunner

import fastdp
from fastdp.cli import app, doctor


def test_version_and_doctor():
    done = CliRunner().invoke(app.app, ["--version"])
    assert done.exit_code == 0 and done.output.strip() == f"fastdp {fastdp.__version__}"
    done = CliRunner().invoke(app.app, ["doctor"])
    assert done.exit_code == 0, done.output
    assert "compiled kernels: " in done.output and "numpy" in done.output and "no problem" in done.output


def test_the_doctor_finds_a_kernel_that_is_missing(monkeypatch):
    def broken(name):
        raise ImportError("no such file")

    monkeypatch.setattr(doctor, "import_module", broken)
    report = doctor.facts()
    assert report["kernels"] == [] and "build fastdp again" in report["problems"][0]
    assert "PROBLEM" in doctor.text(report)
