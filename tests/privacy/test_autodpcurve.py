"""The second accountant in a process of its own."""

from __future__ import annotations

import subprocess
import sys

import pytest

from fastdp.errors import PrivacyError
from fastdp.privacy import autodpcurve, crosscheck
from fastdp.privacy.accountant import Gaussian

pytest.importorskip("autodp")


@pytest.fixture
def absent(monkeypatch):
    """As if autodp were not imported yet, so that `beside` starts its process."""
    for name in [m for m in sys.modules if m.split(".")[0] == "autodp"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr("os.cpu_count", lambda: 2)


def never(mu, delta):
    raise AssertionError("asked in this process")


def test_its_answers_are_those_of_this_process(absent, monkeypatch):
    asked = [(0.2, 1e-6), (1.3, 2.5e-5), (0.2, 1e-6)]
    expected = [autodpcurve._computed(*question) for question in asked]
    for name in [m for m in sys.modules if m.split(".")[0] == "autodp"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(autodpcurve, "_computed", never)
    with autodpcurve.beside():
        child = autodpcurve._CHILD.get()
        assert [autodpcurve.epsilon(*question) for question in asked] == expected
    assert child.poll() is not None, "it ends with the block"
    with pytest.raises(AssertionError, match="in this process"):
        autodpcurve.epsilon(*asked[0])


def test_a_process_that_died_is_no_answer(absent):
    with autodpcurve.beside():
        autodpcurve._CHILD.get().kill()
        assert autodpcurve.epsilon(0.2, 1e-6) == autodpcurve._computed(0.2, 1e-6)


@pytest.mark.parametrize("reply", ["null", "nonsense", "", '["autodp", 3]', '{"a": 1}'])
def test_what_is_no_answer_is_asked_again_here(reply):
    code = f"import sys; sys.stdin.readline(); print({reply!r}, flush=True)"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert autodpcurve._asked(child, 0.2, 1e-6) is None


def test_a_process_that_hangs_is_ended_and_not_waited_for(monkeypatch):
    monkeypatch.setattr(autodpcurve, "PATIENCE", 0.2)
    with subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(600)"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        token = autodpcurve._CHILD.set(child)
        try:
            assert autodpcurve.epsilon(0.2, 1e-6) == autodpcurve._computed(0.2, 1e-6)
        finally:
            autodpcurve._CHILD.reset(token)
        assert child.wait(60) < 0


def test_a_wrong_number_from_it_stops_the_run(monkeypatch):
    """Planted: a process that answers too small an epsilon, or too large a one."""
    monkeypatch.setattr(autodpcurve, "_asked", lambda child, mu, delta: ("autodp", 1.0))
    token = autodpcurve._CHILD.set(object())
    try:
        with pytest.raises(PrivacyError, match="disagree"):
            crosscheck.agree([Gaussian(0.2)], 2.0, 1e-6)
    finally:
        autodpcurve._CHILD.reset(token)


def test_nothing_is_started_where_it_is_imported_already():
    import autodp.rdp_acct  # noqa: F401

    with autodpcurve.beside():
        assert autodpcurve._CHILD.get() is None


@pytest.mark.parametrize("error", [RuntimeError, ValueError, AssertionError])
def test_without_an_answer_nothing_is_drawn(error, monkeypatch):
    from autodp import dp_bank

    def fails(*_):
        raise error("no root")

    monkeypatch.setattr(dp_bank, "get_eps_ana_gaussian", fails)
    with pytest.raises(PrivacyError) as caught:
        autodpcurve.epsilon(0.3, 1e-6)
    assert str(caught.value) == "the second accountant (autodp) gave no answer; nothing was drawn"
