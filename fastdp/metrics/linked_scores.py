"""Whether synthetic linked tables are linked as the true ones are. NOT private."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from ..engines.truth import marginals
from ..schema.linked_schema import LinkedSchema
from ..tables.linked_tables import Links, read_linked
from ..tables.table import Table
from .total_variation import variation_of_counts

WORST = 3
"""Pairs of columns that are named."""


def linked_scores(
    truth: Mapping[str, Any],
    synthetic: Mapping[str, Any],
    schema: LinkedSchema,
    threads: int | None = None,
) -> dict[str, Any]:
    """How well keys and what goes across tables are kept, for each child table.

    `integrity`: the share of its synthetic rows whose key a parent has.
    `children`: the total variation of the number of child rows per parent; means, and shares of parents
    without any.
    `pairs`: the total variation of a parent's column and a child's column, over child rows; mean and worst.
    `between`: for columns in whose level parents differ, the share of the variance of codes that lies
    between parents, of both tables.
    """
    links = Links(replace(schema, orphans=dict.fromkeys(schema.children, "drop")))
    (true, _), (made, read) = (read_linked(tables, links, threads) for tables in (truth, synthetic))
    out = {}
    for i, name in enumerate(schema.children, 1):
        both = (true[i].as_truth(), made[i].as_truth())
        sizes = [_children(table, parents.rows) for table, parents in zip(both, (true[0], made[0]))]
        longest = max(map(len, sizes))
        shares = [np.append(s, np.zeros(longest - len(s))) / max(s.sum(), 1) for s in sizes]
        asked = [(a, b) for a in links.joined[name] for b in schema.tables[name].modelled]
        one, two = (marginals(table, asked, threads=threads) for table in both)
        pairs = {
            pair: variation_of_counts(one[pair], two[pair], (both[0].rows, both[1].rows))
            for pair in asked
        }
        worst = sorted(pairs, key=lambda p: -pairs[p])[:WORST]
        both_of = ("truth", "synthetic")
        children = {
            "variation": variation_of_counts(shares[0], shares[1], (1, 1)),
            "mean": dict(zip(both_of, map(_mean, shares))),
        }
        children["none"] = dict(zip(both_of, (float(s[0]) for s in shares)))
        named = [[*pair, pairs[pair]] for pair in worst]
        related = {"mean": float(np.mean(list(pairs.values()))), "worst": named}
        integrity = made[i].rows / max(read[name]["rows"], 1)
        out[name] = {"integrity": integrity, "children": children, "pairs": related}
        bases = {a: schema.tables[name].columns[a].base for a in schema.levels(name)}
        shares_between = {
            a: dict(zip(both_of, (_between(table, a, base) for table in both)))
            for a, base in bases.items()
        }
        out[name] |= {"between": shares_between} if shares_between else {}
    return out


def _between(table: Table, column: str, base: int) -> float:
    """The share of the variance of a column's codes, without missing values, between parents."""
    assert table.user is not None
    there = table.codes[column] < base
    return between_parents(table.user[there], table.codes[column][there].astype(float))


def between_parents(owner: np.ndarray, numbers: np.ndarray) -> float:
    """The share of the variance that lies between owners with two rows or more (analysis of
    variance, without the part that chance adds)."""
    several = (np.bincount(owner) > 1)[owner] if len(owner) else np.zeros(0, bool)
    if not several.any():
        return 0.0
    of = np.unique(owner[several], return_inverse=True)[1]
    numbers = numbers[several]
    rows = np.bincount(of)
    means = np.bincount(of, numbers) / rows
    within = float(np.square(numbers - means[of]).sum()) / (len(of) - len(rows))
    each = float((rows * np.square(means - numbers.mean())).sum()) / max(len(rows) - 1, 1)
    size = (len(of) - float(np.square(rows).sum()) / len(of)) / max(len(rows) - 1, 1)
    apart = max((each - within) / max(size, 1e-12), 0.0)
    return apart / (apart + within) if apart + within > 0 else 0.0


def _children(table: Table, parents: int) -> np.ndarray:
    """How many parents have 0, 1, 2, ... rows."""
    counted = np.bincount(table.rows_per_user(), minlength=1)
    counted[0] = parents - counted[1:].sum()
    return counted


def _mean(shares: np.ndarray) -> float:
    return float(shares @ np.arange(len(shares)))
