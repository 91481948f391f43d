"""One mutant against the tests that concern it, in a copy of the tree."""

from __future__ import annotations

import compileall
import contextlib
import hashlib
import json
import os
import py_compile
import shutil
import signal
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
from .sites import Site

COPIED = (
    "fastdp",
    "csrc",
    "tests",
    "tools",
    "bench",
    "docs",
    "setup.py",
    "pyproject.toml",
    "README.md",
    "LICENSE",
    "Makefile",
)
FIRST_SECONDS = 20.0
"""Recorded seconds of the tests that are tried first, in a process of their own."""
NO_END = "no end"
NEAR_FILES = 6
"""Files that those tests are in, at most: reading test files takes time, too."""


@dataclass(frozen=True)
class Limits:
    """In seconds. `tests`: a mutant is tried on tests that took so long, together, when they were recorded.
    `hang`: a test that takes that much longer than six times as long as then has been hung up by the mutant;
    more on a machine that is busier than it was."""

    tests: float = 300.0
    hang: float = 60.0


@dataclass(frozen=True)
class Outcome:
    """`verdict`: caught, survived, or stillborn (does not compile). `by`: the first test that failed."""

    verdict: str
    seconds: float
    by: str = ""


class Workshop:
    """A copy of the tree to work in, made anew in `folder` when the tree has changed."""

    def __init__(self, folder: Path, limits: Limits):
        self.folder, self.limits = folder, limits
        self.tree = folder / "tree"
        self._running: subprocess.Popen[str] | None = None
        digest, note = tree_digest(), folder / "digest"
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
        # Compiled files that are compared by content: a change within the clock's tick is seen, too.
        compileall.compile_dir(
            self.tree / "fastdp", quiet=2, invalidation_mode=py_compile.PycInvalidationMode.CHECKED_HASH
        )
        note.write_text(digest)

    def failing(self, tests: Sequence[str]) -> list[str]:
        """Those of the tests that fail without any change: what fails by itself catches nothing."""
        _, printed = self._tests(dict.fromkeys(tests, 3600.0), stop=False)
        return [name for name in tests if f"FAILED {name}" in printed or f"ERROR {name}" in printed]

    def try_out(self, site: Site, reach: Reach) -> Outcome:
        """Changes the file, builds what it is part of, runs its tests until one fails; then undoes the
        change."""
        start = time.monotonic()
        file = self.tree / site.path
        original = file.read_bytes()
        binaries = self._binaries(site)
        kept = {path: path.read_bytes() for path in binaries}
        try:
            file.write_bytes(site.apply(original))
            if binaries and not self._build(site):
                return Outcome("stillborn", time.monotonic() - start)
            failed = self._try_tests(site, reach)
            return Outcome("caught" if failed else "survived", time.monotonic() - start, failed)
        finally:
            file.write_bytes(original)
            for path, content in kept.items():
                replacement = path.with_suffix(".kept")
                replacement.write_bytes(content)
                replacement.chmod(0o755)
                os.replace(replacement, path)

    def _try_tests(self, site: Site, reach: Reach) -> str:
        """The first test that fails, or "". The tests that concern the change, in two parts: reading test
        files takes time, so the first is of a few files."""
        names = reach.concerned(site)
        ends = list(accumulate(reach.tests[name]["seconds"] for name in names))
        within = names[: max(1, bisect_right(ends, self.limits.tests))]
        first = [name for name, end in zip(within, ends) if end <= FIRST_SECONDS] or within[:1]
        near = _files(first)[:NEAR_FILES]
        first = [name for name in first if name.split("::")[0] in near]
        rest = sorted(set(within) - set(first), key=within.index)
        for part in filter(None, (first, rest)):
            for patience in (1, 3):  # what does not end on a busy machine is given more time once
                limits = {n: patience * (self.limits.hang + 6 * reach.tests[n]["seconds"]) for n in part}
                failed, _ = self._tests(limits)
                if failed != NO_END:
                    break
            if failed:
                return failed
        return ""

    def stop(self) -> None:
        """Ends the tests that run, and what they have started and left behind."""
        if self._running is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._running.pid, signal.SIGKILL)

    def _binaries(self, site: Site) -> list[Path]:
        if not site.path.startswith("csrc/"):
            return []
        return [
            p for m in places.extensions(site.path) for p in (self.tree / "fastdp/_core").glob(f"{m}.*.so")
        ]

    def _build(self, site: Site) -> bool:
        names = ",".join(places.extensions(site.path))
        command = [sys.executable, "setup.py", "-q", "build_ext", "--inplace"]
        done = subprocess.run(
            command, cwd=self.tree, env=os.environ | {"FASTDP_EXT": names}, capture_output=True
        )
        return done.returncode == 0

    def _tests(self, tests: Mapping[str, float], stop: bool = True) -> tuple[str, str]:
        """(the test that failed, or ""; what was printed) of tests with the seconds that each may take, in
        this order."""
        chosen = self.folder / "chosen.json"
        chosen.write_text(json.dumps(list(tests.items())))
        command = [sys.executable, "-m", "pytest", "-q", "-m", "not slow", "-p", "tools.mutants.chosen"]
        command += ["-p", "no:xdist"]
        command += [*(["-x"] if stop else []), *_files(list(tests))]
        environment = os.environ | {
            "PYTHONPATH": str(self.tree),
            "PYTHONDONTWRITEBYTECODE": "",
            "MUTANTS_CHOSEN": str(chosen),
        }
        self._running = process = subprocess.Popen(
            command,
            cwd=self.tree,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            printed, _ = process.communicate(timeout=min(1e6, FIRST_SECONDS + 2 * sum(tests.values())))
        except subprocess.TimeoutExpired:
            return NO_END, ""
        finally:
            self.stop()
            process.wait()
        if process.returncode in (0, 5):  # 5: there is no test
            return "", printed
        lines = [line for line in printed.splitlines() if line.startswith(("FAILED", "ERROR"))]
        if not lines and "Timeout (" in printed:
            return NO_END, printed
        first = lines[0].split(" - ")[0].split(" ", 1)[1] if lines else f"exit {process.returncode}"
        return first, printed


def _files(names: Sequence[str]) -> list[str]:
    """The files of tests, in the order of their first one."""
    return list(dict.fromkeys(name.split("::")[0] for name in names))


def tree_digest() -> str:
    """Of every file that a trial copies: another tree, other results."""
    h = hashlib.sha256()
    for name in COPIED:
        path = places.ROOT / name
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.is_file() and "__pycache__" not in file.parts and "results" not in file.parts:
                h.update(str(file.relative_to(places.ROOT)).encode() + b"\0" + file.read_bytes())
    return h.hexdigest()
