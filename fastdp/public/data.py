"""The interface through which mechanisms use a public table. Using it costs no budget.

Only tables read with `public=True` are accepted; the run's statement names the public data that was
used.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..domain import Clique, Cliques, Columns
from ..errors import DataError, UsageError
from ..privacy.clip import ClipChoice, candidates, choose
from ..schema import Schema
from ..tables.table import Table
from .choice import choose_outer
from .ids import Habits


class PublicTable:
    """A public table with the interface `mechanisms.base.Public`."""

    def __init__(self, table: Table):
        if not table.public:
            raise UsageError(
                "public data must be read with public=True; this table was read as private"
            )
        self.table = table

    @property
    def schema(self) -> Schema:
        return self.table.schema

    def marginals(
        self, cliques: Cliques, recode: Columns | None = None
    ) -> dict[Clique, np.ndarray]:
        """int64 counts of rows; columns in `recode` are recoded first."""
        from ..engines.truth import marginals

        return marginals(self.table, list(cliques), clip=None, recode=recode)

    def check_habits(self) -> None:
        """Raise DataError if the public data has no users."""
        self._users()

    def _users(self) -> np.ndarray:
        if self.table.user is None:
            raise DataError(
                "public=: the public data has no user column, so users' habits cannot be "
                "estimated from it"
            )
        return self.table.user

    def habits(self, columns: Sequence[str]) -> Habits:
        """The number of rows of each public user in each cell of these columns."""
        users = self._users()
        columns = self.schema.domain.check(columns)
        return Habits.from_rows(columns, self.schema.domain.shape(columns), users, self.table.codes)

    def choose_outer(self, ways: int = 3, max_cells: int = 200_000) -> list[Clique]:
        """Outer marginals of up to `ways` attributes; see `choice.grow`."""
        return choose_outer(self.table, ways, max_cells)

    @property
    def codes(self) -> Mapping[str, np.ndarray]:
        """The codes of the rows, by column."""
        return self.table.codes

    @property
    def user(self) -> np.ndarray | None:
        """The number of each row's user; None if there is no user column."""
        return self.table.user

    def sparse_marginals(self, cliques: Cliques) -> dict[Clique, tuple[np.ndarray, np.ndarray]]:
        """(numbers of the cells that have rows, their counts of rows), cells in C order."""
        from ..engines.truth import marginals

        counted = marginals(self.table, list(cliques), clip=None, sparse=True)
        return {clique: (found.keys, found.sums) for clique, found in counted.items()}

    def choose_clip(
        self, noise: Sequence[float], rows: int, *, bound: int | None = None, **options: Any
    ) -> ClipChoice:
        """The clip of least error by `privacy.clip.choose`, with its `options`, for `rows` rows
        whose distribution of rows per user is that of the public users."""
        sizes = np.asarray(self.table.rows_per_user(), np.int64)
        sizes, users = np.unique(sizes[sizes > 0], return_counts=True)
        if sizes.size == 0:
            raise DataError(
                "public=: the public data has no users, so a clip cannot be chosen from it"
            )
        scale = max(1, rows) / float(sizes @ users)
        clips = candidates(int(sizes[-1]) if bound is None else bound)
        return choose(sizes.tolist(), (users * scale).tolist(), noise, clips, **options)
