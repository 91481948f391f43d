"""The public front: every promised name is there, cheap to import, and stays what it is."""

import ast
import subprocess
import sys
from pathlib import Path

import fastdp

ROOT = Path(fastdp.__file__).parent


def test_every_name_resolves():
    for name in fastdp.__all__:
        assert getattr(fastdp, name) is not None
        assert name in dir(fastdp)


def test_functions_stay_functions_after_their_modules_were_imported():
    import fastdp.evaluate
    import fastdp.plan
    import fastdp.verify

    for name in ("plan", "verify", "evaluate", "synthesize", "marginals", "calibrate", "fit"):
        assert callable(getattr(fastdp, name)), name
        assert not isinstance(getattr(fastdp, name), type(sys))


def test_the_stub_names_what_the_package_has():
    tree = ast.parse((ROOT / "__init__.pyi").read_text("utf-8"))
    named = {a.asname for node in tree.body if isinstance(node, ast.ImportFrom) for a in node.names}
    assert named | {"__version__"} == set(fastdp.__all__)


def test_import_pulls_in_nothing_heavy():
    code = "import sys, fastdp; print([m for m in %r if m in sys.modules])"
    heavy = ["numba", "sklearn", "pandas", "autodp", "polars", "pyarrow", "scipy", "typer", "rich"]
    out = subprocess.run([sys.executable, "-c", code % heavy], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_an_unknown_name_is_an_attribute_error():
    assert not hasattr(fastdp, "nothing_of_the_kind")
