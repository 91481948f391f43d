"""Imports point one way, and nothing behind the door can be reached from the rooms in front of it.

All imports are read from the sources (also those inside functions and under TYPE_CHECKING, the latter only for the private
modules' sake: a type may be named, but no module that counts private rows is imported at run time).
"""

import ast
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "fastdp"

# Lower floors may not import higher ones. A module not named here has the floor of its package's entry.
FLOORS = [
    {"errors", "domain"},
    {"threads", "progress", "dtypes", "toml_write", "files"},
    {"columns", "derive", "bins", "moments", "textvalues", "clipchoice"},
    {"schema", "schema_io", "importers"},
    {
        "bound",
        "encode",
        "encode_maps",
        "encode_policy",
        "encode_text",
        "sources",
        "userids",
        "table",
        "ingest",
    },
    {"queries", "userkeys", "privacy", "engines", "measurement", "simulate"},
    {"releases", "measure", "truth", "model", "ids", "decode", "verify", "runfolder"},
    {"opening", "keyselect", "evaluate", "mechanisms", "archetypes", "publicchoice", "output", "result"},
    {"plan"},
    {"run", "runwork", "publicfit"},
    {"cli", "cli_show", "__main__"},
]
FLOOR = {name: i for i, names in enumerate(FLOORS) for name in names}

# What sees, or leads to, private rows and counts.
BEHIND = {
    "engines",
    "table",
    "bound",
    "ingest",
    "encode",
    "truth",
    "sources",
    "userids",
    "opening",
    "keyselect",
}
BEHIND_CORE = {"count", "bound"}
IN_FRONT = ("mechanisms", "model", "ids", "decode", "measurement", "queries")
# Counters may be held by these alone.
MAY_COUNT = {"measure", "truth", "runwork", "opening", "engines", "releases"}


def modules():
    return sorted(p for p in PACKAGE.rglob("*.py"))


def name_of(path):
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return parts[:-1] if parts[-1] == "__init__" else parts


def imports(path, typing=True):
    """Every module of the package that a source imports, as tuples of names below `fastdp`."""
    tree = ast.parse(path.read_text())
    here = ("fastdp", *name_of(path))
    package = here if path.name == "__init__.py" else here[:-1]
    skipped = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test) and not typing:
            skipped.update(id(n) for n in ast.walk(node))
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Import):
            names = [tuple(alias.name.split(".")) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            base += tuple(node.module.split(".")) if node.module else ()
            names = [(*base, alias.name) for alias in node.names]
        else:
            continue
        yield from (n[1:] for n in names if n[0] == "fastdp" and len(n) > 1)


def leads_behind(target):
    return target[0] in BEHIND or (target[0] == "_core" and len(target) > 1 and target[1] in BEHIND_CORE)


def violations(paths):
    found = []
    for path in paths:
        me = name_of(path)
        if me and me[0] in IN_FRONT:
            found += [
                f"{'.'.join(me)} -> {'.'.join(t)}" for t in imports(path, typing=False) if leads_behind(t)
            ]
    return found


def test_mechanisms_model_and_decoding_cannot_reach_the_counters():
    assert violations(modules()) == []
    assert any(name_of(p)[:1] == ("mechanisms",) for p in modules())


@pytest.mark.parametrize(
    "line",
    [
        "from ..engines.local import local",
        "from .. import table",
        "import fastdp.truth",
        "def f():\n    from .._core import count",
        "from ..bound import SCALE",
        "from fastdp import ingest",
    ],
)
def test_a_forbidden_import_is_found(tmp_path, line, monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "PACKAGE", tmp_path)
    path = tmp_path / "mechanisms" / "greedy.py"
    path.parent.mkdir()
    path.write_text(line + "\n")
    assert violations([path]), line


def test_a_type_may_be_named(tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "PACKAGE", tmp_path)
    path = tmp_path / "mechanisms" / "honest.py"
    path.parent.mkdir()
    path.write_text(
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from ..table import Table\nfrom ..measurement import X\n"
    )
    assert violations([path]) == []


def test_imports_point_one_way():
    found = []
    for path in modules():
        me = name_of(path)
        if not me or me[0] == "_core":
            continue
        floor = FLOOR.get(me[0])
        assert floor is not None, f"{me[0]} has no floor; add it to FLOORS"
        for target in imports(path, typing=False):
            above = FLOOR.get(target[0], -1)
            if above > floor and target[0] not in ("_core", "__version__"):
                found.append(f"{'.'.join(me)} (floor {floor}) -> {'.'.join(target)} (floor {above})")
    assert found == []


def test_only_the_door_and_the_truth_count():
    """Whoever imports the counting kernels or the engine of this machine is on a short list."""
    for path in modules():
        me = name_of(path)
        if not me or me[0] in MAY_COUNT | {"_core", "evaluate", "cli", "table", "bound"}:
            continue
        for target in imports(path, typing=False):
            assert target[:2] not in (("_core", "count"), ("engines", "local")), f"{me} -> {target}"


def test_private_noise_has_one_source():
    """Nobody but the door and the selection of keys draws noise; nobody uses numpy's global generator."""
    for path in modules():
        me = name_of(path)
        if not me or me[0] in ("privacy", "measure", "keyselect"):
            continue
        targets = set(imports(path, typing=False))
        assert ("privacy", "noise") not in targets or me[0] in ("cli", "releases"), me
        text = path.read_text()
        for wrong in ("np.random.seed", "np.random.normal", "np.random.rand", "import pickle"):
            assert wrong not in text, f"{path.name}: {wrong}"


def test_the_map_names_every_module():
    text = (PACKAGE.parent / "ARCHITECTURE.md").read_text("utf-8")
    missing = [
        str(p.relative_to(PACKAGE)) for p in modules() if p.name != "__init__.py" and f"{p.name}`" not in text
    ]
    assert missing == []
