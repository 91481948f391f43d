"""Which tests reach which line of the package: the quick tests run once under coverage, kept for
later calls.

After a change of the tree only those test files are run again that changed or that reached a
changed file. What tests start in other processes counts, unless the process is killed or gets an
environment of its own.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path

import coverage

from . import concerns, places
from .recorder import CONTEXT
from .sites import Site

SETTINGS = """\
[run]
source = {tree}/fastdp
data_file = {folder}/data
parallel = true
context = ${{{context}}}
disable_warnings = no-data-collected, module-not-measured, module-not-imported, couldnt-parse, ctrace
"""


class Reach:
    """`tests`: those that pass, with seconds and contexts. A context is a test, a shared fixture or
    a test file while it is read; `lines[context][path]` has bit n set where line n was reached."""

    def __init__(self, folder: Path, tree: Path, jobs: int):
        self.folder = folder
        self.tree = tree
        self.jobs = jobs
        self.tests: dict[str, dict] = {}
        self.failing: list[str] = []
        self.lines: dict[str, dict[str, int]] = {}
        self._load()

    def _load(self) -> None:
        store = self.folder / "reach.json"
        if store.exists():
            kept = json.loads(store.read_text())
        else:
            kept = {"digests": {}, "tests": {}, "lines": {}}
        self.tests = kept["tests"]
        self.lines = {c: {p: int(m, 16) for p, m in ps.items()} for c, ps in kept["lines"].items()}
        digests = _digests(self.tree)
        stale = self._stale(kept["digests"], digests)
        if stale:
            self._forget(stale | (kept["digests"].keys() - digests.keys()))
            self._record(sorted(stale))
            lines = {c: {p: hex(m) for p, m in ps.items()} for c, ps in self.lines.items()}
            store.write_text(json.dumps({"digests": digests, "tests": self.tests, "lines": lines}))
        self.failing = sorted(name for name, test in self.tests.items() if not test["passed"])
        for name in self.failing:
            del self.tests[name]

    def _stale(self, before: dict[str, str], now: dict[str, str]) -> set[str]:
        """Test files to run: changed, or reaching a file of the package that changed."""
        files = {
            p
            for p in now
            if Path(p).name.startswith("test_") and not p.startswith(places.NOT_TRIED)
        }
        changed = {path for path in before.keys() | now.keys() if before.get(path) != now.get(path)}
        helpers = {path for path in changed - files if path.startswith("tests/")}
        if any(Path(path).name == "conftest.py" for path in helpers):
            return files
        reached = {
            test.split("::")[0]
            for test, facts in self.tests.items()
            if any(
                changed & self.lines.get(context, {}).keys() for context in (test, *facts["also"])
            )
        }
        return files & (changed | reached | self._users(helpers, now))

    def _users(self, helpers: set[str], paths: Iterable[str]) -> set[str]:
        """Files of tests that import one of the helpers, directly or through others; by their
        names."""
        texts = {p: (self.tree / p).read_text("utf-8") for p in paths if p.startswith("tests/")}
        users = set(helpers)
        size = -1
        while size != len(users):
            size = len(users)
            names = {
                Path(p).parent.name if p.endswith("__init__.py") else Path(p).stem for p in users
            }
            imported = (
                r"^ *(from|import)"
                rf" [^#\n(]*(\([^)]*)?\b({'|'.join(map(re.escape, names)) or '-'})\b"
            )
            word = re.compile(imported, re.M)
            users |= {path for path, text in texts.items() if word.search(text)}
        return users

    def _forget(self, files: Iterable[str]) -> None:
        gone = set(files)
        self.tests = {
            name: test for name, test in self.tests.items() if name.split("::")[0] not in gone
        }
        for context in [c for c in self.lines if _file_of(c) in gone]:
            del self.lines[context]

    def _record(self, files: list[str]) -> None:
        print(f"recording which lines {len(files)} test files reach", flush=True)
        notes = self.folder / "notes"
        shutil.rmtree(notes, ignore_errors=True)
        notes.mkdir(parents=True)
        settings = notes / "coverage.ini"
        settings.write_text(SETTINGS.format(tree=self.tree, folder=notes, context=CONTEXT))
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-m",
            "not slow",
            "-p",
            "tools.mutants.recorder",
        ]
        command += ["-n", str(self.jobs), "--dist", "loadfile"] if self.jobs > 1 else []
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join([str(self.tree), os.environ.get("PYTHONPATH", "")]),
            "PYTHONDONTWRITEBYTECODE": "1",
            "COVERAGE_PROCESS_START": str(settings),
            "COVERAGE_CORE": "ctrace",
            "MUTANTS_NOTES": str(notes),
        }
        with (self.folder / "recording.log").open("w") as log:
            subprocess.run(
                [*command, *files], cwd=self.tree, env=environment, stdout=log, stderr=log
            )
        for note in notes.glob("*.json"):
            self.tests |= json.loads(note.read_text())
        if not self.tests:
            raise SystemExit(f"no test could be run; see {self.folder / 'recording.log'}")
        run = coverage.Coverage(config_file=str(settings))
        run.combine([str(notes)], strict=False)
        data = run.get_data()
        for file in data.measured_files():
            path = str(Path(file).relative_to(self.tree))
            for line, contexts in data.contexts_by_lineno(file).items():
                for context in contexts:
                    masks = self.lines.setdefault(context, {})
                    masks[path] = masks.get(path, 0) | 1 << line
        shutil.rmtree(notes)

    def reaching(self, lines: dict[str, int]) -> list[str]:
        """Tests that reach one of the lines (path -> bits), the quickest first."""
        contexts = {
            c
            for c, masks in self.lines.items()
            if any(masks.get(p, 0) & bits for p, bits in lines.items())
        }
        names = (
            n
            for n, test in self.tests.items()
            if n in contexts or not contexts.isdisjoint(test["also"])
        )
        return sorted(names, key=lambda name: (self.tests[name]["seconds"], name))

    def while_read(self, site: Site) -> bool:
        """Whether a change may show while modules are read: it is in no function, or in one called
        then."""
        lines = concerns.concerned(site.path, site.line)
        if not concerns.inside(site.path) >> site.line & 1:
            return True
        return any(
            masks.get(path, 0) & bits
            for context, masks in self.lines.items()
            if context.startswith("file ")
            for path, bits in lines.items()
        )

    def _turn(self, own: Sequence[str], name: str) -> tuple[bool, float, str]:
        return name.split("::")[0] not in own, self.tests[name]["seconds"], name

    def concerned(self, site: Site) -> list[str]:
        """Tests to try a mutant on: those that reach it, of the file's own tests first, then the
        quickest first; where none does, and where the change is in no function, the file's own
        tests too."""
        own = places.own_tests(site.path)
        direct = places.direct_tests(site.path)
        names = set(self.reaching(concerns.concerned(site.path, site.line)))
        names |= {name for name in self.tests if name.split("::")[0] in direct}
        field = site.path.endswith(".py") and not concerns.inside(site.path) >> site.line & 1
        if field or not names:  # tests may read a field
            names |= {name for name in self.tests if name.split("::")[0] in own}
        return sorted(names, key=partial(self._turn, own))


def _file_of(context: str) -> str:
    """The test file a context belongs to; "" for a fixture of a folder, whose lines are only added
    to."""
    return context.removeprefix("file ").removeprefix("fixture ").split("::")[0]


def _digests(tree: Path) -> dict[str, str]:
    paths = [p for top in ("fastdp", "tests") for p in sorted((tree / top).rglob("*.py"))]
    return {
        str(p.relative_to(tree)): hashlib.sha256(p.read_bytes()).hexdigest()[:16] for p in paths
    }
