"""Which files are mutated, and which test files are about one: of its own name, or importing it."""

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
        "fastdp/queries/*.py",
        "fastdp/measurement.py",
        "fastdp/domain.py",
        "fastdp/errors.py",
    ),
    "model": (
        "fastdp/model/*.py",
        "fastdp/estimate/**/*.py",
        "fastdp/mechanisms/**/*.py",
        "fastdp/public/**/*.py",
    ),
    "c": ("csrc/*.c", "csrc/*.h"),
}
# Of 100 mutants.
PARTS = {"privacy": 60, "model": 25, "c": 15}

# Made by a program, for people, or tested on a server (make test-spark).
LEFT_ALONE = {
    "csrc/noise_table.h",
    "fastdp/engines/spark.py",
    "fastdp/run/plan_text.py",
    "fastdp/run/__init__.py",
}

# Tests of documents, benches and whole machines: long, and about no line in particular.
NOT_TRIED = tuple(
    f"tests/{folder}/" for folder in ("bench", "docs", "report", "soak", "spark", "typing")
)


def files(group: str) -> list[str]:
    """The group's files, relative to the root, sorted."""
    paths = {p for pattern in GROUPS[group] for p in ROOT.glob(pattern)}
    return sorted(
        str(p.relative_to(ROOT)) for p in paths if str(p.relative_to(ROOT)) not in LEFT_ALONE
    )


def is_c(path: str) -> bool:
    return path.startswith("csrc/")


def own_tests(path: str) -> list[str]:
    """Test files of a module's own name, and those that import it by name; of a C file, its
    extensions'."""
    parts = Path(path).parts
    if not is_c(path):
        named = (ROOT / Path("tests", *parts[1:-1])).glob(f"test_{Path(path).stem}*.py")
    else:
        named = ()
    modules = [f"fastdp._core.{m}" for m in extensions(path)] if is_c(path) else [module_of(path)]
    own = {str(p.relative_to(ROOT)) for p in named}
    return sorted(own.union(*(importers().get(module, []) for module in modules)))


def direct_tests(path: str) -> set[str]:
    """Test files that call the extensions of a C file themselves: all of tests/core, and who
    imports them."""
    core = {str(p.relative_to(ROOT)) for p in (ROOT / "tests" / "core").glob("test_*.py")}
    return core | set(own_tests(path)) if is_c(path) else set()


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
    """Compiled modules that a C file is part of; of a header all that include it, directly or
    not."""
    core = {p.stem for p in (ROOT / "fastdp" / "_core").glob("*.pyx")}
    name = Path(path).stem
    if path.endswith(".c"):
        return [m for m in core if name == m or name.startswith(f"{m}_")]
    reached = {Path(path).name}
    names = set()
    sources = {p: p.read_text("ascii") for p in (ROOT / "csrc").glob("*.[ch]")}
    while True:
        new = {
            p.name for p, text in sources.items() if any(f'"{h}"' in text for h in reached)
        } - reached
        if not new:
            break
        reached |= new
    for file in reached:
        names |= set(extensions(f"csrc/{file}")) if file.endswith(".c") else set()
    for pyx in (ROOT / "fastdp" / "_core").glob("*.p*x*"):
        if any(f'"{h}"' in pyx.read_text("utf-8") for h in reached) and pyx.stem in core:
            names.add(pyx.stem)
    return sorted(names)
