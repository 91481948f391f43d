"""Why the default loses where it does: the first that fits a table, measure and rival is shown.

Names are patterns as of a shell. A loss without a reason is shown as one. A reason with an ablation
(`ablations`) is measured: the page says what is left of the loss without it. Others are read from
the mechanism and from other columns of the same table.
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
    ablation: str | None = None


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
        "fair coins: `independent` has all of the budget for single columns, of which the default"
        " spends part on pairs that do not matter",
        table="xor*",
        measure="worst_pair",
        rival="independent",
        ablation="same noise",
    ),
    Reason(
        "fair coins: uniform rows are nearly the truth, and cost no budget",
        table="xor*",
        measure="worst_pair",
        rival="uniform",
    ),
    Reason(
        "a few pairs are measured although noise is larger than they are, and their rows follow the"
        " noise",
        table="gauss?0-*",
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
        " the default are balanced and have less of it",
        measure="association",
        ablation="redrawn",
    ),
    Reason(
        "single columns: `independent` has all of the budget for them, the default a tenth to three"
        " quarters",
        measure="wasserstein",
        rival="independent",
        ablation="same noise",
    ),
    Reason(
        "single columns: `mst` gives them a third of its budget, the default less where there are"
        " few columns",
        measure="wasserstein",
        rival="mst",
    ),
    Reason(
        "single columns: MST gives them a third of its budget, the default less where there are few"
        " columns",
        measure="wasserstein",
        rival="*MST*",
    ),
    Reason(
        "the exclusive or is in no marginal that either measured: both guess",
        table="xor*",
        measure="auc_*",
        rival="* *",
    ),
    Reason(
        "600 rows: pairs are mostly noise, and every column by itself is the better guess",
        table="wide",
        rival="independent",
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


def reason(table: str, measure: str, rival: str, epsilon: float) -> Reason:
    for one in REASONS:
        fits = (
            fnmatch(table, one.table)
            and fnmatch(measure, one.measure)
            and fnmatch(rival, one.rival)
            and fnmatch(f"{epsilon:g}", one.epsilon)
        )
        if fits:
            return one
    return Reason(UNKNOWN)


def why(table: str, measure: str, rival: str, epsilon: float) -> str:
    return reason(table, measure, rival, epsilon).text
