"""A true and a synthetic table, each encoded once, and every metric of them by name."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from .._util.threads import resolve
from ..codec.decode import decode
from ..schema import Schema
from ..tables.table import Table
from . import (
    baselines,
    constraint_scores,
    coverage,
    kmarginal,
    original,
    pairwise,
    user_scores,
    utility,
)
from .challenges import deid2, nist2018, sprint1
from .inputs import Pair, as_arrow, coded, pair_up

SAMPLED = (
    "deid2",
    "kmarginal",
    "tv1",
    "tv2",
)  # metrics that are also computed for samples of the truth


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

    def __post_init__(self) -> None:
        self.threads = resolve(self.threads)
        for source in (self.truth, self.synthetic):
            if isinstance(source, Table) and self.schema is None:
                self.schema = source.schema
        self.in_values = not any(isinstance(s, Table) for s in (self.truth, self.synthetic))
        for name in ("truth", "synthetic"):
            source = getattr(self, name)
            setattr(self, name, source if isinstance(source, Table) else as_arrow(source, name))

    @property
    def rows(self) -> dict[str, int]:
        both = {"truth": self.truth, "synthetic": self.synthetic}
        return {name: s.num_rows if hasattr(s, "num_rows") else s.rows for name, s in both.items()}

    @cached_property
    def pair(self) -> Pair:
        return pair_up(self.truth, self.synthetic, self.schema, self.user)

    @cached_property
    def taxis(self) -> deid2.Prepared:
        truth, synthetic = self._values(deid2.COLUMNS)
        return deid2.prepared(truth, synthetic, self.threads)

    def _values(self, columns: Sequence[str]) -> list[Any]:
        """Both tables as values, which the challenges' scores compare. A table of codes is decoded:
        each code of these columns stands for one value, or for a bin of the score."""

        def values(source: Any) -> Any:
            if not hasattr(source, "codes"):
                return source
            made = decode(
                source.schema, {c: source.codes[c] for c in columns if c in source.codes}, 0
            )
            has_users = source.user is not None and source.schema.user not in made.column_names
            return made.append_column(source.schema.user, [source.user]) if has_users else made

        return [values(source) for source in (self.truth, self.synthetic)]

    def _names(self) -> list[str]:
        if self.in_values:
            other = set(self.synthetic.column_names)
            return [n for n in self.truth.column_names if n in other]
        return self.pair.names

    def applicable(self, names: Sequence[str]) -> list[str]:
        """Those of the named metrics whose columns both tables have and whose optional packages are
        installed."""
        needs: dict[str, Callable[[], bool]] = {
            "deid2": lambda: set(deid2.COLUMNS) <= set(self._names()),
            "sprint1": lambda: set(sprint1.COLUMNS) <= set(self._names()),
            "constraints": lambda: self.schema is not None and bool(self.schema.constraints),
            "users": self._has_users,
            "original": lambda: self.in_values,
            "utility": lambda: utility.available() and len(self.pair.names) > 1,
        }
        return [name for name in names if name not in needs or needs[name]()]

    def _has_users(self) -> bool:
        """Whether both tables say which rows belong to one user, under a schema that names the
        column."""
        column = None if self.schema is None else self.schema.user
        both = (self.truth, self.synthetic)
        named = [
            s.user is not None if hasattr(s, "codes") else column in s.column_names for s in both
        ]
        return column is not None and all(named)

    def _original(self) -> dict[str, Any] | None:
        if not self.in_values:
            return None
        own = self.user or (None if self.schema is None else self.schema.user)
        user = own if own in self.truth.column_names else None
        return original.score(self.truth, self.synthetic, user, self.seed, self.threads)

    def _users(self) -> dict[str, Any] | None:
        if self.schema is None or not self._has_users():
            return None
        tables = ((self.truth, "truth"), (self.synthetic, "synthetic"))
        return user_scores.score(*(coded(s, self.schema, w, users=True) for s, w in tables))

    def score(self, name: str, pair: Pair | None = None) -> Any:
        """One metric of the synthetic table, or of `pair` if that is given; None if it is not
        defined."""
        threads = self.threads
        of_tables: dict[str, Callable[[], Any]] = {
            "deid2": lambda: self.taxis.score(),
            "sprint1": lambda: sprint1.score(*self._values(sprint1.COLUMNS)),
            "constraints": lambda: constraint_scores.score(self.truth, self.synthetic, self.schema),
            "users": self._users,
            "original": self._original,
            "association": lambda: self._two_way[1],
        }
        if name in of_tables:
            return of_tables[name]()
        whole = pair is None
        pair = self.pair if pair is None else pair
        values = (self.truth, self.synthetic) if self.in_values else ()
        of_pair: dict[str, Callable[[], Any]] = {
            "tv1": lambda: pairwise.one_way(pair, threads),
            "tv2": lambda: (self._two_way if whole else pairwise.two_way(pair, threads))[0],
            "kmarginal": lambda: kmarginal.score(
                pair, self.k, limit=self.marginals, seed=self.seed, threads=threads
            ),
            "nist2018": lambda: nist2018.score(pair, *values, seed=self.seed, threads=threads),
            "correlation": lambda: pairwise.correlation(pair),
            "coverage": lambda: coverage.score(pair),
            "utility": lambda: utility.score(pair, self.target, seed=self.seed),
        }
        return of_pair[name]()

    @cached_property
    def _two_way(self) -> tuple[dict[str, Any], dict[str, Any]]:
        return pairwise.two_way(self.pair, self.threads)

    def baselines(
        self, names: Sequence[str], fractions: Sequence[float]
    ) -> dict[str, dict[str, Any]]:
        """Scores of random samples of the truth, by those of the named metrics that are cheap to
        repeat (`SAMPLED`)."""
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
                    pair = self.pair.take(
                        {n: c[sample] for n, c in self.pair.truth.items()}, len(sample)
                    )
                scores[name] = self.score(name, pair)
        return out

    def columns(self) -> dict[str, dict[str, Any]]:
        """Number of codes and encoding of every compared column. Encodes no column for this purpose
        alone."""
        if "pair" not in self.__dict__:
            return {n: {"encoding": "values"} for n in self._names()}
        return {
            n: {"codes": self.pair.sizes[n], "encoding": self.pair.encoding[n]}
            for n in self.pair.names
        }
