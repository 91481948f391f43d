"""Saves an archetype model in a folder: `archetypes.json` describes it, and every array is a `.npy` file.
Pickle is not used.

The JSON file lists the SHA-256 of each array, so damage is detected when the folder is read. Forgery is not
detected: whoever can write the arrays can write the list too.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from ..._util.files import replacing
from ...domain import Clique, Domain
from ...errors import DataError, RunError, UsageError
from ...schema import Schema
from ..ids import Habits
from .conditional import Groups, Link
from .mixture import Mixture
from .model import PublicModel
from .options import Options, options_of

FORMAT, VERSION = "fastdp-archetypes", 1
HEAD, SCHEMA = "archetypes.json", "schema.json"


def save(model: PublicModel, schema: Schema, out: str | os.PathLike) -> Path:
    """Writes the folder atomically. RunError if it exists."""
    out = Path(out)
    if out.exists():
        raise RunError(f"{out} exists already; remove it or choose another --out")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with replacing(out) as aside:
            _write(model, schema, aside)
    except OSError as error:
        raise RunError(f"cannot write {out}: {error.strerror}") from error
    return out


def _write(model: PublicModel, schema: Schema, folder: Path) -> None:
    folder.mkdir()
    digests = {}
    for name, array in model.arrays().items():
        data = io.BytesIO()
        np.save(data, np.ascontiguousarray(array), allow_pickle=False)
        (folder / f"{name}.npy").write_bytes(data.getvalue())
        digests[name] = hashlib.sha256(data.getvalue()).hexdigest()
    schema.save(folder / SCHEMA)
    head = {
        "format": FORMAT,
        "version": VERSION,
        "schema_sha256": model.schema_digest,
        "domain": dict(model.domain),
        "options": msgspec.to_builtins(model.options),
        "habits": list(model.habits.columns),
        "prior": [list(c) for c in model.prior],
        "archetypes": model.describe(),
        "held_out": list(model.evidence),
        "arrays": digests,
    }
    (folder / HEAD).write_text(json.dumps(head, indent=1, allow_nan=False) + "\n", "utf-8")


def is_folder(source: Any) -> bool:
    """Whether this is the path of a saved archetype model."""
    return isinstance(source, str | os.PathLike) and (Path(source) / HEAD).is_file()


def schema_of(source: Any) -> Schema | None:
    """The schema that a saved model was fitted with; None if `source` is not a saved model."""
    if not is_folder(source):
        return None

    return Schema.load(Path(source) / SCHEMA)


def load(folder: str | os.PathLike) -> PublicModel:
    """A saved model; DataError says what is missing or damaged."""
    folder = Path(folder)
    try:
        head = json.loads((folder / HEAD).read_text("utf-8"))
        if head.get("format") != FORMAT or head.get("version") != VERSION:
            raise DataError(f"{folder}: not an archetype model of version {VERSION}; fit it again")
        arrays = {name: _array(folder, name, digest) for name, digest in head["arrays"].items()}
        return _model(head, arrays)
    except OSError as error:
        raise DataError(f"{folder}: cannot be read as an archetype model ({error.strerror})") from error
    except (AttributeError, KeyError, TypeError, ValueError, msgspec.ValidationError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{folder}: {HEAD} is damaged ({type(error).__name__}); fit it again") from error


def _array(folder: Path, name: str, digest: str) -> np.ndarray:
    if "/" in name or name.startswith("."):
        raise DataError(f"{folder}: {HEAD} names an array outside the folder")
    data = (folder / f"{name}.npy").read_bytes()
    if hashlib.sha256(data).hexdigest() != digest:
        raise DataError(f"{folder}: {name}.npy is damaged; fit it again")
    return np.load(io.BytesIO(data), allow_pickle=False)


def _model(head: dict, arrays: dict[str, np.ndarray]) -> PublicModel:
    options = msgspec.convert(head["options"], Options)
    domain = Domain(head["domain"])
    resolved = options.resolve(domain)
    columns: Clique = tuple(head["habits"])

    def groups(start: str) -> Groups:
        return Groups(*(arrays[f"{start}-{k}"] for k in ("keys", "start", "values", "counts")))

    links = tuple(
        Link(
            target,
            levels,
            tuple(domain.shape(level) for level in levels),
            tuple(groups(f"chain-{i}-{j}") for j in range(len(levels))),
        )
        for i, (target, levels) in enumerate(resolved.links)
    )
    parts = ("centre", "spread", "weights", "means", "covariances")
    return PublicModel(
        options=options,
        schema_digest=head["schema_sha256"],
        domain=domain,
        mixture=Mixture(*(arrays[f"mixture-{p}"] for p in parts)),
        labels=arrays["labels"],
        archetype=arrays["user-archetype"],
        trait=arrays.get("user-trait"),
        habits=Habits(
            columns, domain.shape(columns), *(arrays[f"habits-{p}"] for p in ("indptr", "cells", "counts"))
        ),
        places=groups("places"),
        ways={name: arrays[f"ways-{i}"] for i, name in enumerate(domain)},
        links=links,
        prior={
            tuple(c): (arrays[f"prior-{i}-cells"], arrays[f"prior-{i}-counts"])
            for i, c in enumerate(head["prior"])
        },
        evidence=tuple(head["held_out"]),
    )


class Saved:
    """A saved model used in place of a public table: implements those methods of `mechanisms.base.Public`
    that need only the model."""

    def __init__(self, folder: str | os.PathLike):
        self.folder = Path(folder)
        schema = schema_of(folder)
        if schema is None:
            raise DataError(f"{self.folder} is no archetype model: {HEAD} is missing")
        self.schema: Schema = schema

    @cached_property
    def model(self) -> PublicModel:
        return load(self.folder)

    def check_archetypes(self, wanted: Mapping[str, Any]) -> None:
        """UsageError if the model was fitted with options other than those of the recipe."""
        fitted = msgspec.to_builtins(self.model.options)
        asked = msgspec.to_builtins(options_of({"features": self.model.options.features, **wanted}))
        wrong = [name for name in wanted if asked[name] != fitted[name]]
        if wrong:
            raise UsageError(
                f"{self.folder} was fitted with other {', '.join(wrong)} than the recipe's; fit it again "
                "with the recipe"
            )

    def archetypes(self, wanted: Mapping[str, Any]) -> PublicModel:
        self.check_archetypes(wanted)
        return self.model

    def marginals(self, cliques, recode=None) -> dict:
        raise UsageError(f"{self.folder} is an archetype model; this mechanism needs the public data itself")

    def associations(self, recode=None, max_cells: int = 0) -> dict:
        raise UsageError(f"{self.folder} is an archetype model; this mechanism needs the public data itself")

    def prior_cliques(self) -> list[Clique]:
        return list(self.model.prior)

    def check_habits(self) -> None:
        raise UsageError(f"{self.folder} is an archetype model; this mechanism needs the public data itself")

    def habits(self, columns) -> Habits:
        raise UsageError(f"{self.folder} is an archetype model; this mechanism needs the public data itself")

    def choose_outer(self) -> list[Clique]:
        raise UsageError(f"{self.folder} is an archetype model; this mechanism needs the public data itself")
