"""Structural zeros: cells of the model that public constraints, or the public span of a column of
times, rule out. A schema whose constraints leave no row possible is refused."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import Struct, field

from ...codec.possible import Mask, compiled_constraints, merged_masks
from ...domain import Clique, Domain
from ...errors import SchemaError
from ...model.junction_tree import junction_tree
from ...model.table_ops import laid
from ...schema import Schema


class StructuralZeros(Struct, frozen=True, eq=False):
    """Cells that a schema's constraints, or spans of its times, rule out.

    impossible: for each clique, a mask over its cells, True where a cell is ruled out. settled:
    pairs of columns of which one is a function of the other. They need no measurement.
    """

    impossible: Mapping[Clique, np.ndarray] = field(default_factory=dict)
    settled: tuple[Clique, ...] = ()

    @classmethod
    def of(cls, schema: Schema) -> StructuralZeros:
        """The structural zeros of a schema; SchemaError if a constraint is invalid or its mask too
        large. `check_possible` finds contradictions."""
        facts = compiled_constraints(schema)
        modelled = schema.modelled
        settled = [(*f.sources, f.column) for f in facts.follows if len(f.sources) == 1]
        # of a pair whose first column is not modelled, the second alone
        known = [tuple(n for n in modelled if n in pair) for pair in settled if pair[1] in modelled]
        return cls(facts.impossible, tuple(known))

    @property
    def cliques(self) -> tuple[Clique, ...]:
        """The cliques of the masks. The model's junction tree holds them, whatever is measured."""
        return tuple(self.impossible)


def derived_hint(schema: Schema, config: Any) -> str:
    """A hint to append to an error, if the config names a column that is derived from others and
    not modelled; else empty. `config`: the config's fields, as built-in types."""
    named = set(_texts(config))
    for item in compiled_constraints(schema).derived if schema.constraints else ():
        if item.column in named:
            return (
                f"; {item.column!r} follows from {', '.join(item.sources)} and is derived when rows"
                " are written: say model = true in its constraint to have it modelled"
            )
    return ""


def _texts(value: Any) -> Iterator[str]:
    """All strings in nested lists and dicts, with the keys of dicts."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from value
        yield from _texts(list(value.values()))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item)


def check_possible(schema: Schema) -> None:
    """Raise SchemaError, naming constraints that contradict each other, if no row satisfies all of
    them. A row with nulls or with values outside the domain does not count."""
    if not schema.constraints:
        return
    masks = list(compiled_constraints(schema).masks)
    if _satisfiable(schema, masks):
        return
    left = sorted({n for m in masks for n in m.numbers})
    for number in list(left):
        without = [n for n in left if n != number]
        if not _satisfiable(schema, [m for m in masks if set(m.numbers) <= set(without)]):
            left = without
    named = "; ".join(f"{n + 1} ({schema.constraints[n].text})" for n in left)
    raise SchemaError(
        f"the schema's constraints exclude every row; these contradict each other: {named}"
    )


def _satisfiable(schema: Schema, masks: Sequence[Mask]) -> bool:
    """Whether a row without nulls and without values outside the domain satisfies the masks."""
    names = {c for m in masks for c in m.clique}
    domain = Domain({name: size for name, size in schema.domain.items() if name in names})
    flat: list[tuple[Clique, np.ndarray]] = [(m.clique, m.impossible) for m in masks]
    flat += [((a,), np.arange(n) >= schema.columns[a].base) for a, n in domain.items()]
    return has_possible_row(domain, merged_masks(flat))


def has_possible_row(domain: Domain, impossible: Mapping[Clique, np.ndarray]) -> bool:
    """Whether some combination of codes is ruled out by none of the masks: one upward pass of
    messages over the junction tree of their cliques."""
    if not domain:
        return True
    tree = junction_tree(domain, list(impossible))
    possible = [np.ones(domain.shape(c), bool) for c in tree.cliques]
    for clique, mask in impossible.items():
        i = next(i for i, c in enumerate(tree.cliques) if set(clique) <= set(c))
        possible[i] &= laid(~mask, clique, tree.cliques[i])
    around = tree.neighbours()
    seen: set[int] = set()

    def collect(i: int, parent: int | None) -> np.ndarray:
        """Cells of clique i that some possible row of its subtree, seen from `parent`, extends."""
        seen.add(i)
        table = possible[i]
        for j in around[i]:
            if j != parent:
                kept = tuple(a for a in tree.cliques[j] if a in tree.cliques[i])
                away = tuple(k for k, a in enumerate(tree.cliques[j]) if a not in kept)
                table = table & laid(np.any(collect(j, i), axis=away), kept, tree.cliques[i])
        return table

    return all(bool(collect(i, None).any()) for i in range(len(tree.cliques)) if i not in seen)
