"""A true and a synthetic table, each encoded once, and every metric of them by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from .._util.threads import resolve
from . import baselines, coverage, kmarginal, original, pairwise, user_scores, utility
from . import constraint_scores as constraints
from .challenges import deid2, nist2018, sprint1
from .inputs import Pair, as_arrow, pair_up

if TYPE_CHECKING:
    import pyarrow as pa

    from ..schema import Schema

SAMPLED = ("deid2", "kmarginal", "tv1", "tv2")  # metrics that are also computed for samples of the truth


class Comparison:
    """Two sources, each read once; codes and counts are computed when the first metric needs them."""

    def __init__(
        self,
        truth: Any,
        synthetic: Any,
        schema: Schema | None,
        *,
        user: str | None,
        k: int,
        marginals: int,
        target: str | None,
        seed: int,
        threads: int | None,
    ) -> None:
        from ..tables.table import Table

        self.schema, self.user, self.target = schema, user, target
        self.k, self.limit, self.seed, self.threads = k, marginals, seed, resolve(threads)
        for source in (truth, synthetic):
            if isinstance(source, Table) and self.schema is None:
                self.schema = source.schema
        self.truth: Any = truth if isinstance(truth, Table) else as_arrow(truth, "truth")
        self.synthetic: Any = synthetic if isinstance(synthetic, Table) else as_arrow(synthetic, "synthetic")
        self.in_values = not any(isinstance(s, Table) for s in (self.truth, self.synthetic))

    @property
    def rows(self) -> dict[str, int]:
        return {
            name: s.num_rows if hasattr(s, "num_rows") else s.rows
            for name, s in (("truth", self.truth), ("synthetic", self.synthetic))
        }

    @cached_property
    def pair(self) -> Pair:
        return pair_up(self.truth, self.synthetic, self.schema, self.user)

    @cached_property
    def taxis(self) -> deid2.Prepared:
        if self.in_values and not self._already_coded():
            return deid2.Prepared.of_values(self.truth, self.synthetic, self.threads)
        users = [self._user(s) for s in (self.truth, self.synthetic)]
        return deid2.Prepared.of_codes(self.pair, self.schema, users, self.threads)

    def _already_coded(self) -> bool:
        """Whether the schema says that the numbers in the tables are codes, not values."""
        column = self.schema.columns.get("fare") if self.schema is not None else None
        return column is not None and column.kind != "numeric"

    def _user(self, source: Any) -> Any:
        if hasattr(source, "codes"):
            return source.user
        return deid2.taxi_numbers(source) if deid2.TAXI in source.column_names else None

    @staticmethod
    def _values(source: Any) -> Any:
        """The source as values, which sprint 1 compares. A table of codes is decoded; each code of the sprint
        1 columns stands for one value, so decoding is exact."""
        if not hasattr(source, "codes"):
            return source
        from ..codec.decode import decode

        return decode(source.schema, {c: source.codes[c] for c in sprint1.COLUMNS if c in source.codes}, 0)

    def _names(self) -> list[str]:
        if self.in_values:
            other = set(self.synthetic.column_names)
            return [n for n in self.truth.column_names if n in other]
        return self.pair.names

    def applicable(self, names: Sequence[str]) -> list[str]:
        """Those of the named metrics whose columns both tables have and whose optional packages are
        installed."""
        out = []
        for name in names:
            fits = True
            if name == "deid2":
                fits = deid2.applies(self._names())
            elif name == "sprint1":
                fits = sprint1.applies(self._names())
            elif name == "constraints":
                fits = self.schema is not None and bool(self.schema.constraints)
            elif name == "users":
                fits = self._has_users()
            elif name == "original":
                fits = self.in_values
            elif name == "utility":
                fits = utility.available() and len(self.pair.names) > 1
            if fits:
                out.append(name)
        return out

    def _has_users(self) -> bool:
        """Whether both tables say which rows belong to one user, under a schema that names the column."""
        column = None if self.schema is None else self.schema.user
        return column is not None and all(
            s.user is not None if hasattr(s, "codes") else column in s.column_names
            for s in (self.truth, self.synthetic)
        )

    def _original(self) -> dict[str, Any] | None:
        own = self.user or (None if self.schema is None else self.schema.user)
        user = own if own in self.truth.column_names else None
        return original.score(self.truth, self.synthetic, user, self.seed, self.threads)

    def _with_users(self) -> list[Any]:
        """Both tables, encoded with their users. Ids are taken as they are: synthetic ones may be wider."""
        from ..tables.ingest import read

        def table(source: Any) -> Any:
            if hasattr(source, "codes") or self.schema is None:
                return source
            there = [n for n, c in self.schema.columns.items() if c.source in source.column_names]
            return read(source, replace(self.schema.select(there), user_dtype=None), threads=self.threads)

        return [table(source) for source in (self.truth, self.synthetic)]

    def score(self, name: str, pair: Pair | None = None) -> Any:
        """One metric of the synthetic table, or of `pair` if that is given; None where it is not defined."""
        if name == "deid2":
            return self.taxis.score()
        if name == "sprint1":
            return sprint1.score(*(self._values(s) for s in (self.truth, self.synthetic)))
        if name == "constraints":
            return constraints.score(self.truth, self.synthetic, self.schema)
        if name == "users":
            return user_scores.score(*self._with_users()) if self._has_users() else None
        if name == "original":
            return self._original() if self.in_values else None
        pair = self.pair if pair is None else pair
        if name == "nist2018":
            values: tuple[pa.Table | None, ...] = (
                (self.truth, self.synthetic) if self.in_values else (None, None)
            )
            return nist2018.score(pair, *values, seed=self.seed, threads=self.threads)
        if name == "kmarginal":
            return kmarginal.score(pair, self.k, limit=self.limit, seed=self.seed, threads=self.threads)
        if name == "tv1":
            return pairwise.one_way(pair, self.threads)
        if name == "tv2":
            return self._two_way[0] if pair is self.pair else pairwise.two_way(pair, self.threads)[0]
        if name == "association":
            return self._two_way[1]
        if name == "correlation":
            return pairwise.correlation(pair)
        if name == "coverage":
            return coverage.score(pair)
        return utility.score(pair, self.target, seed=self.seed)

    @cached_property
    def _two_way(self) -> tuple[dict[str, Any], dict[str, Any]]:
        return pairwise.two_way(self.pair, self.threads)

    def baselines(self, names: Sequence[str], fractions: Sequence[float]) -> dict[str, dict[str, Any]]:
        """Scores of random samples of the truth, by those of the named metrics that are cheap to repeat
        (`SAMPLED`)."""
        names = [n for n in names if n in SAMPLED]
        out: dict[str, dict[str, Any]] = {}
        for fraction in fractions if names else ():
            rows = self.pair.rows[0] if names != ["deid2"] else self.rows["truth"]
            sample = baselines.rows_of_sample(rows, fraction, self.seed)
            scores = out.setdefault(baselines.label(fraction), {})
            pair = None
            for name in names:
                if name == "deid2":
                    scores[name] = self.taxis.score(detail=False, sample=sample)
                    continue
                if pair is None:
                    pair = self.pair.take({n: c[sample] for n, c in self.pair.truth.items()}, len(sample))
                scores[name] = self.score(name, pair)
        return out

    def columns(self) -> dict[str, dict[str, Any]]:
        """Number of codes and encoding of every compared column. Encodes no column for this purpose alone."""
        if "pair" not in self.__dict__:
            return {n: {"encoding": "values"} for n in self._names()}
        return {n: {"codes": self.pair.sizes[n], "encoding": self.pair.encoding[n]} for n in self.pair.names}
