"""Which files are mutated, and which tests concern a file: those of its own name, those that import
it by name, those of its folder and of the folders that use it."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]

GROUPS = {
    "privacy": (
        "fastdp/privacy/*.py",
        "fastdp/release/*.py",
        "fastdp/tables/*.py",
        "fastdp/engines/*.py",
        "fastdp/codec/*.py",
        "fastdp/run/*.py",
        "fastdp/userkeys.py",
        "fastdp/queries.py",
        "fastdp/measurement.py",
        "fastdp/domain.py",
        "fastdp/errors.py",
    ),
    "model": ("fastdp/model/*.py", "fastdp/mechanisms/**/*.py", "fastdp/public/**/*.py"),
    "c": ("csrc/*.c", "csrc/*.h"),
}
# Of 100 mutants.
PARTS = {"privacy": 60, "model": 25, "c": 15}

# Made by a program, for people, or tested on a server (make test-spark).
LEFT_ALONE = {
    "csrc/noise_table.h",
    "fastdp/engines/spark.py",
    "fastdp/run/plantext.py",
    "fastdp/run/__init__.py",
}

# Tests of documents, benches, other processors and whole machines: long, and about no line in particular.
NOT_TRIED = tuple(
    f"tests/{folder}/"
    for folder in ("bench", "cross", "docs", "mutants", "report", "soak", "spark", "typing")
)

# Tests that concern a folder, in the order in which they are run; a test file of the module's own name comes
# first.
FOLDERS: dict[str, list[str]] = {
    "fastdp/privacy": [
        "tests/privacy",
        "tests/release tests/audit/test_attacks_session.py tests/audit/test_attacks_release.py",
        "tests/audit/test_planted.py tests/audit/test_distances.py tests/audit/test_private_clip.py",
        "tests/run/test_verify.py tests/run/test_plan.py tests/run/test_limits.py tests/cli/test_ledger.py",
    ],
    "fastdp/release": [
        "tests/release",
        "tests/audit/test_planted.py tests/audit/test_attacks_session.py tests/audit/test_attacks_keys.py",
        "tests/audit",
        "tests/run/test_verify.py tests/run/test_plan.py tests/mechanisms/test_mst.py",
    ],
    "fastdp/tables": [
        "tests/tables",
        "tests/audit/test_attacks_reading.py tests/audit/test_attacks_lines.py",
        "tests/engines tests/audit/test_neighbours.py tests/audit/test_planted.py tests/core/test_lines.py",
        "tests/audit/test_attacks_keys.py tests/release/test_keyselect.py tests/cli/test_dialect.py",
        "tests/run/test_synthesize.py tests/run/test_engines.py",
    ],
    "fastdp/engines": [
        "tests/engines",
        "tests/tables/test_bound.py tests/audit/test_neighbours.py tests/audit/test_planted.py",
        "tests/run/test_engines.py tests/mechanisms/usercounts tests/release/test_gateway.py",
    ],
    "fastdp/codec": [
        "tests/codec",
        "tests/tables/test_ingest.py tests/audit/test_attacks_reading.py tests/schema",
        "tests/run/test_synthesize.py tests/simulate",
    ],
    "fastdp/run": [
        "tests/run/test_plan.py tests/run/test_verify.py",
        "tests/run",
        "tests/cli tests/audit/test_attacks_release.py tests/release/test_private_clip.py",
    ],
    "fastdp": [
        "tests/test_queries.py tests/test_domain.py tests/test_contract.py",
        "tests/release/test_gateway.py tests/tables/test_bound.py tests/engines/test_local.py",
        "tests/mechanisms/test_adagrid.py tests/mechanisms/usercounts tests/model/test_estimate.py",
        "tests/audit/test_attacks_session.py tests/audit/test_planted.py",
    ],
    "fastdp/model": [
        "tests/model/test_estimate.py tests/model/test_model.py tests/model/test_infer.py",
        "tests/model",
        "tests/mechanisms/test_mst.py tests/mechanisms/test_adagrid.py tests/mechanisms/test_cliquetree.py",
    ],
    "fastdp/mechanisms": [
        "tests/mechanisms/test_mst.py tests/mechanisms/test_recipe.py tests/mechanisms/parts",
        "tests/mechanisms",
        "tests/run/test_plan.py tests/run/test_limits.py tests/release/test_private_clip.py",
        "tests/run/test_synthesize.py",
    ],
    "fastdp/public": ["tests/public", "tests/mechanisms/test_archetypes.py", "tests/run/test_synthesize.py"],
}

# C sources by the beginning of their name, the longest that fits.
KERNELS: dict[str, list[str]] = {
    "noise": [
        "tests/privacy/test_noise_kernel.py tests/privacy/test_noise_crafted.py",
        "tests/privacy/test_noise_law.py",
        "tests/core/test_failures.py",
    ],
    "bound": [
        "tests/tables/test_bound.py",
        "tests/tables tests/engines",
        "tests/core tests/mechanisms/usercounts",
    ],
    "count": ["tests/engines", "tests/core tests/tables/test_bound.py tests/audit/test_neighbours.py"],
    "codes": ["tests/codec", "tests/tables/test_ingest.py tests/core"],
    "lines": ["tests/core/test_lines.py", "tests/tables tests/audit/test_attacks_lines.py tests/core"],
    "infer": ["tests/model/test_infer.py tests/model/test_move.py", "tests/model", "tests/core"],
    "dual": ["tests/model/test_dual.py", "tests/model tests/core"],
    "ancestors": ["tests/model/test_flow.py", "tests/model tests/core"],
    "cliques": ["tests/model/test_marginals.py tests/model/test_estimate.py", "tests/model tests/core"],
    "treesize": ["tests/model/test_marginals.py", "tests/model tests/core tests/mechanisms/test_aim.py"],
    "halve": ["tests/mechanisms/parts/test_halving.py", "tests/mechanisms/test_cliquetree.py"],
    "sample": ["tests/model/test_sample.py", "tests/model tests/core"],
    "draw": ["tests/public", "tests/codec/test_decode.py tests/core"],
    "ids": ["tests/public", "tests/core"],
    "score": ["tests/evaluate/test_score_kernels.py", "tests/evaluate tests/core"],
    "team": [
        "tests/core/test_team.py",
        "tests/engines/test_local.py tests/model/test_infer.py tests/test_fork.py",
    ],
    "": ["tests/core", "tests/engines tests/tables tests/codec", "tests/model tests/public tests/evaluate"],
}


def files(group: str) -> list[str]:
    """The group's files, relative to the root, sorted."""
    paths = {p for pattern in GROUPS[group] for p in ROOT.glob(pattern)}
    return sorted(str(p.relative_to(ROOT)) for p in paths if str(p.relative_to(ROOT)) not in LEFT_ALONE)


def is_c(path: str) -> bool:
    return path.startswith("csrc/")


def stages(path: str) -> list[list[str]]:
    """Test files and folders for each stage of a file's tests, for changes that no recorded test reaches: a
    mutant that passes one goes on to the next."""
    if is_c(path):
        return [stage.split() for stage in _kernel(path)]
    parts = Path(path).parts
    folder = next("/".join(parts[:n]) for n in (2, 1) if "/".join(parts[:n]) in FOLDERS)
    first = own_tests(path)
    then = [test for test in importers().get(module_of(path), []) if test not in first][:4]
    return [*(stage for stage in (first, then) if stage), *(stage.split() for stage in FOLDERS[folder])]


def _kernel(path: str) -> list[str]:
    return KERNELS[max((key for key in KERNELS if Path(path).stem.startswith(key)), key=len)]


def own_tests(path: str) -> list[str]:
    """Test files of a module's own name; of a C file, those of its first stage, and the vectors of all
    kernels."""
    if is_c(path):
        places = (ROOT / name for name in _kernel(path)[0].split())
        files = [f for p in places for f in ([p] if p.is_file() else p.rglob("test_*.py"))]
        files.append(ROOT / "tests" / "core" / "test_kernels.py")
    else:
        parts = Path(path).parts
        files = list((ROOT / Path("tests", *parts[1:-1])).glob(f"test_{Path(path).stem}*.py"))
    return sorted(str(p.relative_to(ROOT)) for p in files)


def direct_tests(path: str) -> set[str]:
    """Test files that call the extensions of a C file themselves: all of tests/core, and who imports them."""
    if not is_c(path):
        return set()
    core = {str(p.relative_to(ROOT)) for p in (ROOT / "tests" / "core").glob("test_*.py")}
    return core.union(*(importers().get(f"fastdp._core.{m}", []) for m in extensions(path)))


def module_of(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


IMPORT = re.compile(r"^ *from (fastdp[\w.]*) import (\([^)]*\)|[^\n]*)", re.M)


@cache
def importers() -> dict[str, list[str]]:
    """Module -> the test files that import it by name, the shortest first."""
    out: dict[str, list[str]] = {}
    tests = sorted((ROOT / "tests").rglob("test_*.py"), key=lambda p: (p.stat().st_size, str(p)))
    for test in tests:
        names = set()
        for module, imported in IMPORT.findall(test.read_text("utf-8")):
            names |= {module, *(f"{module}.{name}" for name in re.findall(r"\w+", imported))}
        for name in names:
            out.setdefault(name, []).append(str(test.relative_to(ROOT)))
    return out


def extensions(path: str) -> list[str]:
    """Compiled modules that a C file is part of; of a header all that include it, directly or not."""
    core = {p.stem for p in (ROOT / "fastdp" / "_core").glob("*.pyx")}
    name = Path(path).stem
    if path.endswith(".c"):
        return [m for m in core if name == m or name.startswith(f"{m}_")]
    reached, names = {Path(path).name}, set()
    sources = {p: p.read_text("ascii") for p in (ROOT / "csrc").glob("*.[ch]")}
    while True:
        new = {p.name for p, text in sources.items() if any(f'"{h}"' in text for h in reached)} - reached
        if not new:
            break
        reached |= new
    for file in reached:
        names |= set(extensions(f"csrc/{file}")) if file.endswith(".c") else set()
    for pyx in (ROOT / "fastdp" / "_core").glob("*.p*x*"):
        if any(f'"{h}"' in pyx.read_text("utf-8") for h in reached) and pyx.stem in core:
            names.add(pyx.stem)
    return sorted(names)
