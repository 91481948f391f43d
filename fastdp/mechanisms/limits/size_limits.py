"""How large a model may be: from memory and time as public numbers, before anything is reserved or
read.

Nothing is timed in a run: what it does would then depend on the machine, and a resumed run would do
something else.
"""

from ...errors import UsageError

DEFAULT_CELLS = 3 << 20
"""Default limit on junction tree cells of a mechanism that fits a few times. Chosen on adult at
epsilon 10, where this limit is reached (docs/explain/cliquetree.md)."""
CELL_BYTES = 200
"""Peak memory of a run in bytes per cell of its junction tree, besides the data: the fit's tables,
potentials and copies."""
CELLS_PER_SECOND = 500_000
"""Junction tree cells allowed per second of `deadline`, which covers screening, fits and marginals
on two cores; a slow machine needs twice the time. Adult at epsilon 10 takes 0.6 processor seconds
per million cells beyond the first."""
LEAST_CELLS = 10_000
"""Cells that a model may have whatever `memory` and `deadline` say."""
PAIR_BYTES = 48
"""Bytes per cell of all pairs together: estimates, their integers, counts and copies."""
PUBLIC_PAIR_BYTES = 32
"""Further bytes per such cell with public priors: counts, the prior and its integers."""


MAX_PAIR_CELLS = 1_000_000
"""The most cells of a pair of columns that mechanisms look at, where their recipe states no limit."""


def check(memory: int | None, deadline: float | None) -> None:
    """Raise ValueError if a limit is out of its range."""
    if memory is not None and memory < 1 << 24:
        raise ValueError("memory must be a number of bytes, at least 16 MiB")
    if deadline is not None and not 0 < deadline < float("inf"):
        raise ValueError("deadline must be a number of seconds above 0")


def model_cells(
    max_cells: int | None, memory: int | None, deadline: float | None, default: int = DEFAULT_CELLS
) -> int:
    """The most cells of the junction tree: `max_cells`, else what memory and deadline allow, else
    the default."""
    if max_cells is not None:
        return max_cells
    limits = []
    if memory is not None:
        limits.append(memory // 2 // CELL_BYTES)
    if deadline is not None:
        limits.append(int(deadline * CELLS_PER_SECOND))
    return max(LEAST_CELLS, min(limits)) if limits else default


def pair_cells(memory: int | None, most: int, public: bool) -> int:
    """The most cells of all pairs together, within `memory`; `public`: with public priors
    besides."""
    cost = PAIR_BYTES + (PUBLIC_PAIR_BYTES if public else 0)
    return most if memory is None else max(LEAST_CELLS, min(most, memory // 2 // cost))


def parse_bytes(text: str) -> int:
    """A number of bytes such as 4G, 512M or 2000000000."""
    units = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
    number = text.strip().upper().removesuffix("B").removesuffix("I")
    unit = number[-1:] if number[-1:] in units else ""
    try:
        return int(float(number.removesuffix(unit)) * units[unit])
    except (ValueError, OverflowError):
        raise UsageError(
            f"memory: expected a number of bytes such as 4G or 512M, got {text!r}"
        ) from None
