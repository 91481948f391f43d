"""A pytest plugin that runs the tests named in the JSON file MUTANTS_CHOSEN ([name, seconds] each), in its
order, and no others. A test that takes longer than its seconds ends the process, with a traceback."""

from __future__ import annotations

import faulthandler
import json
import os
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

_limits: dict[str, float] = dict(json.loads(Path(os.environ["MUTANTS_CHOSEN"]).read_text()))
_errors = os.fdopen(os.dup(sys.stderr.fileno()), "w")  # pytest captures what tests write


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    place = {name: n for n, name in enumerate(_limits)}
    items[:] = sorted((item for item in items if item.nodeid in place), key=lambda item: place[item.nodeid])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    faulthandler.dump_traceback_later(_limits[item.nodeid], exit=True, file=_errors)
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()
