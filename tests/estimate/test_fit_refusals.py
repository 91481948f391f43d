"""Measurements, zeros and starts that do not fit the domain are refused with a sentence that names them."""

import json
import zipfile
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp

from fastdp import Measurement
from fastdp._core.infer import Engine
from fastdp.domain import Domain
from fastdp.errors import DataError, MeasurementError, UsageError
from fastdp.estimate import lower, task
from fastdp.estimate.descent.optimisers import DescentState
from fastdp.estimate.estimator import fit
from fastdp.estimate.linear_rows import check, usage
from fastdp.model import Model, array_file
from fastdp.model.grow import grow
from fastdp.model.junction_tree import junction_tree
from fastdp.model.layout import make_plan
from fastdp.queries import Block

DOMAIN = Domain({"a": 2, "b": 3})
SEEN = [Measurement(("a", "b"), np.arange(6.0) + 1, 1.0)]


@pytest.mark.parametrize(
    "wrong, text",
    [
        (Measurement((), np.ones(1), 1.0), "clique is empty"),
        (Measurement(("a",), np.ones(2), 1.0, np.ones((2, 3))), "over 3 cells, the clique has 2"),
        (Measurement(("a",), np.ones(3), 1.0), "3 values for 2 rows"),
        (Measurement(("z",), np.ones(2), 1.0), "'z'"),
    ],
)
def test_measurements_fit_their_cliques(wrong, text):
    with pytest.raises(MeasurementError, match=text):
        fit(DOMAIN, [*SEEN, wrong])


@pytest.mark.parametrize(
    "zeros, text",
    [
        ({("z",): [True, False]}, "zeros: "),
        ({("a",): [True, False, False]}, r"one bool per cell \(2\)"),
        ({("a",): [1, 0]}, r"one bool per cell \(2\)"),
        ({("a",): [True, True]}, "every combination is ruled out"),
        ({("a",): [True, False], ("a", "b"): [False] * 3 + [True] * 3}, "no possible row"),
    ],
)
def test_zeros_are_one_bool_per_cell_and_leave_something(zeros, text):
    masks = {clique: np.array(mask) for clique, mask in zeros.items()}
    with pytest.raises(MeasurementError, match=text):
        fit(DOMAIN, SEEN, zeros=masks)


def test_a_start_is_over_the_same_domain():
    start = fit(Domain({"a": 2, "b": 4}), [Measurement(("b",), np.ones(4), 1.0)])
    with pytest.raises(UsageError, match="'b' has 4 codes there, 3 here"):
        fit(DOMAIN, SEEN, warm_start=start)


def test_methods_and_queries_that_do_not_apply():
    with pytest.raises(UsageError, match='method="flow" takes'):
        fit(DOMAIN, SEEN, method="flow")
    model = fit(DOMAIN, SEEN)
    with pytest.raises(UsageError, match="over 3 cells"):
        model.answer(sp.csr_array(np.eye(3)), ("a",))
    with pytest.raises(MeasurementError, match="a query is None"):
        model.answer("all", ("a",))
    with pytest.raises(UsageError, match="ways=0"):
        grow(DOMAIN, {}, 0, 100)
    assert {frozenset(c) for c in grow(DOMAIN, {("a", "b"): 1.0}, 1, 100)} == {frozenset("a"), frozenset("b")}


def rewritten(path, change):
    """The model file with another manifest."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    name = array_file._MANIFEST
    made = change(json.loads(members[name]))
    members[name] = made if isinstance(made, bytes) else json.dumps(made).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for member, content in members.items():
            archive.writestr(member, content)


def spoilt(key, value=None):
    def change(head):
        inner = {k: v for k, v in head["manifest"].items() if k != key} | (
            {} if value is None else {key: value}
        )
        return head | {"manifest": inner}

    return change


@pytest.mark.parametrize(
    "change, text",
    [
        (lambda head: b"{", "not JSON"),
        (lambda head: b"[" * 100_000, "not JSON"),
        (lambda head: head | {"format": "other"}, "not a fastdp model"),
        (lambda head: head | {"version": -1}, "format version -1"),
        (lambda head: head | {"arrays": []}, "lacks the list of arrays"),
        (spoilt("kind", "archetypes"), "not a fastdp model of format"),
        (spoilt("version", 99), "not a fastdp model of format"),
        (spoilt("domain", {"a": 2, "b": 4}), "has the wrong shape"),
        (spoilt("total"), "lacks or spoils"),
        (spoilt("nodes", [[1]]), "lacks or spoils"),
        (spoilt("trace", [["x", 1]]), "lacks or spoils"),
    ],
)
def test_a_model_file_whose_manifest_is_spoilt_is_refused(tmp_path, change, text):
    path = tmp_path / "m.fastdp"
    fit(DOMAIN, SEEN).save(path)
    assert Model.load(path).domain == DOMAIN
    rewritten(path, change)
    with pytest.raises(DataError, match=text):
        Model.load(path)


@pytest.mark.parametrize("name", ["", 3, "x" * 201, "é", "a/b", ".a", "a b"])
def test_names_of_arrays_are_short_and_plain(tmp_path, name):
    with pytest.raises(UsageError, match="array name"):
        array_file.save(tmp_path / "x", {name: np.zeros(2)}, {})
    array_file.save(tmp_path / "y", {"x" * 200: np.zeros(2), "a_-.9": np.zeros(1)}, {})


@pytest.mark.parametrize("log_z", [np.nan, np.inf])
def test_a_fit_whose_start_is_beyond_the_number_format_does_not_begin(monkeypatch, log_z):
    monkeypatch.setattr(task, "Engine", lambda *_: SimpleNamespace(infer=lambda *_: log_z))
    with pytest.raises(MeasurementError, match="the fit cannot begin: potentials are not finite; check"):
        fit(DOMAIN, SEEN, method="accelerated")


def test_a_block_of_rows_says_what_it_takes_away():
    parts = check(DOMAIN, SEEN)
    plan = make_plan(DOMAIN, junction_tree(DOMAIN, [("a", "b")], None), usage(parts))
    whole = {"cells": np.array([0]), "minus": ("a", "b"), "fine": np.array([1]), "at": np.array([0])}
    assert lower._matrix(plan, Block((), ("a", "b"), **whole), 6).toarray().tolist() == [[1, -1, 0, 0, 0, 0]]
    for missing in ("cells", "minus", "fine"):
        with pytest.raises(MeasurementError, match="a block of rows needs its cells and what is taken away"):
            lower._matrix(plan, Block((), ("a", "b"), **whole | {missing: None}), 6)


def test_where_nothing_was_measured_cell_by_cell_there_are_no_places():
    """However many entries of the vector are in use before it."""
    used = np.array([True, False, True, True])
    position, values = np.cumsum(used) - 1, np.arange(4)[used]
    for first in range(4):
        assert lower._shift(slice(first, first), position) == slice(0, 0)
    assert values[lower._shift(slice(2, 4), position)].tolist() == [2, 3]


class Moves:
    """An engine whose moves end as told."""

    def __init__(self, *ends):
        self.ends = iter(ends)

    def move(self, *_):
        return next(self.ends)


def test_a_step_beyond_the_number_format_is_too_long_or_none_at_all():
    """A step that is too long ends at an infinite distance, so that a shorter one is tried; where even the
    shortest is, or the sum of all rows is no number, the fit has diverged."""
    parts = check(DOMAIN, SEEN)
    plan = make_plan(DOMAIN, junction_tree(DOMAIN, [("a", "b")], None), usage(parts))
    quadratic = lower.lower(plan, parts)
    state = DescentState(Engine(plan, 1), quadratic, np.ones(plan.cells), 6.0, 1)
    calls = state.calls
    state.engine = Moves((0.0, True), (np.nan, True), (0.0, True), (np.nan, False), (np.inf, False))
    assert state.attempt(1.0, 1e-299) == state.attempt(1.0, 1e9) == (0.0, np.inf)
    for size in (1e-300, 1.0, 1.0):
        with pytest.raises(
            MeasurementError, match="the fit diverged: potentials are no longer finite; check"
        ):
            state.attempt(1.0, size)
    assert state.calls == calls + 5
