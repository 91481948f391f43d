"""What holds for every test: busy machines are no failures, so property tests have no deadline and
may draw slowly; and a commit passes or fails by itself, not by chance.

`make test` draws the same examples every time, and every draw that a test leaves to the operating
system (noise without a seed, seeds of samples, keys of user ids) comes from a stream that the
test's name begins. Processes that a test starts draw fresh bits, and so do tests marked `fresh`.
`make fuzz` sets FASTDP_FUZZ: fresh examples, fresh bits.
"""

import gc
import hashlib
import os
import secrets
import threading
from collections.abc import Callable, Generator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

from fastdp.privacy import noise

PATIENT = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
FUZZ = bool(os.environ.get("FASTDP_FUZZ"))
settings.register_profile("gate", derandomize=True, max_examples=30, **PATIENT)
settings.register_profile("fuzz", **PATIENT)
settings.load_profile("fuzz" if FUZZ else "gate")


class Bits:
    """Random bytes that depend on a name, on the process (a forked child draws others than its
    parent) and on how many were drawn."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._count = 0
        self._lock = threading.Lock()
        self._process = os.getpid()

    def __call__(self, size: int | None = None) -> bytes:
        with self._lock:
            self._count += 1
            branch = "" if os.getpid() == self._process else os.getpid()
            return hashlib.shake_256(f"{self._name}:{branch}:{self._count}".encode()).digest(
                size or 32
            )

    def integer(self, bits: int) -> int:
        return int.from_bytes(self((bits + 7) // 8)) >> (-bits % 8)


_bits: list[Bits | None] = [None]  # the stream in use is the last one; None: fresh bits


def _key(seed: int | None, key: Callable[[int | None], Any] = noise._key) -> Any:
    bits = _bits[-1]
    return key(bits.integer(256) if seed is None and bits else seed)


def _randbits(k: int, fresh: Callable[[int], int] = secrets.randbits) -> int:
    bits = _bits[-1]
    return bits.integer(k) if bits else fresh(k)


def _token_bytes(
    size: int | None = None, fresh: Callable[..., bytes] = secrets.token_bytes
) -> bytes:
    bits = _bits[-1]
    return bits(size) if bits else fresh(size)


def pytest_collection_finish() -> None:
    """Modules and tests stay to the end: the garbage collector need not walk through them again. It
    looks less often at what tests make: at Python's own threshold it takes a tenth of their time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000)


def pytest_sessionfinish() -> None:
    gc.unfreeze()


def pytest_configure() -> None:
    """Examples are also the same whatever numbers and texts stand in the package; to look for them
    would take each process as long as to import all tests."""
    if not FUZZ:
        providers._get_local_constants = lambda: providers._local_constants
        noise._key = _key
        secrets.randbits = _randbits
        secrets.token_bytes = _token_bytes


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    """A stream for the test and for its own fixtures."""
    _bits.append(None if item.get_closest_marker("fresh") else Bits(item.nodeid))
    try:
        return (yield)
    finally:
        _bits.pop()


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(
    fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest
) -> Generator[None, Any, Any]:
    """A stream for a fixture that several tests share, whichever of them comes first."""
    if fixturedef.scope == "function":
        return (yield)
    parameter = getattr(request, "param", "")
    _bits.append(Bits(f"{fixturedef.baseid}::{fixturedef.argname}[{parameter!r:.80}]"))
    try:
        return (yield)
    finally:
        _bits.pop()
