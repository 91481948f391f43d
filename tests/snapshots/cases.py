"""The cases: each a function of a place to work in that returns what a user would read."""

import io
import json
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import fastdp
from fastdp.cli import app, parser
from fastdp.errors import FastdpError
from fastdp.privacy.forms import as_form

FOLDER = Path(__file__).with_name("texts")
LISTED = {"null": "drop", "overflow": "drop"}
SCHEMA = {
    "name": "club",
    "provenance": "statutes of the club",
    "user": {"column": "member", "max_rows": 4},
    "columns": {
        "sport": {"kind": "categorical", "values": ["chess", "rugby"], **LISTED},
        "fee": {"kind": "numeric", "edges": [0, 10, 20, 50], "dtype": "float64", **LISTED},
    },
}


class Place:
    """A folder with a table, its schema, a finished run and a ledger, each made when first asked
    for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @cached_property
    def rows(self) -> pa.Table:
        rng = np.random.default_rng(0)
        return pa.table(
            {
                "member": rng.integers(0, 500, 1500),
                "sport": np.where(rng.random(1500) < 0.7, "chess", "rugby"),
                "fee": rng.random(1500) * 50,
            }
        )

    @cached_property
    def schema(self) -> fastdp.Schema:
        return fastdp.Schema.from_dict(SCHEMA)

    @cached_property
    def files(self) -> Path:
        pq.write_table(self.rows, self.folder / "club.parquet")
        self.schema.save(self.folder / "club.toml")
        return self.folder

    @cached_property
    def ledger(self) -> fastdp.Ledger:
        book = fastdp.Ledger(self.folder / "budget.db")
        book.open("club", epsilon=3.0, delta=1e-6)
        return book

    @cached_property
    def run(self) -> fastdp.Run:
        options = {"schema": self.schema, "clip": 3, "sample_seed": 1}
        charged = {"ledger": self.ledger, "dataset": "club", "out": self.folder / "run"}
        return fastdp.synthesize(self.rows, "mst", 2.0, 1e-6, **options, **charged)

    def synthesize(self, **options: Any) -> Any:
        arguments = {
            "mechanism": "mst",
            "epsilon": 1.0,
            "delta": 1e-6,
            "schema": self.schema,
        } | options
        return fastdp.synthesize(arguments.pop("rows_of", self.rows), **arguments)


@contextmanager
def inside(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def command(*arguments: str) -> Callable[[Place], str]:
    """What a command prints, or the error it ends with."""

    def call(place: Place) -> str:
        _ = place.run
        printed = io.StringIO()
        with inside(place.files), redirect_stdout(printed), redirect_stderr(printed):
            try:
                app.call(arguments)
            except FastdpError as error:
                print(f"{type(error).__name__}: {error}")
        return f"$ fastdp {' '.join(arguments)}\n{printed.getvalue()}"

    return call


def help_of(path: tuple[str, ...], told: Any) -> Callable[[Place], str]:
    """A command's help, without the layout that the terminal decides."""

    def call(_: Place) -> str:
        lines = [f"$ fastdp {' '.join(path)} --help", told.about, ""]
        lines += [f"{name}  {text}" for name, text in told.places.items()]
        lines += [
            f"{', '.join(names)} {value}  {text}" for names, (text, value) in told.options.items()
        ]
        return "\n".join(lines)

    return call


def refusal(call: Callable[[Place], Any]) -> Callable[[Place], str]:
    """The error that a call ends with."""

    def caught(place: Place) -> str:
        try:
            call(place)
        except FastdpError as error:
            return f"{type(error).__name__} (exit code {error.exit_code})\n{error}"
        raise AssertionError("nothing was refused")

    return caught


def statement(place: Place) -> str:
    """privacy.json, without versions and without the fields of the recipe, which have a page of
    their own."""
    made = {key: value for key, value in place.run.privacy.items() if key != "versions"}
    made["mechanism"] = {key: value for key, value in made["mechanism"].items() if key != "config"}
    return json.dumps(made, indent=1)


def forged(place: Place) -> str:
    folder = place.folder / "forged"
    folder.mkdir()
    _ = place.run
    for path in (place.folder / "run").iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    claimed = json.loads((folder / "privacy.json").read_text())
    claimed["epsilon"] /= 2
    (folder / "privacy.json").write_text(json.dumps(claimed))
    fastdp.verify(folder)


def of(column: dict[str, Any], **more: Any) -> Callable[[Place], Any]:
    return lambda _: fastdp.Schema.from_dict({"columns": {"age": column}, **more})


def commands() -> dict[tuple[str, ...], Any]:
    return {path: parser.parser_of(path) for path in parser.COMMANDS}


SPORT = {"sport": {"kind": "string", "values": ["chess"]}}
COUNTED = fastdp.Schema.from_dict(SCHEMA | {"columns": SCHEMA["columns"] | SPORT})
"""Values outside the list have a code of their own, so that a run can see that nothing else is
there."""
REFUSALS: dict[str, Callable[[Place], Any]] = {
    "argument-delta": lambda p: p.synthesize(delta=1.0),
    "argument-epsilon": lambda p: p.synthesize(epsilon=-1.0),
    "argument-epsilon-too-large": lambda p: p.synthesize(epsilon=100.0),
    "argument-mechanism": lambda p: p.synthesize(mechanism="mts"),
    "argument-recipe-column": lambda p: p.synthesize(
        mechanism={"mechanism": "cliquetree", "target": "spotr"}
    ),
    "argument-recipe-field": lambda p: p.synthesize(mechanism={"mechanism": "mst", "clipp": 3}),
    "argument-resume-nothing": lambda p: p.synthesize(out=p.folder / "absent", resume=True),
    "argument-rows": lambda p: p.synthesize(rows=-1),
    "argument-schema-and-table-swapped": lambda p: fastdp.read(p.schema, p.rows),
    "argument-seed-and-ledger": lambda p: p.synthesize(seed=1, ledger=p.ledger, dataset="club"),
    "budget-exhausted": lambda p: (
        p.run,
        p.synthesize(epsilon=3.0, ledger=p.ledger, dataset="club"),
    ),
    "budget-other-unit": lambda p: (
        p.run,
        p.synthesize(
            schema=fastdp.Schema.from_dict(SCHEMA | {"user": {}}), ledger=p.ledger, dataset="club"
        ),
    ),
    "data-column-missing": lambda p: p.synthesize(
        rows_of=p.rows.rename_columns(["member", "Sport", "fee"])
    ),
    "data-file-absent": lambda p: fastdp.read(p.folder / "absent.parquet", p.schema),
    "data-public-is-private": lambda p: p.synthesize(public=p.rows),
    "data-type": lambda p: p.synthesize(
        rows_of=p.rows.set_column(2, "fee", pa.array([[1]] * 1500))
    ),
    "folder-exists": lambda p: (p.run, p.synthesize(out=p.folder / "run")),
    "ledger-absent": lambda p: p.synthesize(ledger=p.folder / "absent.db", dataset="club"),
    "ledger-data-set-not-open": lambda p: p.synthesize(ledger=p.ledger, dataset="clubs"),
    "model-too-large": lambda p: p.synthesize(mechanism={"mechanism": "mst", "max_cells": 3}),
    "schema-built-in-misspelt": lambda _: fastdp.Schema.load("taxi-deid"),
    "schema-constraint-impossible": lambda _: fastdp.plan(
        fastdp.Schema.from_dict(
            {
                "columns": {n: {"kind": "integer", "max": 3} for n in "ab"},
                "constraints": [{"order": ["a", "b"], "strict": True}, {"require": "a > b"}],
            }
        ),
        "mst",
        1.0,
        rows=99,
    ),
    "schema-edges": of({"kind": "numeric", "edges": [0, 5, 5]}),
    "schema-field-misspelt": of({"kind": "integer", "maxx": 9}),
    "schema-kind": of({"kind": "cat"}),
    "schema-no-columns": lambda _: fastdp.Schema.from_dict({"columns": {}}),
    "schema-value-outside-type": of({"kind": "categorical", "values": [300], "dtype": "int8"}),
    "stopped-early": lambda p: p.synthesize(
        epsilon=20.0,
        schema=COUNTED,
        rows_of=p.rows.set_column(1, "sport", pa.array(["CHESS"] * 1500)),
    ),
    "verify-forged-epsilon": forged,
    "verify-no-folder": lambda p: fastdp.verify(p.folder / "absent"),
}
CASES: dict[str, Callable[[Place], str]] = {
    **{"help-" + "-".join(path): help_of(path, told) for path, told in commands().items()},
    **{"error-" + name: refusal(call) for name, call in REFUSALS.items()},
    "cli-calibrate": command("calibrate", "-e", "1", "-d", "1e-6"),
    "cli-check": command("check", "club.parquet"),
    "cli-ledger-show": command("ledger", "show", "budget.db"),
    "cli-ledger-verify": command("ledger", "verify", "budget.db"),
    "cli-plan": command(
        "plan",
        "-s",
        "club.toml",
        "-m",
        "mst",
        "-e",
        "1",
        "-d",
        "1e-6",
        "--clip",
        "3",
        "--rows",
        "10000",
    ),
    "cli-schema-check": command("schema", "check", "club.toml"),
    "cli-schema-draft": command(
        "schema", "draft", "club.parquet", "--user", "member", "-o", "draft.toml"
    ),
    "cli-schema-show": command("schema", "show", "club.toml"),
    "cli-verify": command("verify", "run"),
    "cli-verify-with-ledger": command("verify", "run", "--ledger", "budget.db"),
    "statement": statement,
    **{
        f"statement-as-{form}": command("statement", "run", "--as", form)
        for form in ("text", "registry")
    },
    "statement-as-sp800-226": lambda place: json.dumps(
        as_form(place.run.privacy, "sp800-226"), indent=1
    ),
    "python-plan": lambda place: str(fastdp.plan(place.schema, "mst", 1.0, 1e-6, rows=10_000_000)),
    "python-schema": lambda place: place.schema.describe(),
}

FLOAT = r"(?<![\w.])-?(\d[\d,]*\.\d{%d,}(e[-+]?\d+)?|\d+(\.\d+)?e[-+]?\d+)(?!\w)"
MASKS = (
    (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d[\d:.]*(Z| UTC|[+-]\d\d:\d\d)?", "TIME"),
    (r"(autodp|mpmath) [\d.]+\w*(, \d+ digits)?", "SECOND ACCOUNTANT"),
    (r"\band \d+ s\b", "and # s"),
    (r"\d+(\.\d+)?%", "#%"),
    (FLOAT % 2, "#"),
    (r"\b(?=\w*[a-f])[0-9a-f]{12,}\b", "HASH"),
    (r"[─━═]{2,}", "──"),
    (r"(?<=\S) {2,}", "  "),
    (r"(?m) +$", ""),
)
FIGURES = ((FLOAT % 1, "#"), (r"(?<![\w.#^-])-?(\d{1,3}(,\d{3})+|\d{2,})(?![\w.])", "#"))
"""Of results: every number of two digits or more."""


def masked(text: str, figures: bool = True) -> str:
    for pattern, instead in (*MASKS, *(FIGURES if figures else ())):
        text = re.sub(pattern, instead, text)
    return text.strip("\n") + "\n"


def shown(name: str, place: Place) -> str:
    """A case's text, with the place it was made in named PLACE."""
    text = CASES[name](place).replace(str(place.folder), "PLACE")
    return masked(text, not name.startswith(("error-", "help-")))
