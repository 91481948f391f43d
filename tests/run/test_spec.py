"""The options of a run are listed once: signature, types and command line follow from that list."""

import inspect
from dataclasses import FrozenInstanceError, fields

import pytest

import fastdp
from fastdp.cli import app
from fastdp.errors import UsageError
from fastdp.run.spec import Options, RunOptions

NAMES = [field.name for field in fields(RunOptions)]
IN_PYTHON_ONLY = {"progress", "cancel"}
"""Callbacks; the command line has --quiet and Ctrl-C."""


def test_types_defaults_and_signature_are_one_list():
    assert list(Options.__annotations__) == NAMES
    parameters = inspect.signature(fastdp.synthesize).parameters
    assert list(parameters) == ["table", "mechanism", "epsilon", "delta", *NAMES]
    for field in fields(RunOptions):
        assert parameters[field.name].default == field.default
        assert parameters[field.name].kind is inspect.Parameter.KEYWORD_ONLY


def test_the_command_line_has_every_option():
    assert set(NAMES) - IN_PYTHON_ONLY <= set(inspect.signature(app.synth).parameters)


def test_every_option_is_documented():
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
