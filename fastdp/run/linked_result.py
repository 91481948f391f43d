"""A finished run on linked tables: the runs of its tables together."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._util.lazy import pa
from ..errors import FastdpError, UsageError
from ..schema.linked_schema import LinkedSchema
from .result import Run
from .run_files import reading_folder, write_page

if TYPE_CHECKING:
    from ..answers.verdict import Verdict


@dataclass(frozen=True, eq=False)
class LinkedRun:
    """A finished run on linked tables. Everything in it may be released, except `timings`.

    Attributes
    ----------
    runs : mapping of str to Run
        The part of each table, the parent's first: its measurements, model and rows. The schema of a child's
        part also has its parent's columns, as in `runs["orders"].answer(by="customers.country")`.
    schema : LinkedSchema
    out : Path or None
        The run folder, with a folder `table-NAME` for each table.
    """

    runs: Mapping[str, Run]
    schema: LinkedSchema
    out: Path | None = None

    @property
    def privacy(self) -> dict:
        """The statement of all tables together."""
        first = next(iter(self.runs.values())).privacy
        return {key: value for key, value in first.items() if key not in ("part", "files")}

    @property
    def data(self) -> dict[str, pa.Table]:
        """All synthetic rows of each table. Keys of child rows are keys of parent rows."""
        return {name: run.data for name, run in self.runs.items()}

    @property
    def verdict(self) -> dict[str, Verdict]:
        """What each table is good for and what it is not for, as `Run.verdict`."""
        return {name: run.verdict for name, run in self.runs.items()}

    @property
    def notes(self) -> dict[str, tuple[str, ...]]:
        """Of each table, what `Run.notes` says."""
        return {name: run.notes for name, run in self.runs.items()}

    @property
    def timings(self) -> dict[str, dict[str, float]]:
        """Seconds of each stage, by table; not for release."""
        return {name: run.timings for name, run in self.runs.items()}

    def complete(
        self,
        frames: Mapping[str, Any],
        seed: int | None = None,
        *,
        nulls: str = "fill",
        threads: int | None = None,
    ) -> dict[str, pa.Table]:
        """Whole tables from given parents, by table name: post-processing, it costs no budget.

        Parameters
        ----------
        frames : mapping of str to frame, path or anything that `fastdp.read` takes
            The parents' table, with some of its columns or with nulls. A column `rows of CHILD`
            gives the number of child rows. Without the key column, parents get keys 1, 2, ... The
            frame of a child table has the key and some of the other columns; its rows are then
            completed in place of new ones.
        seed : int, optional
            Fixes what is drawn; None: other rows each time.
        nulls : {"fill", "draw", "keep"}
            As in `Run.complete`.
        threads : int, optional
            The result does not depend on it.

        Returns
        -------
        dict of str to pyarrow.Table
            All tables. Row i of a given table has the values of row i of its frame. Child rows are
            drawn given the columns of their parent, and follow it in the order of the parents.
        """
        from .linked_complete import complete_linked

        with reading_folder(self.out):
            return complete_linked(self.runs, self.schema, frames, seed, nulls, threads)

    def page(self, path: str | os.PathLike[str], about: Any = None) -> None:
        """Write one page about all tables that may be published, as `Run.page` does of one."""
        write_page(self.out, path, about)

    def answer(self, *_: Any, **__: Any) -> None:
        """Answers come from one table: `runs[NAME].answer(...)`."""
        one = "runs[NAME].answer(...)" if self.out is None else f"{self.out / 'table-NAME'}"
        raise UsageError(
            f"this run holds the tables {', '.join(self.runs)}: ask one of them, {one}"
        )

    def _repr_html_(self) -> str:
        """For notebooks: the cards of each table."""
        from ..report.notebook import linked_html

        with reading_folder(self.out):
            drawn = {name: (run, run._rows) for name, run in self.runs.items()}
            tables = {} if self.schema is None else self.schema.tables
            return linked_html(drawn, {name: list(own.domain) for name, own in tables.items()})

    def __repr__(self) -> str:
        where = f", out={str(self.out)!r}" if self.out else ""
        head = (
            f"<fastdp.LinkedRun {', '.join(self.runs)}"
            f" epsilon={self.privacy['epsilon']:.6g}{where}>"
        )
        return "\n".join([head, *self._headlines()])

    def _headlines(self) -> list[str]:
        try:
            return [f"{name}: {verdict.headline}" for name, verdict in self.verdict.items()]
        except FastdpError:  # of a damaged folder; `verify` says what is wrong
            return []
