"""A mutant is tried on the tests that reach it, and its verdict is right: on a small project of its own."""

import shutil
from pathlib import Path

import pytest

from tests.mutants import concerns, places
from tests.mutants.__main__ import run
from tests.mutants.reach import Reach
from tests.mutants.sites import python_sites
from tests.mutants.trial import Limits, Workshop

SOURCE = """LIMIT = 3
TWICE = 2 * LIMIT


def above(x):
    if x > TWICE:
        return 10
    return 20


def plain(y=7):
    return y


def never(z):
    return z + 5


def falls(n):
    while n > 0:
        n -= 2
    return n
"""
TESTS = """import subprocess, sys, pytest
from fastdp.privacy import small

@pytest.fixture(scope="module")
def answer():
    return small.above(100)

def test_first(answer):
    assert answer

def test_second(answer):
    assert answer == 10

def test_below():
    assert small.above(0) == 20 and small.above(7) == 10 and small.above(6) == 20

def test_falls():
    assert small.falls(4) == 0

def test_child():
    code = "from fastdp.privacy import small; print(small.plain())"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "7\\\\n"
"""
OTHER = """from pathlib import Path

def test_other():
    with Path(__file__).with_name("runs").open("a") as file:
        file.write("x")

def test_fails():
    assert False
"""
PATH = "fastdp/privacy/small.py"


@pytest.fixture
def project(tmp_path, monkeypatch):
    root = tmp_path / "project"
    for name in ("fastdp/privacy", "tests/privacy"):
        (root / name).mkdir(parents=True)
    (root / "pyproject.toml").write_text("[tool.pytest.ini_options]\nmarkers = ['slow: long']\n")
    for name in ("fastdp", "fastdp/privacy", "tests", "tests/privacy"):
        (root / name / "__init__.py").touch()
    (root / PATH).write_text(SOURCE)
    (root / "tests/privacy/test_small.py").write_text(TESTS.replace("\\\\n", "\\n"))
    (root / "tests/privacy/test_other.py").write_text(OTHER)
    shutil.copytree(
        Path(__file__).parent, root / "tests/mutants", ignore=shutil.ignore_patterns("test_*", "__pycache__")
    )
    monkeypatch.setattr(places, "ROOT", root)
    for kept in (places.importers, concerns.package, concerns.tree, concerns.texts, concerns.inside):
        kept.cache_clear()
    yield root
    for kept in (places.importers, concerns.package, concerns.tree, concerns.texts, concerns.inside):
        kept.cache_clear()


def line(text: str) -> int:
    return SOURCE.split("\n").index(text) + 1


def test_lines_that_a_change_concerns(project):
    above, plain = line("    if x > TWICE:"), line("    return y")
    assert concerns.concerned(PATH, above) == {PATH: 1 << above}
    assert concerns.concerned(PATH, line("def plain(y=7):")) == {PATH: 1 << plain}
    for constant in ("LIMIT = 3", "TWICE = 2 * LIMIT"):
        assert concerns.concerned(PATH, line(constant)) == {PATH: 1 << above}, "those that name it"


def test_tests_that_reach_a_line_and_what_they_make_of_mutants(project, tmp_path):
    workshop = Workshop(tmp_path / "work" / "0", Limits(hang=2))
    reach = Reach(tmp_path / "work", workshop.tree, 1)
    assert reach.failing == ["tests/privacy/test_other.py::test_fails"]

    def names(text):
        tests = reach.reaching(concerns.concerned(PATH, line(text)))
        return {test.split("::")[1] for test in tests}

    assert names("        return 10") == {"test_first", "test_second", "test_below"}, "through a fixture, too"
    assert names("    return 20") == {"test_below"}
    assert names("def plain(y=7):") == {"test_child"}, "in a process of its own"
    assert names("    return z + 5") == set()

    expected = {(">", ">="): "caught", ("10", "11"): "caught", ("7", "8"): "caught", ("5", "6"): "survived"}
    expected["n -= 2", "pass"] = "caught"
    drawn = [("privacy", s) for s in python_sites(PATH, SOURCE.encode()) if (s.old, s.new) in expected]
    trials = run(drawn, [workshop], reach, float("inf"), 0)
    assert {(t.site.old, t.site.new): t.verdict for t in trials} == expected
    assert {t.by for t in trials} <= {"", "no end", *reach.tests}
    assert [t.site.new for t in trials if t.by == "no end"] == ["pass"], "a mutant that hangs is caught"
    assert (workshop.tree / PATH).read_text() == SOURCE, "the change is undone"
    assert workshop.failing([*reach.tests, *reach.failing]) == reach.failing

    (project / "tests/privacy/test_small.py").write_text("def test_nothing():\n    pass\n")
    again = Reach(tmp_path / "work", Workshop(tmp_path / "work" / "0", Limits()).tree, 1)
    assert {name.split("::")[1] for name in again.tests} == {"test_nothing", "test_other"}
    assert not again.reaching(concerns.concerned(PATH, line("    return 20")))

    (project / "tests/privacy/helper.py").write_text("VALUE = 1\n")
    (project / "tests/privacy/test_user.py").write_text("from .helper import VALUE\n\ndef test_user(): ...\n")
    last = Reach(tmp_path / "work", Workshop(tmp_path / "work" / "0", Limits()).tree, 1)
    paths = [f"tests/privacy/{name}.py" for name in ("helper", "test_user", "test_small")]
    assert last._users({paths[0]}, paths) == set(paths[:2]), "who imports a helper depends on it"
