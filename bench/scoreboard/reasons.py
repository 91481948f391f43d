"""Why the default loses where it does: the first that fits a table, measure and rival is shown.

Names are patterns as of a shell; several are divided by blanks. A loss without a reason is shown as
one. A reason with an ablation (`ablations`) is measured: the page says what is left of the loss
without it. Others are read from the mechanism and from other columns of the same table.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatch


@dataclass(frozen=True)
class Reason:
    """title: of its section on the page, which those with the same title share. text: some
    sentences, without the last full stop. The other fields say which losses it explains."""

    title: str
    text: str
    table: str = "*"
    measure: str = "*"
    rival: str = "*"
    epsilon: str = "*"
    ablation: str | None = None


NOISE = (
    "Pairs that noise makes stand out",
    "At epsilon 0.1 a few pairs are measured because noise makes them stand out, and rows follow that"
    " noise. Without it: every column of the default's rows is shuffled by itself",
)
TREE = (
    "All of the budget on one tree",
    "`mst` has all of its budget for pairs on one tree. The default divides it among more marginals,"
    " and on these tables is not worse in the mean of pairs or of triples. Without it: `mst` with so"
    " little budget that the pairs that both measured are as noisy as in the default",
)
REASONS: tuple[Reason, ...] = (
    Reason(
        "Rows that look for codes",
        "6,107 rows and columns of 64 codes and more: a pair has thousands of cells of two rows each."
        " `mst` merges values into fewer groups, since its single columns are noisier, and its pairs"
        " have less noise in them. Without it: values share a code in the default unless they stand"
        " eight standard errors above nothing, in place of three",
        table="acs-ma",
        measure="worst_pair auc_*",
        rival="mst",
        epsilon="1",
        ablation="coarser codes",
    ),
    Reason(
        "A column that nobody named",
        "The default measures pairs that stand out of the noise, and at epsilon 0.1 it finds both"
        " parents of the target in some runs only. `mst` measures a tree whatever the noise."
        " Without it: the recipe names the column that models predict (`target`)",
        table="causal",
        measure="auc_*",
        rival="mst",
        epsilon="0.1",
        ablation="target",
    ),
    Reason(
        *TREE,
        table="acs-ma wide",
        measure="worst_pair triples ranges auc_*",
        rival="mst",
        ablation="same noise",
    ),
    Reason(
        *TREE,
        table="factors",
        measure="correlation",
        rival="mst",
        epsilon="0.1",
        ablation="same noise",
    ),
    Reason(*TREE, table="functional", measure="association", rival="mst", ablation="same noise"),
    Reason(
        "Rows that follow large sets",
        "A column of 20,000 values has five others beside it. The default's model joins three and four"
        " columns, in cells of less than a row each, so its rows follow a single pair hardly more"
        " closely than rows drawn at random do. `mst` has pairs alone, and its rows follow them. The"
        " models are equally good. Without it: ten times as many rows of both",
        table="huge",
        measure="worst_pair",
        rival="mst",
        ablation="many rows",
    ),
    Reason(
        "A pair that is not measured",
        "`mst` measures the pair of country and shop, which the default finds to be worth"
        " less than other pairs, triples and tables about customers. The default is better in the"
        " mean of pairs and of triples",
        table="purchases",
        measure="worst_pair",
        rival="mst",
    ),
    Reason(
        "Chance in the rows themselves",
        "The columns are independent. `mst` measures association that these rows have by chance; the"
        " default finds that it does not stand out. Without it: errors beside the rows that were held"
        " out",
        table="independent",
        measure="worst_pair",
        rival="mst",
        ablation="held out",
    ),
    Reason(
        "Small association, shrunk",
        "Any two columns are independent but for chance. The default measures all pairs and shrinks"
        " what it finds: on two seeds of xor2 and xor5 its V follows the true V from pair to pair more"
        " closely than that of `mst`, and is smaller. `mst` measures eight pairs; the noise in its rows"
        " makes up for the chance that it misses",
        table="xor*",
        measure="association",
        rival="mst *MST",
        epsilon="1 3 10",
    ),
    Reason(
        *NOISE,
        table="xor* gauss50-0.3 gauss30-0.3",
        measure="worst_pair kmarginal pairs triples",
        epsilon="0.1",
        ablation="shuffled",
    ),
    Reason(*NOISE, table="xor* acs-ma", measure="association", epsilon="0.1", ablation="shuffled"),
    Reason(
        "Noisy columns that are drawn together",
        "In 600 rows the noise of a column is as large as the differences between its counts."
        " `independent` draws noisy counts together (124, -42 and 27 become 59, 18 and 30); the default"
        " takes them as measured, without negative ones. Without it: single columns of `independent`"
        " as it measured them",
        table="wide",
        measure="kmarginal pairs triples ranges worst_pair wasserstein",
        rival="independent",
        ablation="as measured",
    ),
    Reason(
        "Columns with few codes",
        "Of the budget for single columns the default gives columns with few codes less: delay and"
        " distance have several times the noise that `independent` leaves in them. Range queries ask for"
        " intervals of such columns. Columns with many codes, which they ask for seldom, are better",
        table="flights",
        measure="ranges",
        rival="independent",
        epsilon="0.1",
    ),
    Reason(
        "Better than the truth",
        "A linear model that learns from the rows of `mst` is better than one that learns from true"
        " rows drawn again: two columns act on the target together, and `mst` leaves that out."
        " The default's rows have it, and give what true rows give",
        table="causal",
        measure="auc_logistic",
        rival="mst",
    ),
    Reason(
        "Few users, many rows each",
        "With up to 200 trips a taxi at epsilon 0.1 the noise is larger than most counts: rows of"
        " `mst` and of `independent` are further off than uniform ones too",
        table="taxi",
        rival="uniform",
        epsilon="0.1",
    ),
    Reason(
        "Single columns",
        "`independent` has all of the budget for single columns; the default has a tenth to three"
        " quarters. Without it: `independent` with so little budget that its single columns are as"
        " noisy as the default's",
        measure="wasserstein",
        rival="independent",
        ablation="same noise",
    ),
    Reason(
        "What pairs say of single columns",
        "`mst` has a third of the budget for single columns, and the rest for few pairs, which say"
        " more of their columns than the default's pairs do. Without it: single columns of `mst` as it"
        " measured them by themselves, with so little budget that they are as noisy as the default's",
        measure="wasserstein",
        rival="mst",
        ablation="same noise, measured alone",
    ),
    Reason(
        "MST of other libraries",
        "As `mst`: a third of the budget for single columns, and few pairs, which say more of their"
        " columns than the default's pairs do",
        measure="wasserstein",
        rival="*MST *MST-500",
    ),
    Reason(
        "Balanced rows",
        "Cramér's V counts association by chance, which the true rows have, and rows drawn at random"
        " too. The default's rows are balanced and have less of it. Without it: rows drawn at random"
        " from the same model",
        measure="association",
        ablation="redrawn",
    ),
    Reason(
        "Nothing to learn for models",
        "The exclusive or of k columns shows in no marginal of fewer than k + 1 columns. Where the"
        " model has none of these, models that are trained on its rows guess, as those on uniform"
        " rows do. Models of one column at a time (logistic regression) guess on any rows, also on"
        " the true ones",
        table="xor*",
        measure="auc_*",
    ),
    Reason(
        "Not seen again",
        "Run again with eight fresh seeds (the last column), the rival is not better beyond the"
        " interval. Among so many comparisons such a loss comes by chance",
        table="huge",
        measure="auc_*",
        rival="mst",
        ablation="fresh seeds",
    ),
)
UNEXPLAINED = Reason("Not explained yet", "No reason is known")


def matches(name: str, patterns: str) -> bool:
    return any(fnmatch(name, pattern) for pattern in patterns.split())


def reason(table: str, measure: str, rival: str, epsilon: float) -> Reason:
    """The first reason that fits a loss; `UNEXPLAINED` if none does."""
    for one in REASONS:
        fits = (
            matches(table, one.table)
            and matches(measure, one.measure)
            and matches(rival, one.rival)
            and matches(f"{epsilon:g}", one.epsilon)
        )
        if fits:
            return one
    return UNEXPLAINED
