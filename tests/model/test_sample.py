"""Statistical tests here have a false-alarm rate of 1e-6 each (stated once, `ALARM`), with fixed
seeds."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy import stats

from fastdp.domain import Domain
from fastdp.errors import SchemaError, UsageError
from fastdp.model import sampler as sample
from fastdp.model.sampler import Sampler
from tests.tiers import first, slow_cases

from ..reference import sample as twin

ALARM = 1e-6


def sample_codes(domain, nodes, n, **how):
    return Sampler(domain, nodes).draw(n, **how)


def random_tree(rng, most_attributes=6, most_codes=4, zeros=0.2):
    """A consistent tree: every table is a marginal of one joint distribution over few cells."""
    names = [f"x{i}" for i in range(rng.integers(1, most_attributes + 1))]
    domain = Domain({a: int(rng.integers(1, most_codes + 1)) for a in names})
    nodes = []
    cliques = []
    left = list(names)
    joint: dict[tuple, np.ndarray] = {}
    while left:
        res = tuple(left[: rng.integers(1, 3)])
        left = left[len(res) :]
        sep: tuple = ()
        if cliques and rng.random() < 0.8:
            clique = cliques[rng.integers(len(cliques))]
            sep = tuple(rng.permutation(clique)[: rng.integers(1, 3)].tolist())
        if sep:
            clique = next(c for c in cliques if set(sep) <= set(c))
            x = joint[clique].reshape(domain.shape(clique))
            x = x.sum(axis=tuple(i for i, a in enumerate(clique) if a not in sep))
            keep = [a for a in clique if a in sep]
            top = x.transpose([keep.index(a) for a in sep]).ravel()
        else:
            top = np.ones(1)
        table = rng.dirichlet(np.ones(domain.cells(res)), size=domain.cells(sep))
        mask = rng.random(table.shape) < zeros
        mask[np.arange(len(mask)), rng.integers(table.shape[1], size=len(mask))] = False
        table = np.where(mask, 0, table)
        table *= (top / table.sum(axis=1))[:, None]
        cliques.append((*sep, *res))
        joint[cliques[-1]] = table
        nodes.append((sep, res, table * rng.choice([1e-30, 1.0, 1e9])))
    return domain, nodes


def counts(domain, columns, names):
    index = np.zeros(len(next(iter(columns.values()))), np.int64)
    for name in names:
        index = index * domain[name] + columns[name]
    return np.bincount(index, minlength=domain.cells(names))


def node_count(domain, columns, node):
    sep, res, _ = node
    return counts(domain, columns, (*sep, *res)).reshape(domain.cells(sep), domain.cells(res))


def chi_square_tail(observed, p):
    """The probability of so large a statistic; cells expecting under 5 are pooled."""
    n = observed.sum()
    p = np.asarray(p).ravel()
    assert (observed[p == 0] == 0).all(), "a cell without mass was sampled"
    big = n * p >= 5
    o = np.append(observed[big], observed[~big].sum())
    e = np.append(n * p[big], max(n * p[~big].sum(), 0))
    o, e = (o, e) if e[-1] >= 5 else (o[:-1], e[:-1])
    return 1.0 if len(o) < 2 else stats.chi2.sf(((o - e) ** 2 / e).sum(), len(o) - 1)


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    n=st.integers(1, 90),
    shard_rows=st.integers(1, 40),
    method=st.sampled_from(["round", "independent"]),
)
def test_equals_the_slow_twin(seed, n, shard_rows, method):
    """Exactly: the kernel does the same additions, multiplications and divisions in the same order,
    and its compiler may not fuse them."""
    domain, nodes = random_tree(np.random.default_rng(seed))
    sampler = Sampler(domain, nodes)
    got = sampler.draw(n, method=method, seed=seed, shard_rows=shard_rows)
    parts = [
        twin.draw(domain, nodes, n, method, sample._key(seed), i, shard_rows)
        for i in range(sampler.shards(n, shard_rows))
    ]
    for name in got:
        assert got[name].tolist() == [code for part in parts for code in part[name]]


def test_equals_the_slow_twin_beyond_1024_rows():
    domain = Domain({"a": 3, "b": 2})
    table = np.arange(6.0).reshape(3, 2)
    nodes = [((), ("a",), table.sum(1)[None]), (("a",), ("b",), table)]
    for method in sample.METHODS:
        got = sample_codes(domain, nodes, 4001, method=method, seed=3)
        want = twin.draw(domain, nodes, 4001, method, sample._key(3), 0, sample.MOST_SHARD_ROWS)
        assert all(got[a].tolist() == want[a] for a in domain)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("shard_rows", [1 << 20, 7001])
def test_independent_rows_follow_the_joint_law(seed, shard_rows):
    rng = np.random.default_rng(seed)
    domain, nodes = random_tree(rng)
    names = [a for _, res, _ in nodes for a in res]
    columns = sample_codes(
        domain, nodes, 50_000, method="independent", seed=seed, shard_rows=shard_rows
    )
    assert chi_square_tail(counts(domain, columns, names), twin.joint(domain, nodes)) > ALARM


@pytest.mark.parametrize("seed", first(1, range(2)))
def test_one_rounded_row_follows_the_joint_law(seed):
    """Rounding must leave each single row's law alone: row 0 of many seeds, all with 3 rows in
    shards of 2."""
    rng = np.random.default_rng(100 + seed)
    domain, nodes = random_tree(rng, most_attributes=4, most_codes=3)
    names = [a for _, res, _ in nodes for a in res]
    sampler = Sampler(domain, nodes)
    for row in (0, 2):
        rows = [
            [c[row] for c in sampler.draw(3, seed=s, shard_rows=2, threads=1).values()]
            for s in range(4000)
        ]
        columns = dict(zip(names, np.array(rows).T, strict=True))
        assert chi_square_tail(counts(domain, columns, names), twin.joint(domain, nodes)) > ALARM


def test_the_chi_square_test_can_fail():
    """A sampler with one cell 10 % too heavy is found."""
    p = np.full(6, 1 / 6)
    wrong = p * [1.1, 1, 1, 1, 1, 0.9]
    observed = np.random.default_rng(0).multinomial(50_000, wrong)
    assert chi_square_tail(observed, p) < ALARM


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("shard_rows", [1 << 20, 5003])
def test_rounded_counts_are_floor_or_ceil(seed, shard_rows):
    """Per shard and separator cell every count is floor or ceil of rows x probability; without
    separator also in total."""
    domain, nodes = random_tree(np.random.default_rng(200 + seed))
    n = 20_000
    sampler = Sampler(domain, nodes)
    for shard in range(sampler.shards(n, shard_rows)):
        columns = sampler.draw(n, seed=seed, shard=shard, shard_rows=shard_rows)
        for sep, res, table in nodes:
            got = node_count(domain, columns, (sep, res, table))
            p = np.array([twin.weights(table, g) for g in range(len(table))])
            want = got.sum(axis=1, keepdims=True) * p / p.sum(axis=1, keepdims=True)
            assert np.abs(got - want).max() < (1 + 1e-6 if sep else 2 + 1e-6)
    columns = sampler.draw(n, seed=seed, shard_rows=shard_rows)
    for sep, res, table in nodes:
        if not sep:
            got = node_count(domain, columns, (sep, res, table))
            assert np.abs(got - n * table / table.sum()).max() < 1 + 1e-6


@pytest.mark.parametrize("method", sample.METHODS)
def test_shards_alone_and_threads_agree(method):
    domain, nodes = random_tree(np.random.default_rng(12))
    sampler = Sampler(domain, nodes)
    n = 10_500
    shard_rows = 1000
    keys = {"method": method, "seed": 77, "shard_rows": shard_rows}
    whole = sampler.draw(n, threads=1, **keys)
    parts = [sampler.draw(n, shard=i, **keys) for i in range(11)]
    for name in whole:
        for other in (
            sampler.draw(n, threads=4, **keys)[name],
            np.concatenate([part[name] for part in parts]),
        ):
            assert np.array_equal(whole[name], other)


def test_seeds_matter_and_none_is_fresh():
    domain = Domain({"a": 100})
    nodes = [((), ("a",), np.ones((1, 100)))]
    for method in sample.METHODS:
        draws = [
            sample_codes(domain, nodes, 500, method=method, seed=s)["a"].tolist()
            for s in (1, 2, None, None)
        ]
        assert len(set(map(tuple, draws))) == 4
        assert draws[0] == sample_codes(domain, nodes, 500, method=method, seed=1)["a"].tolist()


@pytest.mark.parametrize("method", sample.METHODS)
@pytest.mark.parametrize(
    "size, dtype",
    [
        (256, "u1"),
        (257, "u2"),
        (65536, "u2"),
        (65537, "u4"),
        *slow_cases((300, "u2"), (70_000, "u4")),
    ],
)
def test_attributes_of_many_codes_are_drawn_with_their_shares(method, size, dtype):
    domain = Domain({"big": size, "b": 3, "also": size})
    rng = np.random.default_rng(0)
    top = rng.random(size)
    pair = top[:, None] * rng.dirichlet(np.ones(3), size)
    down = np.zeros((3, size))
    down[:, [0, size - 1]] = pair.sum(0)[:, None] / 2
    nodes = [((), ("big",), top[None]), (("big",), ("b",), pair), (("b",), ("also",), down)]
    columns = sample_codes(domain, nodes, 300_000, method=method, seed=0, shard_rows=1 << 17)
    assert columns["big"].dtype == columns["also"].dtype == np.dtype(dtype)
    assert columns["big"].max() > 0.99 * size and columns["big"].max() < size
    assert set(np.unique(columns["also"]).tolist()) == {0, size - 1}
    groups = np.bincount(columns["big"].astype(int) * 16 // size, minlength=16)
    want = np.bincount(np.arange(size) * 16 // size, top, minlength=16)
    assert chi_square_tail(groups, want / want.sum()) > (
        ALARM if method == "independent" else 0.999
    )


@pytest.mark.parametrize("method", sample.METHODS)
@pytest.mark.parametrize("scale", [5e-324, 1e-310, 1e-260, 1.0, 1e260, 1e306])
def test_any_scale_and_never_a_zero(method, scale):
    domain = Domain({"a": 4, "b": 4})
    top = np.array([[0, 2, 0, 4]]) * scale
    table = np.array([[0, 0, 0, 0], [0, 1, 1, 0], [0, 0, 0, 0], [4, 0, 0, 0]]) * scale
    columns = sample_codes(
        domain, [((), ("a",), top), (("a",), ("b",), table)], 3000, method=method, seed=1
    )
    got = counts(domain, columns, ("a", "b")).reshape(4, 4)
    assert (got[table == 0] == 0).all()
    assert chi_square_tail(got.ravel(), (table / scale).ravel() / 6) > ALARM


@pytest.mark.parametrize(
    "nodes, error",
    [
        ([((), ("z",), np.ones((1, 2)))], "no column 'z'"),
        ([((), (), np.ones((1, 1)))], "no new attribute"),
        ([(("a",), ("b",), np.ones((2, 3)))], "not sampled before"),
        (
            [((), ("a",), np.ones((1, 2))), ((), ("a",), np.ones((1, 2)))],
            "is already sampled before",
        ),
        ([((), ("a", "a"), np.ones((1, 4)))], "twice"),
        ([((), ("a",), np.ones((1, 3)))], "expected"),
        ([((), ("a",), np.array([[1.0, -1e-9]]))], "finite and >= 0"),
        ([((), ("a",), np.array([[1.0, np.nan]]))], "finite and >= 0"),
        ([((), ("a",), np.array([[1.0, np.inf]]))], "finite and >= 0"),
        ([((), ("a",), np.zeros((1, 2)))], "all weights are 0"),
    ],
)
def test_trees_that_are_not_valid_are_refused(nodes, error):
    with pytest.raises((UsageError, SchemaError), match=error):
        Sampler({"a": 2, "b": 3}, nodes)
