"""A pytest plugin that runs the tests named in the JSON file MUTANTS_CHOSEN, in its order, and no others."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    place = {name: n for n, name in enumerate(json.loads(Path(os.environ["MUTANTS_CHOSEN"]).read_text()))}
    items[:] = sorted((item for item in items if item.nodeid in place), key=lambda item: place[item.nodeid])
