"""What the scoreboard measures, by the definitions that the field uses.

Errors compare the synthetic rows with the rows that mechanisms saw. Models are trained on synthetic
rows and tested on rows that were held out. `MEASURES` says of each what it is and which way is
better; `score` computes those that the table and the installed packages allow.
"""

from __future__ import annotations

import json
import math
import subprocess
import tempfile
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from fastdp.metrics import kmarginal, pairwise
from fastdp.metrics.inputs import Pair
from fastdp.metrics.total_variation import total_variation

from . import peers, quality_program
from .tables import Task

SDNIST_LEFT_OUT = ("PUMA", "INDP")
"""Columns that SDNist's `KMarginal` puts into no pair, by name."""
TRIPLES = 200
QUERIES = 1_000
QUERY_COLUMNS = 3
MANY_QUERIES = 4
"""From so many queries on the same columns on, counting all combinations takes less time."""
TRAIN_ROWS = 10_000
TEST_ROWS = 5_000
ONE_HOT = 100
"""Columns with more codes enter logistic regression as one number."""


@dataclass(frozen=True)
class Measure:
    """title: as the page calls it. higher: whether more is better. about: its definition."""

    title: str
    higher: bool
    about: str
    of_rows: bool = True


MEASURES = {
    "kmarginal": Measure(
        "k-marginal",
        True,
        "SDNist 2.4's score, 0 to 1000: 500 (2 - mean L1 distance) over all pairs of columns, each"
        " together with the column of groups where the table names one (PUMA)",
    ),
    "pairs": Measure("pairs", False, "mean total variation of all pairs of columns"),
    "triples": Measure(
        "triples", False, f"mean total variation of all triples, or of {TRIPLES} drawn ones"
    ),
    "worst_pair": Measure("worst pair", False, "largest total variation of a pair"),
    "ranges": Measure(
        "range queries",
        False,
        f"mean absolute error of the share of rows in {QUERIES:,} random queries on 3 columns: an"
        " interval of an ordered column, half of the values of another",
    ),
    "wasserstein": Measure(
        "Wasserstein",
        False,
        "mean over columns of the 1-Wasserstein distance of codes on [0, 1]; of a column without"
        " order, total variation",
    ),
    "correlation": Measure(
        "correlations",
        False,
        "mean absolute difference of Pearson correlations of the codes of ordered columns",
    ),
    "association": Measure(
        "Cramér's V", False, "mean absolute difference of Cramér's V of all pairs"
    ),
    "auc_logistic": Measure(
        "AUC, logistic",
        True,
        "logistic regression on one-hot codes, trained on synthetic rows, tested on held-out ones",
    ),
    "auc_boosting": Measure("AUC, boosting", True, "the same of histogram gradient boosting"),
    "auc_forest": Measure("AUC, forest", True, "the same of a random forest of 50 trees"),
    "sdmetrics": Measure(
        "SDMetrics", True, "overall score of SDMetrics' QualityReport, where it is installed"
    ),
    "processor": Measure("processor s", False, "processor seconds of a run", of_rows=False),
    "peak_mb": Measure(
        "peak MB",
        False,
        "peak memory beyond what the process held before: packages and the table",
        of_rows=False,
    ),
}
MODELS = ("auc_logistic", "auc_boosting", "auc_forest")


def score(
    task: Task, synthetic: Mapping[str, np.ndarray], models: bool = True, quality: bool = True
) -> dict[str, float]:
    """Every measure of rows that applies. models: whether to train models. quality: whether to ask
    SDMetrics."""
    pair = pair_of(task, synthetic)
    variations = total_variation(pair, list(combinations(pair.names, 2)))
    out = {"kmarginal": k_marginal(task, synthetic), "pairs": float(variations.mean())}
    out["worst_pair"] = float(variations.max())
    if len(pair.names) > 2:
        triples, _ = kmarginal.choose(pair.names, 3, TRIPLES, 0)
        out["triples"] = float(total_variation(pair, triples).mean())
    out["ranges"] = range_queries(task, synthetic)
    out["wasserstein"] = wasserstein(task, synthetic)
    if len(task.ordered) > 1:
        out["correlation"] = pairwise.correlation(pair)["mean"]
    out["association"] = pairwise.two_way(pair)[1]["mean"]
    if models:
        out |= efficiency(task, synthetic)
    if quality:
        out |= sdmetrics_quality(task, synthetic)
    return out


def pair_of(task: Task, synthetic: Mapping[str, np.ndarray]) -> Pair:
    """Both tables as fastdp's metrics take them."""
    names = list(task.sizes)
    return Pair(
        {a: np.asarray(task.codes[a]) for a in names},
        {a: np.asarray(synthetic[a]) for a in names},
        dict(task.sizes),
        dict.fromkeys(names, str),
        dict.fromkeys(names, "schema"),
        (task.rows, rows_of(synthetic)),
        {a: a in task.ordered for a in names},
    )


def rows_of(codes: Mapping[str, np.ndarray]) -> int:
    return len(next(iter(codes.values())))


def k_marginal(task: Task, synthetic: Mapping[str, np.ndarray]) -> float:
    """SDNist's k-marginal score of codes: the class `KMarginal` of its version 2.4.

    Where the table names a column of groups, every pair is counted together with it. A table with
    one other column has that column alone, as in SDNist.
    """
    left_out = {task.group, *SDNIST_LEFT_OUT}
    names = [name for name in task.sizes if name not in left_out]
    groups = () if task.group is None else (task.group,)
    marginals = [(*groups, *pair) for pair in combinations(names, 2)] or [(*groups, *names)]
    distances = 2 * total_variation(pair_of(task, synthetic), marginals)
    return float(500 * (2 - distances.mean()))


def queries(task: Task, seed: int = 0) -> list[dict[str, np.ndarray]]:
    """Random queries: for each of three columns, which codes are asked for. Of an ordered column
    an interval between two random codes, of another column a random half of its codes."""
    rng = np.random.default_rng(seed)
    names = list(task.sizes)
    out = []
    for _ in range(QUERIES):
        wanted = {}
        for at in rng.choice(len(names), min(QUERY_COLUMNS, len(names)), replace=False):
            name = names[at]
            size = task.sizes[name]
            asked = np.zeros(size, bool)
            if name in task.ordered:
                low, high = np.sort(rng.integers(0, size, 2))
                asked[low : high + 1] = True
            else:
                asked[rng.permutation(size)[: max(1, size // 2)]] = True
            wanted[name] = asked
        out.append(wanted)
    return out


def range_queries(task: Task, synthetic: Mapping[str, np.ndarray]) -> float:
    asked = queries(task)
    return float(np.abs(shares(task, task.codes, asked) - shares(task, synthetic, asked)).mean())


def shares(
    task: Task, codes: Mapping[str, np.ndarray], asked: list[dict[str, np.ndarray]]
) -> np.ndarray:
    """The share of rows that each query asks for. Where many queries are on the same few
    combinations, these are counted once; else rows are looked up one by one."""
    rows = rows_of(codes)
    columns = [tuple(name for name in task.sizes if name in wanted) for wanted in asked]
    queries_on = Counter(columns)
    counted: dict[tuple[str, ...], np.ndarray] = {}
    out = []
    for names, wanted in zip(columns, asked):
        shape = tuple(task.sizes[name] for name in names)
        if math.prod(shape) > rows or queries_on[names] < MANY_QUERIES:
            inside = wanted[names[0]].take(codes[names[0]])
            for name in names[1:]:
                inside &= wanted[name].take(codes[name])
            out.append(np.count_nonzero(inside))
            continue
        if names not in counted:
            cells = np.ravel_multi_index([codes[name] for name in names], shape)
            counted[names] = np.bincount(cells, minlength=math.prod(shape)).reshape(shape)
        out.append(counted[names][np.ix_(*(wanted[name] for name in names))].sum())
    return np.array(out) / rows


def wasserstein(task: Task, synthetic: Mapping[str, np.ndarray]) -> float:
    distances = []
    for name, size in task.sizes.items():
        both = [np.bincount(codes[name], minlength=size) for codes in (task.codes, synthetic)]
        gap = both[0] / both[0].sum() - both[1] / both[1].sum()
        if name in task.ordered:
            distances.append(np.abs(np.cumsum(gap)[:-1]).sum() / max(1, size - 1))
        else:
            distances.append(np.abs(gap).sum() / 2)
    return float(np.mean(distances))


def efficiency(task: Task, synthetic: Mapping[str, np.ndarray]) -> dict[str, float]:
    """AUC on held-out rows of models that were trained on synthetic rows; nothing without a target
    or scikit-learn.

    The target is whether its code is at least the one that divides the true rows best into halves.
    A training table with one class gives a constant model: AUC 0.5.
    """
    if task.target is None:
        return {}
    try:
        from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
        from sklearn.linear_model import LogisticRegression
        from sklearn.metrics import roc_auc_score
        from threadpoolctl import threadpool_limits
    except ImportError:
        return {}
    threshold = halving_code(task.codes[task.target], task.sizes[task.target])
    names = [a for a in task.sizes if a != task.target]
    rng = np.random.default_rng(0)
    train = rng.permutation(rows_of(synthetic))[:TRAIN_ROWS]
    test = rng.permutation(rows_of(task.held_out))[:TEST_ROWS]
    labels = synthetic[task.target][train] >= threshold
    wanted = task.held_out[task.target][test] >= threshold
    if labels.all() or not labels.any():
        return dict.fromkeys(MODELS, 0.5)
    plain = [
        _stacked(codes, names, rows) for codes, rows in ((synthetic, train), (task.held_out, test))
    ]
    spread = [_one_hot(task, codes, names) for codes in plain]
    models = {
        "auc_logistic": (LogisticRegression(max_iter=200), spread),
        "auc_boosting": (HistGradientBoostingClassifier(max_iter=50, random_state=0), plain),
        "auc_forest": (
            RandomForestClassifier(50, min_samples_leaf=5, random_state=0, n_jobs=1),
            plain,
        ),
    }
    out = {}
    with threadpool_limits(1):
        for name, (model, (x, test_x)) in models.items():
            chance = model.fit(x, labels).predict_proba(test_x)[:, 1]
            out[name] = float(roc_auc_score(wanted, chance))
    return out


def halving_code(codes: np.ndarray, size: int) -> int:
    """The code t, above the first, for which the share of codes at or above t is nearest a half."""
    at_least = np.bincount(codes, minlength=size)[::-1].cumsum()[::-1] / len(codes)
    return 1 + int(np.argmin(np.abs(at_least[1:] - 0.5)))


def _stacked(codes: Mapping[str, np.ndarray], names: list[str], rows: np.ndarray) -> np.ndarray:
    return np.stack([codes[a][rows] for a in names], axis=1).astype(np.float32)


def _one_hot(task: Task, plain: np.ndarray, names: list[str]) -> Any:
    """One indicator a code; a column of many codes as one number in [0, 1]."""
    from scipy import sparse

    blocks = []
    rows = np.arange(len(plain))
    for j, name in enumerate(names):
        size = task.sizes[name]
        if size > ONE_HOT:
            blocks.append(sparse.csr_matrix(plain[:, [j]] / (size - 1)))
        else:
            shape = (len(plain), size)
            at = (rows, plain[:, j].astype(np.int64))
            blocks.append(sparse.csr_matrix((np.ones(len(plain)), at), shape))
    return sparse.hstack(blocks).tocsr()


def sdmetrics_quality(task: Task, synthetic: Mapping[str, np.ndarray]) -> dict[str, float]:
    """SDMetrics' overall quality of the codes, 0 to 1: by the package where it can be imported, else
    in its own environment; nothing where there is neither."""
    if quality_is_here():
        score = quality_program.quality(task.codes, synthetic, task.ordered)
    elif peers.version("sdmetrics"):
        score = _quality_elsewhere(task, synthetic)
    else:
        return {}
    return {"sdmetrics": score}


def quality_is_here() -> bool:
    return find_spec("sdmetrics") is not None and find_spec("pandas") is not None


def _quality_elsewhere(task: Task, synthetic: Mapping[str, np.ndarray]) -> float:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "tables.npz")
        arrays = {f"t_{a}": task.codes[a] for a in task.sizes}
        arrays |= {f"s_{a}": np.asarray(synthetic[a]) for a in task.sizes}
        np.savez(path, ordered=np.array(json.dumps(task.ordered)), **arrays)
        words = (str(peers.python("sdmetrics")), str(Path(quality_program.__file__)), str(path))
        done = subprocess.run(words, capture_output=True, text=True, check=True)
    return float(done.stdout)
