"""What `verify` says of folders and files that were changed in one place, as it is kept: measurements
against releases and ledgers, schemas, found domains, constraints, models, names of files, folders of several
epsilons."""

from __future__ import annotations

import contextlib
import copy
import hashlib
import itertools
import json
import os
import re
import shutil
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fastdp import Schema
from fastdp.measurement import SCALE, Measurement
from fastdp.model import fit
from fastdp.privacy import statement as statements
from fastdp.release.domain import schema_bytes
from fastdp.run import released, verify
from fastdp.run.output import write_measurements

from .figures import check, given, plain
from .test_promised import FIGURES, _run

ANSWERS = [
    Measurement(("a",), np.array([1.0, 2.5, -1.0]), 2.0, label="ones"),
    Measurement(("a",), np.array([4.0, 0.5, 3.0]), 2.0, label="ones"),
    Measurement(("a", "b"), np.arange(6.0) / 4, np.array([1.0, 2.0, 3.0, 1.5, 1.5, 1.5]), label="pairs"),
    Measurement(("users by RowsPerUser",), np.array([7.0, -3.0]), 5.0, label="sizes"),
    Measurement((), np.array([9.0]), 1.0, label="total"),
]
RELEASES: list[dict[str, Any]] = [
    {"label": "ones", "kind": "marginal", "attributes": ["a"], "law": "gaussian", "count": 3, "sigma": 2.0},
    {"label": "chosen", "kind": "select", "attributes": [], "law": "exponential", "count": 1, "sigma": None},
    {"label": "ones", "kind": "marginal", "attributes": ["a"], "law": "gaussian", "count": 3, "sigma": 2.0},
    {"label": "pairs", "kind": "marginal", "attributes": ["a", "b"], "law": "gaussian", "count": 6}
    | {"sigma": 1.0, "sigma_max": 3.0},
    {"label": "sizes", "kind": "user_histogram", "attributes": ["RowsPerUser"], "law": "discrete-laplace"}
    | {"count": 2, "sigma": 5.0},
    {"label": "total", "kind": "marginal", "attributes": [], "law": "gaussian", "count": 1, "sigma": 1.0},
]


@contextlib.contextmanager
def _folder() -> Any:
    with tempfile.TemporaryDirectory() as place, contextlib.chdir(place):
        yield Path(place)


def _described(folder: Path, releases: Any = RELEASES) -> Any:
    def found() -> Any:
        entries, texts = released.measurements_of(folder, releases)
        return [[str(m), m.release, m.low, m.high, m.sha256, m.values] for m in entries], texts

    made = given(found)
    return made.replace(str(folder), "PLACE") if isinstance(made, str) else made


def _rewritten(name: str, change: Any) -> None:
    table = pq.read_table("measurements.parquet")
    at = table.schema.get_field_index(name)
    new = pa.array(change(table.column(at).to_numpy()))
    pq.write_table(table.set_column(at, name, new), "measurements.parquet")


def _measurements() -> Any:
    """Answers against their releases, each place of both changed by itself."""
    out: list[Any] = []
    with _folder() as folder:
        out.append(_described(folder))
        write_measurements(folder, ANSWERS)
        whole = {name: Path(name).read_bytes() for name in ("measurements.json", "measurements.parquet")}
        out.append(_described(folder))
        for i, release in enumerate(RELEASES):
            for name in release:
                for new in ("x", 2, ["a"], 2.0 * (1 + 1e-8), 2.0 * (1 + 1e-10)):
                    others = copy.deepcopy(RELEASES)
                    others[i][name] = new
                    made = _described(folder, others)
                    if made != out[1]:
                        out.append([i, name, str(new), made])
        out.append(_described(folder, RELEASES[1:]))
        out.append(_described(folder, [*RELEASES, RELEASES[0]])[1])
        for most in (2, 3, 5, 6):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(released, "KEPT_ROWS", most)
                out.append([len(row[-1]) for row in _described(folder)[0]])
        size = pq.read_metadata("measurements.parquet").row_group(0).total_byte_size
        for name, most in (("UNPACKED", size - 1), ("UNPACKED", size), ("MOST_ROWS", 14), ("MOST_ROWS", 15)):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(released, name, most)
                out.append(_described(folder))
        unit, limit = 1 / SCALE, 2.0**62 / SCALE
        for column, change in (
            *(("value", lambda v, d=d: v + d) for d in (unit, unit / 2, unit / 3, np.nan, np.inf)),
            *(
                ("value", lambda v, d=d: np.where(v == 2.5, d, v))
                for d in (limit, limit - 1024, -limit, 1024 - limit)
            ),
            *(
                ("standard_error", lambda v, d=d: v * d)
                for d in (1 + 1e-8, 1 - 1e-8, 1 + 1e-10, np.nan, np.inf)
            ),
            ("measurement", lambda v: v[::-1].copy()),
            ("measurement", lambda v: v + 1),
            ("measurement", lambda v: v.astype(np.int64)),
            ("value", lambda v: v.astype(np.float32)),
        ):
            for name, content in whole.items():
                Path(name).write_bytes(content)
            _rewritten(column, change)
            out.append([column, _described(folder)])
        Path("measurements.parquet").write_bytes(whole["measurements.parquet"])
        for key, new in (
            ("measurement", 7),
            ("rows", -1),
            ("rows", 4),
            ("label", "x"),
            ("clique", ["z"]),
            ("rows", "x"),
        ):
            document = json.loads(whole["measurements.json"])
            document["measurements"][1][key] = new
            Path("measurements.json").write_text(json.dumps(document))
            out.append([key, new, _described(folder)])
        for name in whole:
            Path(name).rename("aside")
            out.append(_described(folder))
            os.symlink("aside", name)
            out.append(_described(folder))
            Path(name).unlink()
            Path("aside").rename(name)
    return out


def _ledgers() -> Any:
    """Answers against what a ledger holds, place by place."""
    out: list[Any] = []
    with _folder() as folder:
        write_measurements(folder, ANSWERS)
        entries, _ = released.measurements_of(folder, RELEASES)
        digests = {m.release: m.sha256 for m in entries}
    steps = [
        {"part": 1, "label": "other", "events": [{}], "answers": []},
        {"part": 0, "label": "ones", "events": [{}], "answers": [(3,)]},
        {"part": 0, "label": "chosen", "events": [{}], "answers": [(1,)]},
        {"part": 0, "label": "ones", "events": [{}], "answers": [(3,)]},
        {"part": 0, "label": "pairs", "events": [{}], "answers": [(2, 3)]},
        {"part": 0, "label": "sizes", "events": [{}], "answers": [(2,)]},
        {"part": 0, "label": "total", "events": [{}], "answers": [()]},
    ]
    at = 0
    for step in steps[1:]:
        step["answers"] = [
            {"shape": list(shape), "sha256": digests.get(at, "other")} for shape in step["answers"]
        ]
        at += 1

    def found(changed: Any, part: int = 0, given_to: Any = entries) -> Any:
        return given(
            lambda: list(released.ledger_answer_problems({"steps": changed}, part, RELEASES, given_to))
        )

    out += [found(steps), found(steps, 1), found(steps[:-1]), found([*steps, steps[-1]]), found(steps, 0, [])]
    for i, (name, new) in itertools.product(
        range(1, 7),
        (("label", "x"), ("part", 1), ("answers", []), ("shape", [7]), ("sha256", "x"), ("sha256", None)),
    ):
        other = copy.deepcopy(steps)
        place = other[i]["answers"][0] if name in ("shape", "sha256") else other[i]
        place[name] = new
        out.append([i, name, found(other)])
    twice = [copy.copy(entries[0]), copy.copy(entries[1]), *entries[2:]]
    twice[1].sha256 = twice[0].sha256
    out.append(found(steps, 0, twice))
    turned = copy.deepcopy(steps)
    turned[1]["answers"], turned[3]["answers"] = turned[3]["answers"], turned[1]["answers"]
    out.append(found(turned))
    both = [
        {"part": 0, "label": "ones", "events": [{}, {}], "answers": [s["answers"][0] for s in steps[1:4:2]]}
    ]
    two = [RELEASES[0], RELEASES[2]]
    out.append(given(lambda: list(released.ledger_answer_problems({"steps": both}, 0, two, entries[:2]))))
    both[0]["answers"].pop()
    out.append(given(lambda: list(released.ledger_answer_problems({"steps": both}, 0, two, entries[:2]))))
    for choice, some in itertools.product(
        (
            None,
            {"release": "sizes", "users": [7.0, -3.0]},
            {"release": "sizes", "users": [7.0]},
            {"release": "x", "users": []},
        ),
        (entries, []),
    ):
        out.append(list(released.choice_problems({} if choice is None else {"clip_choice": choice}, some)))
    return out


def _schemas() -> Any:
    """Schemas, found domains, constraints and models against statements."""
    out: list[Any] = []
    schema = Schema.from_domain({"a": 3, "b": 2}, user="who")
    rows = Schema.from_domain({"a": 3, "b": 2})
    with _folder() as folder:
        out.append(given(lambda: list(released.schema_problems(folder, {}))))
        for saved, kind, column, digest in itertools.product(
            (schema, rows),
            ("user", "row", "event", "x"),
            ("who", None, "other"),
            (schema.digest(), rows.digest()),
        ):
            saved.save("schema.json")
            unit = {"kind": kind} if column is None else {"kind": kind, "column": column}
            stated = {"schema": {"sha256": digest}, "unit": unit}
            out.append(given(lambda: list(released.schema_problems(folder, stated))))
        finished = {"kind": "schema", "attributes": ["a", "b"], "label": "finished schema"}
        grid = {"kind": "grid", "attributes": ["a"], "label": "g"}
        keys = {"kind": "keys", "attributes": ["b"], "label": "k"}
        sizes = {"kind": "grid", "attributes": ["who"], "of": "rows per user", "label": "r"}
        schema.save("schema.json")
        digest = hashlib.sha256(schema_bytes(schema)).hexdigest()
        step = {"part": 1, "label": "finished schema", "answers": [{"sha256": digest}]}
        for releases, found, steps in itertools.product(
            ([], [grid], [grid, keys, sizes, finished], [grid, finished], [finished, grid, keys, finished]),
            (
                None,
                {"part": 1, "columns": ["a", "b"]},
                {"part": 0, "columns": ["a", "b"]},
                {"part": 1, "columns": ["a"]},
            ),
            (None, [step], [step | {"part": 0}], [step | {"answers": [{"sha256": "x"}]}], [step, step], []),
        ):
            about = {"schema": {} if found is None else {"found": found}}
            stated = about | {"parts": [{"releases": []}, {"releases": releases}]}
            entry = None if steps is None else {"steps": steps}
            out.append(given(lambda: list(released.found_problems(folder, stated, entry))))
        os.rename("schema.json", "aside")
        out.append(given(lambda: list(released.found_problems(folder, stated, {"steps": []}))))
        out.append(given(lambda: list(released.constraint_problems(folder))))
        os.symlink("aside", "schema.json")
        out.append(given(lambda: list(released.constraint_problems(folder))))
        out.append(given(lambda: list(released.schema_problems(folder, stated))).split(":")[0])
        os.remove("schema.json")
        rows.with_constraints([{"order": ["b", "a"]}, {"columns": ["a", "b"], "forbidden": [[2, 0]]}]).save(
            "schema.json"
        )
        table = pa.table({"a": [0, 0, 2, 1, 2], "b": [1, 0, 0, 1, 0], "more": [0] * 5})
        os.mkdir("synthetic")
        for places in (["synthetic.parquet"], ["synthetic/part-0.parquet", "synthetic/part-1.parquet"]):
            for path in places:
                pq.write_table(table, path, row_group_size=2)
            out.append(list(released.constraint_problems(folder)))
            about = pq.read_metadata(places[0])
            sizes = [about.row_group(i).total_byte_size for i in range(about.num_row_groups)]
            for most in (1, max(sizes) - 1, max(sizes)):
                with pytest.MonkeyPatch.context() as patch:
                    patch.setattr(released, "UNPACKED", most)
                    texts = list(released.constraint_problems(folder))
                    out.append([re.sub(r"\d+ bytes", "# bytes", text) for text in texts])
        os.rename("synthetic/part-0.parquet", "x")
        os.symlink("../x", "synthetic/part-0.parquet")
        out.append(list(released.constraint_problems(folder)))
        os.rename("synthetic", "y")
        os.symlink("y", "synthetic")
        out.append(list(released.constraint_problems(folder)))
        answers = [
            Measurement(("a",), np.array([5.0, 3.0, 2.0]), 1.0),
            Measurement(("b",), np.array([5.0, 5.0]), 1.0),
        ]
        model = fit({"a": 3, "b": 2}, answers, threads=1)
        releases = [{"kind": "marginal", "attributes": ["a"]}, {"kind": "grid", "attributes": ["b"]}]
        for private, said, rested, public in itertools.product(
            (True, False), (True, False), ([], [["b"]]), ([], [{}])
        ):
            model.private = private
            model.save("model.fastdp")
            stated = {"private": said, "public_data": public, "mechanism": {"public": {"rested": rested}}}
            out.append(given(lambda: list(released.model_problems(folder, stated, releases))))
        Path("model.fastdp").rename("m")
        out.append(given(lambda: list(released.model_problems(folder, stated, releases))))
        os.symlink("m", "model.fastdp")
        out.append(given(lambda: list(released.model_problems(folder, stated, releases))))
    return out


def _names() -> Any:
    """Names of files, parts of statements, texts for a terminal."""
    out: list[Any] = []
    names = [*verify.RELEASABLE, *verify.PRIVATE, "privacy.json", "x"]
    names = [
        f"{before}{name}" for name in names for before in ("", "eps-1/", "eps-1/eps-2/", "synthetic/", "Log")
    ]
    names = [f"{name}{after}" for name in names for after in ("", "/x", ".PRIVATE")]
    out.append([name for name in names if verify.releasable(name)])
    for parts, part in itertools.product((0, 1, 2), (None, 0, 1, 2, -1, "0", True)):
        stated = {"parts": [{"n": i} for i in range(parts)]} | ({} if part is None else {"part": part})
        out.append(given(verify._own_part, stated))
    for text in ("plain", "\x1b[2J", "\udc80", "é\n", "x" * 600, "x" * 601):
        out.append(verify._plain(text))
    out += [str(verify._number(v)) for v in (1, 2.5, "x", None)]
    with _folder() as folder:
        for name in (
            "synthetic.parquet",
            "model.fastdp",
            "more.txt",
            "report.html",
            "eps-1/privacy.json",
            "inner/x",
        ):
            Path(name).parent.mkdir(exist_ok=True)
            Path(name).write_text(name)
        os.symlink("model.fastdp", "schema.json")
        os.symlink("inner", "tables")
        listed = {
            name: statements.file_hash(path) for name, path in statements.files_of(folder) if path.is_file()
        }
        for stated in (listed, {**listed, "model.fastdp": "x", "gone": "y"}, {}, None, []):
            texts = list(verify._file_problems(folder, stated))
            out.append([text.replace(folder.name, "PLACE") for text in texts])
    out.append(list(verify._required_problems({"epsilon": 1, "format": 2})))
    for entries in ([], [{"run": "r", "published": ["x"]}], [{"run": "s"}]):
        out.append(given(verify._entry, SimpleNamespace(entries=lambda: entries), {"ledger": {"run": "r"}}))
    return out


def _several() -> Any:
    """Folders of two epsilons, whole, without the joint statement, with parts changed."""
    out: list[Any] = []

    def said(what: str) -> None:
        verdict = given(lambda: plain(verify.inspect("run")))
        if isinstance(verdict, list):
            facts = dict(verdict)
            verdict = [facts[k] for k in ("epsilon", "delta", "private", "files")]
            verdict.append([FIGURES.sub("#", text.split("(")[0]) for text in facts["problems"]])
            verdict.append(facts["notes"])
        out.append([what, verdict])

    def changed(path: str, change: Any) -> None:
        document = json.loads(Path(path).read_text())
        change(document)
        Path(path).write_text(json.dumps(document))

    with _folder() as folder:
        for what in ("whole", "parts", "other", "epsilon", "private", "joint", "inner", "gone", "delta"):
            shutil.rmtree("run", ignore_errors=True)
            shutil.copytree(_run("mst 5"), "run")
            if what in ("parts", "other", "epsilon", "private", "delta"):
                Path("run/privacy.json").unlink()
            if what == "other":
                Path("run/notes.txt").write_text("n")
            if what in ("epsilon", "delta"):
                changed("run/eps-4/privacy.json", lambda d: d.update({what: d[what] * 2}))
            if what in ("joint", "private"):
                changed("run/eps-4/privacy.json", lambda d: d.update(private=True, mu=9.0))
            if what == "inner":
                shutil.copytree("run/eps-1", "run/eps-4/eps-1")
            if what == "gone":
                Path("run/eps-1/privacy.json").unlink()
            said(what)
        shutil.rmtree("run")
        for what in ("none", "empty", "list"):
            if what != "none":
                Path("run").mkdir(exist_ok=True)
            if what == "list":
                Path("run/privacy.json").write_text("[1]")
            said(what)
            out.append(given(verify.verify, "run").replace(str(folder), "PLACE"))
    return out


CASES: dict[str, Any] = {
    "measurements": _measurements,
    "ledgers": _ledgers,
    "schemas": _schemas,
    "names": _names,
    "several": _several,
}


@pytest.mark.parametrize("name", CASES)
def test_verdicts_are_those_that_are_kept(name):
    check("verdicts", name, CASES[name]())
