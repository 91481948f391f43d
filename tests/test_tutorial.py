"""docs/tutorial.md, block by block, as a newcomer would type it."""

import re
import shlex
import subprocess
from pathlib import Path

import pytest

from fastdp.cli import app
from tests.test_readme import shape

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "docs" / "tutorial.md").read_text("utf-8")
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", TEXT, re.S)


def steps(body):
    """(command, lines shown under it) of a console block."""
    for part in re.split(r"^\$ ", body, flags=re.M)[1:]:
        command, *shown = part.rstrip("\n").split("\n")
        yield command, shown


def test_every_block_runs(tmp_path, monkeypatch, capsys):
    """All blocks in their order; what is shown under a command is what it prints, up to the noise."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")
    kinds = []
    for kind, body in BLOCKS:
        kinds.append(kind)
        if kind == "toml":
            Path("flights.toml").write_text(body)
        elif kind == "python":
            exec(compile(body, "tutorial", "exec"), {})
            assert "synthetic flights left more than an hour late" in capsys.readouterr().out
        else:
            for command, shown in steps(body):
                expected = 11 if "# exit code 11" in command else 0
                words = shlex.split(command, comments=True)
                if words[0] != "fastdp":
                    subprocess.run(command, shell=True, check=True)
                    continue
                with pytest.raises(SystemExit) as ended:
                    app.main(words[1:])
                printed = capsys.readouterr()
                assert (ended.value.code or 0) == expected, printed.err
                lines = [shape(line) for line in printed.out.splitlines()]
                assert [line for line in shown if shape(line) not in lines] == [], printed.out
    assert kinds.count("console") >= 7 and "toml" in kinds and "python" in kinds
    assert Path("run.private/report.html").stat().st_size > 10_000
    assert "LEARNT" in Path("draft.toml").read_text()
    assert not Path("again").exists()


def test_links_lead_somewhere():
    for link in re.findall(r"\]\(([^)#]+)", TEXT):
        assert (ROOT / "docs" / link).exists(), link
