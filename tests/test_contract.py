"""The public front: every promised name is there, cheap to import, and stays what it is."""

import ast
import importlib
import inspect
import re
import subprocess
import sys
from operator import attrgetter
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


def test_an_unknown_name_is_an_attribute_error():
    assert not hasattr(fastdp, "nothing_of_the_kind")


PROMISED = {
    "read": ["source", "schema"],
    "synthesize": [
        "table",
        "mechanism",
        "epsilon",
        "delta",
        "rows=None",
        "public=None",
        "ledger=None",
        "dataset=None",
        "seed=None",
        "sample_seed=None",
        "threads=None",
        "progress=None",
        "cancel=None",
        "out=None",
    ],
    "plan": ["schema", "mechanism", "epsilon", "delta", "rows=10000000"],
    "marginals": ["table", "cliques", "clip=None"],
    "calibrate": ["epsilon", "delta", "sensitivity=1.0", "count=1", "method='gdp'"],
    "Measurement": ["clique", "values", "sigma", "query=None"],
    "fit": [
        "domain",
        "measurements",
        "total=None",
        "stop='noise'",
        "tol",
        "iters=None",
        "zeros=None",
        "warm_start=None",
        "threads=None",
        "callback=None",
        "max_cells=None",
    ],
    "evaluate": ["truth", "synthetic", "schema=None", "metrics=None", "report=None"],
    "verify": ["folder", "ledger=None"],
    "Schema.load": ["source"],
    "Schema.from_deid2": ["path"],
    "Schema.from_domain": ["domain", "user=None"],
    "Model.marginal": ["self", "attrs"],
    "Model.sample": ["self", "n", "seed=None", "where=None"],
    "Model.save": ["self", "path"],
    "Model.load": ["path"],
    "Ledger.open": ["self", "dataset", "epsilon=None", "delta=None"],
    "Ledger.spent": ["self", "dataset"],
    "Ledger.entries": ["self"],
    "simulate.taxi": ["rows", "seed=0", "year=2020"],
    "simulate.incidents": ["rows", "seed=0"],
    "simulate.census": ["rows", "seed=0"],
    "privacy.noise.gaussian": ["sigma", "size"],
    "privacy.noise.laplace": ["scale", "size"],
}


@pytest.mark.parametrize("name", PROMISED)
def test_promised_arguments_are_taken_by_name(name):
    parameters = inspect.signature(attrgetter(name)(fastdp)).parameters
    for promised in PROMISED[name]:
        argument, _, default = promised.partition("=")
        assert argument in parameters, f"fastdp.{name} takes no {argument!r}"
        if default:
            assert repr(parameters[argument].default) == default
        assert parameters[argument].kind is not inspect.Parameter.POSITIONAL_ONLY


def test_a_model_and_a_run_have_what_is_promised():
    for name in ("loss", "iterations"):
        assert name in inspect.signature(fastdp.Model.__init__).parameters or hasattr(fastdp.Model, name), (
            name
        )
    for name in ("data", "model", "privacy", "measurements"):
        assert name in fastdp.Run.__dataclass_fields__ or hasattr(fastdp.Run, name), name


def test_errors_are_of_one_family():
    for name in (
        "SchemaError",
        "DataError",
        "BudgetError",
        "LedgerError",
        "ModelTooLargeError",
        "PrivacyError",
    ):
        error = getattr(fastdp.errors, name)
        assert issubclass(error, fastdp.errors.FastdpError)
        assert error.exit_code > 2


def test_mechanisms_and_published_recipes_are_built_in():
    from fastdp.mechanisms import recipe

    assert {"adagrid", "tworound", "archetypes", "usercounts", "mst"} <= set(fastdp.mechanisms.names())
    for name in ("taxi-adagrid", "census-tworound", "taxi-archetypes", "incidents-usercounts"):
        assert recipe.load(name).schema is not None


def test_types_are_shipped():
    assert (ROOT / "py.typed").exists()
    for source in (ROOT / "_core").glob("*.pyx"):
        assert source.with_suffix(".pyi").exists(), f"{source.stem} has no stub"


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
