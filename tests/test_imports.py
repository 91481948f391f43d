"""Folders are floors: imports point down, in no circle, and nothing in front of the gateway reaches
what lies behind it.

All imports are read from the sources: those at the top of a file, those inside functions, and those
under TYPE_CHECKING. Only the gateway's rule leaves the last out: a mechanism may name the type of a
session.
"""

import ast
import sys
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests.sources import parsed, statements

PACKAGE = Path(__file__).parents[1] / "fastdp"

# One line a floor, lowest first. A folder imports folders of lower floors and itself; a file at the
# root is a place of its own.
FLOORS = [
    {"errors", "_core"},
    {"domain", "_util", "significance", "division"},
    {"queries", "userkeys", "measurement", "schema", "rows_per_user", "important"},
    {"numbers", "user_views"},
    {"codec", "privacy", "model", "simulate", "users"},
    {"tables", "estimate", "answers", "catalogs"},
    {"engines"},
    {"public"},
    {"release"},
    {"mechanisms"},
    {"metrics", "ondemand"},
    {"report", "plugins"},
    {"run"},
    {"cli"},
    {"__main__"},
]
FLOOR = {place: i for i, places in enumerate(FLOORS) for place in places}

BEHIND = {"tables", "engines"}
"""Where private rows and exact counts are."""
BEHIND_CORE = {"count", "bound"}
MAY_HOLD_TABLES = {"tables", "engines", "release", "run", "metrics", "report", "cli", "plugins"}
FITS_ON_PUBLIC_TABLES = {("public", "data"), ("public", "choice")}
MAY_RELEASE = {("release", "reserve"), ("release", "keyselect"), ("release", "private_domain")}
"""What opens sessions: a mechanism is handed one and imports none of it."""


def modules():
    return sorted(p for p in PACKAGE.rglob("*.py"))


def name_of(path):
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return parts[:-1] if parts[-1] == "__init__" else parts


@cache
def imports(path, types=True):
    """Every module of the package that a source imports, as tuples of names below `fastdp`."""
    here = ("fastdp", *name_of(path))
    out = []
    package = here if path.name == "__init__.py" else here[:-1]
    for node in statements(parsed(path), types):
        if isinstance(node, ast.Import):
            names = [tuple(alias.name.split(".")) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            base += tuple(node.module.split(".")) if node.module else ()
            names = [(*base, alias.name) for alias in node.names]
        else:
            continue
        out += [n[1:] for n in names if n[0] == "fastdp" and len(n) > 1 and n[1] != "__version__"]
    return out


def graph():
    """{module: modules it imports}, names that are no module cut back to the module that holds
    them."""
    names = {name_of(p) for p in modules()}

    def module(target):
        while target not in names and len(target) > 1:
            target = target[:-1]
        return target

    return {name_of(p): {module(t) for t in imports(p)} - {name_of(p)} for p in modules()}


def folded(edges, folder):
    """The graph of the modules and folders right inside a folder: a folder there is one node."""
    inner: dict = {}
    for module, targets in edges.items():
        if module[:1] == (folder,) and len(module) > 1:
            own = inner.setdefault(module[:2], set())
            own |= {t[:2] for t in targets if t[0] == folder and len(t) > 1} - {module[:2]}
    return inner


def upward(paths):
    """Imports of a place on the same floor or above."""
    wrong = []
    for path in paths:
        me = name_of(path)
        if not me:
            continue
        assert me[0] in FLOOR, f"{me[0]} has no floor; add it to FLOORS"
        for target in imports(path):
            if target[0] != me[0] and FLOOR[target[0]] >= FLOOR[me[0]]:
                wrong.append(f"{'.'.join(me)} -> {'.'.join(target)}")
    return wrong


def forbidden(paths):
    """Imports of private places by those that must not see them, and of noise by those that must
    not draw it."""
    wrong = []
    for path in paths:
        me = name_of(path)
        for target in imports(path, types=False):
            behind = target[0] in BEHIND or target[:2] in {("_core", name) for name in BEHIND_CORE}
            free = not me or me[0] in MAY_HOLD_TABLES | {"_core"} or me in FITS_ON_PUBLIC_TABLES
            opens = me[:1] == ("mechanisms",) and (
                target in MAY_RELEASE or target[:2] in MAY_RELEASE
            )
            draws = target[:2] == ("privacy", "noise") and me[:1] not in (
                ("privacy",),
                ("release",),
            )
            on_public = me[:1] == ("mechanisms",) and (
                target[:3] in FITS_ON_PUBLIC_TABLES or target[:2] in FITS_ON_PUBLIC_TABLES
            )
            if (behind and not free) or opens or draws or on_public:
                wrong.append(f"{'.'.join(me)} -> {'.'.join(target)}")
    return wrong


def circle(edges):
    """Modules that import one another in a circle; [] if there is none."""
    try:
        TopologicalSorter(edges).prepare()
    except CycleError as error:
        return [".".join(module) for module in error.args[1]]
    return []


def test_imports_point_down_in_no_circle_and_not_behind_the_gateway():
    assert upward(modules()) == []
    assert forbidden(modules()) == []
    assert any(name_of(p)[:1] == ("mechanisms",) for p in modules())
    assert circle(graph()) == []
    assert circle(folded(graph(), "mechanisms")) == []


def test_no_two_modules_have_one_name():
    names = sorted(p.stem for p in modules() if p.name != "__init__.py")
    assert [name for name in set(names) if names.count(name) > 1] == []


def test_a_circle_is_found():
    ring = {("a",): {("b",)}, ("b",): {("c",)}, ("c",): {("a",)}, ("d",): {("a",)}}
    assert set(circle(ring)) == {"a", "b", "c"}


def test_a_circle_between_a_module_and_a_folder_is_found():
    edges = {
        ("a", "base"): {("a", "shared", "one")},
        ("a", "shared", "one"): set(),
        ("a", "shared", "two"): {("a", "base")},
    }
    assert circle(edges) == [] and circle(folded(edges, "a"))


def planted(folder, monkeypatch, name, text):
    """A module of a package that holds nothing else."""
    monkeypatch.setattr(sys.modules[__name__], "PACKAGE", folder)
    path = folder / name
    path.parent.mkdir(parents=True)
    path.write_text(text + "\n")
    return path


@pytest.mark.parametrize(
    "line",
    [
        "from ..engines.local import local",
        "from .. import tables",
        "import fastdp.engines.truth",
        "def f():\n    from .._core import count",
        "from ..tables.bound import SCALE",
        "from fastdp import tables",
        "from ..privacy import noise",
        "from ..release.reserve import reserve",
        "def f():\n    from ..public.data import PublicTable",
    ],
)
def test_a_forbidden_import_is_found(tmp_path, line, monkeypatch):
    assert forbidden([planted(tmp_path, monkeypatch, "mechanisms/greedy.py", line)]), line


def test_an_import_upward_is_found_and_a_type_may_be_named(tmp_path, monkeypatch):
    for i, line in enumerate(
        ["from ..run.plan import plan", "def f():\n    from fastdp.cli import app"]
    ):
        assert upward([planted(tmp_path / str(i), monkeypatch, "model/eager.py", line)]), line
    text = (
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from ..tables.table import"
        " Table\n"
    )
    path = planted(
        tmp_path, monkeypatch, "mechanisms/honest.py", text + "from ..measurement import X"
    )
    assert forbidden([path]) == [] and upward([path]) == []


def test_the_map_names_every_folder_and_each_says_what_it_holds():
    text = (PACKAGE.parent / "ARCHITECTURE.md").read_text("utf-8")
    folders = {name_of(p)[0] for p in modules() if len(name_of(p)) > 1}
    assert [f for f in sorted(folders) if f"`{f}/`" not in text] == []
    for path in modules():
        if path.name == "__init__.py":
            assert ast.get_docstring(parsed(path)), path
