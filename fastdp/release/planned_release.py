"""What a kind of release is: a plan made of public facts, with all that a session asks of it.

A plan is made, and refuses what has no proof, before anything is charged. Private counts reach
`count` and `noisy` alone, which `Session` calls after the charge. Each kind has a module of its own.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from msgspec import Struct

from ..domain import Domain
from ..errors import UsageError
from ..privacy.accountant import Event
from .counts import Counts

Seeds = Callable[[int], int | None]
"""The seed of each draw of a step, by its position; None: the operating system's randomness."""


class PlannedRelease(Protocol):
    """One call of a session, worked out."""

    @property
    def question(self) -> dict:
        """All public facts that the answers depend on, for the step's digest."""
        ...

    @property
    def events(self) -> Sequence[Event]:
        """What is charged."""
        ...

    @property
    def draws(self) -> int:
        """How many random numbers `noisy` takes."""
        ...

    def count(self, counts: Counts) -> Any:
        """PRIVATE: the exact counts."""
        ...

    def noisy(self, exact: Any, seed: Seeds) -> list[np.ndarray]:
        """The arrays that are stored and released. It checks, as it draws, that the noise covers the
        sensitivity."""
        ...

    def lines(self, label: str) -> list[dict]:
        """Its lines of the statement."""
        ...


class Recoded(Struct, frozen=True, eq=False):
    """What is counted: `codes` (code -> new code of each recoded column), the `domain` after
    recoding, and the recoding's entry in the step's digest."""

    domain: Domain
    codes: dict[str, np.ndarray]
    digests: dict


def release_of(
    label: str,
    kind: str,
    about: Sequence[str],
    law: str,
    event: Event,
    sensitivity: float,
    sigma: float | np.ndarray | None,
    count: int,
) -> dict:
    """One line of the statement. `sensitivity` and `sigma` are in rows (or users): L2 for Gaussian
    noise, L1 for Laplace, change of the score for a selection."""
    release: dict[str, Any] = {
        "label": label,
        "kind": kind,
        "attributes": list(about),
        "law": law,
        "event": event.to_dict(),
        "sensitivity": sensitivity,
        "count": int(count),
    }
    if sigma is not None:
        release["sigma"] = float(np.min(sigma))
        if np.max(sigma) > np.min(sigma):
            release["sigma_max"] = float(np.max(sigma))
    return release


def recoded(domain: Domain, recode: Mapping[str, np.ndarray] | None) -> Recoded:
    """The domain with codes of some columns merged, or UsageError."""
    codes = {name: np.array(column) for name, column in sorted((recode or {}).items())}
    for name, column in codes.items():
        if column.ndim != 1 or column.dtype.kind not in "iu":
            raise UsageError(f"recoding {name!r}: expected codes as a 1-D array of whole numbers")
    if not codes:
        return Recoded(domain, {}, {})
    domain = domain.recoded(codes)
    codes = {name: column.astype(np.int64) for name, column in codes.items()}
    digests = {name: array_digest(column) for name, column in codes.items()}
    return Recoded(domain, codes, {"recode": digests})


def array_digest(*arrays: np.ndarray) -> str:
    h = hashlib.sha256()
    for array in arrays:
        h.update(f"{array.dtype.str}{array.shape}".encode())
        h.update(np.ascontiguousarray(array).tobytes())
    return h.hexdigest()


def positive(value: Any, what: str) -> float:
    value = float(value)
    if not 0 < value < np.inf:
        raise UsageError(f"{what} must be positive and finite, got {value!r}")
    return value
