"""Whether synthetic linked tables are linked as the true ones are. NOT private."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from ..engines.truth import marginals
from ..schema.linked_schema import LinkedSchema
from ..tables.linked_tables import Links, read_linked
from ..tables.table import Table
from .total_variation import between

WORST = 3
"""Pairs of columns that are named."""


def linked_scores(
    truth: Mapping[str, Any],
    synthetic: Mapping[str, Any],
    schema: LinkedSchema,
    threads: int | None = None,
) -> dict[str, Any]:
    """For each child table: `integrity`, the share of its synthetic rows whose key a parent has;
    `children`, the total variation of the number of child rows per parent, with means and shares of
    parents without any; `pairs`, the total variation of a parent's column and a child's column,
    over child rows: mean and worst.
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
            pair: between(one[pair], two[pair], (both[0].rows, both[1].rows)) for pair in asked
        }
        worst = sorted(pairs, key=lambda p: -pairs[p])[:WORST]
        both_of = ("truth", "synthetic")
        children = {
            "variation": between(shares[0], shares[1], (1, 1)),
            "mean": dict(zip(both_of, map(_mean, shares))),
        }
        children["none"] = dict(zip(both_of, (float(s[0]) for s in shares)))
        named = [[*pair, pairs[pair]] for pair in worst]
        related = {"mean": float(np.mean(list(pairs.values()))), "worst": named}
        integrity = made[i].rows / max(read[name]["rows"], 1)
        out[name] = {"integrity": integrity, "children": children, "pairs": related}
    return out


def _children(table: Table, parents: int) -> np.ndarray:
    """How many parents have 0, 1, 2, ... rows."""
    counted = np.bincount(table.rows_per_user(), minlength=1)
    counted[0] = parents - counted[1:].sum()
    return counted


def _mean(shares: np.ndarray) -> float:
    return float(shares @ np.arange(len(shares)))
