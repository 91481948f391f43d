"""Fits archetypes on public data and saves them in a folder: `fastdp archetypes fit`."""

from __future__ import annotations

import os
from typing import Any

from ..errors import UsageError
from ..mechanisms import recipe as recipes
from ..mechanisms.archetypes import Archetypes
from ..public.archetypes import archetype_store as store
from ..public.archetypes.fit import fit
from ..public.archetypes.options import options_of
from .public_data import read_public
from .validate import resolve_schema


def fit_folder(
    public: Any,
    out: str | os.PathLike,
    mechanism: Any = "taxi-archetypes",
    *,
    schema: Any = None,
    dialect: Any = None,
    archetypes: int | str | None = None,
    threads: int | None = None,
) -> dict[str, Any]:
    """Fits archetypes on public data as a recipe says and saves them; returns their description as plain
    data.

    archetypes: overrides the recipe's number; "auto" chooses it by held-out likelihood. The recipe must then
    leave the number open, or a later run with it will refuse the folder. dialect: of text files, in place of
    the schema's.
    """
    recipe = recipes.load(mechanism)
    config = recipe.config(1.0)
    if not isinstance(config, Archetypes):
        raise UsageError(f"{recipe.name!r} is no recipe of the archetypes mechanism")
    if os.path.exists(out):
        raise UsageError(f"{os.fspath(out)} exists already; remove it or choose another --out")
    wanted = config.wanted()
    if archetypes is not None:
        wanted["archetypes"] = _number(archetypes)
    options = options_of(wanted)
    own_schema = resolve_schema(schema, recipe)
    options.resolve(own_schema.domain)
    own_schema = own_schema.with_dialect(dialect)
    with read_public(public, own_schema, config.public_relabel, threads=threads) as table:
        model = fit(table, options, threads=threads)
    store.save(model, own_schema, out)
    return {
        "archetypes": model.describe(),
        "held_out": list(model.evidence),
        "sha256": model.digest(),
    }


def _number(text: int | str) -> int | str:
    if text == "auto":
        return text
    try:
        return int(text)
    except ValueError:
        raise UsageError(f"--archetypes: a whole number or auto, got {text!r}") from None
