"""Where the numbers of a numeric column lie inside its bins: single values, steps, means, shared
ranks.

All of it is public: declared in the schema, or released by a run before its schema is finished.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

import msgspec
import numpy as np

from .._util.invalid import explain_invalid
from ..errors import SchemaError
from . import dtypes

PRIVATE = "private"
"""Value of an option whose numbers a run finds privately."""
EVEN = "even"
"""Value of an option that asks for evenly spread numbers."""
OPTIONS = ("atoms", "step", "endings", "grids", "means", "rank")


def fail(column: str, where: str, why: str) -> SchemaError:
    return SchemaError(f"column {column!r}, field {where!r}: {why}")


def without_none(**options: Any) -> dict[str, Any]:
    """The options that are not None."""
    return {key: value for key, value in options.items() if value is not None}


@dataclass(frozen=True)
class Tail:
    """Public distribution from which decoding draws values in an open bin: the distance of the
    value from the bin's finite edge.

    `exponential`: exponential with the given mean (geometric for whole numbers), cut off at the
    column's min or max; `uniform`: uniform over distances from 0 to `width`.
    """

    law: str = "exponential"
    mean: float | None = None
    width: float | None = None

    def to_plain(self) -> dict[str, Any]:
        return without_none(law=self.law, mean=self.mean, width=self.width)


class Grid(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The numbers `at` + k * `step` for whole k, which a share of the column's decoded values falls
    on."""

    step: float
    at: float = 0.0
    share: float = 1.0


class Rank(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """In a share of the rows, the value has the same rank within its bin as the value of column
    `like`."""

    like: str
    share: float = 1.0


def unit_of(dtype: str, whole: bool, digits: int | None) -> Decimal | None:
    """The distance between neighbouring values of a type; None for floats that are not rounded."""
    if whole or dtypes.family(dtype) in ("int", "date", "timestamp"):
        return Decimal(1)
    places = dtypes.decimal_scale(dtype) if dtypes.family(dtype) == "decimal" else None
    places = digits if digits is not None else places
    return None if places is None else Decimal(1).scaleb(-places)


def after(value: float, dtype: str, unit: Decimal | None) -> float:
    """The smallest value above `value`. Beyond 2^53 floats are further apart than units; edges are
    floats."""
    if unit is not None:
        return max(float(Decimal(repr(value)) + unit), math.nextafter(value, math.inf))
    if dtype == "float32":
        return float(np.nextafter(np.float32(value), np.float32(np.inf)))
    return math.nextafter(value, math.inf)


def with_atoms(column: Any) -> tuple[float, ...]:
    """The edges of a column in which every value of `atoms` is a bin of its own. SchemaError if a
    value is not one that the column can hold."""
    unit = unit_of(column.dtype, column.whole, column.digits)
    edges = set(column.edges)
    for i, atom in enumerate(column.atoms):
        where = f"atoms[{i}]"
        if unit is not None and not multiple(atom, unit):
            raise fail(
                column.name,
                where,
                f"{atom:g} must be a multiple of {unit}, the column's last digit",
            )
        if not column.edges[0] <= atom < column.edges[-1]:
            raise fail(
                column.name, where, f"{atom:g} is not in any bin: each ends below its upper edge"
            )
        edges |= {atom, after(atom, column.dtype, unit)}
    return tuple(sorted(edges))


def multiple(value: float, unit: Decimal) -> bool:
    return Fraction(repr(float(value))) % Fraction(unit) == 0


def takes_steps(column: Any, unit: Decimal) -> bool:
    """Whether a float holds every number of the column exactly, in units of its last digit."""
    return max(abs(e) for e in column.edges if math.isfinite(e)) / float(unit) < 1 << 53


def check_inside(column: Any) -> None:
    """Raise SchemaError if steps, means or rank do not fit the column."""
    unit = unit_of(column.dtype, column.whole, column.digits)
    if column.atoms == PRIVATE and (column.temporal or dtypes.family(column.dtype) == "decimal"):
        raise fail(column.name, "atoms", "are found of whole numbers and floats; list them")
    for i, grid in enumerate(column.grids):
        where = f"grids[{i}]"
        if unit is None:
            raise fail(column.name, where, "steps need rounded values; set whole = true or digits")
        if not (grid.step > 0 and multiple(grid.step, unit) and multiple(grid.at, unit)):
            raise fail(
                column.name,
                where,
                f"step and at must be multiples of {unit}, the column's last digit, and step > 0",
            )
        if not takes_steps(column, unit):
            raise fail(
                column.name, where, "steps need numbers of at most 2^53 units of the last digit"
            )
    if any(g.share < 0 for g in column.grids) or sum(g.share for g in column.grids) > 1 + 1e-9:
        raise fail(column.name, "grids", "shares must be at least 0 and add up to at most 1")
    if column.rank is not None and not 0 <= column.rank.share <= 1:
        raise fail(column.name, "rank", "share must lie between 0 and 1")
    if isinstance(column.means, str) or column.means is None:
        if column.means not in (None, PRIVATE, EVEN):
            raise fail(column.name, "means", f"expected a list of numbers, {PRIVATE!r} or {EVEN!r}")
        return
    if len(column.means) != column.base:
        raise fail(
            column.name,
            "means",
            f"expected {column.base} means, one per bin, got {len(column.means)}",
        )
    for i, mean in enumerate(column.means):
        low = column.edges[i]
        high = column.edges[i + 1]
        if not max(low, -math.inf) <= mean <= high or math.isinf(mean):
            raise fail(
                column.name, f"means[{i}]", f"{mean:g} is outside its bin [{low:g}, {high:g})"
            )


def parse_inside(name: str, plain: Mapping[str, Any], number: Any) -> dict[str, Any]:
    """The arguments `atoms`, `grids`, `means` and `rank` of a numeric column from its document;
    number(value, where): the value as a float, or SchemaError."""

    def listed(key: str) -> list[float]:
        value = plain.get(key, ())
        if not isinstance(value, Sequence) or isinstance(value, str):
            more = f" or {PRIVATE!r}" if key == "atoms" else ""
            raise fail(name, key, f"must be a list of numbers{more}")
        return [number(v, f"{key}[{i}]") for i, v in enumerate(value)]

    given = [k for k in ("step", "endings", "grids") if k in plain]
    if len(given) > 1:
        raise fail(name, given[1], f"give {given[0]} or {given[1]}, not both")
    grids = [Grid(number(plain["step"], "step"))] if "step" in plain else []
    endings = listed("endings")
    means = plain.get("means")
    rank = plain.get("rank")
    grids += [Grid(1.0, ending, 1 / len(endings)) for ending in endings]
    grids += _converted(name, "grids", plain.get("grids", ()), list[Grid])
    if not isinstance(means, str | None):
        means = tuple(listed("means"))
    return {
        "atoms": PRIVATE if plain.get("atoms") == PRIVATE else tuple(sorted(set(listed("atoms")))),
        "grids": tuple(grids),
        "means": means,
        "rank": None if rank is None else _converted(name, "rank", rank, Rank),
    }


def _converted(name: str, where: str, item: Any, kind: Any) -> Any:
    try:
        return msgspec.convert(item, kind)
    except msgspec.ValidationError as error:
        raise fail(name, where, explain_invalid(error, kind)) from None


def plain_inside(column: Any) -> dict[str, Any]:
    """The keys of the column's TOML table that say where its numbers lie inside bins."""
    atoms = PRIVATE if column.atoms == PRIVATE else [column._plain(a) for a in column.atoms]
    plain = {"atoms": atoms or None, "grids": column.grids or None, "means": column.means}
    plain["rank"] = column.rank
    return msgspec.to_builtins({key: value for key, value in plain.items() if value is not None})
