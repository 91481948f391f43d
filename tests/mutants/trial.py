"""One mutant against the tests that concern it, in a copy of the tree."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from . import places
from .sites import Site

COPIED = (
    "fastdp",
    "csrc",
    "tests",
    "bench",
    "docs",
    "setup.py",
    "pyproject.toml",
    "README.md",
    "LICENSE",
    "Makefile",
)
STAGE_SECONDS = 420
"""A stage of tests that takes longer has been hung up by its mutant; more on a busy machine."""


@dataclass(frozen=True)
class Outcome:
    """`verdict`: caught, survived, or stillborn (does not compile). `by`: the first test that failed, one of
    `stage`."""

    verdict: str
    seconds: float
    by: str = ""
    stage: tuple[str, ...] = ()


class Workshop:
    """A copy of the tree to work in. `folder` keeps it, and which tests pass without a change, for later
    calls."""

    def __init__(self, folder: Path, hypothesis_seed: int, stage_seconds: float = STAGE_SECONDS):
        self.folder, self.seed, self.stage_seconds = folder, hypothesis_seed, stage_seconds
        self.digest = tree_digest()
        self.notes = folder / "unchanged.json"
        kept = json.loads(self.notes.read_text()) if self.notes.exists() else {}
        self.passed: list[str] = kept.get("passed", []) if kept.get("digest") == self.digest else []
        self.tree = folder / "tree"
        if kept.get("digest") != self.digest or not self.tree.exists():
            shutil.rmtree(self.tree, ignore_errors=True)
            self.tree.mkdir(parents=True)
            skip = shutil.ignore_patterns("__pycache__", "out", "results")
            for name in COPIED:
                source = places.ROOT / name
                if source.is_dir():
                    shutil.copytree(source, self.tree / name, ignore=skip)
                elif source.exists():
                    shutil.copy2(source, self.tree / name)
            self._note()

    def _note(self) -> None:
        self.notes.write_text(json.dumps({"digest": self.digest, "passed": self.passed}))

    def unchanged(self, stage: Sequence[str]) -> None:
        """Runs a stage of tests without a change, once: what fails by itself catches nothing."""
        if " ".join(stage) in self.passed:
            return
        failed, _ = self._tests(stage)
        if failed:
            raise SystemExit(f"tests fail without any change, so they show nothing: {failed}")
        self.passed.append(" ".join(stage))
        self._note()

    def try_out(self, site: Site) -> Outcome:
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
            for stage in places.stages(site.path):
                failed, _ = self._tests(stage)
                if failed:
                    return Outcome("caught", time.monotonic() - start, failed, tuple(stage))
            return Outcome("survived", time.monotonic() - start)
        finally:
            file.write_bytes(original)
            for path, content in kept.items():
                replacement = path.with_suffix(".kept")
                replacement.write_bytes(content)
                replacement.chmod(0o755)
                os.replace(replacement, path)

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

    def _tests(self, stage: Sequence[str]) -> tuple[str, str]:
        """(the test that failed, or ""; what was printed)."""
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-m", "not slow", "-p", "no:cacheprovider"]
        command += [f"--hypothesis-seed={self.seed}", *stage]
        environment = os.environ | {"PYTHONPATH": str(self.tree), "PYTHONDONTWRITEBYTECODE": "1"}
        process = subprocess.Popen(
            command,
            cwd=self.tree,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            printed, _ = process.communicate(timeout=self.stage_seconds)
        except subprocess.TimeoutExpired:
            return "no end", ""
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.communicate()
        if process.returncode in (0, 5):  # 5: every test of the stage was deselected
            return "", printed
        lines = [line for line in printed.splitlines() if line.startswith(("FAILED", "ERROR"))]
        return (lines[0].split(" - ")[0] if lines else f"exit {process.returncode}"), printed


def tree_digest() -> str:
    """Of every file that a trial copies: another tree, other results."""
    h = hashlib.sha256()
    for name in COPIED:
        path = places.ROOT / name
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.is_file() and "__pycache__" not in file.parts and "results" not in file.parts:
                h.update(str(file.relative_to(places.ROOT)).encode() + b"\0" + file.read_bytes())
    return h.hexdigest()
