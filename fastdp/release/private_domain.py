"""Private domains: domains that the schema leaves open are found in the run, before its table is
encoded.

Unit: the run's. Adjacency: one user (or row) more or less. The following is released; each release
is a step of the run's one reservation and is entered in the ledger before anything is counted:

* For every column whose bounds are to be found: noisy numbers of rows in the cells of a partition,
  three times. Each partition refines the one before where rows are (`cells`). It is
  `Session.measure` of a 1-way over a provisional schema. A user's rows weigh at most `clip` in all,
  so the L2 sensitivity is the clip. The answers are mu-GDP at Gaussian noise of clip / mu. The next
  partition, bounds and edges are post-processing.
* For every column of times: noisy numbers of rows by the coarsest step of the clock that a time
  lies on. For whole numbers up to 5,000: by the hour of the number read as a clock time
  (`Session.measure` at clip 1).
* For every column of texts of unknown kind: noisy numbers of rows by kind of text (number, date,
  time, text; `Session.measure` at clip 1). What the column is read as is post-processing.
* For every column whose values are to be found: the values that enough users have, in up to two
  rounds (`keyselect.release_keys`). Each is mu-GDP except with probability delta_T: `Threshold(mu,
  delta_T)`.
* Between the rounds, for each of these columns, noisy numbers of rows whose value was found, was
  not, or is null: `Session.measure` at clip 1. The shares of the second round are post-processing
  of them.
* For every numeric column whose frequent values are to be found: these, in one round of the same
  release.
* For every column whose means within bins are to be found: noisy sums inside the bins, and one
  number for each pair of these columns (`sums`).
* The finished schema, which is post-processing of the above and of the schema that was asked for.
  It is charged nothing, and stored so that a resumed run can read it and `fastdp verify --ledger`
  can compare it.

A share `domain_share` of the run's mu^2 and `keys_delta` of its delta pay for it. Proof:
docs/explain/domain-releases.md.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import cast

import numpy as np

from .. import division
from ..measurement import Request
from ..privacy import clip as clip_rules
from ..schema import Schema, dtypes, kind_of_text
from ..schema.bins import digits
from ..schema.kinds.numeric import Numeric
from ..schema.kinds.textkind import TextKind
from ..schema.pending import ANY, Pending
from ..schema.within_bin import PRIVATE as MEASURED, Rank
from ..significance import SURE
from ..userkeys import RowsPerUser
from . import domaincosts as costs, sums
from .cells import Line
from .domain_grids import Grid, line_of, listed, provisional, with_fields
from .domainsteps import DomainSteps
from .noisy_cells import CALENDAR_CELLS, MOST_CALENDAR, calendar_edges, is_clock, step_of


@dataclass
class Learning(DomainSteps):
    """Finds the domain within one part of a reservation. `missing`: (share of rows outside the
    domain found, standard error) by column, from released counts."""

    max_rows: int | None = None
    columns: dict[str, Pending] = field(default_factory=dict)
    missing: dict[str, tuple[float, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.columns = dict(self.asked.pending)

    def finish(self) -> Schema:
        """Finds all private columns and returns the finished schema. Stored answers are not drawn
        again."""
        if any(column.wanted == ANY for column in self.columns.values()):
            self._kinds()
        by_user = self.asked.user is not None and self.unit == "user"
        bounds = bool(self.asked.pending) and self.asked.max_rows_per_user is None
        if by_user and (self.clip is None or bounds):
            self._rows()
        entries = self._edges()
        wide = len(self.asked.measured) + sum(e.get("means") == MEASURED for e in entries.values())
        entries |= self._values(costs.sums_share(wide) + self.costs.atoms)
        found = self.asked.finished(entries)
        if found.atomic:
            entries |= self._atoms(found)
            found = self.asked.finished(entries)
        if found.measured:
            entries |= self._means(found)
        names = ", ".join(map(repr, self.asked.unfinished))
        provenance = f"domain of {names} found privately in the run"
        read = [
            f"{name!r} as {column.dtype}"
            for name, column in self.columns.items()
            if self.asked.pending[name].wanted == ANY and not column.keyed
        ]
        if read:
            provenance += f"; texts read: {', '.join(read)}"
        if self.max_rows is not None:
            provenance += f", and that users have at most {self.max_rows} rows"
        return self._store(self.asked.finished(entries, provenance, self.max_rows))

    def _kinds(self) -> None:
        """Find what the texts of columns of kind ANY are: noisy numbers of rows by kind of text,
        where each user's rows weigh 1 together. A column is read as the first kind that all but a
        few texts are of."""
        texts = {name: column for name, column in self.columns.items() if column.wanted == ANY}
        fields = {n: TextKind(name=n, source=c.source, dtype=c.dtype) for n, c in texts.items()}
        mu = costs.column_mu(self.asked, self.mu) * math.sqrt(division.KINDS_OF_TEXT)
        about = {"kind": "grid", "clip": 1, "of": "kinds of text"}
        answers = self._counted(fields, mu, "domain of kinds of text", about)
        for name, answer in answers.items():
            typed = "dtype" in self.columns[name].stated
            kind = costs.kind_of(
                answer.values[: len(kind_of_text.VALUE_KINDS)], float(np.max(answer.sigma)), typed
            )
            self.columns[name] = self.columns[name].of_kind(kind)

    def _means(self, found: Schema) -> dict[str, dict]:
        """Release sums inside bins, then steps and ranks (`sums`); returns the entries of the
        columns with means. Columns share the budget for sums evenly; where its noise is too large,
        nothing is asked."""
        columns = {name: cast(Numeric, found.columns[name]) for name in found.measured}
        budget = self.mu**2 * min(costs.sums_share(len(columns)), self._left(0.0)) * costs.LESS
        each = math.sqrt(budget * (1 - division.RANKS) / len(columns))
        unit = sums.unit_for(self.clip or 1, each)
        cells = {
            n: made for n, c in columns.items() if unit and len((made := sums.cells_of(c)).bin)
        }
        steps = {n: some for n in cells if (some := sums.steps_of(columns[n])) is not None}
        means = {n: (np.full(c.base, np.nan), np.zeros(c.base)) for n, c in columns.items()}
        grids: dict[str, tuple] = {}
        ranks: dict[str, Rank] = {}
        if cells:
            fields = {n: c.column for n, c in cells.items()} | {c.name: c for c in steps.values()}
            with self._engine(with_fields(self.asked, fields)) as engine:
                requests = [Request((n,), each, c.query(unit)) for n, c in cells.items()]
                answers = self._count(engine, requests, "sums", {})
                means |= {n: c.means(a) for (n, c), a in zip(cells.items(), answers, strict=True)}
                half = budget * division.RANKS / 2  # of steps, and of ranks
                levels = {n: c.levels(means[n][0]) for n, c in cells.items()}
                requests = [
                    sums.step_request(n, levels[n], c, math.sqrt(half / len(cells)))
                    for n, c in steps.items()
                ]
                requests += sums.rank_requests(levels, math.sqrt(half))
                if requests and all(sums.unit_for(self.clip or 1, r.mu) for r in requests):
                    answers = self._count(engine, requests, "ranks", levels)
                    grids = {
                        n: sums.shares_of_steps(columns[n], c, a)
                        for (n, c), a in zip(steps.items(), answers)
                    }
                    ranks = sums.shared_ranks(answers[len(steps) :], {n: means[n] for n in cells})
        return {
            n: sums.finished(c, means[n][0], grids.get(n), ranks.get(n)).to_plain()
            for n, c in columns.items()
        }

    def _values(self, due: float) -> dict[str, dict]:
        """Find values in two rounds; returns the schema entries of the columns whose values are to
        be found. The second round looks for values that the first one did not find. It has all that
        the domain's share has left but `due`, where enough rows are missing
        (`domaincosts.second_round`)."""
        columns = {name: c for name, c in self.columns.items() if c.keyed}
        if not columns:
            return {}
        first = costs.column_mu(self.asked, self.mu) ** 2 * division.FIRST_VALUES / self.mu**2
        found: dict[str, tuple] = {}
        for name, column in columns.items():
            found[name] = self._keys(column, first, len(columns), f"values of {name}")[0]
        self.missing |= self._missing(columns, found)
        missing = {name: self.missing[name] for name in columns}
        again = costs.second_round(self._left(due), first, missing)
        for name, share in again.items():
            more, _ = self._keys(
                columns[name], share, len(again), f"more values of {name}", found[name]
            )
            found[name] = tuple(sorted((*found[name], *more)))
        return {name: column.with_values(found[name]) for name, column in columns.items()}

    def _atoms(self, found: Schema) -> dict[str, dict]:
        """Find frequent values of numeric columns; returns the entries of these columns. Values are
        numbers of units of the last digit; those outside the column's bins cannot be atoms."""
        count = len(self.asked.atomic)
        out = {}
        for name in found.atomic:
            column = cast(Numeric, found.columns[name])
            share = self.costs.atoms / count * costs.LESS
            values, users = self._keys(column, share, count, f"atoms of {name}")
            numbers = [float(Decimal(v).scaleb(-digits(column))) for v in values]
            often = sorted(zip(-users, numbers))[: costs.ATOMS_KEPT]
            atoms = sorted(x for _, x in often if column.edges[0] <= x < column.edges[-1])
            out[name] = replace(column, atoms=tuple(atoms)).to_plain()
        return out

    def _missing(
        self, columns: Mapping[str, Pending], found: Mapping[str, tuple]
    ) -> dict[str, tuple[float, float]]:
        """(share of the rows whose value is not among those found, its standard error) of each
        column. Counted are rows with a value found, with another one and with none; a user's rows
        weigh 1 together.
        """
        missing = dict.fromkeys(columns, (1.0, 0.0))
        fields = {name: listed(columns[name], values) for name, values in found.items() if values}
        if not fields:
            return missing
        mu = costs.column_mu(self.asked, self.mu) * math.sqrt(division.MISSING_VALUES)
        recode = {name: np.array([*[0] * field.base, 1, 2]) for name, field in fields.items()}
        about = {"kind": "grid", "clip": 1, "of": "values not found"}
        label = "domain of values not found"
        for name, answer in self._counted(fields, mu, label, about, recode).items():
            sigma = float(np.max(answer.sigma))
            total = max(float(answer.values[:2].sum()), sigma)
            missing[name] = (min(1.0, float(answer.values[1]) / total), sigma / total)
        return missing

    def _rows(self) -> None:
        """Release the histogram of rows per user: L2 sensitivity 1, since a user is in one bin.
        Sets from it the clip of the partitions, by the rule of `privacy.clip`, where none is set.
        Sets the bound on rows per user where the schema has none."""
        bound = clip_rules.choice_bound(self.asked)
        mu = costs.column_mu(self.asked, self.mu)
        label = "domain of rows per user"
        first = {n: line_of(c).first() for n, c in self.columns.items() if not c.keyed}
        schema = provisional(self.asked, self.columns, first) if first else self._keyed_schema()
        with self._engine(schema) as engine:
            session = self._session(engine, 1)
            key = RowsPerUser(clip_rules.size_edges(bound))
            answer = session.user_histogram(
                key, mu=mu * math.sqrt(division.ROWS_PER_USER), label=label
            )
        about = {"kind": "grid", "attributes": [self.asked.user], "of": "rows per user", "clip": 1}
        self.releases += [r | about for r in session.releases]
        self.steps += 1
        counts = answer.values.tolist()
        if self.asked.pending and self.asked.max_rows_per_user is None:
            self.max_rows = costs.rows_bound(counts, float(np.max(answer.sigma)), bound)
        if self.clip is None:
            bins = [
                (costs.FINER * c.bins, division.PARTITIONS[-1])
                for c in self.columns.values()
                if not c.keyed
            ]
            bins = bins or [
                (2, 1.0) if self.asked.pending else (64, division.BIN_SUMS / division.PER_DOMAIN)
            ]
            most = self.max_rows or bound
            sizes, users = clip_rules.from_histogram(counts, bound, float(np.max(answer.sigma)))
            kept = [(s, u) for s, u in zip(sizes, users) if s <= most]
            choice = clip_rules.choose(
                [s for s, _ in kept],
                [u for _, u in kept],
                clip_rules.unit_noise(mu, bins),
                clip_rules.candidates(most),
                displaced=clip_rules.TV_PER_LOST_ROW,
            )
            self.clip = choice.clip

    def _keyed_schema(self) -> Schema:
        """A schema to read rows by where no column's bounds are to be found: all values have one
        code."""
        if not self.asked.pending:
            return self.asked
        column = next(iter(self.columns.values()))
        return with_fields(self.asked, {column.name: listed(column)})

    def _edges(self) -> dict[str, dict]:
        """Finds bounds and bins; returns the schema entries of the columns whose bounds are to be
        found."""
        columns = {name: c for name, c in self.columns.items() if not c.keyed}
        if not columns:
            return {}
        lines = {name: line_of(c) for name, c in columns.items()}
        grids = {name: Grid(line.first()) for name, line in lines.items()}
        self._measure(columns, grids, division.PARTITIONS[0], "domain 1", places=True)
        for name, column in columns.items():
            if "digits" in column.stated and dtypes.family(column.dtype) == "float":
                grids[name].digits = column.stated["digits"]
        lines = {name: grids[name].on_grain(line) for name, line in lines.items()}
        out = self._calendars(columns, lines, grids)
        out |= self._clocks(columns, lines, grids)
        columns = {name: self.columns[name] for name in columns if name not in out}
        for number, share in enumerate(division.PARTITIONS[1:] if columns else (), 2):
            for name, column in columns.items():
                grids[name] = grids[name].refined(
                    lines[name], column.bins, share / division.PARTITIONS[number - 2]
                )
            self._measure(columns, grids, share, f"domain {number}")
        crowded = {n: c for n, c in columns.items() if grids[n].crowded(lines[n])}
        if crowded:
            gain = division.FOURTH_PARTITION / division.PARTITIONS[-1]
            again = {n: grids[n].refined(lines[n], c.bins, gain) for n, c in crowded.items()}
            grids |= again
            self._measure(
                crowded, again, division.FOURTH_PARTITION, f"domain {len(division.PARTITIONS) + 1}"
            )
        for name, column in columns.items():
            grid = grids[name]
            line = lines[name]
            bins = line.bins(grid.edges, grid.counts, grid.sigma, column.bins, grid.span)
            out[name] = column.with_edges(
                bins, grid.nulls > SURE * grid.sigma, line.digits, grid.middle(bins)
            )
            self.missing[name] = grid.outside(bins)
        return out

    def _calendars(
        self, columns: Mapping[str, Pending], lines: Mapping[str, Line], grids: Mapping[str, Grid]
    ) -> dict[str, dict]:
        """The schema entries of columns that fill a range of the calendar. Of the columns that may
        do so by the first partition, a second one is counted that tells these ranges apart."""
        some = {n: c for n, c in columns.items() if lines[n].may_be_calendar(grids[n])}
        out: dict[str, dict] = {}
        if not some:
            return out
        counted = {name: Grid(CALENDAR_CELLS) for name in some}
        self._measure(some, counted, division.CALENDARS, "domain of calendars")
        for name, column in some.items():
            grid = counted[name]
            most = column.bins if "bins" in column.stated else max(column.bins, MOST_CALENDAR)
            if (known := calendar_edges(grid.counts, grid.sigma, most)) is not None:
                out[name] = column.with_edges(
                    known, grid.nulls > SURE * grid.sigma, lines[name].digits, grid.middle(known)
                )
                self.missing[name] = grid.outside(known)
        return out

    def _clocks(
        self, columns: Mapping[str, Pending], lines: Mapping[str, Line], grids: Mapping[str, Grid]
    ) -> dict[str, dict]:
        """The schema entries of whole numbers that are clock times (HHMM), by noisy counts of their
        hours; of columns of times, notes their step. A user's rows weigh 1 together."""
        some = {
            n: c for n, c in columns.items() if c.may_have_step or lines[n].may_be_clock(grids[n])
        }
        out: dict[str, dict] = {}
        if not some:
            return out
        mu = costs.column_mu(self.asked, self.mu) * math.sqrt(division.CALENDARS)
        about = {"kind": "grid", "clip": 1, "of": "clock times"}
        fields = {name: column.clock for name, column in some.items()}
        for name, answer in self._counted(fields, mu, "domain of clock times", about).items():
            column = some[name]
            sigma = float(np.max(answer.sigma))
            size = fields[name].parts[0].count
            hours = answer.values[:size]
            other, nulls = answer.values[size:]
            total = max(float(hours.sum() + other), sigma)
            if column.may_have_step:
                self.columns[name] = column.with_step(step_of(hours, sigma))
            elif is_clock(hours, other, sigma):
                part = f"{name}_hour"
                while part in self.asked.columns:
                    part += "_part"
                out[name] = column.with_clock(part, nulls > SURE * sigma)
                self.missing[name] = (min(1.0, max(0.0, other / total)), sigma / total)
        return out

    def described(self) -> dict:
        """What was found, for the statement."""
        return {
            "asked": self.asked.digest(),
            "part": self.part,
            "share": self.costs.share,
            "columns": list(self.asked.unfinished),
            "missing": {name: list(pair) for name, pair in self.missing.items()},
            **({} if self.max_rows is None else {"max_rows": self.max_rows}),
        }
