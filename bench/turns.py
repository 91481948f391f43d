"""Contestants in processes of their own, in turns: what the benchmarks that time them so share."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
from pathlib import Path


def parser(about: str | None) -> argparse.ArgumentParser:
    """A parser that knows how a process is told which contestant it is (`--child`) and where its
    files are (`--path`)."""
    out = argparse.ArgumentParser(description=about, formatter_class=argparse.RawTextHelpFormatter)
    out.add_argument("--child", help=argparse.SUPPRESS)
    out.add_argument("--path", help=argparse.SUPPRESS)
    return out


def run(command: list[str], variables: dict[str, str], folder: str | Path) -> dict:
    """Runs a contestant in `folder` with these environment variables; the JSON of its last line."""
    done = subprocess.run(
        command, capture_output=True, text=True, env=os.environ | variables, cwd=folder, check=True
    )
    return json.loads(done.stdout.splitlines()[-1])


def keep_least(best: dict[str, dict], name: str, figures: dict[str, float]) -> None:
    """Keeps for a contestant the least of every figure over all rounds."""
    before = best.setdefault(name, figures)
    best[name] = {key: min(before[key], figures[key]) for key in figures}
