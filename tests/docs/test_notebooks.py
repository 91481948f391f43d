"""The notebooks of examples/ run, on fewer rows; what they print and draw is kept in them."""

import json

import pytest

from tests.test_examples import EXAMPLES, loaded
from tests.tiers import first

pytest.importorskip("matplotlib", reason="the notebooks draw with matplotlib")
NOTEBOOKS = sorted(EXAMPLES.glob("*.ipynb"))
FEWER = {
    "n = 20_000": "n = 4_000",
    "n = 12_000": "n = 3_000",
    "range(2)": "range(1)",
    "0.3, 1.0, 3.0, 10.0": "1.0",
}
"""The same cells with less work."""


@pytest.fixture(params=first(1, NOTEBOOKS), ids=lambda path: path.stem)
def notebook(request):
    return json.loads(request.param.read_text("utf-8"))


def outputs(notebook):
    return [output for cell in notebook["cells"] for output in cell.get("outputs", ())]


def pictures(notebook):
    return [output for output in outputs(notebook) if "image/png" in output.get("data", {})]


def test_it_runs_and_draws(notebook):
    stored = len(pictures(notebook))
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        for text, other in FEWER.items():
            source = source.replace(text, other)
        cell["source"] = [source]
    loaded("notebooks").run(notebook)
    assert len(pictures(notebook)) == stored >= 2
