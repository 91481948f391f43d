"""Marginals of many cliques against the joint table; sizes of junction trees against the trees
themselves."""

from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import fastdp
from fastdp._core.treesize import TOO_LARGE, Graph
from fastdp.domain import Domain
from fastdp.errors import ModelTooLargeError
from fastdp.model import marginals as many, out_of_clique
from fastdp.model.junction_tree import junction_tree
from fastdp.model.marginals import marginals
from tests.reference import cliques as reference
from tests.tiers import first


def random_model(seed, attributes=6):
    rng = np.random.default_rng(seed)
    domain = {f"a{i}": int(rng.integers(1, 5)) for i in range(int(rng.integers(1, attributes + 1)))}
    names = list(domain)
    measured = []
    for _ in range(int(rng.integers(1, 6))):
        clique = tuple(rng.choice(names, min(len(names), int(rng.integers(1, 4))), replace=False))
        values = 100 * rng.random(int(np.prod([domain[a] for a in clique])))
        measured.append(fastdp.Measurement(clique, values, 1.0))
    return fastdp.fit(domain, measured, total=100.0, threads=1), rng


@pytest.mark.parametrize("seed", range(25))
def test_every_marginal_is_that_of_the_joint_table(seed):
    model, rng = random_model(seed)
    asked = [c for k in (1, 2, 3, 4) for c in combinations(model.domain, k)]
    asked = [c if rng.random() < 0.5 else c[::-1] for c in asked]
    got = marginals(model, asked)
    assert list(got) == asked
    for clique in asked:
        assert got[clique].shape == model.domain.shape(clique)
        np.testing.assert_allclose(
            got[clique], reference.marginal(model, clique), rtol=1e-9, atol=1e-9
        )


def chain(length=9, size=5):
    rng = np.random.default_rng(3)
    domain = {f"x{i}": size for i in range(length)}
    names = list(domain)
    measured = [
        fastdp.Measurement(pair, rng.random(size * size) ** 4 * 100, 1.0)
        for pair in pairwise(names)
    ]
    return fastdp.fit(domain, measured, total=1000.0, threads=1)


def star(arms=4, length=3, size=3):
    """Arms of pairs around a first node, whose ends meet there and nowhere else; half of the cells
    of its first pair are impossible."""
    rng = np.random.default_rng(7)
    names = [f"x{i}{j}" for i in range(arms) for j in range(length)]
    domain = {"hub": size} | dict.fromkeys(names, size)
    pairs = [
        ("hub" if j == 0 else f"x{i}{j - 1}", f"x{i}{j}")
        for i in range(arms)
        for j in range(length)
    ]
    measured = [fastdp.Measurement(pair, rng.random(size * size) ** 4 * 100, 1.0) for pair in pairs]
    zeros = {pairs[0]: np.arange(size * size).reshape(size, size) % 2 == 1}
    return fastdp.fit(domain, measured, total=1000.0, threads=1, zeros=zeros)


def test_a_triple_beyond_the_limit_is_left_out():
    model = chain()
    asked = [("x0", "x4", "x8"), ("x0", "x1"), ("x0", "x8")]
    assert list(marginals(model, asked, max_cells=5**3 - 1)) == asked[1:]
    assert list(marginals(model, asked, max_cells=5**4)) == asked


@pytest.mark.parametrize("make", first(1, [chain, star]))
def test_threads_and_batches_change_no_bit(monkeypatch, make):
    model = make()
    asked = [c for k in (2, 3) for c in combinations(model.domain, k)]
    one = marginals(model, asked, 1)
    three = marginals(model, asked, 3)
    monkeypatch.setattr(many, "CARRIED_CELLS", 1)
    monkeypatch.setattr(out_of_clique, "CARRIED_CELLS", 1)
    small = marginals(model, asked, 2)
    assert all(np.array_equal(one[c], three[c]) and np.array_equal(one[c], small[c]) for c in asked)


@given(
    st.lists(st.sampled_from([1, 2, 3, 7, 50, 1000]), min_size=1, max_size=9),
    st.lists(st.lists(st.integers(0, 8), min_size=1, max_size=4, unique=True), max_size=14),
)
@settings(max_examples=30, deadline=None)
def test_sizes_are_those_of_the_tree_that_would_be_built(sizes, cliques):
    domain = Domain({f"a{i}": n for i, n in enumerate(sizes)})
    cliques = [[i for i in c if i < len(sizes)] for c in cliques]
    graph = Graph(sizes)
    for clique in cliques[:-1]:
        graph.add(clique)
    last = cliques[-1] if cliques else []
    named = [[f"a{i}" for i in c] for c in cliques]
    cells = junction_tree(domain, named, 1 << 300).cells
    assert graph.cells(last) == cells
    assert graph.fits(cells, last) and not graph.fits(cells - 1, last)
    pairs = {p for c in cliques[:-1] for p in combinations(sorted(c), 2)}
    assert graph.joined(last) == (set(combinations(sorted(last), 2)) <= pairs)
    assert graph.cells() == junction_tree(domain, named[:-1], 1 << 300).cells


@pytest.mark.parametrize("edges", [20, 60, 120])
@pytest.mark.parametrize("sizes", [(2, 3), (2, 50, 1000), (1 << 30, 1 << 40, 5)])
def test_sizes_of_graphs_with_many_cycles(edges, sizes):
    """Costs of attributes are updated by differences. The twin finds each anew, also where sums of
    cells stop at 2^62."""
    rng = np.random.default_rng(edges)
    sizes = rng.choice(sizes, 40)
    domain = Domain({f"a{i}": int(n) for i, n in enumerate(sizes)})
    pairs = rng.choice(40, (edges, 2), p=rng.dirichlet(np.ones(40)))
    graph = Graph(sizes)
    for pair in pairs:
        graph.add(set(pair.tolist()))
    named = [{f"a{i}" for i in pair} for pair in pairs]
    cells = junction_tree(domain, [sorted(c) for c in named], 1 << 3000).cells
    assert graph.cells() == min(cells, TOO_LARGE)
    assert not graph.fits(min(cells, TOO_LARGE) - 1)
    assert graph.fits(min(cells, TOO_LARGE))


@pytest.mark.parametrize("columns", [65, 150, 300])
def test_sizes_of_long_graphs_with_cycles(columns):
    """Sets of several words lose words as attributes go: what is known of all that are left, and
    of the cliques that they still have, moves to new numbers."""
    rng = np.random.default_rng(columns)
    sizes = rng.choice([2, 3, 10], columns)
    domain = Domain({f"a{i}": int(n) for i, n in enumerate(sizes)})
    pairs = [(i, i - 1 - int(rng.integers(0, min(i, 5)))) for i in range(1, columns)] * 2
    pairs = [(i, max(0, j - int(rng.integers(0, 3)))) for i, j in pairs]
    graph = Graph(sizes)
    for pair in pairs:
        graph.add(set(pair))
    cells = junction_tree(domain, [sorted({f"a{i}" for i in p}) for p in pairs], 1 << 300).cells
    assert cells < TOO_LARGE and graph.cells() == cells
    assert graph.fits(cells) and not graph.fits(cells - 1)


def test_sizes_of_wide_graphs():
    """Beyond one machine word of attributes, and beyond 2^62 cells."""
    rng = np.random.default_rng(5)
    sizes = rng.choice([2, 3, 10, 300], 130)
    domain = Domain({f"a{i}": int(n) for i, n in enumerate(sizes)})
    graph = Graph(sizes)
    cliques = [(f"a{i}", f"a{rng.integers(0, i)}") for i in range(1, 130)]
    for clique in cliques:
        graph.add([int(a[1:]) for a in clique])
    assert graph.cells() == junction_tree(domain, cliques, 1 << 300).cells
    everything = range(130)
    assert graph.cells(everything) == TOO_LARGE
    with pytest.raises(ValueError, match="attribute"):
        graph.cells([0, 130])


def test_a_marginal_too_large_for_memory_is_refused_or_left_out():
    """Without a limit of one's own the largest table that is ever made decides; with one, such
    cliques are left out."""
    domain = dict.fromkeys("abc", 700)
    model = fastdp.fit(
        domain, [fastdp.Measurement((a,), np.ones(700), 1.0) for a in domain], threads=1
    )
    with pytest.raises(ModelTooLargeError):
        marginals(model, [("a", "b", "c")])
    assert list(marginals(model, [("a",), ("a", "b", "c")], max_cells=10**6)) == [("a",)]
