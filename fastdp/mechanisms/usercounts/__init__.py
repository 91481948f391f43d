"""User counts: how many people, by place, month and kind.

`mechanism` is the mechanism with its config. `group_cells` says which cells are
asked about, `count_estimates` turns noisy numbers of users into counts, and `histogram_rows`
writes these as rows.
"""

from .mechanism import UserCounts

__all__ = ["UserCounts"]
