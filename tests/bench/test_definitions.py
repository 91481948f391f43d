"""The scoreboard's measures beside the code of those who defined them, where it is installed.

Range queries have no such code: they are random queries on three columns as in the papers that use
them, and test_scoreboard has a slow twin. Wasserstein distances are compared with scipy's there.
"""

import runpy
import sys
from importlib.util import find_spec
from itertools import combinations
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from bench.scoreboard import measures
from bench.scoreboard.tables import Task

ROWS = 400


def task_of(sizes: dict[str, int], ordered: tuple[str, ...], group: str | None = None) -> Task:
    """A table whose columns depend on each other so much that SDMetrics counts all pairs."""
    rng = np.random.default_rng(3)
    hidden = rng.integers(0, 6, ROWS)
    codes = {name: (hidden * n // 6 + (rng.random(ROWS) < 0.05)) % n for name, n in sizes.items()}
    return Task(
        "t",
        sizes=sizes,
        codes=codes,
        held_out=codes,
        user=None,
        ordered=ordered,
        target=None,
        group=group,
    )


def others(task: Task) -> dict[str, np.ndarray]:
    """Rows of another size and another dependence."""
    rng = np.random.default_rng(4)
    kept = rng.integers(0, ROWS, 300)
    return {
        name: np.where(rng.random(300) < 0.3, rng.integers(0, n, 300), task.codes[name][kept])
        for name, n in task.sizes.items()
    }


@pytest.fixture
def sdnist(monkeypatch):
    """The names of a file of SDNist's metrics. Its other modules need versions of 2023, so that it
    is installed by `pip install --no-deps sdnist`, and what its metrics import of them is empty."""
    spec = find_spec("sdnist")
    if spec is None or not spec.submodule_search_locations:
        pytest.skip("sdnist is not installed (pip install --no-deps sdnist)")
    folder = Path(spec.submodule_search_locations[0])
    empty = {name: ModuleType(f"sdnist.{name}") for name in ("load", "utils", "report.dataset")}
    empty["report.dataset"].Dataset = None
    for name, module in empty.items():
        monkeypatch.setitem(sys.modules, f"sdnist.{name}", module)
    package = ModuleType("sdnist")
    package.load = empty["load"]
    package.utils = empty["utils"]
    monkeypatch.setitem(sys.modules, "sdnist", package)
    monkeypatch.setitem(sys.modules, "sdnist.report", ModuleType("sdnist.report"))
    return lambda name: SimpleNamespace(**runpy.run_path(str(folder / "metrics" / f"{name}.py")))


@pytest.mark.parametrize("group", [None, "PUMA"])
def test_k_marginal_is_what_sdnist_computes(group, sdnist):
    """SDNist's own class on the same frames. It leaves PUMA and INDP out of pairs by name."""
    own = sdnist("kmarginal")
    task = task_of({"PUMA": 3, "INDP": 7, "AGEP": 6, "SEX": 2, "MSP": 4}, (), group)
    made = others(task)
    groups = [group] if group else []
    judge = own.KMarginal(pd.DataFrame(task.codes), pd.DataFrame(made), groups)
    assert measures.k_marginal(task, made) == pytest.approx(judge.compute_score(), rel=1e-9)


def test_correlations_are_what_sdnist_computes(sdnist):
    """The mean over pairs of its table of differences, without their sign."""
    own = sdnist("pearson_correlation")
    sizes = {"a": 6, "b": 5, "c": 4}
    task = task_of(sizes, tuple(sizes))
    made = others(task)
    judge = own.PearsonCorrelationDifference(pd.DataFrame(task.codes), pd.DataFrame(made))
    judge.compute()
    gaps = judge.pp_corr_diff.abs().to_numpy()[np.triu_indices(3, 1)]
    found = measures.score(task, made, models=False, quality=False)
    assert found["correlation"] == pytest.approx(gaps.mean(), rel=1e-9)


def test_total_variation_and_quality_are_what_sdmetrics_computes():
    """Pairs are what ContingencySimilarity lacks to 1, single columns of no order what TVComplement
    lacks; the quality of a table is the mean of its shapes and trends."""
    pairs = pytest.importorskip("sdmetrics.column_pairs", reason="sdmetrics")
    single = pytest.importorskip("sdmetrics.single_column", reason="sdmetrics")
    sizes = {"a": 6, "b": 5, "c": 2}
    task = task_of(sizes, ())
    made = others(task)
    truth = pd.DataFrame(task.codes)
    synthetic = pd.DataFrame(made)
    trends = [
        pairs.ContingencySimilarity.compute(truth[list(p)], synthetic[list(p)])
        for p in combinations(sizes, 2)
    ]
    shapes = [single.TVComplement.compute(truth[a], synthetic[a]) for a in sizes]
    found = measures.score(task, made, models=False)
    assert found["pairs"] == pytest.approx(1 - np.mean(trends), rel=1e-9)
    assert found["worst_pair"] == pytest.approx(1 - min(trends), rel=1e-9)
    assert found["wasserstein"] == pytest.approx(1 - np.mean(shapes), rel=1e-9)
    assert found["sdmetrics"] == pytest.approx((np.mean(shapes) + np.mean(trends)) / 2, rel=1e-9)
