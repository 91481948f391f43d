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
        "the exclusive or shows in no pair, so models of one column at a time guess on any rows,"
        " the true ones too",
        table="xor*",
        measure="auc_logistic",
    ),
    Reason(
        "the exclusive or of k columns shows in no marginal of fewer than k + 1; the model has none"
        " of these, so models trained on its rows guess, as those on uniform rows do",
        table="xor*",
        measure="auc_*",
    ),
    Reason(
        "fair coins: uniform rows are nearly the truth, and `independent` has all of the budget for"
        " single columns, of which the default spends part on pairs that do not matter",
        table="xor*",
        measure="worst_pair",
    ),
    Reason(
        "a few pairs are measured although noise is larger than they are, and their rows follow the"
        " noise (V 0.5 where the truth has 0.1, in 10 of 1,225 pairs)",
        table="gauss50-*",
        measure="worst_pair",
        epsilon="0.1",
    ),
    Reason(
        "all mechanisms are mostly noise here (few taxis, up to 200 trips each): errors near 1",
        table="taxi",
        measure="worst_pair",
        epsilon="0.1",
    ),
    Reason(
        "`mst` measures the five pairs with the large column alone; the default divides the budget"
        " among more marginals, and is better in the mean of pairs and of triples",
        table="huge",
        measure="worst_pair",
        rival="mst",
    ),
    Reason(
        "five columns: `mst` has all of its budget on four pairs; the default also measures triples,"
        " and is better in the mean of pairs and of triples",
        table="purchases",
        rival="mst",
    ),
    Reason(
        "V counts association by chance, which the truth and rows drawn at random have alike; rows of"
        " the default are balanced and have less of it (on `independent` .036, truth .047)",
        measure="association",
    ),
    Reason(
        "single columns: `independent` has all of the budget for them, the default a tenth to three"
        " quarters",
        measure="wasserstein",
        rival="independent",
    ),
    Reason(
        "single columns: `mst` gives them a third of its budget, the default less where there are"
        " few columns",
        measure="wasserstein",
        rival="mst",
    ),
    Reason(
        "600 rows: pairs are mostly noise, and every column by itself is the better guess",
        table="wide",
        measure="ranges",
    ),
    Reason(
        "the screening rounds find no pair above the noise, so rows have no dependence; `mst`"
        " measures a tree whatever the noise, which helps models and costs it the mean of pairs",
        table="gauss*",
        measure="auc_*",
        rival="mst",
        epsilon="0.1",
    ),
    Reason(
        "the income follows from another column: both are within 0.001 of a perfect model",
        table="acs-ma",
        measure="auc_boosting",
        epsilon="10",
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
