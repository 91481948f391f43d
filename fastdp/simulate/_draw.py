"""Fast seeded draws shared by the simulators: lookup tables, chunked streams, argument checks."""

import tomllib
from collections.abc import Callable
from importlib import resources
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .._util.threads import each, resolve
from ..errors import UsageError, is_whole

WORLD = tomllib.loads(resources.files(__package__).joinpath("world.toml").read_text("utf-8"))
"""Places, distances and rules that do not depend on a seed."""
BITS = 15
"""Random bits of one draw."""
CHUNK = 1 << 17
"""Rows of one chunk. The output depends on this number, so it must not change."""


def lookup(weights: ArrayLike) -> np.ndarray:
    """Tables that turn 15 random bits into a draw: [groups, 2**15] from weights [groups, n].

    Value v fills the share weights[group, v] / sum of its group's row, to a multiple of 2**-15. A
    value with a probability below 2**-15 may never be drawn. dtype uint8, or uint16 if n > 256.
    """
    weights = np.atleast_2d(np.asarray(weights, dtype=np.float64))
    cumulative = np.cumsum(weights, axis=1)
    edges = np.rint(cumulative / cumulative[:, -1:] * (1 << BITS)).astype(np.int64)
    lengths = np.diff(edges, axis=1, prepend=0)
    values = np.arange(weights.shape[1], dtype=np.uint8 if weights.shape[1] <= 256 else np.uint16)
    out = np.empty((len(weights), 1 << BITS), dtype=values.dtype)
    for row, count in zip(out, lengths, strict=True):
        row[:] = np.repeat(values, count)
    return out


def bits(rng: np.random.Generator, size: int) -> np.ndarray:
    """`size` draws of 15 bits, as int32, ready to index a row of `lookup`."""
    raw = np.frombuffer(rng.bytes(2 * size), dtype="<u2").astype(np.int32)
    raw >>= 1
    return raw


def pick(table: np.ndarray, group: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """One drawn value per entry of `group`, the number of a row of `table` (made by `lookup`)."""
    index = group.astype(np.int32)
    index <<= BITS
    index |= bits(rng, len(group))
    return table.ravel().take(index)


def in_chunks(
    rows: int,
    streams: np.random.SeedSequence,
    fill: Callable[[slice, np.random.Generator], None],
    threads: int | None = None,
) -> None:
    """Call `fill(slice of rows, generator)` for every chunk of CHUNK rows. Each chunk has its own
    generator, so the result does not depend on `threads`."""
    starts = range(0, rows, CHUNK)
    seeds = streams.spawn(len(starts))

    def one(chunk: tuple[int, np.random.SeedSequence]) -> None:
        start, seed = chunk
        fill(slice(start, min(rows, start + CHUNK)), np.random.Generator(np.random.SFC64(seed)))

    each(one, list(zip(starts, seeds)), resolve(threads))


def check_int(name: str, value: Any, low: int, high: int) -> int:
    """The argument as an int in [low, high], or a UsageError that says so."""
    if not is_whole(value, low, high):
        raise UsageError(f"{name} must be a whole number between {low} and {high}, got {value!r}")
    return int(value)


def rows_per_user(
    rows: int, rng: np.random.Generator, draw: Callable[[np.random.Generator, int], np.ndarray]
) -> np.ndarray:
    """int64 number of rows of each user, with sum `rows`. `draw(rng, n)` returns n numbers >= 1.
    As many users are made as the sum needs; the last one's number is reduced to reach it."""
    parts = []
    total = 0
    while total < rows:
        part = draw(rng, max(64, (rows - total) // 16))
        parts.append(part)
        total += int(part.sum())
    sizes = np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)
    ends = np.cumsum(sizes)
    users = int(np.searchsorted(ends, rows)) + 1 if rows else 0
    sizes = sizes[:users]
    if users:
        sizes[-1] -= int(ends[users - 1]) - rows
    return sizes


def distinct_ids(users: int, low: int, high: int, rng: np.random.Generator) -> np.ndarray:
    """int64: `users` different ids in [low, high], in scattered order (start + i * step modulo the
    range). The range must hold at least `users` numbers."""
    span = high - low + 1
    step = int(rng.integers(span // 3, span // 2)) | 1
    while np.gcd(step, span) != 1:
        step += 2
    start = int(rng.integers(span))
    return low + (start + step * np.arange(users, dtype=np.int64)) % span


def drift(year: int, base: int) -> float:
    """Years since `base`, smoothly limited to -10..10, so that tables of distant years stay
    plausible."""
    return float(10.0 * np.tanh((year - base) / 10.0))
