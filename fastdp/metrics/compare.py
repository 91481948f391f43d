"""A true and a synthetic table, each encoded once, as metrics are given them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from .._util.threads import resolve
from ..codec.decode import decode
from ..schema import Schema
from ..tables.row_periods import of_one_period
from ..tables.table import Table
from .inputs import Pair, as_arrow, pair_up


@dataclass(eq=False)
class Comparison:
    """Two sources, each read once; codes and counts are computed when the first metric needs
    them."""

    truth: Any
    synthetic: Any
    schema: Schema | None
    user: str | None
    k: int
    marginals: int
    target: str | None
    seed: int
    threads: int | None
    released: Any = None
    """What the run released (`causes.Released`), for the parts of its error."""

    def __post_init__(self) -> None:
        self._made: dict[str, Any] = {}
        self._sample: tuple[np.ndarray, Pair] | None = None
        self.threads = resolve(self.threads)
        for source in (self.truth, self.synthetic):
            if isinstance(source, Table) and self.schema is None:
                self.schema = source.schema
        self.in_values = not any(isinstance(s, Table) for s in (self.truth, self.synthetic))
        for name in ("truth", "synthetic"):
            source = getattr(self, name)
            setattr(self, name, source if isinstance(source, Table) else as_arrow(source, name))
        if self.schema is not None and self.schema.period and not isinstance(self.truth, Table):
            self.truth = of_one_period(self.truth, self.schema.period)

    @property
    def rows(self) -> dict[str, int]:
        both = {"truth": self.truth, "synthetic": self.synthetic}
        return {name: s.num_rows if hasattr(s, "num_rows") else s.rows for name, s in both.items()}

    @cached_property
    def pair(self) -> Pair:
        return pair_up(self.truth, self.synthetic, self.schema, self.user)

    def values(self, columns: Sequence[str]) -> list[Any]:
        """Both tables as values, which the challenges' scores compare. A table of codes is decoded:
        each code of these columns stands for one value, or for a bin of the score."""

        def one(source: Any) -> Any:
            if not hasattr(source, "codes"):
                return source
            made = decode(
                source.schema, {c: source.codes[c] for c in columns if c in source.codes}, 0
            )
            has_users = source.user is not None and source.schema.user not in made.column_names
            return made.append_column(source.schema.user, [source.user]) if has_users else made

        return [one(source) for source in (self.truth, self.synthetic)]

    def names(self) -> list[str]:
        """The columns that both tables have."""
        if self.in_values:
            other = set(self.synthetic.column_names)
            return [n for n in self.truth.column_names if n in other]
        return self.pair.names

    def has(self, columns: Sequence[str]) -> bool:
        """Whether both tables have these columns."""
        return set(columns) <= set(self.names())

    def once(self, name: str, make: Callable[[], Any]) -> Any:
        """What several metrics use, or one metric twice: made when it is first asked for."""
        if name not in self._made:
            self._made[name] = make()
        return self._made[name]

    def sampled(self, rows: np.ndarray) -> Pair:
        """The coded tables with these rows of the truth in place of the synthetic table."""
        if self._sample is None or self._sample[0] is not rows:
            codes = {name: column[rows] for name, column in self.pair.truth.items()}
            self._sample = (rows, self.pair.with_synthetic(codes, len(rows)))
        return self._sample[1]

    def has_users(self) -> bool:
        """Whether both tables say which rows belong to one user, under a schema that names the
        column."""
        column = None if self.schema is None else self.schema.user
        both = (self.truth, self.synthetic)
        named = [
            s.user is not None if hasattr(s, "codes") else column in s.column_names for s in both
        ]
        return column is not None and all(named)

    def columns(self) -> dict[str, dict[str, Any]]:
        """Number of codes and encoding of every compared column. Encodes no column for this purpose
        alone."""
        if "pair" not in self.__dict__:
            return {n: {"encoding": "values"} for n in self.names()}
        return {
            n: {"codes": self.pair.sizes[n], "encoding": self.pair.encoding[n]}
            for n in self.pair.names
        }
