"""A wrong argument costs nothing: whatever is given to `synthesize`, the ledger is as it was."""

import inspect
import math
from dataclasses import FrozenInstanceError, fields
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import fastdp
from fastdp.cli import synth_command
from fastdp.errors import FastdpError, UsageError
from fastdp.run.private_folder import MOST_NAME
from fastdp.run.spec import Options, RunOptions

from .test_synthesize import small_data, small_schema


class Bad:
    """An object of which nothing may be asked."""

    def __bool__(self):
        raise AssertionError("was asked whether it is true")


THING = Bad()
OTHER = [THING, [], {}, b"x", True]
NO_NUMBERS = [math.nan, math.inf, -math.inf, "1", 1 + 1j, np.array([1, 2]), *OTHER]
WHOLE = [-1, 1.5, 10**400, [1], *NO_NUMBERS]
FLAGS = [None, 0, 1, "no", [], THING]
SOURCES = [None, 5, 1.5, "", "no/such.parquet", "a\0b", ["no.csv"], [5], __file__, *OTHER]

ABSURD = {
    "table": SOURCES,
    "mechanism": [
        None,
        5,
        "no",
        "",
        "a\0b",
        {"mechanism": 5},
        {"mechanism": "mst", "no": 1},
        {"mechanism": "mst", "clip": 10**30},
        {"mechanism": "archetypes"},
        *OTHER,
    ],
    "epsilon": [
        0,
        -1,
        10**400,
        None,
        [1, 1],
        [1, 1.0000001],
        [1, -1],
        ["x"],
        [None],
        [10**400],
        [[1]],
        [True],
        {1, 2},
        *NO_NUMBERS,
    ],
    "delta": [-1, 1, 10**400, 1e-300, None, [1], *NO_NUMBERS],
    "schema": [5, 1.5, "no", "", "a\0b", {"columns": 5}, *OTHER],
    "domain": [5, "public", "", *OTHER],
    "user": [5, "no", "", *OTHER],
    "values": [5, "x", {5: [1]}, {"no": [1]}, {"a": 5}, {"a": "no"}, {"a": []}, THING],
    "dialect": [5, "x", {"delimiter": 5}, {"delimiter": "ab"}, {"no": 1}, THING, [], b"x", True],
    "rows": [*WHOLE, 2**48 + 1, 10**20],
    "public": [v for v in SOURCES if v is not None],
    "ledger": [5, "", "/", "a\0b", "no/such/folder/budget.db", "redis://x", *OTHER],
    "dataset": [5, "", "no", *OTHER],
    "series": [5, "", "no", "d", *OTHER],
    "previous": [5, "", "no/such", "a\0b", *OTHER],
    "period": [5, "", "2026-03", *OTHER],
    "late": FLAGS,
    "seed": [1.5, [1], *NO_NUMBERS],
    "sample_seed": [-1, 1.5, [1], *NO_NUMBERS],
    "threads": [*WHOLE, 0, 10**20],
    "memory": [*WHOLE, 0, 1, 10**20],
    "deadline": [-1, 0, 10**20, 10**400, [1], *NO_NUMBERS],
    "progress": [5, "x", [], {}, 0, True, THING],
    "cancel": [5, "x", [], {}, 0, True, False, THING],
    "out": [5, "", "/", "a\0b", "/proc/x", "x" * 300, "x" * (MOST_NAME + 1), "x/" * 3000, *OTHER],
    "private_dir": [
        *(5, "", "/", "a\0b", "/proc/x", "s3://bucket/x", "x" * 300, "x/" * 3000),
        *("run", "run/x", ".", "..", "data.parquet", "no\0", *OTHER),
    ],
    "resume": FLAGS,
    "report": FLAGS,
    "clip": [*WHOLE, 0, 10**20, "public"],
    "max_cells": [*WHOLE, 0, 10**20],
    "engine": [5, "no", "", *OTHER],
    "partitions": [*WHOLE, 0, 10**20],
    "numbers": [5, "sum(", ["sum(nope)"], [5], {"no": 1}, {"list": ["count"], "share": 2}, THING],
    "important": [5, "a", [], {"no": 1}, {"columns": ["no"]}, {"users": -1}, {"pairs": 5}, THING],
    "ignore_empty_columns": FLAGS,
    "diagnose": FLAGS,
}
"""Values of each argument that no run can have. (seed=10**400 is a seed like any other.)"""

COMPANY = {"user": {"domain": "private", "schema": None}}
"""What an argument needs beside it to be read at all."""


def arguments():
    names = inspect.signature(fastdp.synthesize).parameters
    return [name for name in names if not name.startswith("_")]


@pytest.fixture
def world(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pq.write_table(small_data(300), tmp_path / "data.parquet")
    fastdp.Ledger("budget.db").open("d", epsilon=15.0, delta=1e-6)


def call(private, **options):
    """A run that would be made if `options` did not spoil it."""
    given = {
        "table": "data.parquet",
        "mechanism": "cliquetree",
        "epsilon": 1.0,
        "delta": 1e-6,
        "rows": 10,
        "ledger": "budget.db",
        "dataset": "d",
        "out": "run",
    }
    given |= {"domain": "private", "user": "u"} if private else {"schema": small_schema()}
    given |= options
    if "seed" in options:
        del given["ledger"], given["dataset"]
    return fastdp.synthesize(**given)


def test_every_argument_has_absurd_values():
    assert set(ABSURD) == set(arguments())


@pytest.mark.parametrize("private", [False, True], ids=["written schema", "private domain"])
def test_the_call_is_sound_where_nothing_spoils_it(world, private):
    assert call(private, sample_seed=0 if private else 10**400).to_arrow().num_rows == 10


@pytest.mark.parametrize("private", [False, True], ids=["written schema", "private domain"])
@pytest.mark.parametrize("name", ABSURD)
def test_an_absurd_argument_is_refused_and_the_ledger_untouched(world, monkeypatch, name, private):
    if private and name in ("schema", "domain", "user"):
        return  # of runs with a written schema
    files = [Path("budget.db"), Path("budget.db.head")]
    before = [path.read_bytes() for path in files]
    local = []
    monkeypatch.setattr(fastdp.Ledger, "local", lambda *a, **k: local.append(1))
    for value in ABSURD[name]:
        with pytest.raises(FastdpError) as caught:
            call(private, **COMPANY.get(name, {}), **{name: value})
        assert not local and [path.read_bytes() for path in files] == before, (
            name,
            value,
            caught.value,
        )
        assert len(str(caught.value)) < 2000
        left = {path.name for path in Path().iterdir()} - {"data.parquet", "budget.db.lock"}
        assert left == {path.name for path in files}, (name, value)


FIELDS = [
    {"mechanism": "adagrid", "rounds": [0.5]},
    {"mechanism": "adagrid", "selection": 1e-300},
    {"mechanism": "adagrid", "outer": [["a", "b"]], "rounds": [1.0]},
    {"mechanism": "adagrid", "outer": [["a", "b"]], "copies": [{"clique": ["c"], "times": 2}]},
    {"mechanism": "adagrid", "outer": [[]]},
    {"mechanism": "aim", "rounds": 10**20},
    {"mechanism": "tworound", "round2": [[]]},
]
"""Fields of recipes that were refused only after noise was drawn, found by absurd values of every
field."""


@pytest.mark.parametrize("recipe", FIELDS, ids=str)
def test_an_absurd_field_of_a_recipe_is_refused_and_the_ledger_untouched(world, recipe):
    before = Path("budget.db").read_bytes()
    with pytest.raises(FastdpError):
        call(False, mechanism=recipe | {"clip": 3})
    assert Path("budget.db").read_bytes() == before


def test_sources_whose_ids_are_of_two_kinds_are_refused_and_the_ledger_untouched(world):
    """A number and a text could be one person's id, or two people's."""
    numbers = small_data(300)
    before = Path("budget.db").read_bytes()
    at = numbers.column_names.index("u")
    texts = numbers.set_column(at, "u", numbers["u"].cast("string"))
    with pytest.raises(FastdpError, match="'u'"):
        call(False, table=[numbers, texts])
    assert Path("budget.db").read_bytes() == before


# The options of a run are listed once: signature, types and command line follow from that list.


NAMES = [field.name for field in fields(RunOptions)]
IN_PYTHON_ONLY = {"progress", "cancel"}
"""Callbacks; the command line has --quiet and Ctrl-C."""


def test_options_are_one_list_documented_and_on_the_command_line():
    assert list(Options.__annotations__) == NAMES
    parameters = inspect.signature(fastdp.synthesize).parameters
    assert list(parameters) == ["table", "mechanism", "epsilon", "delta", *NAMES]
    for field in fields(RunOptions):
        assert parameters[field.name].default == field.default
        assert parameters[field.name].kind is inspect.Parameter.KEYWORD_ONLY
    assert set(NAMES) - IN_PYTHON_ONLY <= set(inspect.signature(synth_command.synth).parameters)
    text = inspect.getdoc(fastdp.synthesize)
    documented = {
        name
        for line in text.splitlines()
        if " : " in line and not line.startswith(" ")
        for name in line.split(" : ")[0].split(", ")
    }
    assert set(NAMES) <= documented


def test_options_do_not_change_and_misspelt_ones_are_refused():
    with pytest.raises(FrozenInstanceError):
        RunOptions().rows = 3
    with pytest.raises(UsageError, match="did you mean 'sample_seed'"):
        fastdp.synthesize([], epsilon=1.0, sample_sed=1)


def test_the_estimator_takes_its_parameters_in_the_same_order():
    mine = list(inspect.signature(fastdp.Synthesizer).parameters)
    theirs = list(inspect.signature(fastdp.synthesize).parameters)[1:]
    shared = [name for name in mine if name in theirs]
    assert shared[:3] == ["mechanism", "epsilon", "delta"]
    assert set(mine) - set(theirs) == {"random_state"}


@pytest.mark.parametrize(
    "call",
    [
        lambda: fastdp.synthesize([]),
        lambda: fastdp.plan(fastdp.Schema.from_domain({"a": 2})),
        lambda: fastdp.Synthesizer().fit([]),
    ],
)
def test_nothing_is_spent_unless_somebody_says_how_much(call):
    with pytest.raises(UsageError, match="epsilon is required"):
        call()
