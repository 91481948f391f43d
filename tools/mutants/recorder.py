"""A pytest plugin that records which lines of the package a test reaches, and how long the test
takes.

Coverage is started by the sitecustomize of `reach` in every process, also in those that tests
start; this plugin tells it which test runs (coverage's contexts). What a shared fixture reaches
belongs to every test that asks for it, and what a test file reaches while it is read to all of its
tests. For each process one JSON file is left in MUTANTS_NOTES: test -> seconds, whether it passed,
the contexts besides its own.
"""

from __future__ import annotations

import json
import os
from collections.abc import Generator
from pathlib import Path
from typing import Any

import coverage
import pytest

CONTEXT = "MUTANTS_CONTEXT"
"""The context of processes that a test starts (the `context` of coverage's settings)."""

_tests: dict[str, dict[str, Any]] = {}


def _switch(context: str) -> None:
    os.environ[CONTEXT] = context
    if (running := coverage.Coverage.current()) is not None:
        running.switch_context(context)


def _fixture(definition: pytest.FixtureDef[Any]) -> str:
    return f"fixture {definition.baseid}::{definition.argname}"


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Generator[None, Any, Any]:
    if isinstance(collector, pytest.Module):
        _switch(f"file {collector.nodeid}")
    return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    definitions = item._fixtureinfo.name2fixturedefs.values()  # type: ignore[attr-defined]
    shared = {_fixture(d) for ds in definitions for d in ds if d.scope != "function"}
    also = sorted(shared | {f"file {item.nodeid.split('::')[0]}"})
    _tests[item.nodeid] = {"seconds": 0.0, "passed": True, "also": also}
    _switch(item.nodeid)
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(
    fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest
) -> Generator[None, Any, Any]:
    if fixturedef.scope == "function":
        return (yield)
    before = os.environ.get(CONTEXT, "")
    _switch(_fixture(fixturedef))
    try:
        return (yield)
    finally:
        _switch(before)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.nodeid in _tests:  # a process that hands tests out hears of them, too
        _tests[report.nodeid]["seconds"] += report.duration
        _tests[report.nodeid]["passed"] &= report.outcome == "passed"


def pytest_sessionfinish() -> None:
    if _tests:
        note = Path(os.environ["MUTANTS_NOTES"], f"{os.getpid()}.json")
        note.write_text(json.dumps(_tests))
    if (running := coverage.Coverage.current()) is not None:
        running.stop()
        running.save()
