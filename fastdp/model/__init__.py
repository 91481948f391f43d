"""The graphical model: its junction tree, tables, marginals, rows and file.

`junction_tree` and `layout` say which cliques a model has and where their tables lie, `graphical_model`
answers and samples (`marginals`, `out_of_clique`, `sampler`), `array_file` stores arrays, `adjust` moves
tables to given sums. `estimate/` fits models. Never sees private data: imports no schema, no table, nothing
of privacy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .graphical_model import Model

__all__ = ["Model"]


def __getattr__(name: str) -> Any:
    """Imports `Model` when first used: `junction_tree` alone must stay cheap to import."""
    if name != "Model":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .graphical_model import Model

    globals()["Model"] = Model
    return Model
