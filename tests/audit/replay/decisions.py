"""Worlds of decisions that hang on a few released numbers: whether users repeat something, what the
counts of a column with many values are on average, how contrasts are divided, and where users with
very many rows end. Small tables decide each of them both ways."""

from collections.abc import Callable

import numpy as np
import pyarrow as pa

import fastdp

from . import hostile
from .worlds import NEIGHBOURS, Scene, synthesize, with_any_facts, world


@world("habits", pairs=4)
def habits(rng: np.random.Generator) -> Scene:
    """Users repeat values in a part of their rows, from none to all. Whether they repeat something at
    all, what is constant, and which pairs of columns they repeat follow from released rates."""
    strength = float(rng.choice([0.0, 0.3, 0.7, 1.0]))
    ids = np.repeat(np.arange(25), rng.integers(1, hostile.MOST_ROWS, 25)).tolist()
    base = _repeating(rng, ids, strength)
    others = []
    for _ in range(NEIGHBOURS):
        count = int(rng.choice([2, hostile.MOST_ROWS, 40]))
        own = _repeating(rng, [hostile.VICTIM] * count, float(rng.choice([0.0, 1.0])))
        others.append(hostile.shuffled(rng, pa.concat_tables([base, own])))
    facts = {"order": str(rng.choice(["n", "t"]))} if rng.random() < 0.5 else {}
    run = synthesize(hostile.schema(rng, **facts), mechanism="cliquetree", epsilon=40.0)
    return Scene(base, others, with_any_facts(run))


def _repeating(rng: np.random.Generator, ids: list[int], strength: float) -> pa.Table:
    """Rows of these users. Each value is that of their user's first row in a part `strength` of the
    rows."""
    drawn = hostile.made(rng, ids, wild=0.02)
    first = {who: i for i, who in reversed(list(enumerate(ids)))}
    columns = {"u": drawn["u"]}
    for name in ("n", "g", "x", "t"):
        again = rng.random(len(ids)) < strength
        columns[name] = drawn[name].take(
            [first[who] if a else i for i, (who, a) in enumerate(zip(ids, again))]
        )
    return pa.table(columns)


@world("many values", pairs=4)
def many_values(rng: np.random.Generator) -> Scene:
    """Columns with many values, of which most are rare or all are alike. What their counts are on
    average decides which codes are merged and what each 1-way gets when it is measured again."""
    sizes = [int(k) for k in rng.choice([2, 7, 40, 150], 4)]
    spread = [float(a) for a in rng.choice([0.0, 1.0, 2.0], 4)]
    policy = {"null": "code"} if rng.random() < 0.5 else {}
    columns = {f"c{i}": {"kind": "integer", "max": k - 1} | policy for i, k in enumerate(sizes)}
    user = {"column": "u", "max_rows": hostile.MOST_ROWS}
    schema = fastdp.Schema.from_dict({"fastdp": 1, "user": user, "columns": columns})

    def rows(ids: np.ndarray, alike: bool) -> pa.Table:
        made = {"u": ids}
        for i, (k, a) in enumerate(zip(sizes, spread)):
            law = np.arange(1, k + 1) ** -a
            drawn = rng.choice(k, 1 if alike else len(ids), p=law / law.sum())
            made[f"c{i}"] = np.broadcast_to(drawn, len(ids)).copy()
        return pa.table(made)

    base = rows((rng.random(150) ** 2 * 60).astype(np.int64), False)
    others = []
    for _ in range(NEIGHBOURS):
        own = np.full(int(rng.choice([1, hostile.MOST_ROWS, 40])), hostile.VICTIM)
        more = rows(own, bool(rng.random() < 0.7))
        others.append(hostile.shuffled(rng, pa.concat_tables([base, more])))
    epsilon = float(rng.choice([1.0, 5.0, 30.0]))
    return Scene(base, others, synthesize(schema, mechanism="cliquetree", epsilon=epsilon))


@world("divided contrasts", pairs=4, reaches=("contrasts of triples again",))
def divided_contrasts(rng: np.random.Generator) -> Scene:
    """Columns of two values which are independent, follow one hidden class, or of which pairs
    determine a third. So contrasts of triples are asked about or not, and the rest is divided among
    columns, pairs and triples in many ways."""
    count = 6
    user = {"column": "u", "max_rows": hostile.MOST_ROWS}
    columns = {f"c{i}": {"kind": "integer", "max": 1} for i in range(count)}
    schema = fastdp.Schema.from_dict({"fastdp": 1, "user": user, "columns": columns})
    kind = str(rng.choice(["free", "class", "xor", "xor"]))

    def rows(ids: np.ndarray, alike: bool) -> pa.Table:
        bits = rng.integers(0, 2, (count, 1 if alike else len(ids)))
        if kind == "class":
            bits[1:] ^= (bits[:1] ^ bits[1:]) & (rng.random(bits[1:].shape) < 0.7)
        if kind == "xor":
            bits[2], bits[5] = bits[0] ^ bits[1], bits[3] ^ bits[4]
        full = np.broadcast_to(bits, (count, len(ids)))
        return pa.table({"u": ids} | {f"c{i}": full[i].copy() for i in range(count)})

    base = rows((rng.random(200) * 80).astype(np.int64), False)
    others = []
    for _ in range(NEIGHBOURS):
        own = np.full(int(rng.choice([1, hostile.MOST_ROWS, 41])), hostile.VICTIM)
        more = rows(own, bool(rng.random() < 0.7))
        others.append(hostile.shuffled(rng, pa.concat_tables([base, more])))
    epsilon = float(rng.choice([3.0, 10.0, 40.0]))
    return Scene(base, others, synthesize(schema, mechanism="cliquetree", epsilon=epsilon))


@world("hidden classes", pairs=2, reaches=("pairs of hidden classes again",))
def hidden_classes(rng: np.random.Generator) -> Scene:
    """Columns without an order which follow a hidden class or, now and then, are independent. So contrasts
    by random signs and tables of all pairs are asked for, or not, and rows come from classes or from a
    tree. The tree is small and has columns enough: with all of its last batch it stays behind classes."""
    count, values = 10, ["a", "b", "c", "d"]
    columns = {f"c{i}": {"kind": "categorical", "values": values} for i in range(count)}
    classes = int(rng.choice([1, 2, 3, 3]))
    law = rng.dirichlet([0.5] * len(values), (count, classes)).cumsum(axis=2)

    def rows(ids: np.ndarray, alike: bool) -> pa.Table:
        own = rng.integers(0, classes, len(ids))
        drawn = rng.random((count, 1 if alike else len(ids), 1))
        table = (drawn > law[:, own[:1] if alike else own, :-1]).sum(axis=2)
        texts = np.array(values)[np.broadcast_to(table, (count, len(ids)))]
        return pa.table({"u": ids} | {f"c{i}": texts[i] for i in range(count)})

    return _dense(rng, columns, rows, 1500, 300)


@world("hidden factors", pairs=2, reaches=("contrasts again", '"tied"'))
def hidden_factors(rng: np.random.Generator) -> Scene:
    """Ordered columns which follow one or two scores, or none, and now and then a copy of one with other
    labels. So contrasts of all pairs take the place of a tree or do not, and columns are tied to each
    other or not."""
    count, size = 9, 6
    columns = {f"c{i}": {"kind": "integer", "max": size - 1} for i in range(count)}
    labels = rng.permutation(size)
    copied = bool(rng.random() < 0.7)
    weights = rng.normal(size=(count, int(rng.choice([1, 1, 2]))))
    weights *= float(rng.choice([0, 1, 1, 1])) / np.linalg.norm(weights, axis=1, keepdims=True)

    def rows(ids: np.ndarray, alike: bool) -> pa.Table:
        number = 1 if alike else len(ids)
        score = weights @ rng.normal(size=(weights.shape[1], number))
        score += 0.5 * rng.normal(size=(count, number))
        codes = np.clip(np.floor(1.2 * score + size / 2), 0, size - 1).astype(np.int64)
        if copied:
            codes[-1] = labels[codes[0]]
        full = np.broadcast_to(codes, (count, len(ids)))
        return pa.table({"u": ids} | {f"c{i}": full[i].copy() for i in range(count)})

    return _dense(rng, columns, rows, 3000, 20_000)


def _dense(
    rng: np.random.Generator,
    columns: dict[str, dict],
    rows: Callable[[np.ndarray, bool], pa.Table],
    count: int,
    cells: int,
) -> Scene:
    """Users of few rows, `count` together, in a dense table. `rows(ids, alike)`: rows of these users;
    `cells`: the largest tree, which is small so that it loses to a hidden column within a second."""
    user = {"column": "u", "max_rows": hostile.MOST_ROWS}
    schema = fastdp.Schema.from_dict({"fastdp": 1, "user": user, "columns": columns})
    base = rows((rng.random(count) * count * 0.8).astype(np.int64), False)
    others = []
    for _ in range(NEIGHBOURS):
        own = np.full(int(rng.choice([1, hostile.MOST_ROWS, 41])), hostile.VICTIM)
        more = rows(own, bool(rng.random() < 0.7))
        others.append(hostile.shuffled(rng, pa.concat_tables([base, more])))
    recipe = {"mechanism": "cliquetree", "max_cells": cells}
    run = synthesize(schema, mechanism=recipe, epsilon=float(rng.choice([5.0, 10.0])))
    return Scene(base, others, run)


@world("very many rows", pairs=4)
def very_many_rows(rng: np.random.Generator) -> Scene:
    """A few users have hundreds of rows, in bins that noise nearly hides. Where users end for sure
    decides up to how many rows are counted, the groups of users, and the bins of the table of users."""
    bound = 3000
    ids = np.repeat(np.arange(40), np.minimum(rng.zipf(2.0, 40), 5)).tolist()
    each = int(rng.choice([100, 400]))
    ids += np.repeat(1000 + np.arange(int(rng.choice([1, 4, 8, 12]))), each).tolist()
    base = _repeating(rng, ids, 0.5)
    others = []
    for _ in range(NEIGHBOURS):
        count = int(rng.choice([1, 90, 1000, bound + 1]))
        own = _repeating(rng, [hostile.VICTIM] * count, float(rng.choice([0.0, 1.0])))
        others.append(hostile.shuffled(rng, pa.concat_tables([base, own])))
    schema = hostile.schema(rng, "ng", max_rows=bound)
    return Scene(base, others, synthesize(schema, mechanism="cliquetree", epsilon=40.0))
