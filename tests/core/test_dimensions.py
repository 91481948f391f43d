"""Tables of many merged dimensions: there is no number of binary columns that the kernels have no
room for."""

import numpy as np
import pytest
from msgspec.structs import replace

from fastdp._core.infer import Engine
from fastdp.domain import Domain
from fastdp.errors import ModelTooLargeError
from fastdp.model import layout
from fastdp.model.junction_tree import JunctionTree, junction_tree


def planned(names=14):
    """A clique of binary columns in which every second one is measured, then every second one of
    those: folds that alternate."""
    domain = Domain({f"c{i:02}": 2 for i in range(names)})
    every = tuple(domain)
    cliques = [every, every[::2], every[::4], every[1::2]]
    return layout.make_plan(
        domain, junction_tree(domain, [every]), {frozenset(c): None for c in cliques}
    )


def marginals(plan):
    theta = np.random.default_rng(0).normal(size=plan.size)
    tables = np.empty(plan.cells)
    m = np.empty(plan.size)
    assert Engine(plan, 2).infer(theta, 1.0, tables, m) is not None
    return m


def widened(link, dims):
    """The same link with dimensions of one value put between its own, as many as there is to be."""
    more = dims - len(link.n)
    return replace(
        link, n=link.n[:1] + (1,) * more + link.n[1:], ts=link.ts[:1] + (7,) * more + link.ts[1:]
    )


@pytest.mark.parametrize("dims", [24, 25, 26, 40, 63])
def test_folds_and_links_of_many_dimensions(dims):
    plan = planned()
    assert plan.folds and max(len(link.n) for _, link in plan.folds) >= 3
    expected = marginals(plan)
    plan.folds = [(at, widened(link, dims)) for at, link in plan.folds]
    for node in plan.nodes:
        node.links = [widened(link, dims) if link.n else link for link in node.links]
    assert (marginals(plan) == expected).all()


def test_more_than_there_can_be_is_refused_before_anything_is_built():
    plan = planned()
    plan.folds = [(at, widened(link, 64)) for at, link in plan.folds]
    with pytest.raises(ValueError, match="64 merged dimensions"):
        Engine(plan, 1)
    domain = Domain({"a": 3, "b": 50_000, "c": 50_000})
    tree = JunctionTree((("a", "b", "c"),), (), domain.cells(tuple(domain)))
    with pytest.raises(ModelTooLargeError, match="2500000000 cells"):
        layout.make_plan(domain, tree, {frozenset(("b", "c")): None})
