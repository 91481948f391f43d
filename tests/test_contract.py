"""The public front: every promised name is there, cheap to import, and stays what it is."""

import ast
import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

import fastdp

ROOT = Path(fastdp.__file__).parent


def test_every_name_resolves():
    for name in fastdp.__all__:
        assert getattr(fastdp, name) is not None
        assert name in dir(fastdp)


def test_functions_stay_functions_after_their_modules_were_imported():
    import fastdp.metrics
    import fastdp.run.plan
    import fastdp.run.verify

    for name in ("plan", "verify", "evaluate", "synthesize", "marginals", "calibrate", "fit"):
        assert callable(getattr(fastdp, name)), name
        assert not isinstance(getattr(fastdp, name), type(sys))


def test_the_stub_names_what_the_package_has():
    tree = ast.parse((ROOT / "__init__.pyi").read_text("utf-8"))
    named = {a.asname for node in tree.body if isinstance(node, ast.ImportFrom) for a in node.names}
    assert named | {"__version__"} == set(fastdp.__all__)


def test_import_pulls_in_nothing_heavy():
    code = "import sys, fastdp; print([m for m in %r if m in sys.modules])"
    heavy = ["numba", "sklearn", "pandas", "pyspark", "autodp", "polars", "pyarrow", "scipy", "typer", "rich"]
    out = subprocess.run([sys.executable, "-c", code % heavy], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


@pytest.mark.parametrize("source", sorted((ROOT / "_core").glob("*.pyx")), ids=lambda p: p.stem)
def test_a_stub_names_what_its_kernel_has(source):
    stub = ast.parse(source.with_suffix(".pyi").read_text("utf-8"))
    named = {n.name for n in stub.body if isinstance(n, ast.FunctionDef | ast.ClassDef)}
    kernel = importlib.import_module(f"fastdp._core.{source.stem}")
    public = {
        n
        for n in re.findall(r"^(?:def|cdef class|cpdef \w+) (\w+)", source.read_text("utf-8"), re.M)
        if n[0] != "_"
    }
    assert named == public
    assert all(hasattr(kernel, n) for n in named)
