"""Run with failing.c preloaded: every allocation of every kernel fails once, in turn.

A failure must come out as MemoryError, the call after it must work as if nothing had been, and
whatever a call allocated it gives back, whether it failed or not. Likewise where the system gives
no threads (one does the work) and no random bits (there is no noise then).
"""

import ctypes
import gc
import sys
from itertools import product

import numpy as np

import fastdp
from fastdp._core import bound, count, draw, ids, infer, lines, noise, sample, score, team, treesize
from fastdp.domain import Domain
from fastdp.errors import PrivacyError
from fastdp.model.junction_tree import junction_tree
from fastdp.model.layout import make_plan
from fastdp.model.marginals import marginals
from fastdp.privacy import noise as privacy

MOST = 200  # allocations of one call
THREADS = 3  # and 1 before that: where others take over a thread's work, its failure need not show


def inference():
    domain = Domain({"a": 40, "b": 30, "c": 50})
    cliques = [("a", "b"), ("b", "c"), ("b",)]
    plan = make_plan(domain, junction_tree(domain, cliques), {frozenset(c): None for c in cliques})
    engine = infer.Engine(plan, THREADS)
    tables = np.empty(plan.cells)
    m = np.empty(plan.size)
    theta = np.random.default_rng(0).normal(size=plan.size)
    log_z = engine.infer(theta, 100.0, tables, m)
    z = engine.state(tables)
    out = engine.state()
    engine.adopt(z, 100.0)
    moved = engine.move(
        z,
        x=tables.copy(),
        weight=0.3,
        delta=theta,
        size=1.0,
        mix=1.0,
        total=100.0,
        out=out,
        sums=np.zeros((0, 3)),
    )
    engine.normalise(out, 100.0)
    return log_z, moved, m.tobytes(), out.cells.tobytes()


def vectors():
    n = 300_000
    x, y, w = (np.random.default_rng(i).random(n) for i in range(3))
    out = np.empty(n)
    infer.step(a=0.3, dx=x, b=0.7, dz=y, w=w, out=out, threads=THREADS)
    results = (
        infer.arrive(m=x, t=y, dz=w, w=x, delta=y, out=out, threads=THREADS),
        infer.blend(0.25, x, w, out, THREADS),
    )
    infer.average(0.5, x, y, THREADS)
    return results, out.tobytes(), y.tobytes()


def rows(n=20_000):
    rng = np.random.default_rng(1)
    codes = [rng.integers(0, size, n).astype(np.uint8) for size in (7, 9)]
    user = rng.integers(0, 500, n).astype(np.uint32)
    return count.Rows(codes, user, np.arange(500, dtype=np.uint32), n)


def counting():
    table = np.zeros(7 * 9 + 7, np.int64)
    arrays = (np.array(v, t) for v, t in (([0, 2, 3], "i4"), ([0, 1, 0], "i4"), ([7, 9, 7], "u4")))
    count.count(
        rows(), *arrays, np.array([0, 63]), np.array([63, 7]), THREADS, 4096, 1 << 20, table
    )
    down = np.zeros(7, np.int64)
    count.Projections([[(table[:63].reshape(7, 9), 1, 2, down)]]).run(THREADS)
    return table.tobytes(), down.tobytes()


def sparse_counting():
    keys = count.cells(rows(), np.array([7, 9], np.uint64), THREADS)
    cells, sums = count.sparse(rows(), keys, 6, THREADS)
    return cells.tobytes(), sums.tobytes()


def users():
    rng = np.random.default_rng(2)
    words = rng.integers(0, 3000, 9000).astype(np.uint64)
    numbers = bound.Ids(1, 5, THREADS)
    user, fresh = numbers.find(words, None, None, None, 1 << 32)
    numbers.settle(user, fresh, 1 << 32)
    numbers.number(user, THREADS)
    per_user = bound.rows_per_user(user, len(numbers))
    start, _ = bound.group(user, per_user, None)
    hashes = numbers.hashes()
    content = bound.hash_rows([user.astype(np.uint8)], user.size)
    _, keys = bound.group(user, per_user, words % np.uint64(11))
    common = bound.most_common(start, keys.copy(), hashes, 11, THREADS)
    groups = bound.groups(
        start,
        keys.copy(),
        user_hash=hashes,
        cells=None,
        position=None,
        size=11 * 4,
        t_max=4,
        cap=2,
        threads=THREADS,
    )
    return content.tobytes(), common.tobytes(), groups.tobytes()


def sampling():
    sizes = np.array([4, 3], np.uint32)
    widths = np.array([1, 1], np.int32)
    table = np.random.default_rng(3).random((4, 3))
    first = (
        0,
        False,
        np.array([], np.int32),
        np.array([0], np.int32),
        np.ones((1, 4)),
        np.ones(4),
        None,
    )
    then = (1, False, np.array([0], np.int32), np.array([1], np.int32), table, table.sum(0), None)
    tree = sample.Tree([first, then], sizes, widths)
    columns = [np.zeros(5000, np.uint8) for _ in range(2)]
    tree.fill(columns, 5000, shard_rows=1000, first=0, count=5, method=0, seed=7, threads=THREADS)
    return [c.tobytes() for c in columns]


def scoring():
    rng = np.random.default_rng(4)
    group = rng.integers(0, 50, 4000).astype(np.uint32)
    columns = [rng.integers(0, 5, 4000).astype(np.uint8) for _ in range(3)]
    start, packed = score.group_rows(group, columns, 50)
    pairs = score.grouped_pairs(start, packed, start, packed, np.full(3, 5, np.int32), THREADS)
    return pairs.tobytes(), score.distance(group, group, 50)


def dealing():
    key = np.random.default_rng(5).integers(0, 9, 2000).astype(np.uint32)
    order, start = ids.group(key, 9, THREADS)
    owner = np.zeros(2000, np.uint32)
    number = np.arange(2000, dtype=np.uint32)
    ids.deal(order, start, order, start, number, number, number, owner)
    drawn = draw.draw(
        np.array([0, 2]),
        np.array([3, 5]),
        np.array([8, 9], np.uint32),
        np.zeros(4, np.int64),
        np.full(4, 0.9),
    )
    return owner.tobytes(), drawn.tobytes()


def reading():
    text = b'1,"a"\n2,b\n"3\n4,\n' * 50
    dialect = lines.Dialect(ord(","), ord('"'), -1, False, [b""])
    columns, *counts = lines.split(text, dialect, np.arange(2, dtype=np.int32), 2, 1 << 20)
    objects, *also = lines.json(
        b'{"x": 1, "y": "two"}\nno\n' * 50, lines.Texts([b"x", b"y"]), 1 << 20
    )
    texts = [
        (offset.tobytes(), data[: offset[-1]].tobytes(), nulls)
        for offset, data, _, nulls in columns + objects
    ]
    return texts, counts, also


MODEL = fastdp.fit(
    {"a": 4, "b": 5, "c": 3},
    [fastdp.Measurement(pair, np.ones(n), 1.0) for pair, n in ((("a", "b"), 20), (("b", "c"), 15))],
)


def many_marginals():
    tables = marginals(MODEL, [("a", "b"), ("a", "c"), ("b",)], THREADS)
    graph = treesize.Graph([4, 5, 3])
    graph.add((0, 1))
    return [table.tobytes() for table in tables.values()], graph.cells((1, 2))


def random():
    out = np.zeros(70_000, np.int64)
    noise.gaussian(np.array([3.0]), np.arange(8, dtype=np.uint32), THREADS, out)
    return out.tobytes()


def one_team():
    workers = team.Team(4)
    x = np.ones(300_000)
    return infer.blend(0.5, x, x, x.copy(), workers), workers.threads


def fits():
    """By the dual of whole marginals: of a tree, and of a loop, which is raked."""
    rng = np.random.default_rng(4)
    domain = {"a": 3, "b": 4, "c": 2}
    sizes = {("a", "b"): 12, ("b", "c"): 8, ("a", "c"): 6}
    seen = [fastdp.Measurement(c, rng.random(n) * 50, 2.0) for c, n in sizes.items()]
    models = [
        fastdp.fit(domain, seen[:n], stop="risk", method="dual", threads=THREADS) for n in (2, 3)
    ]
    return [node.table.tobytes() for model in models for node in model.nodes]


CASES = (
    fits,
    inference,
    vectors,
    counting,
    sparse_counting,
    users,
    sampling,
    scoring,
    dealing,
    reading,
    many_marginals,
    random,
    one_team,
)


def main():
    hook = ctypes.CDLL(sys.argv[1])
    hook.failing_arm.argtypes = [ctypes.c_char_p, ctypes.c_long]
    hook.failing_count.restype = hook.failing_live.restype = ctypes.c_long
    hook.failing_arm(b"/fastdp/_core/", 0)

    def live():
        gc.collect()
        return hook.failing_live()

    for threads, case in product((1, THREADS), CASES):
        globals()["THREADS"] = threads
        expected = case()
        held = live()
        assert case() == expected and live() == held, (
            f"{case.__name__} keeps {live() - held} allocations"
        )
        for n in range(1, MOST):
            libraries = hook.failing_arm(b"/fastdp/_core/", n)
            assert libraries >= 8, f"only {libraries} compiled modules of fastdp are loaded"
            try:
                result = case()
            except MemoryError:
                result = None
            failed = hook.failing_count()
            hook.failing_arm(b"/fastdp/_core/", 0)
            assert live() == held, (
                f"{case.__name__} keeps {live() - held} allocations where {n} failed"
            )
            if not failed:
                break
            # a team that cannot be made is no failure: the caller's own thread does the work
            assert result is None or result == expected, (
                f"{case.__name__}: allocation {n} failed and nothing was said"
            )
            assert case() == expected, f"{case.__name__}: broken after allocation {n} failed"
            print(
                case.__name__,
                n,
                "MemoryError" if result is None else "done by one thread",
                flush=True,
            )
        else:
            raise AssertionError(f"{case.__name__}: still allocating after {MOST}")
        assert result == expected
    hook.failing_random(1)
    for draw_noise in (
        lambda: privacy.gaussian(1.0, 5),
        lambda: privacy.laplace(1.0, 5),
        lambda: privacy.fill_random_bytes(5),
    ):
        try:
            draw_noise()
        except PrivacyError as error:
            assert "no noise was drawn" in str(error)
        else:
            raise AssertionError("noise without randomness")
    hook.failing_random(0)
    for spare in (0, 1):
        for case in CASES:
            expected = case()
            hook.failing_threads(ctypes.c_long(spare))
            assert case() == expected, (
                f"{case.__name__}: other results where the system gives {spare} threads"
            )
            hook.failing_threads(ctypes.c_long(-1))
    print("all cases hold")


if __name__ == "__main__":
    main()
