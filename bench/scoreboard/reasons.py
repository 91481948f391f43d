"""Why the default loses where it does: the first that fits a table, measure and rival is shown.

Names are patterns as of a shell. A loss without a reason is shown as one.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatch


@dataclass(frozen=True)
class Reason:
    text: str
    table: str = "*"
    measure: str = "*"
    rival: str = "*"
    epsilon: str = "*"


REASONS: tuple[Reason, ...] = (
    Reason(
        "the exclusive or of k columns shows in no marginal of fewer than k + 1: models trained on"
        " rows without it guess",
        table="xor*",
        measure="auc_*",
    ),
)
UNKNOWN = "not explained yet"


def why(table: str, measure: str, rival: str, epsilon: float) -> str:
    for one in REASONS:
        fits = (
            fnmatch(table, one.table)
            and fnmatch(measure, one.measure)
            and fnmatch(rival, one.rival)
            and fnmatch(f"{epsilon:g}", one.epsilon)
        )
        if fits:
            return one.text
    return UNKNOWN
