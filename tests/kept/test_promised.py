"""What runs promise and release, as it is kept: plans, statements and every number in them changed, folders
that were tampered with, the noise of requests, partitions of number lines."""

from __future__ import annotations

import contextlib
import copy
import json
import math
import os
import re
import shutil
import tempfile
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fastdp
from fastdp import Schema
from fastdp.domain import Domain
from fastdp.measurement import SCALE, Request
from fastdp.privacy import forms, statement
from fastdp.queries import Binned, Identity, Weighted
from fastdp.release import cells, domain, domaincosts, keyselect, noiseplan
from fastdp.run import released, verify
from fastdp.userkeys import Groups, MostCommon, RowsPerUser

from .figures import check, given, plain

NUMBERS = {"a": 6, "b": 9, "c": 4, "d": 3}
PRIVATE: dict[str, Any] = {
    "columns": {
        "x": {"kind": "numeric", "dtype": "float64", "domain": "private", "bins": 8},
        "y": {"kind": "numeric", "dtype": "int32", "domain": "private", "min": 0, "max": 99, "bins": 6},
        "w": {"kind": "string", "domain": "private"},
        "t": {"kind": "timestamp", "parts": ["month"], "dtype": "timestamp[s]", "domain": "private"},
    },
    "user": {"column": "id"},
}
SCHEMAS: dict[str, Any] = {
    "rows": lambda: Schema.from_domain(NUMBERS),
    "users": lambda: Schema.from_domain(NUMBERS, user="id"),
    "bound": lambda: Schema.from_dict(
        Schema.from_domain(NUMBERS, user="id").to_dict() | {"user": {"column": "id", "max_rows": 20}}
    ),
    "wide": lambda: Schema.from_domain({"a": 255, "b": 257, "c": 65_537, "d": 2}, user="id"),
    "constraints": lambda: Schema.from_domain(NUMBERS).with_constraints(
        [{"order": ["d", "c"]}, {"columns": ["a", "b"], "forbidden": [[0, 1]]}]
    ),
    "private": lambda: Schema.from_dict(PRIVATE),
    "private rows": lambda: Schema.from_dict({"columns": PRIVATE["columns"]}),
    "one row": lambda: Schema.from_dict(PRIVATE | {"user": {"column": "id", "max_rows": 1}}),
}
RECIPES: dict[str, Any] = {
    "mst": {"mechanism": "mst"},
    "mst 5": {"mechanism": "mst", "clip": 5},
    "mst private": {"mechanism": "mst", "clip": "private"},
    "cliquetree": {"mechanism": "cliquetree", "clip": 7},
    "aim": {"mechanism": "aim", "clip": 3},
    "adagrid": {"mechanism": "adagrid", "clip": 4, "outer": [["a", "b", "c"], ["b", "d"]]},
}


def _plans(name: str) -> Any:
    out: list[Any] = []
    for recipe, chosen in RECIPES.items():
        for epsilon, delta, rows in ((1.0, 1e-6, 1000), (8.0, 1e-9, 10_000_000), (1.0, 0.0, 1)):
            made = given(
                lambda: fastdp.plan(SCHEMAS[name](), chosen, epsilon, delta, rows=rows, threads=2).to_dict()
            )
            out.append([recipe, epsilon, made])
    public = given(
        lambda: fastdp.plan(SCHEMAS[name](), RECIPES["cliquetree"], public=True, threads=1).to_dict()
    )
    small = given(lambda: fastdp.plan(SCHEMAS[name](), RECIPES["mst 5"], max_cells=20, threads=1).to_dict())
    return [
        *out,
        public,
        small,
        given(lambda: str(fastdp.plan(SCHEMAS[name](), RECIPES["mst 5"], threads=1))),
    ]


def _planned_on_public_rows() -> Any:
    table = _table().as_truth()
    out = []
    for recipe in ("mst 5", "mst private", "cliquetree", "adagrid"):
        for rows in (500, 100_000):
            made = given(
                lambda: fastdp.plan(
                    table.schema, RECIPES[recipe], 2.0, 1e-6, rows=rows, public=table
                ).to_dict()
            )
            out.append(made if isinstance(made, str) else [p for p in made if p[0].startswith("clip")])
    return out


@cache
def _table() -> Any:
    rng = np.random.default_rng(3)
    owner = np.repeat(np.arange(300), rng.integers(1, 14, 300))
    codes = {name: rng.integers(0, n, owner.size) for name, n in NUMBERS.items()}
    codes["b"] = (codes["a"] + rng.integers(0, 3, owner.size)) % 9
    return fastdp.read(pa.table({"id": owner, **codes}), Schema.from_domain(NUMBERS, user="id"))


_PLACES: list[Any] = []


@cache
def _run(recipe: str) -> Path:
    """The folder of a seeded run, kept for the tests of this process."""
    _PLACES.append(tempfile.TemporaryDirectory())
    folder = Path(_PLACES[-1].name) / "run"
    epsilons = [1.0, 4.0] if recipe == "mst 5" else 3.0
    fastdp.synthesize(
        _table(), RECIPES[recipe], epsilons, 1e-6, out=folder, seed=7, sample_seed=3, threads=1, rows=200
    )
    return folder


MASKED = ("versions", "files", "second")


def _masked(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: "-" if k in MASKED else _masked(v) for k, v in value.items()}
    return [_masked(v) for v in value] if isinstance(value, list) else value


def _folders(recipe: str) -> Any:
    """Every file of a run's folder: names, statements, measurements, types of the rows."""
    folder, out = _run(recipe), []
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        name = path.relative_to(folder).as_posix()
        content: Any = None
        if path.name == "privacy.json":
            content = _masked(json.loads(path.read_text()))
            content["ledger"] = sorted(content["ledger"])
        elif path.suffix == ".json":
            content = _masked(json.loads(path.read_text()))
        elif path.suffix == ".parquet":
            table = pq.read_table(path)
            content = [table.num_rows, str(table.schema.remove_metadata())]
            content += [sorted(k.decode() for k in table.schema.metadata or {})]
            if name == "measurements.parquet":
                content += plain(table.slice(0, 40))
        out.append([name, content])
    return out


FIGURES = re.compile(r"[\d.]+(e-?\d+)?")
"""Numbers in texts, whose last digits differ from machine to machine."""


def _leaves(value: Any, where: tuple = ()) -> Any:
    if isinstance(value, dict):
        for k, v in value.items():
            yield from _leaves(v, (*where, k))
    elif isinstance(value, list):
        for i, v in enumerate(value[:2]):
            yield from _leaves(v, (*where, i))
    else:
        yield where, value


def _changes(value: Any) -> list[Any]:
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int | float):
        return [value + 1, value * (1 + 1e-8), value * (1 - 1e-8), 0, "x"]
    return [f"{value}x", None]


def _private(document: dict[str, Any]) -> dict[str, Any]:
    return document | {"private": True, "noise": document["noise"] | {"source": "operating system, ChaCha20"}}


def _changed(recipe: str) -> Any:
    """What is wrong with a statement of which one number or text was changed."""
    document = json.loads((_run(recipe) / "privacy.json").read_text())
    out: list[Any] = [statement.problems(document)]
    base = _private(document)
    out.append(statement.problems(base))
    for where, value in _leaves({k: v for k, v in base.items() if k not in ("files", "versions", "notes")}):
        for new in _changes(value):
            other = copy.deepcopy(base)
            place = other
            for step in where[:-1]:
                place = place[step]
            place[where[-1]] = new
            if texts := statement.problems(other):
                kinds = [t.split("(")[0] if "malformed" in t else FIGURES.sub("#", t) for t in texts]
                out.append([".".join(map(str, where)), repr(new)[:24], kinds])
    return out


def _forms() -> Any:
    document = json.loads((_run("mst private") / "privacy.json").read_text())
    document["versions"] = {"fastdp": "0", "build": "0"}
    document["ledger"] = {"counts_other_runs": False}
    document["accountant"]["second"] = "another"
    counted = document | {"ledger": {"counts_other_runs": True, "id": "i", "dataset": "d"}, "public_data": []}
    known = document | {
        "public_data": [{"name": "p", "use": "start"}],
        "delta": 0.0,
        "notes": ["n", "epsilon x"],
    }
    out = []
    for base in (document, _private(document), _private(counted), _private(known)):
        out += [given(form, base) for form in forms.FORMS.values()]
    return out


def _tampered() -> Any:
    """Verdicts on folders whose files were changed, hashes set right again."""
    out: list[Any] = []
    changes = {
        "nothing": lambda f: None,
        "value": lambda f: _column(f, "value", lambda v: v + 1 / SCALE),
        "off the grid": lambda f: _column(f, "value", lambda v: v + 0.3 / SCALE),
        "infinite": lambda f: _column(f, "value", lambda v: v + math.inf),
        "huge": lambda f: _column(f, "value", lambda v: v * 0 + 2.0**42),
        "less huge": lambda f: _column(f, "value", lambda v: v * 0 + 2.0**41),
        "errors": lambda f: _column(f, "standard_error", lambda v: v * 1.001),
        "no errors": lambda f: _column(f, "standard_error", lambda v: v * math.nan),
        "numbers": lambda f: _column(f, "measurement", lambda v: np.where(v == 1, 0, v)),
        "half": lambda f: (f / "measurements.json").unlink(),
        "rows": lambda f: _json(f / "measurements.json", lambda d: d["measurements"][0].update(rows=5)),
        "label": lambda f: _json(f / "measurements.json", lambda d: d["measurements"][0].update(label="?")),
        "order": lambda f: _json(f / "measurements.json", lambda d: d["measurements"].reverse()),
        "schema": lambda f: _json(f / "schema.json", lambda d: d.update(user={"column": "other"})),
        "more": lambda f: (f / "more.txt").write_text("x"),
        "less": lambda f: (f / "synthetic.parquet").unlink(),
        "model": lambda f: (f / "model.fastdp").write_bytes(b"x"),
    }
    with tempfile.TemporaryDirectory() as place, contextlib.chdir(place):
        for recipe in ("cliquetree", "mst private"):
            for name, change in changes.items():
                folder = Path(place) / "run"
                shutil.rmtree(folder, ignore_errors=True)
                shutil.copytree(_run(recipe), folder)
                change(folder)
                document = json.loads((folder / "privacy.json").read_text())
                if name not in ("more", "less"):
                    statement.write(folder, document)
                verdict = verify.inspect("run")
                out.append([recipe, name, verdict.ok, [p.split("(")[0] for p in verdict.problems]])
    return out


def _column(folder: Path, name: str, change: Any) -> None:
    path = folder / "measurements.parquet"
    table = pq.read_table(path)
    at = table.schema.get_field_index(name)
    new = pa.array(change(table.column(at).to_numpy()), table.schema.field(at).type)
    pq.write_table(table.set_column(at, table.schema.field(at), new), path)


def _json(path: Path, change: Any) -> None:
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))


def _strict_json() -> Any:
    out: list[Any] = []
    texts = [
        "{}",
        "[1, 2.5]",
        '{"a": 1, "a": 2}',
        "NaN",
        "Infinity",
        "1e999",
        "-1e999",
        "[",
        "\xff",
        "[" * 100_000,
    ]
    texts += [str(n) for n in (2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 10**19, 10**20, -(10**19))]
    with tempfile.TemporaryDirectory() as place, contextlib.chdir(place):
        for text in texts:
            Path("f.json").write_bytes(text.encode("latin-1"))
            out.append([text[:20], given(released.read_json, Path("f.json"))])
        os.symlink("f.json", "link.json")
        out += [given(released.read_json, Path(p)) for p in ("link.json", "none.json", ".")]
        with pytest.MonkeyPatch.context() as patch:
            for most in (19, 20):
                patch.setattr(released, "MOST_JSON", most)
                Path("f.json").write_text(" " * 19 + "1")
                out.append(given(released.read_json, Path("f.json")))
    return [str(x) if isinstance(x, str) else x for x in out]


def _requests() -> Any:
    """Noise, sensitivities and digests of what a session is asked."""
    sizes, out = Domain({"a": 3, "b": 2}), []
    queries = (
        None,
        Identity(3),
        Weighted([1, 1, 2], 2),
        Weighted([1, 1, 3], 2),
        Binned((3,), [[0, 0, 1]]),
        Identity(2),
    )
    for query in queries:
        for clip, mu in ((1, 0.5), (7, 1.3), (1, 1e-9), (1, 1e12)):
            out.append(
                given(lambda: _planned(noiseplan.plan_marginal(sizes, clip, Request(("a",), mu, query))))
            )
    keys = (RowsPerUser((1, 2, 4)), MostCommon(("a", "b")), Groups(("a",), 3), Groups(("b",), 1))
    for key in keys:
        for unit, cap in (("user", 1), ("user", 5), ("user", 99), ("event", 2), ("user", 0), ("user", 1.5)):
            for mu, epsilon in (
                (0.5, None),
                (None, 0.7),
                (None, None),
                (0.5, 0.5),
                (0.0, None),
                (None, -1.0),
            ):
                made = given(
                    lambda: _described(noiseplan.plan_histogram(sizes, unit, key, cap, mu, epsilon, "l"))
                )
                out.append(made)
    for estimate in ([1.0, 2.0, 3.4], [1.0], [math.nan] * 3, [2.0**40] * 3, [-0.3 / SCALE, 0.6 / SCALE, 0]):
        out.append(given(noiseplan.score_grid, sizes, ("a",), {("a",): np.array(estimate)}, "l"))
    out.append(given(noiseplan.score_grid, sizes, ("b",), {}, "l"))
    limit = noiseplan.SCORE_LIMIT
    for far in (0, 5, limit - 1, limit, limit + 1):
        out.append(noiseplan.l1_distance(np.array([0, far]), np.array([1, 0])))
    for recode in (
        None,
        {},
        {"a": [0, 0, 1]},
        {"a": [0.0, 0.0, 1.0]},
        {"a": [[0]]},
        {"a": [0, 1]},
        {"z": [0]},
    ):
        out.append(
            given(
                noiseplan.recoded,
                sizes,
                None if recode is None else {k: np.array(v) for k, v in recode.items()},
            )
        )
    for array, shape in ((np.arange(3), (3,)), (np.arange(3.0), (3,)), (np.arange(3), (4,)), ([1], (1,))):
        out.append(given(noiseplan.require_int64, array, shape))
    return [*out, *(given(noiseplan.positive, v, "v") for v in (1, 0, -1, math.inf, "x", math.nan))]


def _planned(made: Any) -> Any:
    return [
        made.rows,
        made.clip,
        made.sensitivity2,
        made.sigma,
        made.sigma_rows,
        made.question,
        made.describe("l"),
    ]


def _described(made: Any) -> Any:
    facts = [made.size, made.cap, made.bound, made.event, made.width, made.sigma, made.grid, made.gaussian]
    return [*facts, made.question, made.describe("l")]


def _lines() -> Any:
    """Partitions refined three times and bins made from them, for counts drawn by a seed."""
    out: list[Any] = []
    lines = [
        *(cells.Line(d) for d in ("int8", "int64", "float64", "float32", "date32", "timestamp[s]")),
        *(
            cells.Line("decimal128(10, 2)"),
            cells.Line("float64", digits=1),
            cells.Line("float64", whole=True),
        ),
        *(cells.Line("float64", 0.0, 7.5), cells.Line("int32", 0, 900), cells.Line("uint8", None, 80)),
        cells.Line("int16", 5),
    ]
    rng = np.random.default_rng(8)
    for line in lines:
        edges, span = line.first(), None
        out.append([line.dtype, line.unit, line.range(), len(edges), edges[:9].tolist(), edges[-9:].tolist()])
        rows = np.concatenate([rng.normal(40, 9, 700), np.full(200, 12.0), np.full(90, 31.0)])
        rows = np.round(rows) if line.unit == 1.0 else np.round(rows, 1)
        for cells_wanted in (60, 90, 40):
            counts = np.histogram(rows, edges)[0] + np.round(rng.normal(0, 2, len(edges) - 1), 1)
            out.append(given(line.bins, edges, counts, 2.0, 9, span))
            edges, span = line.refine(edges, counts, 2.0, cells_wanted, 9, span)
            out += [[len(edges), span], given(lambda: edges[np.isfinite(edges)])]
        out.append(given(line.bins, edges, np.zeros(len(edges) - 1), 2.0, 9))
        out.append(given(line.bins, edges, np.histogram(rows, edges)[0], 0.1, 200, span))
        for value in (0.0, -1.0, 0.1, 1e17, -(2.0**53)):
            out.append(given(line.after, value))
        for low, high, parts in (
            (0.0, 10.0, 4.0),
            (0.0, 10.0, 1.0),
            (3.0, 4.0, 5.0),
            (-math.inf, 0.0, 3.0),
            (0.0, 0.0, 2.0),
        ):
            out.append(given(line.split, low, high, parts))
        for share in (0.0, 0.3, 0.5, 0.51, 0.99, 1.0):
            out.append([given(line._near, 2.0, 9.0, share), given(line._near, 2.0, 3.0, share)])
    return out


def _counts() -> Any:
    out: list[Any] = []
    rng = np.random.default_rng(9)
    for n in (1, 2, 3, 7, 8, 9, 16):
        counts = np.round(rng.exponential(9, n) * (rng.random(n) < 0.5), 1)
        for sigma in (0.1, 1.0, 4.0):
            out.append([given(cells.extents, counts, sigma), given(cells.digits_of, counts, sigma)])
            out += [cells.ahead(counts, sigma, few) for few in (0.0, 3.0, 1000.0)]
    for atoms in ([], [0], [2], [4], [0, 1], [1, 3], [0, 4]):
        out.append(cells._between(atoms, 5))
    for count in (1, 2, 3, 5, 11):
        out.append([cells.shared(count, m) for m in ([], [1.0], [3.0, 1.0], [0.0, 0.0], [5.0, 2.5, 2.5])])
    coarse, fine = np.array([0.0, 4.0, 8.0, 12.0]), np.array([0.0, 1.0, 4.0, 6.0, 9.0, 12.0])
    for sigmas in ((1.0, 1.0), (2.0, 0.5), (0.1, 3.0)):
        made = cells.agree(coarse, np.array([9.0, 5.0, 1.0]), sigmas[0], fine, np.arange(5.0), sigmas[1])
        out.append(given(lambda: made))
    for width in (1e-300, 0.011, 0.1, 0.2, 0.21, 1.0, 1.0000000000001, 5.1, 9.9, 1e20):
        out.append(cells._round_up(width))
    for value in (-1.005, 0.1, 0.0, 2.5, math.inf):
        out.append([cells._ceil(value, digits) for digits in (0, 1, 3)])
    return out


def _grids() -> Any:
    out: list[Any] = []
    line = cells.Line("float64", 0.0, 64.0)
    for digits in (None, 0, 1):
        grid = domain.Grid(line.first())
        grid.digits = digits
        for scale, gain in ((1.0, 2.0), (3.0, 1.0), (20.0, 0.5)):
            counts = np.zeros(len(grid.edges) - 1)
            counts[len(counts) // 3] = 40 * scale
            counts[len(counts) // 2 :] += scale
            grid.take(counts, 2.0 * scale, 1.5)
            fitting = grid.on_grain(line)
            out.append([given(lambda: grid.counts), grid.crowded(fitting), grid.sigma, grid.nulls])
            grid = grid.refined(fitting, 6, gain)
            out.append([given(lambda: grid.edges), grid.span])
    return out


def _costs() -> Any:
    out: list[Any] = []
    for name in ("rows", "users", "private", "private rows", "one row"):
        schema = SCHEMAS[name]()
        costs = domaincosts.DomainCosts.of(schema, 1e-6)
        out += [costs, domaincosts.columns_paid(schema)]
        for pure, unit in ((False, "user"), (True, "user"), (False, "event"), (False, "row")):
            out.append(given(domaincosts.check_askable, schema, pure=pure, unit=unit))
        for clip in (None, 5, "private"):
            out.append(domaincosts.clip_of(clip, schema))
        for column in schema.pending.values():
            out += [domaincosts.counts_places(column), domaincosts.keys_cap(schema, column)]
            out += [given(domaincosts.column_mu, schema, 1.0, costs), given(domain.line_of, column)]
            out.append(given(domaincosts.keys_event, schema, 1.0, costs))
    for counts in (
        [0, 0, 0, 0, 0],
        [90, 0, 0, 0, 0],
        [90, 90, 90, 90, 90],
        [0, 0, 0, 30, 0],
        [0, 90, 0, 0, 3],
    ):
        out += [domaincosts.rows_bound(counts, sigma, 7) for sigma in (1.0, 5.0, 40.0)]
    for delta, lost in ((1e-6, 0.0), (1e-6, 4e-7), (0.3, 0.1)):
        out.append(keyselect.less(delta, lost).hex())
    for width, cap, delta in ((1.5 * SCALE, 1, 1e-7), (20.0 * SCALE, 4, 1e-9), (3e7, 2, 1e-30)):
        out.append(given(keyselect.threshold, width, cap, delta))
    return out


CASES: dict[str, Any] = {
    **{f"plans {name}": partial(_plans, name) for name in SCHEMAS},
    **{f"folder {name}": partial(_folders, name) for name in ("mst 5", "mst private", "adagrid")},
    **{f"changed {name}": partial(_changed, name) for name in ("mst private", "aim")},
    "planned on public rows": _planned_on_public_rows,
    "forms": _forms,
    "tampered": _tampered,
    "strict json": _strict_json,
    "requests": _requests,
    "lines": _lines,
    "counts": _counts,
    "grids": _grids,
    "costs": _costs,
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_promised_is_what_is_kept(name):
    check("promised", name, CASES[name]())
