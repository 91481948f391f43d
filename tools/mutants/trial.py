"""One mutant against the tests that concern it, in a copy of the tree."""

from __future__ import annotations

import compileall
import contextlib
import hashlib
import json
import os
import py_compile
import shutil
import subprocess
import sys
import time
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

from . import places
from .reach import Reach
from .runner import NO_END, exchangeable
from .sites import Site

COPIED = (
    "fastdp",
    "csrc",
    "tests",
    "tools",
    "bench",
    "docs",
    "examples",
    "setup.py",
    "pyproject.toml",
    "README.md",
    "LICENSE",
    "Makefile",
    "ARCHITECTURE.md",
    "requirements-dev.lock",
)
FIRST_SECONDS = 20.0
"""Recorded seconds of the tests that are tried first, in a process of their own."""
NEAR_FILES = 6
"""Files that those tests are in, at most: reading test files takes time, too."""


@dataclass(frozen=True)
class Limits:
    """In seconds. `tests`: a mutant is tried on tests that took so long, together, when they were
    recorded. `hang`: a test that takes that much longer than six times as long as then has been
    hung up by the mutant; more on a machine that is busier than it was."""

    tests: float = 300.0
    hang: float = 60.0


@dataclass(frozen=True)
class Outcome:
    """`verdict`: caught, survived, or stillborn (does not compile, or compiles to the same code).
    `by`: the first test that failed."""

    verdict: str
    seconds: float
    by: str = ""


class Workshop:
    """A copy of the tree to work in, made anew in `folder` when the tree has changed."""

    def __init__(self, folder: Path, limits: Limits):
        self.folder = folder
        self.limits = limits
        self.tree = folder / "tree"
        self._processes: list[_Pytest] = []
        digest = tree_digest()
        note = folder / "digest"
        if self.tree.exists() and note.exists() and note.read_text() == digest:
            return
        shutil.rmtree(self.tree, ignore_errors=True)
        self.tree.mkdir(parents=True)
        skip = shutil.ignore_patterns("__pycache__", "out", "results")
        for name in COPIED:
            source = places.ROOT / name
            if source.is_dir():
                shutil.copytree(source, self.tree / name, ignore=skip)
            elif source.exists():
                shutil.copy2(source, self.tree / name)
        # Compiled files that are compared by content: a change within the clock's tick is seen,
        # too.
        compileall.compile_dir(
            self.tree / "fastdp",
            quiet=2,
            invalidation_mode=py_compile.PycInvalidationMode.CHECKED_HASH,
        )
        note.write_text(digest)

    def failing(self, tests: Sequence[str]) -> list[str]:
        """Those of the tests that fail without any change: what fails by itself catches nothing."""
        return self._tests(dict.fromkeys(tests, 3600.0), stop=False) if tests else []

    def try_out(self, site: Site, reach: Reach) -> Outcome:
        """Changes the file, builds what it is part of, runs its tests until one fails; then undoes
        the change."""
        start = time.monotonic()
        self._reader()
        file = self.tree / site.path
        original = file.read_bytes()
        binaries = self._binaries(site)
        kept = {path: path.read_bytes() for path in binaries}
        try:
            file.write_bytes(site.apply(original))
            if binaries and not self._build(site):
                return Outcome("stillborn", time.monotonic() - start)
            within = not binaries and not reach.while_read(site)
            forked = within and exchangeable(file, original, site.apply(original))
            failed = self._try_tests(reach.concerned(site), reach, file if forked else None)
            verdict = "caught" if failed else "survived"
            # A line that the build for this processor leaves out, for example.
            if binaries and not failed:
                changed = [path.read_bytes() for path in binaries]
                file.write_bytes(original)
                if self._build(site) and changed == [path.read_bytes() for path in binaries]:
                    verdict = "stillborn"
            return Outcome(verdict, time.monotonic() - start, failed)
        finally:
            file.write_bytes(original)
            for path, content in kept.items():
                replacement = path.with_suffix(".kept")
                replacement.write_bytes(content)
                replacement.chmod(0o755)
                os.replace(replacement, path)

    def _try_tests(self, names: list[str], reach: Reach, forked: Path | None) -> str:
        """The first test that fails, or "". `forked`: the changed file, where its functions can be
        exchanged in a process that has read every test already; else a new process reads the tests'
        files: in two parts then, as that takes time, the first part being of a few files."""
        ends = list(accumulate(reach.tests[name]["seconds"] for name in names))
        within = names[: max(1, bisect_right(ends, self.limits.tests))]
        first = [name for name, end in zip(within, ends) if end <= FIRST_SECONDS] or within[:1]
        near = list(dict.fromkeys(name.split("::")[0] for name in first))[:NEAR_FILES]
        first = [name for name in first if name.split("::")[0] in near]
        rest = sorted(set(within) - set(first), key=within.index)
        for part in [within] if forked else filter(None, (first, rest)):
            for patience in (1, 3):  # what does not end on a busy machine is given more time once
                limits = {
                    n: patience * (self.limits.hang + 6 * reach.tests[n]["seconds"]) for n in part
                }
                failed = self._tests(limits, forked, fresh=not forked)
                if failed != [NO_END]:
                    break
            if failed:
                return failed[0]
        return ""

    def stop(self) -> None:
        """Ends the processes that run tests."""
        for process in self._processes:
            process.end()

    def _binaries(self, site: Site) -> list[Path]:
        if not site.path.startswith("csrc/"):
            return []
        return [
            p
            for m in places.extensions(site.path)
            for p in (self.tree / "fastdp/_core").glob(f"{m}.*.so")
        ]

    def _build(self, site: Site) -> bool:
        names = ",".join(places.extensions(site.path))
        command = [sys.executable, "setup.py", "-q", "build_ext", "--inplace"]
        done = subprocess.run(
            command, cwd=self.tree, env=os.environ | {"FASTDP_EXT": names}, capture_output=True
        )
        return done.returncode == 0

    def _reader(self) -> _Pytest:
        """The process that has read every test, of a tree without any change."""
        if not self._processes:
            self._processes.append(_Pytest(self.folder, self.tree, ["tests"]))
            self._processes[0].ask({}, None, False)  # answered when all is read
        return self._processes[0]

    def _tests(
        self,
        tests: Mapping[str, float],
        path: Path | None = None,
        stop: bool = True,
        fresh: bool = False,
    ) -> list[str]:
        """The tests that fail, of tests with the seconds that each may take, in this order."""
        if not fresh:
            return self._reader().ask(tests, path, stop)
        files = dict.fromkeys(name.split("::")[0] for name in tests)
        self._processes.append(process := _Pytest(self.folder, self.tree, list(files)))
        try:
            return process.ask(tests, path, stop)
        finally:
            self._processes.remove(process)
            process.end()


class _Pytest:
    """A process that has read some files of tests and runs those asked for
    (`tools.mutants.runner`)."""

    def __init__(self, folder: Path, tree: Path, files: list[str]):
        requests, self._requests = os.pipe()
        self._answers, answers = os.pipe()
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-m",
            "not slow",
            "-p",
            "tools.mutants.runner",
        ]
        command += ["-p", "no:xdist", "--basetemp", str(folder / "basetemp"), *files]
        command += [f"--ignore={place}" for place in places.NOT_TRIED]
        environment = {
            "PYTHONPATH": os.pathsep.join([str(tree), os.environ.get("PYTHONPATH", "")]),
            "PYTHONDONTWRITEBYTECODE": "",
            "MUTANTS_READ": str(requests),
            "MUTANTS_WRITE": str(answers),
        }
        with (folder / "pytest.log").open("w") as log:
            self._process = subprocess.Popen(
                command,
                cwd=tree,
                env=os.environ | environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
                pass_fds=(requests, answers),
            )
        os.close(requests)
        os.close(answers)

    def ask(self, tests: Mapping[str, float], path: Path | None, stop: bool) -> list[str]:
        request = {"tests": tests, "path": path and str(path), "stop": stop}
        with contextlib.suppress(BrokenPipeError), open(self._requests, "w", closefd=False) as file:
            print(json.dumps(request), file=file)
        with open(self._answers, closefd=False) as file:
            line = file.readline()
        if line:
            return json.loads(line)
        return [f"exit {self._process.wait()} while reading the tests"]

    def end(self) -> None:
        self._process.terminate()
        self._process.wait()
        os.close(self._requests)
        os.close(self._answers)


def tree_digest() -> str:
    """Of every file that a trial copies: another tree, other results."""
    h = hashlib.sha256()
    for name in COPIED:
        path = places.ROOT / name
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.is_file() and "__pycache__" not in file.parts and "results" not in file.parts:
                h.update(str(file.relative_to(places.ROOT)).encode() + b"\0" + file.read_bytes())
    return h.hexdigest()
