"""The store: one line of JSON for every run, with the commit that made it."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable
from pathlib import Path

from .. import machine

STORE = machine.RESULTS / "tune.jsonl"
AS_IT_IS = ""
"""The name of the package without any change."""


class Store:
    """Records of runs by commit, one file."""

    def __init__(self, path: Path = STORE):
        self.path = path

    def records(self) -> list[dict]:
        if not self.path.is_file():
            return []
        lines = self.path.read_text("utf-8").splitlines()
        return [json.loads(line) for line in lines if line.endswith("}")]

    def add(self, records: Iterable[dict], total: int) -> int:
        """Appends records as they come; how many there were. Progress goes to standard error."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        started = time.monotonic()
        count = 0
        from ..scoreboard.store import commit

        about = {"commit": commit(), "cores": machine.describe()["cores"]}
        with self.path.open("a", encoding="utf-8") as sink:
            for record in records:
                sink.write(json.dumps(about | record) + "\n")
                sink.flush()
                count += 1
                spent = time.monotonic() - started
                left = spent / count * (total - count)
                what = record["without"] or "as it is"
                result = record.get("failed") or f"{record.get('seconds', 0.0):.1f} s"
                print(
                    f"[{count}/{total}] {record['table']} {record['epsilon']:g} seed"
                    f" {record['seed']} without {what}: {result} (about {left:.0f} s left)",
                    file=sys.stderr,
                    flush=True,
                )
        return count
