"""Rows given evidence, against the enumeration of all rows. Statistical tests have a false-alarm rate
of 1e-6 each, with fixed seeds."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from fastdp.domain import Domain
from fastdp.model import conditional_model
from fastdp.model.conditional_model import ConditionalModel, Evidence, no_evidence
from fastdp.model.graphical_model import Model, Node

from ..reference import conditional as twin
from .test_sample import ALARM, chi_square_tail, random_tree


def random_model(rng, **how):
    domain, nodes = random_tree(rng, **how)
    return Model(domain, [Node(s, r, t) for s, r, t in nodes], total=1.0)


def random_evidence(rng, domain, rows, known=0.4, soft=0.3):
    made = no_evidence(domain, rows)
    likelihood = {}
    for i, a in enumerate(domain):
        hard = rng.integers(0, domain[a], rows)
        made.hard[:, i] = np.where(rng.random(rows) < known, hard, -1)
        made.soft[:, i] = np.where(rng.random(rows) < soft, rng.integers(0, 2, rows), -1)
        likelihood[a] = rng.random((2, domain[a]))
    return Evidence(made.hard, made.soft, likelihood)


def twin_of(p, evidence, domain, row):
    """p(row, evidence) of one row."""
    soft = evidence.soft[row]
    vectors = [
        None if soft[i] < 0 else evidence.likelihood[a][soft[i]] for i, a in enumerate(domain)
    ]
    return twin.given(p, evidence.hard[row], vectors)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_probabilities_are_those_of_the_enumeration(seed):
    """Sums of products of at most 6 factors: a relative 1e-9 is far above rounding."""
    rng = np.random.default_rng(seed)
    model = random_model(rng)
    domain = model.domain
    p = twin.joint(model)
    evidence = random_evidence(rng, domain, 40)
    tree = ConditionalModel(model)
    logs = tree.log_probability(evidence)
    want = np.array([twin_of(p, evidence, domain, r).sum() for r in range(40)])
    assert np.allclose(np.exp(logs), want, rtol=1e-9, atol=1e-300)
    column = list(domain)[rng.integers(len(domain))]
    at = list(domain).index(column)
    chances, again = tree.posterior(column, evidence)
    assert np.allclose(np.exp(again), want, rtol=1e-6, atol=1e-300)  # other tables, same marginals
    for r in np.flatnonzero(want > 0):
        cells = twin_of(p, evidence, domain, r)
        own = cells.sum(axis=tuple(i for i in range(len(domain)) if i != at)) / want[r]
        assert np.allclose(chances[r], own, atol=1e-9)
    codes, _ = tree.draw(evidence, 1)
    alive = want > 0
    assert (p[tuple(codes[alive].T)] > 0).all(), "a row without probability was drawn"
    assert ((evidence.hard < 0) | (codes == evidence.hard))[alive].all()


@pytest.mark.parametrize("seed", range(4))
def test_draws_follow_the_conditional_distribution(seed):
    rng = np.random.default_rng(seed)
    model = random_model(rng, most_attributes=5)
    p = twin.joint(model)
    rows = 40_000
    while True:
        one = random_evidence(rng, model.domain, 1)
        cells = twin_of(p, one, model.domain, 0)
        if cells.sum() > 0:
            break
    many = Evidence(np.repeat(one.hard, rows, 0), np.repeat(one.soft, rows, 0), one.likelihood)
    codes, _ = ConditionalModel(model).draw(many, 3)
    counts = np.bincount(np.ravel_multi_index(codes.T, p.shape), minlength=p.size)
    assert chi_square_tail(counts, cells / cells.sum()) > ALARM


def test_a_row_depends_on_its_own_evidence_and_number_alone(monkeypatch):
    """Threads, the company of other rows, and the size of blocks change nothing."""
    rng = np.random.default_rng(5)
    model = random_model(rng, most_attributes=6)
    evidence = random_evidence(rng, model.domain, 3000)
    tree = ConditionalModel(model)
    codes, logs = tree.draw(evidence, 9, threads=1)
    some = rng.permutation(3000)[:500]
    monkeypatch.setattr(conditional_model, "BLOCK_ROWS", 64)
    monkeypatch.setattr(conditional_model, "BLOCK_NUMBERS", 32)
    again, log = tree.draw(evidence.of_rows(some), 9, some.astype(np.int64), threads=2)
    good = np.isfinite(log)
    assert np.array_equal(log, logs[some]) and np.array_equal(again[good], codes[some][good])


def test_what_has_no_rows_becomes_possible_unless_it_is_excluded():
    table = np.array([[4.0, 0.0, 0.0], [0.0, 3.0, 0.0]])
    model = Model(
        Domain({"a": 2, "b": 3}),
        [Node((), ("a",), np.array([[4.0, 3.0]])), Node(("a",), ("b",), table)],
        total=7.0,
    )
    excluded = {("a", "b"): np.array([[False, False, True], [False, False, False]])}
    tree = ConditionalModel(model, None, excluded)
    made = no_evidence(model.domain, 3)
    made.hard[:] = [[0, 1], [0, 2], [-1, 2]]
    assert np.isneginf(tree.log_probability(made)).all()
    soft, logs = tree.softened().draw(made, 1)
    assert np.isfinite(logs).tolist() == [True, False, True]
    assert soft[2].tolist() == [1, 2]  # a = 0 with b = 2 is excluded
