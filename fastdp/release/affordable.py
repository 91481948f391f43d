"""Whether the sampler draws all noise that a run may need, decided before the run is charged."""

from ..errors import PrivacyError
from ..measurement import SCALE
from ..privacy import scale
from ..privacy.accountant import Event, Gaussian, Threshold

TINY = 1e-300
PARTS_PER_COLUMN = 16
"""Bounds the noise of any step of a run: it is at most this times the columns (at least
LEAST_COLUMNS) times the noise of one marginal with the whole budget. The largest noise of all
mechanisms is that of distances of all pairs of n columns in a screening round of `cliquetree`. 16 n
covers it by a factor of 3 (8 columns) to 2 (300)."""
LEAST_COLUMNS = 8
"""Fewer columns count as this many."""


def check_affordable(clip: int, cap: Event, columns: int) -> None:
    """Raise PrivacyError, before anything is charged, if a step of a run could need more noise than
    the sampler draws exactly."""
    if isinstance(cap, Gaussian | Threshold):
        whole = clip * SCALE / max(cap.mu, TINY)
    else:
        whole = 1 / max(cap.epsilon, TINY)
    worst = whole * PARTS_PER_COLUMN * max(columns, LEAST_COLUMNS)
    if worst > scale.MAX_SCALE:
        raise PrivacyError(
            f"the noise of a clip of {clip:,} rows per user at this epsilon and delta could be"
            " larger than fastdp draws exactly; choose a smaller clip or a larger epsilon. Nothing"
            " was charged"
        )
