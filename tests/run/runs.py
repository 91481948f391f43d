"""A small table of users, seeded runs on it, and whether two runs are the same to the bit."""

import numpy as np
import pyarrow as pa

import fastdp
from tests.builders import schema_with_users

SIZES = {"a": 4, "b": 3, "c": 2}
ADAGRID = {
    "mechanism": "adagrid",
    "outer": [["a", "b"], ["a", "c"]],
    "clip": "private",
    "threshold": 3.0,
}
EPSILON = 2.0
DELTA = 1e-6


def schema():
    return schema_with_users(SIZES, max_rows=6)


def rows(count=4000):
    rng = np.random.default_rng(1)
    a = rng.integers(0, 4, count)
    names = np.array([f"{'U' if i % 2 else 'u'}{i // 2}" for i in range(1200)])
    columns = {"a": a, "b": (a + rng.integers(0, 2, count)) % 3, "c": rng.integers(0, 2, count)}
    return pa.table({**columns, "u": names[(rng.random(count) ** 2 * 1200).astype(int)]})


def run(source, **options):
    options = {"mechanism": ADAGRID, "threads": 1} | options
    return fastdp.synthesize(source, epsilon=EPSILON, delta=DELTA, seed=7, sample_seed=8, **options)


def same(one, other):
    tables = [r.data for r in (one, other)]
    assert tables[0].equals(tables[1])
    assert len(one.measurements) == len(other.measurements)
    for first, theirs in zip(one.measurements, other.measurements, strict=True):
        assert first.clique == theirs.clique and np.array_equal(first.values, theirs.values)
    assert one.model.marginal(("b", "c")).tobytes() == other.model.marginal(("b", "c")).tobytes()
