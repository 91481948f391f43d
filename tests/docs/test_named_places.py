"""Modules, functions and classes that ARCHITECTURE.md and docstrings of packages name exist."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from tests.docs.pages import PAGES
from tests.sources import parsed, statements

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "fastdp"
ARCHITECTURE = ROOT / "ARCHITECTURE.md"
PLACES = [ARCHITECTURE, *sorted(PACKAGE.rglob("__init__.py"))]
FOLDERS = ("fastdp/", "tests/", "csrc/", "bench/", "tools/")
NAME = re.compile(r"[A-Za-z_]\w*(?:[./][A-Za-z_]\w*)*/?")


def text_of(place):
    """A page without its blocks of code, or the docstring of a package."""
    text = place.read_text("utf-8")
    if place.suffix == ".md":
        return re.sub(r"```.*?```", "", text, flags=re.S)
    return ast.get_docstring(ast.parse(text)) or ""


def named_in(text):
    """What stands between backticks and looks like a module, a function, a class or a folder; of a
    call, the function."""
    for quoted in re.findall(r"`([^`]+)`", text):
        name = quoted.split("(")[0].split("=")[0]
        if NAME.fullmatch(name):
            yield name.rstrip("/")


def defined_in(tree):
    """Names that a module imports or defines: functions and their parameters, classes, constants,
    and attributes of classes. Variables inside functions do not count."""
    for node in (tree, *statements(tree)):
        if isinstance(node, ast.ImportFrom):
            yield from (alias.name for alias in node.names)
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        if isinstance(node, ast.FunctionDef):
            yield from (one.arg for one in (*node.args.args, *node.args.kwonlyargs))
        if isinstance(node, ast.Module | ast.ClassDef):
            for line in node.body:
                if isinstance(line, ast.AnnAssign):
                    yield getattr(line.target, "id", "")
                if isinstance(line, ast.Assign):
                    yield from (getattr(target, "id", "") for target in line.targets)
        if isinstance(node, ast.Assign):
            yield from (t.attr for t in node.targets if isinstance(t, ast.Attribute))


@cache
def known():
    """Names of files, folders, and of what modules define."""
    paths = [*PACKAGE.rglob("*.py"), *PACKAGE.rglob("*.pyx"), *(ROOT / "csrc").iterdir()]
    names = {part for path in paths for part in path.relative_to(ROOT).with_suffix("").parts}
    for path in PACKAGE.rglob("*.py"):
        names |= set(defined_in(parsed(path)))
    return names


def exists(name):
    """Whether each part is a known name, or it is a path of the project."""
    if not name.endswith(".py") and set(re.split(r"[./]", name)) <= known():
        return True
    bases = (ROOT, PACKAGE, *(folder for folder in PACKAGE.iterdir() if folder.is_dir()))
    paths = [base / (name + suffix) for base in bases for suffix in ("", ".py")]
    if any(path.exists() for path in paths):
        return True
    return name.endswith(".py") and any(ROOT.glob(f"*/**/{name}"))


@pytest.mark.parametrize("place", PLACES, ids=lambda place: str(place.relative_to(ROOT)))
def test_what_a_map_of_the_project_names_exists(place):
    assert [name for name in named_in(text_of(place)) if not exists(name)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_of_the_project_that_a_page_names_exist(page):
    paths = [name for name in named_in(text_of(page)) if name.startswith(FOLDERS)]
    assert [name for name in paths if not exists(name)] == []


def test_a_module_that_does_not_exist_is_found():
    named = list(
        named_in("`gateway` is the session, `Session.measure(...)` asks; see `no_module_x`")
    )
    assert [name for name in named if not exists(name)] == ["no_module_x"]
