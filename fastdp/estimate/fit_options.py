"""What the caller may choose about a fit: one frozen struct, checked when it is made."""

from msgspec import Struct

from ..errors import UsageError

STOPS = ("noise", "risk", "refined", "tol", "iters")
METHODS = ("auto", "dual", "flow", "accelerated", "mirror-descent")
TABLES = ("float64", "float32")

MOST_CALLS = 10_000
"""Calls of the oracle that end any fit by mirror descent."""

NOISY = 1e-4
"""Default of `tol` where the noise ends the fit, so that the loss need not be known well."""
EXACT = 1e-6
"""Default of `tol` where the least loss is wanted."""


class Options(Struct, frozen=True, kw_only=True):
    """See `estimate.fit`. `flow`, for strategies alone: stop="iters" also ends once the mirror flow
    has run for this long, in rows. A cell of x rows with noise sigma has then relaxed by about
    exp(-x flow / sigma^2)."""

    stop: str = "noise"
    method: str = "auto"
    tol: float | None = None
    iters: int | None = None
    tables: str = "float64"
    slack: float = 0.0
    max_cells: int | None = None
    flow: float | None = None

    def __post_init__(self):
        if self.stop not in STOPS:
            raise UsageError(
                f'stop must be "noise", "risk", "refined", "tol" or "iters", got {self.stop!r}'
            )
        if self.tol is not None and not self.tol > 0:
            raise UsageError(f"tol must be positive, got {self.tol!r}")
        if self.iters is not None and (int(self.iters) != self.iters or self.iters < 1):
            raise UsageError(f"iters must be a whole number >= 1, got {self.iters!r}")
        if self.stop == "iters" and self.iters is None:
            raise UsageError('stop="iters" needs iters=, the number of iterations')
        if self.method not in METHODS:
            raise UsageError(f"method must be one of {', '.join(METHODS)}, got {self.method!r}")
        if self.tables not in TABLES:
            raise UsageError(f'tables must be "float64" or "float32", got {self.tables!r}')

    @property
    def calls(self) -> int:
        return self.iters if self.iters is not None else MOST_CALLS

    @property
    def small(self) -> float:
        """The relative fall of the loss, over ten calls, below which there is no progress."""
        if self.tol is not None:
            return self.tol
        return NOISY if self.stop == "noise" else EXACT
