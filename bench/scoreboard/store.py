"""The store: one line of JSON for every run, one file for every kind of machine.

A run is known by version, table (with a digest of its rows), mechanism, epsilon and seed. What is
stored is not run again on the same kind of machine, so an interrupted job goes on where it was.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import numpy as np

from .. import machine
from .tables import Task

KEPT = machine.RESULTS / "scoreboard"
IDENTITY = ("version", "table", "digest", "mechanism", "epsilon", "seed")


def digest(task: Task) -> str:
    """Of the names, sizes, codes and users of a table, held-out rows included."""
    sums = hashlib.sha256(json.dumps(task.sizes).encode())
    for part in (task.codes, task.held_out):
        for name in task.sizes:
            sums.update(np.ascontiguousarray(part[name], np.int64))
    if task.user is not None:
        sums.update(np.ascontiguousarray(task.user, np.int64))
    return sums.hexdigest()[:12]


@cache
def commit() -> str:
    """The commit that is checked out, with a plus if files differ from it; empty if unknown."""
    root = Path(__file__).resolve().parents[2]
    asked = ["git", "-C", str(root), "describe", "--always", "--dirty=+", "--exclude=*"]
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


def kind_of_machine(about: dict) -> str:
    """A file name: processor and cores."""
    words = re.sub(r"\((R|TM)\)|CPU|@.*", "", about["processor"])
    slug = re.sub(r"[^a-z0-9]+", "-", words.lower()).strip("-") or about["architecture"]
    return f"{slug}-{about['cores']}-cores"


class Store:
    """Records of a folder. `here` is the file of this machine."""

    def __init__(self, folder: Path = KEPT):
        self.folder = folder
        self.about = machine.describe()
        self.machine = kind_of_machine(self.about)
        self.here = folder / f"{self.machine}.jsonl"
        self.installs = folder / "peers.json"

    def machines(self) -> dict[str, dict]:
        """What is known of each machine that has a file."""
        return {path.stem: lines[0] for path, lines in self._files() if lines}

    def records(self) -> list[dict]:
        """Every run, with its machine. Of a run that was stored twice on one machine the last."""
        out: dict[tuple, dict] = {}
        for path, lines in self._files():
            for line in lines[1:]:
                out[(path.stem, *identity(line))] = line | {"machine": path.stem}
        return list(out.values())

    def known(self) -> dict[tuple, dict]:
        """The runs of this machine by their identity."""
        return {identity(r): r for r in self.records() if r["machine"] == self.machine}

    def add(self, record: dict) -> None:
        """Appends a run; the first line of a file describes the machine."""
        self.folder.mkdir(parents=True, exist_ok=True)
        before = self.here.read_bytes() if self.here.exists() else b""
        load = round(os.getloadavg()[0])
        with self.here.open("a", encoding="utf-8") as sink:
            if not before:
                sink.write(json.dumps(self.about) + "\n")
            elif not before.endswith(b"\n"):  # the last line was cut off
                sink.write("\n")
            about = {
                "commit": commit(),
                "load": load,
                "date": f"{datetime.now(UTC):%Y-%m-%dT%H:%M}",
            }
            sink.write(json.dumps(record | about) + "\n")

    def peers(self) -> dict[str, str]:
        """What installing each peer came to."""
        return json.loads(self.installs.read_text("utf-8")) if self.installs.is_file() else {}

    def _files(self) -> list[tuple[Path, list[dict]]]:
        paths = sorted(self.folder.glob("*.jsonl"))
        return [(path, _lines(path)) for path in paths]


def identity(record: dict) -> tuple:
    return tuple(record[name] for name in IDENTITY)


def _lines(path: Path) -> list[dict]:
    """The lines of a file. A last line that was cut off by a crash is left out."""
    out = []
    for text in path.read_text("utf-8").splitlines():
        try:
            out.append(json.loads(text))
        except json.JSONDecodeError:
            continue
    return out
