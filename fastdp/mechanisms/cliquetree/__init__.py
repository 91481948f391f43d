"""The default mechanism: `clique_tree` (config and run), `tree_state` (one screening round after
another), `budget_shares` (how mu^2 is divided), `value_grouping` (coarser answers for a workload),
`dense_tables` and `hidden_factors` (the model of tables whose columns all depend on each other),
`two_valued` (tables whose columns have two values).
"""

from .clique_tree import CliqueTree

__all__ = ["CliqueTree"]
