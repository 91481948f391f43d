"""Random numbers of decoding, and numbers drawn inside the bins of a column.

Every random number is a fixed function of (seed, column, purpose, row)."""

from __future__ import annotations

import hashlib

import numpy as np

from .._core import codes as core
from ..schema import dtypes
from ..schema.bins import BinColumn, Bins, digits
from ..schema.epoch import per_unit


def stream_key(seed: int, column: str, purpose: str = "") -> int:
    """The 64-bit key of a column's random stream."""
    text = f"fastdp decode\x00{seed}\x00{column}\x00{purpose}"
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def uniform(seed: int, column: str, purpose: str, row: int, count: int) -> np.ndarray:
    """One number in [0, 1) for each of `count` rows from `row` on."""
    u = np.empty(count, dtype=np.float64)
    core.uniform(stream_key(seed, column, purpose), row, u)
    return u


def empty_numbers(column: BinColumn, rows: int) -> np.ndarray:
    """Room for the column's numbers as Arrow stores them."""
    family = dtypes.family(column.dtype)
    if family in ("int", "float"):
        return np.empty(rows, dtype=dtypes.machine_dtype(dtypes.arrow(column.dtype)))
    return np.empty(rows, dtype=np.int64 if column.whole or family == "decimal" else np.float64)


def numbers_in_bins(
    column: BinColumn, bins: Bins, codes: np.ndarray, seed: int, row: int, stream: str = ""
) -> np.ndarray:
    """`_raw_numbers` of the column's own random stream; in the rows that share their rank with
    another column (`rank`), of that column's stream."""
    own = _raw_numbers(column, bins, codes, stream_key(seed, column.name, stream), row)
    if column.rank is None:
        return own
    like = _raw_numbers(column, bins, codes, stream_key(seed, column.rank.like, stream), row)
    shared = uniform(seed, column.name, "rank", row, len(codes)) < column.rank.share
    return np.where(shared if own.ndim == 1 else shared[:, None], like, own)


def _raw_numbers(
    column: BinColumn, bins: Bins, codes: np.ndarray, key: int, row: int
) -> np.ndarray:
    """Numbers drawn in their bins as Arrow stores them. Decimals are in units of their last digit,
    and as two words each where 64 bits may not hold them."""
    family = dtypes.family(column.dtype)
    more = 1
    if family == "decimal":
        more = 10 ** (dtypes.decimal_scale(column.dtype) - digits(column))
    if bins.base is not None and bins.near is not None:
        drawn = np.empty(len(codes))
        _draw(bins.near, codes, 1.0, key, row, drawn)
        if family == "decimal":
            exact = ((bins.base[c] + int(x)) * more for c, x in zip(codes.tolist(), drawn.tolist()))
            words = b"".join(number.to_bytes(16, "little", signed=True) for number in exact)
            return np.frombuffer(words, "<i8").reshape(-1, 2)
        # Modulo 2^64: a bin may be wider than int64, the sum is not.
        drawn = np.where(np.abs(drawn) < 2.0**63, drawn, drawn - np.copysign(2.0**64, drawn))
        start = np.array([base % (1 << 64) for base in bins.base], np.uint64)
        return (start[codes] + drawn.astype(np.int64).view(np.uint64)).view(
            f"{column.dtype[:-2]}64"
        )
    out = empty_numbers(column, len(codes))
    unit = 1.0 if family == "decimal" else bins.unit
    if bins.grids:
        np.copyto(out, _on_grids(bins, codes, key, row) / unit, casting="unsafe")
    else:
        _draw(bins, codes, unit, key, row, out)
    if family == "decimal":
        out *= more
    elif column.temporal:
        out *= per_unit(column.dtype)
    return out


def _on_grids(bins: Bins, codes: np.ndarray, key: int, row: int) -> np.ndarray:
    """Numbers in units of the last digit, of which each grid has its part."""
    out = np.empty(len(codes))
    choice = np.empty(len(codes))
    _draw(bins, codes, 1.0, key, row, out)
    core.uniform(stream_key(key, "", "grid"), row, choice)
    chosen = np.zeros(len(codes), bool)
    drawn = np.empty(len(codes))
    for grid in bins.grids:
        here = ~chosen & (choice < grid.below[codes])
        if here.any():
            _draw(grid.bins, codes, 1.0, key, row, drawn)
            out[here] = grid.at + grid.step * drawn[here]
        chosen |= here
    return out


def _draw(bins: Bins, codes: np.ndarray, unit: float, key: int, row: int, out: np.ndarray) -> None:
    core.draw(
        codes=codes,
        lo=bins.lo,
        hi=bins.hi,
        mean=bins.mean,
        low=bins.low,
        high=bins.high,
        whole=bins.whole,
        unit=unit,
        key=key,
        row0=row,
        out=out,
    )
