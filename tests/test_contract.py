"""The public front: every promised name is there, cheap to import, and stays what it is."""

import ast
import fnmatch
import importlib
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import fastdp
from tests.tiers import slow_cases

ROOT = Path(fastdp.__file__).parent


def test_names_resolve_are_in_the_stub_and_stay_functions():
    """Also after modules of the same names were imported."""
    for name in ("metrics", "run.plan", "run.verify"):
        importlib.import_module(f"fastdp.{name}")
    for name in fastdp.__all__:
        assert getattr(fastdp, name) is not None and name in dir(fastdp)
    for name in ("plan", "verify", "evaluate", "synthesize", "marginals", "calibrate", "fit"):
        assert callable(getattr(fastdp, name)), name
        assert not isinstance(getattr(fastdp, name), type(sys))
    tree = ast.parse((ROOT / "__init__.pyi").read_text("utf-8"))
    named = {a.asname for node in tree.body if isinstance(node, ast.ImportFrom) for a in node.names}
    assert named | {"__version__"} == set(fastdp.__all__)


def test_import_pulls_in_nothing_heavy():
    code = "import sys, fastdp; print([m for m in %r if m in sys.modules])"
    heavy = [
        "numba",
        "sklearn",
        "pandas",
        "pyspark",
        "autodp",
        "polars",
        "pyarrow",
        "scipy",
        "mpmath",
        "rich",
    ]
    out = subprocess.run(
        [sys.executable, "-c", code % heavy], capture_output=True, text=True, check=True
    )
    assert out.stdout.strip() == "[]"


HEAVY = ("numpy", "scipy", "pyarrow", "polars", "msgspec", "mpmath", "pandas", "rich")
WATCHED = """
import sys
class Tell:
    def find_spec(self, name, path=None, target=None):
        if name in %r:
            print("imports", name, file=sys.stderr, flush=True)
sys.meta_path.insert(0, Tell())
from fastdp.cli.app import main
main(sys.argv[1:])
"""


@pytest.mark.parametrize("words", [("--help",), ("--version",), ("synth", "--help"), ("ledger",)])
def test_help_imports_nothing_heavy(words):
    """Counted by modules: seconds depend on the machine."""
    code = WATCHED % (HEAVY,)
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True)
    assert done.stdout and done.stderr == ""


def test_a_run_gives_a_sign_of_life_before_it_imports_anything_heavy(tmp_path):
    """Its imports take half a second of a processor, and several seconds of a busy one. What matters
    is the first line: the program is ended then."""
    (tmp_path / "t.csv").write_text("a\n1\n")
    (tmp_path / "t.toml").write_text("[columns.a]\nkind = 'integer'\nmax = 3\n")
    told = {}
    for more in ((), ("--quiet",), ("--progress", "json")):
        words = ("synth", "t.csv", "-e", "1", "--out", f"run{len(more)}", *more)
        command = [sys.executable, "-c", WATCHED % (HEAVY,), *words]
        with subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, cwd=tmp_path
        ) as started:
            told[more] = started.stderr.readline().rstrip("\n")
            started.kill()
    first, *others = told.values()
    assert first == "fastdp     0.0 s  starting"
    assert all(line.startswith("imports ") for line in others), "quiet is silent, events are JSON"


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


# Synthesis, planning, verification and scores where numba and autodp cannot be imported: both are
# extras. Each test runs in a process of its own whose imports of both fail.


BLOCKED = ("numba", "llvmlite", "autodp", "matplotlib")
BLOCK = """
import sys
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in %r:
            raise ModuleNotFoundError(f"No module named {name!r} (blocked)", name=name)
sys.meta_path.insert(0, Block())
"""
WORK = """
import json, fastdp
schema = fastdp.Schema.load("taxi-deid2")
truth, other = fastdp.simulate.taxi(1500, seed=1), fastdp.simulate.taxi(1500, seed=2)
plan = fastdp.plan(schema, "taxi-adagrid", epsilon=1.0, delta=1e-6, rows=10_000_000)
run = fastdp.synthesize(truth, "taxi-adagrid", epsilon=1.0, delta=1e-6, schema=schema, out=sys.argv[1])
fastdp.verify(sys.argv[1])  # raises where something is wrong
accountant = json.load(open(sys.argv[1] + "/privacy.json"))["accountant"]["second"]
fastdp.evaluate(truth, other, schema, metrics=["deid2"])
assert fastdp.compiled(len)([1, 2]) == 2
loaded = [m for m in %r if m in sys.modules]
print(json.dumps([run.data.num_rows > 0, len(plan.lines) > 0, accountant, loaded]))
"""


def run(code, *arguments):
    out = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True)
    assert out.returncode == 0, out.stderr[-2000:]
    return json.loads(out.stdout.splitlines()[-1])


@pytest.mark.slow
def test_everything_works_without_numba_and_autodp(tmp_path):
    made, planned, accountant, loaded = run(
        BLOCK % (BLOCKED,) + WORK % (BLOCKED,), str(tmp_path / "run")
    )
    assert made and planned and loaded == []
    assert accountant.startswith("mpmath"), "the statement says which accountant agreed"


UNUSED = ("pandas", "polars", "numba", "scipy.cluster", "pyspark", "duckdb", "sklearn")
JOB = """
import json, sys
from fastdp.cli.app import main
sys.argv = ["fastdp", "synth", sys.argv[1] + "/trips.parquet", "--public", sys.argv[1] + "/public.parquet",
            "-m", sys.argv[2], "-s", "taxi-deid2", "-e", "1", "-d", "2.5e-5", "--out", sys.argv[1] + "/run"]
try:
    main()
except SystemExit:
    pass
print(json.dumps([m for m in %r if m in sys.modules]))
"""


@pytest.mark.parametrize(
    "mechanism, more", [("mst", ("scipy.stats",)), *slow_cases(("taxi-adagrid", ()))]
)
def test_a_run_from_parquet_to_parquet_imports_only_what_it_needs(tmp_path, mechanism, more):
    """pyarrow.array alone would import pandas. Polars and rich may be absent. The verdict judges means
    by sparse matrices, so that scipy.sparse is needed; scipy.stats would cost seconds."""
    for name, seed in (("trips", 1), ("public", 2)):
        pq.write_table(fastdp.simulate.taxi(1500, seed=seed), tmp_path / f"{name}.parquet")
    block = BLOCK % ((*BLOCKED, "polars", "rich"),)
    assert run(block + JOB % (UNUSED + more,), str(tmp_path), mechanism) == []
    assert (tmp_path / "run" / "synthetic.parquet").exists()


# What the package is made of: no code from data, each dependency with its reason, a lock for
# development.


REPOSITORY = Path(__file__).parents[1]
PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))["project"]
FORBIDDEN_CALLS = {"eval", "exec", "compile", "__import__"}
FORBIDDEN_MODULES = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "marshal", "shelve"}


def name_of(requirement):
    return re.match(r"[\w.-]+", requirement)[0].lower()


WORDS = re.compile(r"\b(eval|exec|compile|__import__|\w*pickle|dill|joblib|marshal|shelve|shell)\b")


def offences(text):
    """(line, what) of every call or import that makes code or objects out of bytes."""
    if not WORDS.search(text):  # most files: a search takes a hundredth of the time
        return
    for node in ast.walk(ast.parse(text)):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in FORBIDDEN_CALLS
        ):
            yield node.lineno, node.func.id
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names = [node.module or ""]
        yield from (
            (node.lineno, name) for name in names if name.split(".")[0] in FORBIDDEN_MODULES
        )
        if isinstance(node, ast.keyword) and node.arg in ("allow_pickle", "shell"):
            if not (isinstance(node.value, ast.Constant) and node.value.value is False):
                yield node.value.lineno, node.arg


@pytest.mark.parametrize(
    "planted", ["eval('1')", "import pickle", "from dill import load", "f(shell=True)"]
)
def test_the_search_sees_what_it_looks_for(planted):
    assert list(offences(planted))


def test_nothing_in_the_package_makes_code_or_objects_out_of_bytes():
    for path in sorted((REPOSITORY / "fastdp").rglob("*.py")):
        assert list(offences(path.read_text("utf-8"))) == [], path.name


def test_dependencies_have_reasons_and_are_locked_by_hash():
    text = (REPOSITORY / "ARCHITECTURE.md").read_text("utf-8").lower()
    for requirement in PROJECT["dependencies"]:
        assert name_of(requirement) in text, requirement
    lock = (REPOSITORY / "requirements-dev.lock").read_text("utf-8")
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
    if not (REPOSITORY / ".git").exists():
        pytest.skip("not a checkout: there is no list of the project's files")
    listed = subprocess.run(
        ["git", "ls-files"], cwd=REPOSITORY, capture_output=True, text=True, check=True
    ).stdout
    rules = [line.split() for line in (REPOSITORY / "MANIFEST.in").read_text("utf-8").splitlines()]
    of_the_checkout = (
        ".ci/",
        ".github/",
        ".gitignore",
        "MANIFEST.in",
        "pyproject.toml",
        "setup.py",
    )
    missing = [
        p for p in listed.split() if not p.startswith(of_the_checkout) and not archived(p, rules)
    ]
    assert missing == []  # MANIFEST.in, pyproject.toml and setup.py are there always
