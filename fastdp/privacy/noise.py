"""Exact integer noise from the operating system's randomness.

`gaussian` draws a normal variable rounded to an integer, `laplace` a discrete Laplace variable.
Both are exact up to a total variation distance below 2^-117 per sample; distributions, proof and
limits are in docs/explain/noise.md. Every call takes a fresh 256-bit key from the operating system
for a ChaCha20 stream, and wipes it before it returns. So nothing is shared between calls, threads
or forked processes.

`seed` exists for tests and benchmarks: noise drawn from a known seed protects nobody, and a run
that uses it is stamped as not private.
"""

import hashlib
import math
import operator
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastdp._util.threads import resolve
from fastdp.errors import PrivacyError, UsageError

SAMPLER = "rounded-gaussian/strips-chacha20/1"  # named in the privacy statement
LAPLACE_SAMPLER = "discrete-laplace/strips-chacha20/1"
LOG2_DISTANCE = -117
"""The total variation distance of a sample from its stated distribution is below 2 to this."""
SCALE_MIN = 1e-3
SCALE_MAX = float(1 << 54)
"""Scales in grid units that the samplers take (docs/explain/noise.md)."""
Size = int | tuple[int, ...]


def gaussian(
    sigma: float | ArrayLike, size: Size, *, seed: int | None = None, threads: int | None = None
) -> NDArray[np.int64]:
    """Independent draws of round(sigma * N(0, 1)), as int64 of shape `size`.

    P(k) = Phi((k + 1/2) / sigma) - Phi((k - 1/2) / sigma). `sigma` is in grid units, from 1e-3 to
    2^54: a scalar, or an array that broadcasts to `size`. Each double is taken as the exact
    rational it is. |k| <= 14 sigma + 1, so int64 cannot overflow.
    """
    return _draw("gaussian", "sigma", sigma, size, seed, threads)


def laplace(
    scale: float | ArrayLike, size: Size, *, seed: int | None = None, threads: int | None = None
) -> NDArray[np.int64]:
    """Independent draws of the discrete Laplace distribution, P(k) proportional to exp(-|k| /
    scale).

    Arguments as for `gaussian`. |k| <= 128 scale, so int64 cannot overflow.
    """
    return _draw("laplace", "scale", scale, size, seed, threads)


def fill_random_bytes(n: int, seed: int | None = None) -> bytes:
    """`n` independent uniform bytes, from a fresh key (or, for tests, from `seed`)."""
    if n < 0:
        raise UsageError(f"the number of random bytes must not be negative, got {n}")
    from fastdp._core import noise as core

    out = np.empty(n, dtype=np.uint8)
    key = _key(seed)
    with _drawing():
        core.random_bytes(key, out)
    return out.tobytes()


class Bits:
    """A growing binary fraction: `take(n)` gives the next n uniform bits as an int.

    With a seed the bits are a fixed sequence; without one each refill has its own fresh key.
    """

    def __init__(self, seed: int | None = None) -> None:
        self._seed = seed
        self._drawn = 0

    def take(self, bits: int) -> int:
        count = -(-bits // 8)
        if self._seed is None:
            data = fill_random_bytes(count)
        else:
            data = fill_random_bytes(self._drawn + count, self._seed)[self._drawn :]
            self._drawn += count
        return int.from_bytes(data, "little") >> (8 * count - bits)


def _draw(
    law: str, name: str, scale: float | ArrayLike, size: Size, seed: int | None, threads: int | None
) -> NDArray[np.int64]:
    """Samples of a law at one scale or at one for each, under a fresh key or that of a seed."""
    from fastdp._core import noise as core

    shape = _shape(size)
    scales = _scales(name, scale, shape)
    out = np.empty(math.prod(shape), dtype=np.int64)
    workers = resolve(threads)
    kernel = core.gaussian if law == "gaussian" else core.laplace
    key = _key(seed)
    with _drawing():
        kernel(scales, key, workers, out)
    return out.reshape(shape)


def _shape(size: Size) -> tuple[int, ...]:
    try:
        parts = size if isinstance(size, tuple | list) else (size,)
        shape = tuple(operator.index(n) for n in parts)
    except TypeError:
        raise UsageError(f"size must be an int or a tuple of ints, got {size!r}") from None
    if any(n < 0 for n in shape):
        raise UsageError(f"size must not be negative, got {size!r}")
    return shape


def _scales(name: str, scale: float | ArrayLike, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """One double, or one per draw, all in range."""
    try:
        values = np.asarray(scale, dtype=np.float64)
        if values.size != 1:
            values = np.broadcast_to(values, shape)
    except (TypeError, ValueError):
        raise UsageError(
            f"{name} must be a number or an array that broadcasts to {shape}"
        ) from None
    if not np.all((values >= SCALE_MIN) & (values <= SCALE_MAX)):
        raise UsageError(f"{name} must be between {SCALE_MIN:g} and {SCALE_MAX:g} grid units")
    return np.ascontiguousarray(values).reshape(-1)


def _key(seed: int | None) -> NDArray[np.uint32] | None:
    if seed is None:
        return None
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer):
        raise UsageError(f"seed must be an int or None, got {type(seed).__name__}")
    digest = hashlib.sha256(b"fastdp noise for tests, not private:" + str(int(seed)).encode())
    return np.frombuffer(digest.digest(), dtype="<u4").astype(np.uint32)


@contextmanager
def _drawing() -> Iterator[None]:
    """A context that turns errors of the sampler into a `PrivacyError`: no noise was drawn."""
    try:
        yield
    except OSError:
        raise PrivacyError(
            "the operating system did not provide random bits (getrandom failed); no noise "
            "was drawn"
        ) from None
    except ValueError:
        raise PrivacyError("the noise sampler rejected its arguments; no noise was drawn") from None
