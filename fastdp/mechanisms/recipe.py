"""Recipes: a mechanism's name and the fields of its config, as TOML.

Any field may depend on epsilon: `clip = [{ up_to = 1, value = 150 }, { value = 200 }]` is 150 for
epsilon <= 1 and 200 above. Steps are tried in order; the last one must not have `up_to`, so that
every epsilon has a value.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import resources
from os import PathLike
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from .._util.files import as_path
from .._util.invalid import explain_invalid
from ..errors import SchemaError, UsageError, did_you_mean
from ..privacy.clip import resolve as resolve_clip
from ..schema import Schema
from . import get, names
from .base import Config
from .limits.structural_zeros import StructuralZeros
from .registry import DEFAULT, MECHANISMS
from .with_users import check_users

AUTO = "auto"
"""The name that stands for `registry.DEFAULT`."""


class Recipe(Struct, frozen=True):
    """A mechanism with its fields, not yet resolved for an epsilon. `schema`: a name or path, if
        the recipe has one. `name` goes into released statements: of a recipe given by path, the file's
    name alone. `numbers`: what the recipe asks for beside rows, as it is written."""

    mechanism: str
    fields: Mapping[str, Any] = field(default_factory=dict)
    schema: str | None = None
    name: str = ""
    numbers: Any = None
    values: Any = None

    def config(self, epsilon: float) -> Config:
        """The mechanism's config at this epsilon; UsageError names recipe and field."""
        kind = get(self.mechanism)
        known = kind.__struct_fields__
        for key in self.fields:
            if key not in known:
                raise UsageError(
                    f"{self._error_start('')}unknown field {key!r}{did_you_mean(key, known)}"
                )
        resolved = {
            key: _at_epsilon(value, epsilon, self._error_start(key))
            for key, value in self.fields.items()
        }
        try:
            return msgspec.convert(resolved, kind)
        except msgspec.ValidationError as error:
            raise UsageError(f"{self._error_start('')}{explain_invalid(error, kind)}") from error

    def with_limits(self, **limits: Any) -> Recipe:
        """The recipe with these fields (None: not given) set; UsageError if the mechanism has no
        such field."""
        limited = {key: value for key, value in limits.items() if value is not None}
        for key in sorted(limited.keys() - {*get(self.mechanism).__struct_fields__}):
            having = ", ".join(n for n in names() if key in get(n).__struct_fields__) or "none"
            raise UsageError(
                f"{self.mechanism} has no field {key!r}; mechanisms that have it: {having}"
            )
        return replace(self, fields={**self.fields, **limited}) if limited else self

    def _error_start(self, key: str) -> str:
        """Recipe and field, as an error text begins with them."""
        start = (
            f"recipe {self.name!r}" if self.name and self.name != self.mechanism else self.mechanism
        )
        return f"{start}, field {key!r}: " if key else f"{start}: "


def builtin() -> tuple[str, ...]:
    """Names of the recipes that come with fastdp."""
    folder = resources.files("fastdp") / "recipes"
    return tuple(sorted(f.name[:-5] for f in folder.iterdir() if f.name.endswith(".toml")))


def load(mechanism: str | PathLike | Mapping | Config | Recipe) -> Recipe:
    """A recipe from a mechanism's name, a built-in recipe's name, a path to TOML, a mapping or a
    config object."""
    if isinstance(mechanism, Recipe):
        return mechanism
    if isinstance(mechanism, Config):
        return Recipe(
            type(mechanism).name, msgspec.to_builtins(mechanism), name=type(mechanism).name
        )
    if isinstance(mechanism, Mapping):
        return _parse(dict(mechanism), "given as a mapping", None)
    text = str(mechanism)
    if text == AUTO:
        return Recipe(DEFAULT, name=AUTO)
    if text in MECHANISMS or (text not in builtin() and MECHANISMS.outside(text)):
        get(text)
        return Recipe(text, name=text)
    if text in builtin():
        source = (resources.files("fastdp") / "recipes" / f"{text}.toml").read_text("utf-8")
        return _parse(_toml(source, text), text, None)
    path = as_path(text, "a recipe")
    if path.suffix == ".toml" or path.exists():
        try:
            source = path.read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"recipe {text}: cannot be read ({error})") from error
        return replace(_parse(_toml(source, text), text, path.parent), name=path.name)
    meant = did_you_mean(text, (AUTO, *names(), *builtin()))
    choices = ", ".join((AUTO, *names(), *builtin()))
    raise UsageError(
        f"there is no mechanism or recipe {text!r}: choose one of {choices}, or give the path of a "
        f".toml file{meant}"
    )


def check_config(config: Config, schema: Schema) -> StructuralZeros:
    """The structural zeros of the schema's constraints. Raises where a mechanism's fields do not
    fit the schema, before anything is read or charged."""
    resolve_clip(config.clip, schema)
    likely = schema.stand_in()
    config.check_names(likely)
    zeros = config.check_all(likely)
    check_users(config, schema)
    return zeros


@contextmanager
def naming(recipe: Recipe) -> Iterator[None]:
    """A block whose errors about columns say for which schema the recipe was written."""
    try:
        yield
    except SchemaError as error:
        if recipe.schema is None:
            raise
        where = f"recipe {recipe.name!r}, which is written for the schema {recipe.schema!r}"
        raise SchemaError(f"{where}: {error}") from None


def _toml(source: str, name: str) -> dict:
    try:
        return tomllib.loads(source)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"recipe {name}: not TOML ({error})") from error


def _parse(fields: dict, name: str, folder: Path | None) -> Recipe:
    mechanism = fields.pop("mechanism", None)
    if not isinstance(mechanism, str):
        raise UsageError(
            f'recipe {name}: the mechanism is missing; add a line such as mechanism = "adagrid"'
        )
    schema = fields.pop("schema", None)
    numbers = fields.pop("numbers", None)
    values = fields.pop("values", None)
    if schema is not None and not isinstance(schema, str):
        raise UsageError(
            f"recipe {name}, field 'schema': expected a name or a path, got {type(schema).__name__}"
        )
    if schema and folder:
        schema = _beside_recipe(folder, schema)
    if isinstance(values, Mapping) and folder:
        values = {column: _beside_recipe(folder, given) for column, given in values.items()}
    get(mechanism)
    return Recipe(mechanism, fields, schema, name, numbers, values)


def _beside_recipe(folder: Path, given: Any) -> Any:
    """The path of a file next to the recipe, where there is one; anything else as it is."""
    near = isinstance(given, str) and (folder / given).exists()
    return str(folder / given) if near else given


def _is_steps(value: Any) -> bool:
    """Whether a field has values by epsilon: `{ up_to = ..., value = ... }`."""
    if not isinstance(value, list | tuple) or not value:
        return False
    return all(
        isinstance(v, Mapping) and "value" in v and set(v) <= {"up_to", "value"} for v in value
    )


def _at_epsilon(value: Any, epsilon: float, where: str) -> Any:
    """The value at this epsilon; steps by epsilon are resolved at any depth of the field."""
    if _is_steps(value):
        last = -math.inf
        for step in value[:-1]:
            edge = step.get("up_to")
            if isinstance(edge, bool) or not isinstance(edge, int | float) or not edge > last:
                raise UsageError(
                    f"{where}every step except the last needs `up_to`, in ascending order"
                )
            last = edge
        if "up_to" in value[-1]:
            raise UsageError(
                f"{where}the last step must not have `up_to`: it covers every larger epsilon"
            )
        chosen = next(s for s in value if epsilon <= s.get("up_to", math.inf))
        return _at_epsilon(chosen["value"], epsilon, where)
    if isinstance(value, Mapping):
        return {k: _at_epsilon(v, epsilon, where) for k, v in value.items()}
    return (
        [_at_epsilon(v, epsilon, where) for v in value]
        if isinstance(value, list | tuple)
        else value
    )
