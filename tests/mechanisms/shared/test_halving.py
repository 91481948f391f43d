"""Rows drawn several times over and halved: against a slow twin, without bias, closer to the
model."""

from itertools import combinations, product

import numpy as np
from hypothesis import given, settings, strategies as st

from fastdp._core.halve import Items
from fastdp.domain import Domain
from fastdp.estimate.estimator import fit
from fastdp.measurement import Measurement
from fastdp.mechanisms.shared import halving
from fastdp.mechanisms.shared.expanded_rows import ExpandedRows
from fastdp.mechanisms.shared.halving import HalvingRule
from fastdp.mechanisms.shared.merged_codes import merge
from fastdp.mechanisms.shared.model_rows import GroupedRows
from fastdp.mechanisms.shared.workload_weights import Workload

from ...reference import halve as twin


@st.composite
def cases(draw):
    shape = draw(st.lists(st.integers(1, 4), min_size=2, max_size=4))
    pairs = draw(st.integers(1, 12))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    codes = np.column_stack([rng.integers(0, n, 2 * pairs) for n in shape]).astype(np.uint32)
    sets = [c for k in (1, 2, 3) for c in combinations(range(len(shape)), k)]
    items = draw(st.lists(st.sampled_from(sets), min_size=1, max_size=4, unique=True))
    weights = rng.integers(0, 5, len(items)).astype(np.int64)
    bits = rng.integers(0, 2, pairs).astype(np.uint8)
    return shape, codes, rng.permutation(2 * pairs), items, weights, bits, draw(st.integers(0, 2))


@settings(max_examples=30)
@given(cases())
def test_the_kernel_does_what_its_slow_twin_does(case):
    shape, codes, order, items, weights, bits, sweeps = case
    kept = Items(shape, items, weights, 1 << 20).halve(order, codes, bits, sweeps)
    assert kept.tolist() == twin.halve(
        codes.tolist(), order.tolist(), items, weights.tolist(), bits, sweeps
    )


@settings(max_examples=30)
@given(cases(), st.integers(1, 3), st.sampled_from([(), (1,), (2, 1)]))
def test_exchanges_are_those_of_the_slow_twin(case, scale, steps):
    shape, codes, order, items, weights, _, _ = case
    items = [c for c in items if len(c) == 2] or [(1, 0)]
    weights = weights[: len(items)] + 1
    kept = np.sort(order[::2])
    names = "abcd"[: len(shape)]
    made = dict(zip(names, codes[kept].T))
    own = codes[kept].tolist()
    ends = np.array([len(kept) // 2, len(kept)])
    groups = {a: (np.arange(len(kept)), ends) for a in names if a != "b"}
    given_ = (codes, kept, scale, steps, names, made, lambda name, rows: groups.get(name))
    out = Items(shape, items, weights, 1 << 20).exchanged(*given_)
    for step, c in product(steps, range(len(shape))):
        parts = [range(ends[0]), range(*ends)] if c != 1 else []
        twin.exchange(own, c, parts, codes.tolist(), items, weights.tolist(), scale, step)
    assert np.column_stack([out[a] for a in names]).tolist() == own


def sample(domain, n, seed):
    rng = np.random.default_rng(seed)
    first = rng.integers(0, 7, n)
    noise = {a: rng.random(n) ** 2 * size for a, size in domain.items()}
    return {a: (first * i + noise[a]).astype(int) % domain[a] for i, a in enumerate(domain, 1)}


def cells(domain, rows, clique):
    key = np.zeros(len(rows[clique[0]]), np.int64)
    for a in clique:
        key = key * domain[a] + rows[a]
    return np.bincount(key, minlength=domain.cells(clique))


DOMAIN = Domain({"p": 12, "s": 5, "a": 9, "b": 4, "c": 6})
ITEMS = [("p", "s", *pair) for pair in combinations("abc", 2)]


def test_kept_rows_are_rows_in_their_order():
    domain = Domain({**DOMAIN, "number": 4096})
    rows = sample(DOMAIN, 4096, 3) | {"number": np.arange(4096)}
    wanted = Workload(domain, ITEMS).halving(domain)
    kept = wanted(rows, np.random.default_rng(4))
    number = kept["number"]
    assert (np.diff(number) > 0).all() and all(
        np.array_equal(kept[a], rows[a][number]) for a in rows
    )
    again = wanted(rows, np.random.default_rng(4))
    assert np.array_equal(again["number"], number)
    empty = wanted({a: v[:0] for a, v in rows.items()}, np.random.default_rng(4))
    assert all(len(v) == 0 for v in empty.values())


def test_rows_of_a_model_are_closer_to_it_in_every_shard(monkeypatch):
    domain = Domain({"a": 20, "b": 15, "c": 3})
    rng = np.random.default_rng(6)
    truth = rng.gamma(0.3, 1.0, (20, 15)) * 30
    ones = [Measurement((a,), np.full(n, 1000.0), 1.0) for a, n in domain.items()]
    pair = Measurement(("a", "b"), truth.reshape(-1), 1.0)
    model = fit(domain, [pair, Measurement(("c",), np.full(3, truth.sum() / 3), 1.0)])
    total = 1501
    compressed = merge(domain, ones, 3.0)
    monkeypatch.setattr(ExpandedRows, "shard_rows", 600)
    item = Workload(domain, [("b", "c"), ("a", "c")]).halving(domain)
    made = {}
    some = compressed.rows(model, total, 1).some(50, 3)
    for name, rows in {
        "plain": compressed.rows(model, total, 1),
        "balanced": compressed.rows(model, total, 1, None, HalvingRule(domain, item)),
        "all pairs": compressed.rows(model, total, 1, None, HalvingRule(domain)),
    }.items():
        shards = [rows.shard(i) for i in range(3)]
        assert [len(s["a"]) for s in shards] == [600, 600, 301]
        assert np.array_equal(rows.some(50, 3)["a"], some["a"])  # trials do not pay for halvings
        inside = GroupedRows(rows, "c", None)
        assert (
            sum(len(inside.shard(i)["a"]) for i in range(-(-total // inside.shard_rows))) == total
        )
        shared = GroupedRows(rows, "c", np.array([6.0, 1.0, 3.0])).shard(1)["c"]
        assert np.bincount(shared).tolist() == [360, 60, 180]
        assert np.array_equal(rows.again(total, 1).shard(1)["a"], shards[1]["a"])
        assert not np.array_equal(rows.again(total, 2).shard(1)["a"], shards[1]["a"])
        drawn = {a: np.concatenate([s[a] for s in shards]) for a in domain}
        made[name] = sum(
            np.abs(
                cells(domain, drawn, c) / total - model.marginal(c).reshape(-1) / model.total
            ).sum()
            for c in (("b", "c"), ("a", "c"))
        )
        if name == "all pairs":  # exchanges leave the counts of the model's own cliques
            monkeypatch.setattr(halving, "EXCHANGE_STRIDES", ())
            before = rows.shard(0)
            assert np.array_equal(
                cells(domain, before, ("a", "b")), cells(domain, shards[0], ("a", "b"))
            )
            assert not np.array_equal(
                cells(domain, before, ("a", "c")), cells(domain, shards[0], ("a", "c"))
            )
    assert max(made["balanced"], made["all pairs"]) < 0.8 * made["plain"]


def test_many_rows_are_halved_less_often_and_pairs_they_cannot_fill_are_left_out():
    """The work, rows drawn times pairs, stays within its bound; runs of millions of rows are as
    fast as before."""
    domain = Domain({"a": 20, "b": 15, "c": 3, "id": 100_000})
    levels = {}
    for rows in (100, 3_000, 300_000, 3_000_000, 30_000_000):
        rule = HalvingRule(domain)(rows)
        levels[rows] = 0 if rule is None else rule.levels
        if rule is not None:
            assert (rows << rule.levels) * 3 <= halving.MOST_WORK
            assert ("id" in rule.columns) == (8 * rows >= 3 * 100_000)
    assert list(levels.values()) == sorted(levels.values(), reverse=True)
    assert levels[100] == halving.MOST_LEVELS and levels[30_000_000] == 0
