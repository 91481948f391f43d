"""What the package is made of: no code from data, each dependency with its reason, a lock for development."""

import ast
import fnmatch
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
FORBIDDEN_CALLS = {"eval", "exec", "compile", "__import__"}
FORBIDDEN_MODULES = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "marshal", "shelve"}


def name_of(requirement):
    return re.match(r"[\w.-]+", requirement)[0].lower()


def offences(text):
    """(line, what) of every call or import that makes code or objects out of bytes."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in FORBIDDEN_CALLS:
            yield node.lineno, node.func.id
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names = [node.module or ""]
        yield from ((node.lineno, name) for name in names if name.split(".")[0] in FORBIDDEN_MODULES)
        if isinstance(node, ast.keyword) and node.arg in ("allow_pickle", "shell"):
            if not (isinstance(node.value, ast.Constant) and node.value.value is False):
                yield node.value.lineno, node.arg


@pytest.mark.parametrize("planted", ["eval('1')", "import pickle", "from dill import load", "f(shell=True)"])
def test_the_search_sees_what_it_looks_for(planted):
    assert list(offences(planted))


def test_nothing_in_the_package_makes_code_or_objects_out_of_bytes():
    for path in sorted((ROOT / "fastdp").rglob("*.py")):
        assert list(offences(path.read_text("utf-8"))) == [], path.name


def test_every_runtime_dependency_has_its_reason():
    text = (ROOT / "ARCHITECTURE.md").read_text("utf-8").lower()
    for requirement in PROJECT["dependencies"]:
        assert name_of(requirement) in text, requirement


def test_the_lock_holds_every_dependency_of_development_by_hash():
    lock = (ROOT / "requirements-dev.lock").read_text("utf-8")
    locked = {m.lower() for m in re.findall(r"^([\w.-]+)==", lock, re.M)}
    assert lock.count("--hash=sha256:") >= len(locked) > 30
    assert "://" not in re.sub(r"^#.*", "", lock, flags=re.M), "no address of a registry"
    extras = PROJECT["optional-dependencies"]
    for requirement in [*PROJECT["dependencies"], *extras["test"], *extras["lint"]]:
        assert name_of(requirement).replace("_", "-") in locked, requirement


def archived(path, rules):
    """Whether MANIFEST.in takes a file into the source archive."""
    for rule, *words in rules:
        if rule == "include" and any(fnmatch.fnmatch(path, w) for w in words):
            return True
        if rule == "recursive-include" and path.startswith(words[0] + "/"):
            if any(fnmatch.fnmatch(Path(path).name, w) for w in words[1:]):
                return True
    return False


def test_the_source_archive_holds_every_file_of_the_project():
    if not (ROOT / ".git").exists():
        pytest.skip("not a checkout: there is no list of the project's files")
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    rules = [line.split() for line in (ROOT / "MANIFEST.in").read_text("utf-8").splitlines()]
    of_the_checkout = (".ci/", ".github/", ".gitignore", "MANIFEST.in", "pyproject.toml", "setup.py")
    missing = [p for p in listed.split() if not p.startswith(of_the_checkout) and not archived(p, rules)]
    assert missing == []  # MANIFEST.in, pyproject.toml and setup.py are there always
