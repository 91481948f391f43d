"""Version, doctor, log and what a beginner trips over."""

import logging

import pytest
from typer.testing import CliRunner

import fastdp
from fastdp.cli import app, doctor
from fastdp.errors import UsageError
from tests.run.test_synthesize import go, small_data, small_schema


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


def test_dir_is_the_public_face():
    assert set(dir(fastdp)) == set(fastdp.__all__)
    assert "sys" not in dir(fastdp) and "synthesize" in dir(fastdp)


def test_stages_are_logged(caplog):
    with caplog.at_level(logging.INFO, "fastdp"):
        go(small_data(), schema=small_schema())
    assert "fitting the model" in caplog.text


def test_swapped_arguments_get_a_sentence():
    with pytest.raises(UsageError, match="first argument is the data"):
        fastdp.synthesize(small_schema(), "mst")
    with pytest.raises(UsageError, match="a schema is"):
        fastdp.plan(small_data(), "mst")
    with pytest.raises(UsageError, match="a schema is"):
        fastdp.read("data.parquet", small_data())
