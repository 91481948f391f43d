"""Rows given some of their columns follow the model's conditional distribution."""

from __future__ import annotations

import numpy as np
import pytest

import fastdp
from fastdp.model.given import sample_given


@pytest.fixture(scope="module")
def model():
    rng = np.random.default_rng(0)
    domain = {"p": 3, "q": 2, "x": 4, "y": 3, "z": 2}
    cliques = [("p", "x"), ("q", "x"), ("p", "q"), ("x", "y"), ("y", "z"), ("q", "z")]
    shape = lambda c: tuple(domain[a] for a in c)  # noqa: E731
    whole = rng.gamma(0.6, size=shape(domain)) * 1000
    axes = list(domain)

    def marginal(clique):
        away = tuple(i for i, a in enumerate(axes) if a not in clique)
        return whole.sum(axis=away).reshape(-1)

    measured = [fastdp.Measurement(c, marginal(c), 1.0) for c in cliques]
    return fastdp.fit(domain, measured, stop="tol")


def test_rows_follow_the_conditional_distribution(model):
    """The slow twin conditions the whole model on one combination at a time. The total variation of n rows
    in k cells from their distribution is at most sqrt(k / n) / 2 on average; three times that is allowed."""
    n = 40_000
    combos = [(0, 0), (2, 1), (1, 0)]
    given = {"p": np.repeat([p for p, _ in combos], n), "q": np.repeat([q for _, q in combos], n)}
    drawn = sample_given(model, given, seed=1)
    assert set(drawn) == {"x", "y", "z"}
    for i, (p, q) in enumerate(combos):
        here = slice(i * n, (i + 1) * n)
        cells = np.ravel_multi_index([drawn[a][here] for a in ("x", "y", "z")], (4, 3, 2))
        found = np.bincount(cells, minlength=24) / n
        wanted = model.conditioned({"p": p, "q": q}).marginal(("x", "y", "z")).reshape(-1)
        assert np.abs(found - wanted / wanted.sum()).sum() / 2 < 1.5 * np.sqrt(24 / n)


def test_a_combination_without_rows_gets_possible_rows():
    """The model has no rows with p = 1, and none with x = 0 and y = 1: the latter stays so."""
    table = np.zeros((2, 2, 2))
    table[0] = [[5, 0], [3, 2]]
    measured = [fastdp.Measurement(("p", "x", "y"), table.reshape(-1), 1.0)]
    zeros = {("p", "x", "y"): table == 0}
    model = fastdp.fit({"p": 2, "x": 2, "y": 2}, measured, zeros=zeros)
    drawn = sample_given(model, {"p": np.ones(5000, np.uint8)}, seed=0)
    assert set(zip(drawn["x"].tolist(), drawn["y"].tolist())) == {(0, 0), (1, 0), (1, 1)}


def test_nothing_to_draw(model):
    assert all(len(c) == 0 for c in sample_given(model, {"p": np.empty(0, np.uint8)}, seed=0).values())
