"""A mechanism's run, and the releases about users, so that rows can be dealt to synthetic users
that behave like users (docs/guide/users.md)."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from msgspec.structs import replace

from .._util.lazy import pa
from .._util.threads import resolve
from ..answers.evidence import code_maps, marginals_of
from ..answers.people_facts import PAIRS, described_facts, pairs_of_users
from ..answers.values import numbers_of
from ..errors import UsageError
from ..measurement import Measurement
from ..numbers.user_features import Feature, check_features, feature_of
from ..privacy.clip import TV_PER_LOST_ROW, TV_PER_LOST_ROW_GROUPED, choice_bound, size_edges
from ..release.gateway import Session
from ..schema import Schema
from ..schema.constraints import columns_of
from ..userkeys import (
    UNITS,
    Agreement,
    Disagreement,
    RowGroups,
    RowsPerUser,
    RowsUpTo,
    UserFacts,
    UserTable,
    WithoutId,
)
from ..users.balance import balanced
from ..users.constancy import (
    columns_to_test,
    constancy_test,
    constant_by_rate,
    disagreeing_if_repeated,
    share_needed,
)
from ..users.dealing import SAMPLE_ROWS, Dealer, dealer
from ..users.order import MOST_TIMES, Goal, Order, order_of, to_ask
from ..users.people import (
    Histogram,
    People,
    RowCount,
    Sizes,
    row_groups,
    rows_limit,
    size_bins,
    sizes_of,
)
from ..users.rates import (
    GROUPS,
    Rates,
    Roles,
    chance,
    chance_of,
    may_repeat,
    pairs_to_ask,
    rates_of,
    roles,
)
from ..users.user_choice import Agreements, Choice
from ..users.user_table import Marginal, PoolTable, combined, pool_facts, user_facts
from .base import Config, Job, Outcome, ignore_empty_columns
from .cliquetree.clique_tree import CliqueTree
from .limits.structural_zeros import StructuralZeros
from .plans import ROWS_PER_USER, Outline, users_share
from .shared.model_rows import GroupedRows, ModelRows, PoolRows
from .shared.one_ways import part_mu
from .shared.user_histogram import measure_users

SHARES = {"agreement rates": 0.06, "number of rows": 0.023}
SHARES |= {"rows without a user id": 0.002, "table of users": 0.03}
CONSTANTS_LABEL = "users whose rows disagree"
FACTS_LABEL, FACTS_SHARE = "facts about users", 0.06
SHARES |= {CONSTANTS_LABEL: 0.01, FACTS_LABEL: FACTS_SHARE}
"""Shares of mu^2 (chosen on flights, Chicago trips and simulated trips). Of the first only a part,
and the third, are spent where users repeat nothing; of constants what a standard error of .01 needs,
and nothing where no column can be constant; the last, the table about users, where it is not
noise."""
ORDER_SHARE, ORDER_LABEL = 0.02, "order of users' rows"
"""The share where the schema declares an order (chosen on Chicago trips)."""
PARTS, LEAST_ERROR = (0.015, 0.035, 0.01), 0.003
"""Parts of the share of agreement rates: all columns; by group, columns that users may repeat;
pairs of columns. The second was chosen on 14 tables other than flights and trips
(docs/research/users.md). No smaller standard error of a rate than LEAST_ERROR is asked for: what
that leaves over goes to the rows."""
SIZES_PART = 0.5
"""Part of the share of the table of users that goes to the histogram of rows per user; all of it
where the table has no columns."""
LEAST_USERS = 10.0
"""Users of a group in the table of users, in standard errors of an answer that costs all of its
share."""
LEAST_DRAWN, MOST_USERS = 1 << 17, 1 << 20
"""Users that are drawn from the model of the table of users: twice as many as there are, within
these."""
MOST_ERROR = 0.3
"""The number of rows is the one that was counted for users, where its standard error is below this
part of it; else the mechanism's own."""
LABELS = ("agreement of users' rows", "agreement by rows per user", "agreement in pairs of columns")
GROUP_ROWS, GROUP_CELLS = 100.0, 200.0
"""A group of users is a code of its own in the model of rows if the rows that count in it are
GROUP_ROWS standard errors of an answer that costs all of mu, or if a marginal of GROUP_CELLS cells
has more sampling error than noise in it. Where no groups are so large, two smaller ones are better
than none (`people.row_groups`). Chosen on generated tables
(docs/research/users.md#rows-stage-by-stage)."""
GROUP = "rows of the user"
ROWS_LABEL, SIZES_LABEL = "number of rows", "rows per user in fine bins"
NULLS_LABEL = "rows without a user id"
LEAST_FACTS = 60.0
"""Facts about users are released where there are this many users for each standard error of a count
that costs all of their share: else they are noise, and the share goes to the rows."""
OTHER_ROWS, OTHER_CODES = 1 << 18, 1 << 22
"""Rows of the model, with at most so many codes, by which marginals of rows are known better than by
a pool of fewer."""
POOL = 3
"""Users of the pool for each user that is chosen."""


def users_cost(config: Config, schema: Schema, public: bool) -> float:
    """The share of mu^2 that a run may spend on users, in addition to the mechanism's share."""
    auto = config.ids.source == "auto" and config.traits.users_by_default and not public
    wanted = auto or config.ids.source == "users"
    repeats = schema.user is not None and schema.max_rows_per_user != 1
    return math.fsum(shares(schema).values()) if wanted and repeats else 0.0


def shares(schema: Schema) -> dict[str, float]:
    """What is released about users, by its share of mu^2."""
    ordered = {ORDER_LABEL: ORDER_SHARE} if schema.order else {}
    return SHARES | ordered


def check_users(config: Config, schema: Schema) -> None:
    """Raise UsageError if users are asked for that this run cannot make."""
    if config.ids.source == "users" and (
        not config.deals_ids or config.pure or config.unit != "user"
    ):
        needs = 'a mechanism that makes rows first, with Gaussian noise and unit "user"'
        raise UsageError(f'ids.source = "users" needs {needs}; use "auto" with this {config.name}')
    likely = schema.stand_in()
    check_features(likely)
    order = likely.order_columns
    for name in order:
        if name not in likely.modelled:
            raise UsageError(
                f"column {name!r}: it is computed from others, so rows cannot be in its order"
            )
    if order and likely.domain.cells(order) >= MOST_TIMES:
        names = ", ".join(order)
        raise UsageError(
            f"user, field 'order': {names} have 2^32 combinations or more; use coarser parts"
        )
    constant = {name for name, role in likely.of_users().items() if role == "constant"}
    for name in sorted(constant & _constrained(likely) - set(_following(likely).values())):
        raise UsageError(
            f'column {name!r}: remove user = "constant", since it takes part in a constraint'
        )


def _constrained(schema: Schema) -> set[str]:
    """The columns that constraints name."""
    return {name for c in schema.constraints for name in columns_of(schema, c)}


def _following(schema: Schema) -> dict[str, str]:
    """Columns, each with the one column that it follows from, of which no other constraints name
    either."""
    named = [columns_of(schema, c) for c in schema.constraints]
    alone = [n for n, c in zip(named, schema.constraints) if c.column and len(n) == 2]
    return {
        b: a
        for a, b in alone
        if all((n in alone and n[0] == a) or not {a, b} & set(n) for n in named)
    }


def plan_charges(outline: Outline, schema: Schema, cost: float) -> tuple[tuple[str, float], ...]:
    """The charges of a mechanism's plan within what users leave it, and those of users."""
    own = tuple((what, share * (1 - cost)) for what, share in outline.charges)
    return own + tuple(shares(schema).items()) if cost else own


def run_with_users(config: Config, session: Session, job: Job) -> Outcome:
    """The mechanism's outcome; where users are asked for, with the dealer of its rows."""
    cost = users_cost(config, job.schema, job.public is not None)
    if not cost:
        return config.run(session, job)
    users = _Users(config, session, job, cost)
    rows, of_rows = users.rows()
    outcome = config.run(rows, replace(of_rows, after_ones=users.after_ones))
    if not isinstance(outcome.rows, ModelRows):
        raise UsageError(
            f'ids.source = "users": {config.name} can make its rows only once; use "auto"'
        )
    if users.decided is None:
        some = outcome.rows.plain().some(min(outcome.rows.total, SAMPLE_ROWS), job.seed)
        users.ask(dict(zip(session.domain, chance(some, tuple(session.domain)))))
    return users.dealt(outcome)


class _Users:
    """What is released about users in the course of a mechanism's run, and what is decided by
    it."""

    def __init__(self, config: Config, session: Session, job: Job, cost: float):
        self.config, self.session, self.job, self.cost = config, session, job, cost
        self.released: list[Measurement] = []
        self.rates = Rates((), np.empty(0), np.empty(0), np.empty((len(GROUPS), 0)))
        self.decided: Roles | None = None
        self.people: People | None = None
        self.groups: RowGroups | None = None
        self.coarse: Histogram | None = None
        self.order: tuple[Order, Goal] | None = None
        self.told = False
        self.fine_edges: list[int] = []
        self.people_codes: dict[str, np.ndarray] = {}
        self.pairs: pa.Table | None = None
        self.table_error = self.spent = self.constants_spent = 0.0

    def rows(self) -> tuple[Session, Job]:
        """Session and job of the mechanism. Where noise allows, its rows have the group of their
        user's number of rows as a further column: within a group all rows weigh nearly the same, so
        that the model of rows, with as many rows of each group as there are, has hardly any bias
        from clipping."""
        rows, job = self.session.part(1 - self.cost), self.job
        if not self.config.traits.may_choose_clip:
            return rows, job
        grouped = self.config.traits.users_by_default
        displaced = TV_PER_LOST_ROW_GROUPED if grouped else TV_PER_LOST_ROW
        counted = measure_users(self.config, rows, job, displaced=displaced)
        if counted.histogram is not None:
            bound, values, mu = (
                choice_bound(job.schema),
                counted.histogram.values,
                part_mu(rows, 1.0),
            )
            self.coarse = Histogram(
                size_edges(bound), values, float(np.max(counted.histogram.sigma))
            )
            least = rows.clip * min(GROUP_ROWS / mu, GROUP_CELLS / mu**2)
            edges = row_groups(self.coarse, bound, rows.clip, least)
            if len(edges) > 1 and grouped:
                self.groups = RowGroups(edges, group_column(job.schema, of_users=False))
                rows = self.session.part(1 - self.cost, self.groups)
                job = replace(job, schema=rows.schema)
        return rows, replace(job, users=counted)

    def after_ones(self, ones: Sequence[Measurement]) -> float:
        """Asks about users once the 1-ways are known; the share of the mechanism's mu^2 that is
        left over."""
        ones = [m for m in ones if set(m.clique) <= set(self.session.domain)]
        self.job.after_ones(ones)
        by_chance = chance_of(ones)
        if self.decided is not None or not set(self.session.domain) <= set(by_chance):
            return 0.0
        return self.ask(by_chance) / (1 - self.cost)

    def ask(self, by_chance: Mapping[str, float]) -> float:
        """Releases agreement rates, and, unless users repeat nothing, rows per user and the table
        of users; the share of mu^2 that is left over."""
        self._ask_for_nulls()
        declared = self.job.schema.of_users()
        columns = tuple(
            n for n in self.session.domain if declared.get(n) not in ("constant", "free")
        )
        self.by_chance = np.array([by_chance[name] for name in columns])
        domain, schema = self.session.domain, self.job.schema
        self.decided = self._agreement(columns, declared)
        ordered = {n: domain[n] for n in columns if schema.columns[n].ordered}
        pairs = pairs_to_ask(self.decided, ordered, columns, self._numbers())
        if pairs:
            self.rates = self.rates.with_pairs(pairs, self._ask(Agreement(pairs), 2, PARTS[2]))
        left = SHARES["agreement rates"] - self.spent
        left += SHARES[CONSTANTS_LABEL] - self.constants_spent
        if schema.order:
            self._ask_for_order(self.decided)
        counted = users_share(self.config, public=self.job.public is not None, user=True) > 0
        if counted and not (self.decided.constant or self.decided.dealt or self.order):
            unspent = SHARES["number of rows"] + SHARES["table of users"]
            return left + unspent + FACTS_SHARE
        self._ask_for_people(self.decided)
        self.told = self._worth_facts()
        return left + (0.0 if self.told else FACTS_SHARE)

    def dealt(self, outcome: Outcome) -> Outcome:
        """The outcome with the dealer of its rows and the number of rows that was counted for
        users."""
        described, made, model = self._described(), None, outcome.rows
        assert isinstance(model, ModelRows)
        groups = ("", (1,)) if self.groups is None else (self.groups.name, self.groups.edges)
        if self.groups is not None:
            described["row_groups"] = list(groups[1])
        rows = model if self.groups is None else GroupedRows(model, groups[0], None)
        if self.people is not None and self.decided is not None:
            sizes, some = self.people.sizes, model.plain().some(SAMPLE_ROWS, self.job.seed)
            measured = {c for m in outcome.measurements if groups[0] in m.clique for c in m.clique}
            about = (self.session.clip, groups, self.table_error, measured)
            self.people, keep = balanced(self.people, some, *about)
            if keep or self.groups is not None:
                rows = GroupedRows(model, groups[0], sizes.rows_by((1,), groups[1])[0], keep)
            described |= {"rows": round(sizes.rows), "rows_interval": list(sizes.interval)}
            described |= {"rows_bound": sizes.bound, "most_rows": sizes.most_rows}
            described["rows_bins"] = self.fine_edges
            described["rows_up_to"] = {"most": sizes.most, "interval": list(sizes.seen_interval)}
            if self.job.rows is None and sizes.error < MOST_ERROR * sizes.rows:
                rows = rows.again(round(sizes.rows), self.job.seed)
            # trials find as many rows as there will be
            some = rows.plain().some(min(rows.total * POOL, SAMPLE_ROWS), self.job.seed)
            own = (some, self.job.seed, resolve(self.job.threads), groups, self.order)
            made = dealer(self.people, self.rates, self.decided, *own, self._numbers())
            described["levels"] = {x.column: round(x.between, 3) for x in made.levels}
            described["together"] = [list(pair) for pair in made.joint]
            view = self._facts(self.decided)
            if self.told:
                facts = view.domain(self.session.domain)
                described["facts"] = {n: size for n, size in facts.items() if n != view.name}
            made = self._with_choice(made, rows, view)
            if self.told:
                described["people"] = self._people_described(view)
            rows = PoolRows(rows, POOL) if made.choice is not None else rows
        described["without_id"] = self._without_id(rows.total)
        details = {**outcome.details, "users": described}
        measurements = (*outcome.measurements, *self.released)
        tables = {**outcome.tables, **({} if self.pairs is None else {PAIRS: self.pairs})}
        made_rows = {"rows": rows, "dealer": made, "tables": tables}
        return replace(outcome, measurements=measurements, details=details, **made_rows)

    def _numbers(self) -> tuple[str, ...]:
        """Columns of numbers in whose level users may differ: amounts, and the first of the order,
        since users come at some time."""
        schema, domain = self.job.schema, self.session.domain
        sums = (one.sum_of for one in self._features())
        names = dict.fromkeys([*schema.user_amounts, *sums, *schema.order_columns[:1]])
        return tuple(n for n in names if n in domain)

    def _features(self) -> list[Feature]:
        """What the owner adds to the table about users."""
        schema, bound = self.job.schema, choice_bound(self.job.schema)
        return [feature_of(one, schema, bound) for one in schema.user_features]

    def _worth_facts(self) -> bool:
        """Whether facts about users are worth a release, by what is known of their number."""
        mu = part_mu(self.session, FACTS_SHARE)
        return self.coarse is None or float(self.coarse.values.sum()) * mu >= LEAST_FACTS

    def _facts(self, decided: Roles) -> UserFacts:
        """The facts about users by which they are chosen."""
        schema, domain = self.job.schema, self.session.domain
        amounts = {n: numbers_of(schema.columns[n]).middle for n in schema.user_amounts}
        order = [n for n in schema.order_columns[:1] if n in domain]
        bound, name = choice_bound(schema), group_column(schema, of_users=True)
        return user_facts(domain, decided, order, amounts, bound, name, self._features())

    def _with_choice(self, made: Dealer, rows: ModelRows, view: UserFacts) -> Dealer:
        """The dealer that chooses users of a pool by all that was released about users."""
        sizes = self.session.domain
        marginals = self._told(made, rows, view) if self.told else []
        gaps = None
        if self.order is not None:
            ends, gaps = self._ends(view), self.order[1].gaps(self.order[0].key)
            marginals += ends
        agreed = self._agreed()
        if not marginals and gaps is None and not agreed.columns:
            return made
        assert self.people is not None
        users = float(self.people.sizes.users.sum())
        count = min(OTHER_ROWS, OTHER_CODES // max(1, len(sizes)))
        others = rows.plain().some(count, self.job.seed + 1)
        choice = Choice(view, marginals, self.session.schema, POOL, users, gaps, agreed, others)
        return replace(made, choice=choice)

    def _agreed(self) -> Agreements:
        """The released agreement of columns that are not constant, where users repeat something."""
        assert self.decided is not None
        rates, fixed = self.rates, (*self.decided.constant, *self.decided.following)
        at = [i for i, name in enumerate(rates.columns) if name not in fixed]
        if not self.decided.dealt or not at:
            return Agreements()
        columns = tuple(rates.columns[i] for i in at)
        return Agreements(columns, rates.overall[at], rates.error[at])

    def _told(self, made: Dealer, rows: ModelRows, view: UserFacts) -> list[Marginal]:
        """A release of facts about users, whose prior is what the dealer makes by itself."""
        some = rows.plain().some(min(rows.total * POOL, SAMPLE_ROWS), self.job.seed)
        alone = replace(made, order=None)
        codes, owner = alone.deal(some, self.job.seed, resolve(self.job.threads))
        order = np.argsort(owner, kind="stable")
        start = np.append(0, np.cumsum(np.bincount(owner)))
        in_order = {n: c[order] for n, c in codes.items()}
        found = pool_facts(view, self.session.schema, in_order, start)
        of_users = self.session.part(FACTS_SHARE, view)
        task = replace(
            self.job,
            schema=of_users.schema,
            rows=None,
            public=PoolTable(of_users.schema, found),
            zeros=StructuralZeros(),
            users=None,
            given=frozenset(),
            after_ones=ignore_empty_columns,
        )
        outcome = CliqueTree().run(of_users, task)
        assert isinstance(outcome.rows, ModelRows)
        self.released += [m for m in outcome.measurements if m.clique]
        self.people_codes = code_maps(outcome.tables.get("codes"))
        names = list(of_users.domain)
        self.pairs = pairs_of_users(outcome.model, names, outcome.tables.get("distances"))
        answers = marginals_of(outcome.measurements, of_users.domain, self.people_codes)
        return combined(
            [
                Marginal(m.axes, m.maps, m.values.reshape(-1), np.sqrt(m.variances).reshape(-1))
                for m in answers
                if m.axes and m.complete
            ]
        )

    def _people_described(self, view: UserFacts) -> list[dict]:
        """The columns of the table about users, for answers about users."""
        schema = self.job.schema
        amounts = {n: numbers_of(schema.columns[n]).middle for n in schema.user_amounts}
        rows, sizes = (view.name, view.edges), dict(self.session.domain)
        bound = choice_bound(schema)
        codes, features = self.people_codes, self._features()
        return described_facts(view.facts, rows, sizes, bound, amounts, codes, features)

    def _ends(self, view: UserFacts) -> list[Marginal]:
        """First and last periods by the release of users' order, where its bins are the periods."""
        assert self.decided is not None
        answers = next(m for m in self.released if m.label == ORDER_LABEL)
        if self.decided is None:
            raise RuntimeError("the order of rows is asked about after columns have their roles")
        key = to_ask(self.job.schema, self.session.domain, self.decided)
        parts, sigma = key.parts(answers.values), float(np.max(answers.sigma))
        out = []
        for name, kind, column, numbers, _ in view.facts:
            if kind in ("first", "last") and numbers == (key.ends,) and column == key.order[0]:
                same = (np.arange(key.ends),)
                out.append(Marginal((name,), same, parts[kind], np.full(key.ends, sigma)))
        return out

    def _ask_for_nulls(self) -> None:
        """Counts the rows without a user id, as many as the clip of them together being one
        unit."""
        key = WithoutId(min(UNITS, 1 << (self.session.clip - 1).bit_length()))
        mu = part_mu(self.session, SHARES[NULLS_LABEL])
        counted = self.session.user_histogram(key, mu=mu, label=NULLS_LABEL)
        self.released.append(counted)
        self.nulls = key.together, float(counted.values[0]), float(np.max(counted.sigma))

    def _without_id(self, rows: int) -> dict:
        """The rows without a user id, for the statement: a 95 % interval of their share of all
        rows, of which `rows` are counted otherwise."""
        together, count, error = self.nulls
        others = rows if self.job.schema.null_user == "drop" else 0
        ends = [max(0.0, together * (count + z * error)) for z in (-1.96, 1.96)]
        share = [min(1.0, end / max(1.0, others + end if others else rows)) for end in ends]
        return {"share_interval": share, "together": together}

    def _agreement(self, columns: tuple[str, ...], declared: Mapping[str, str]) -> Roles:
        """Releases rates of all columns and, where users repeat something, by rows per user rates
        of columns that they may repeat. Which roles the columns have."""
        following = _following(self.job.schema)
        never = tuple(_constrained(self.job.schema) - set(following.values()))
        if columns:
            overall = self._ask(
                Agreement(tuple((n,) for n in columns)), 0, self._enough(len(columns), 0)
            )
            self.rates = rates_of(columns, overall, self.by_chance, self.coarse)
        known = (*never, *declared)
        found, refuted = self._constants(known)
        decided = roles(self.rates, self.by_chance, found, declared, following)
        maybe = may_repeat(decided, self.rates, self.by_chance)
        if not maybe:
            return decided
        by_group = self._ask(
            Agreement(tuple((n,) for n in maybe), GROUPS), 1, self._enough(len(maybe), 1)
        )
        self.rates = rates_of(columns, overall, self.by_chance, self.coarse, (maybe, by_group))
        likely = constant_by_rate(self.rates, self.by_chance, without=(*known, *refuted, *found))
        return roles(self.rates, self.by_chance, (*found, *likely), declared, following)

    def _constants(self, known: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Releases how many users disagree in the columns that may be constant, other than `known`
        ones: (those that are constant, those that surely are not)."""
        sure = constant_by_rate(self.rates, self.by_chance, without=known, sure=True)
        refuted: tuple[str, ...] = ()
        passed: tuple[str, ...] = ()
        mu = part_mu(self.session, SHARES[CONSTANTS_LABEL])
        different = disagreeing_if_repeated(self.by_chance, self.coarse)
        columns = columns_to_test(self.rates, self.by_chance, different, mu, (*known, *sure))
        if columns:
            needed = share_needed(self.rates, len(columns), part_mu(self.session, 1.0))
            share = min(SHARES[CONSTANTS_LABEL], needed)
            mu = part_mu(self.session, share)
            key = Disagreement(columns)
            answers = self.session.user_histogram(key, mu=mu, label=CONSTANTS_LABEL)
            self.released.append(answers)
            self.constants_spent = share
            passed, refuted = constancy_test(columns, answers, self.rates, different)
        likely = constant_by_rate(self.rates, self.by_chance, without=(*known, *refuted))
        found = tuple(n for n in self.rates.columns if n in (*sure, *passed, *likely))
        return found, refuted

    def _enough(self, columns: int, which: int) -> float:
        """The share of mu^2 that rates of so many columns need for LEAST_ERROR, at most a part of
        PARTS; by group (which = 1) of a third of the users."""
        users = 1.0 if self.coarse is None else max(1.0, float(self.coarse.values[1:].sum()))
        mu = (3 if which else 1) / (2 * users * LEAST_ERROR * part_mu(self.session, 1.0))
        return min(PARTS[which], (columns + 1) * mu**2)

    def _ask(self, key: Agreement, which: int, share: float) -> Measurement:
        mu = part_mu(self.session, share)
        self.spent += share
        self.released.append(self.session.user_histogram(key, mu=mu, label=LABELS[which]))
        return self.released[-1]

    def _ask_for_order(self, decided: Roles) -> None:
        schema, domain = self.job.schema, self.session.domain
        key = to_ask(schema, domain, decided)
        mu = part_mu(self.session, ORDER_SHARE)
        self.released.append(self.session.user_histogram(key, mu=mu, label=ORDER_LABEL))
        self.order = order_of(key, self.released[-1], self.rates, dict(domain))

    def _ask_for_people(self, decided: Roles) -> None:
        sizes = self._sizes(1.0 if not decided.constant else SIZES_PART)
        if not decided.constant:
            self.people = People(sizes)
            return
        share = SHARES["table of users"] * (1 - SIZES_PART)
        self.table_error = 1 / part_mu(self.session, share)
        groups = sizes.groups(LEAST_USERS * self.table_error)
        view = UserTable(groups, group_column(self.job.schema, of_users=True), decided.constant)
        of_users = self.session.part(share, view)
        task = replace(
            self.job,
            schema=of_users.schema,
            rows=None,
            public=None,
            previous=None,
            zeros=StructuralZeros(),
        )
        task = replace(task, after_ones=ignore_empty_columns)
        rows = CliqueTree().run(of_users, task).rows
        assert isinstance(rows, ModelRows)
        drawn = rows.some(
            min(MOST_USERS, max(LEAST_DRAWN, 2 * int(sizes.users.sum()))), self.job.seed
        )
        self.people = People.of(sizes, view.edges, view.name, drawn)

    def _sizes(self, part: float) -> Sizes:
        """Rows per user: a histogram in fine bins, the number of rows, and the histogram that the
        clip was chosen from."""
        session, bound, coarse = self.session, choice_bound(self.job.schema), self.coarse
        mu = part_mu(session, SHARES["number of rows"])
        most = bound if coarse is None else rows_limit(coarse, bound)
        count = session.user_histogram(RowsUpTo(most), mu=mu, label=ROWS_LABEL)
        mu = part_mu(session, SHARES["table of users"] * part)
        edges = size_bins(bound, coarse, 1 / mu)
        fine = session.user_histogram(RowsPerUser(edges), mu=mu, label=SIZES_LABEL)
        self.released += [count, fine]
        self.fine_edges = [int(e) for e in edges]
        counted = RowCount(most, float(count.values[0]), float(np.max(count.sigma)))
        return sizes_of(
            Histogram(edges, fine.values, float(np.max(fine.sigma))), coarse, counted, bound
        )

    def _described(self) -> dict:
        """What was decided, for the statement: released numbers only."""
        assert self.decided is not None
        columns, pairs = self.rates.columns, [list(pair) for pair in self.rates.pairs]
        return {
            "pairs": [[*p, r] for p, r in zip(pairs, np.round(self.rates.together, 6).tolist())],
            "constant": [*self.decided.constant, *self.decided.following],
            "repeated": list(self.decided.repeated),
            "avoided": list(self.decided.avoided),
            "agreement": dict(zip(columns, np.round(self.rates.overall, 6).tolist())),
            "by_chance": dict(zip(columns, np.round(self.by_chance, 6).tolist())),
            "standard_error": float(self.rates.error.max(initial=0.0)),
        } | ({} if self.order is None else {"order": self._order_described()})

    def _order_described(self) -> dict:
        assert self.order is not None
        order = self.order[0]
        return {**order.described, "ends": order.key.ends}


def group_column(schema: Schema, of_users: bool) -> str:
    """The column of groups of users that a view has in addition to those of the schema."""
    name = ROWS_PER_USER if of_users else GROUP
    while name in schema.domain:
        name += "_"
    return name
