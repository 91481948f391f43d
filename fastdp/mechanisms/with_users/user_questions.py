"""What is asked about users in the course of a mechanism's run, and what the answers decide: which
columns are constant, which are repeated, how many rows users have, and who the users are."""

from collections.abc import Mapping, Sequence

import numpy as np
from msgspec.structs import replace

from ...division import AGREEMENT, SIZES_PART, USERS
from ...measurement import Measurement
from ...numbers.user_features import Feature, feature_of
from ...privacy.clip import TV_PER_LOST_ROW, TV_PER_LOST_ROW_GROUPED, choice_bound, size_edges
from ...release.gateway import Session
from ...significance import LIKELY, SURE, Z95
from ...user_views import RowGroups, UserTable
from ...userkeys import (
    UNITS,
    Agreement,
    Disagreement,
    RowsPerUser,
    RowsUpTo,
    WithoutId,
)
from ...users.constancy import (
    columns_to_test,
    constancy_test,
    constant_by_rate,
    disagreeing_if_repeated,
    share_needed,
)
from ...users.gaps import Gaps
from ...users.order import Goal, Order, order_of, to_ask
from ...users.people import (
    Histogram,
    People,
    RowCount,
    Sizes,
    piles_up,
    row_groups,
    rows_limit,
    size_bins,
    sizes_of,
)
from ...users.rates import (
    GROUPS,
    Chance,
    Rates,
    Roles,
    chance_of,
    may_repeat,
    pairs_to_ask,
    rates_of,
    roles,
)
from ..base import Config, Job
from ..limits.structural_zeros import StructuralZeros
from ..plans import users_share
from ..shared.model_rows import ModelRows
from ..shared.one_ways import part_mu
from ..shared.user_histogram import measure_users
from .table_model import TableModel
from .user_budget import (
    CONSTANTS_LABEL,
    FACTS_LABEL,
    NULLS_LABEL,
    ORDER_LABEL,
    ROWS_LABEL,
    SIZES_LABEL,
    shares,
)
from .user_demands import constrained_columns, followed_columns, group_column

LEAST_ERROR = 0.003
"""No smaller standard error of a rate is asked for: what that leaves over goes to the rows. Without
this limit, at epsilon 10, eight of all measures of eight tables are worse and four better: gaps of
courses .0097 to .0117 ± .0004, distinct values of fleets .0089 to .0107 ± .0005, columns across of
events .052 to .055 ± .001 (`python -m bench.users_without "a least error of rates" --epsilon 10`). At
1 it limits nothing."""
LEAST_USERS = 10.0
"""Users of a group in the table of users, in standard errors of an answer that costs all of its
share."""
LEAST_DRAWN = 1 << 17
"""Users drawn from the model of the table of users: twice as many as there are, but at least these."""
MOST_USERS = 1 << 20
"""And at most these."""
LABELS = ("agreement of users' rows", "agreement by rows per user", "agreement in pairs of columns")
GROUP_ROWS = 100.0
"""A group of users is a code of its own in the model of rows if the rows that count in it are so many
standard errors of an answer that costs all of mu. Where no groups are so large, two smaller ones are
better than none (`people.row_groups`). Chosen on generated tables
(docs/research/users.md#rows-stage-by-stage)."""
MOST_ONCE = 0.5
"""Users have one row for each period if their rows share one less than so often as by chance, as far as
can be seen never (panels: 0; a user with seasons or sessions shares more than by chance)."""
LEAST_FACTS = 60.0
"""Facts about users are released where there are this many users for each standard error of a count
that costs all of their share: else they are noise, and the share goes to the rows."""


def share_of_rates(users: float, columns: int, mu: float, parts: int = 1) -> float:
    """The share of mu^2 by which rates of agreement of so many columns have a standard error of
    LEAST_ERROR, among one in `parts` of the users. One user adds a number between -1 and 1 to each of
    columns + 1 keys."""
    return (columns + 1) * (parts / (2 * users * LEAST_ERROR * mu)) ** 2


class UserQuestions:
    """What is released about users, and what is decided by it. `tables`: models tables about users."""

    def __init__(self, config: Config, session: Session, job: Job, cost: float, tables: TableModel):
        self.config = config
        self.session = session
        self.job = job
        self.cost = cost
        self.shares = shares(job.schema, config)
        self.tables = tables
        self.released: list[Measurement] = []
        self.rates = Rates((), np.empty(0), np.empty(0), np.empty((len(GROUPS), 0)))
        self.decided: Roles | None = None
        self.people: People | None = None
        self.groups: RowGroups | None = None
        self.coarse: Histogram | None = None
        self.order: tuple[Order, Goal] | None = None
        self.told = False
        self.full = False
        self.fine_edges: list[int] = []
        self.spent = self.constants_spent = 0.0

    def rows(self) -> tuple[Session, Job]:
        """Session and job of the mechanism. Where noise allows, its rows have a further column: the
        group of their user by its number of rows. Within a group all rows weigh nearly the same. So
        a model with as many rows of each group as there are has hardly any bias from clipping."""
        rows = self.session.part(1 - self.cost)
        job = self.job
        if not self.config.traits.may_choose_clip:
            return rows, job
        grouped = self.config.traits.users_by_default
        displaced = TV_PER_LOST_ROW_GROUPED if grouped else TV_PER_LOST_ROW
        counted = measure_users(self.config, rows, job, displaced=displaced)
        if counted.histogram is not None:
            bound = choice_bound(job.schema)
            values = counted.histogram.values
            mu = part_mu(rows, 1.0)
            self.coarse = Histogram(
                size_edges(bound), values, float(np.max(counted.histogram.sigma))
            )
            least = rows.clip * GROUP_ROWS / mu
            edges = row_groups(self.coarse, bound, rows.clip, least)
            if len(edges) > 1 and grouped:
                self.groups = RowGroups(edges, group_column(job.schema, of_users=False))
                rows = self.session.part(1 - self.cost, self.groups)
                job = replace(job, schema=rows.schema)
        return rows, replace(job, users=counted)

    def ask_by(self, ones: Sequence[Measurement]) -> float:
        """Asks about users by the noisy 1-ways; the share of the mechanism's mu^2 that is left
        over."""
        by_chance = chance_of(ones)
        if self.decided is not None or not set(self.session.domain) <= set(by_chance.columns):
            return 0.0
        return self.ask(by_chance) / (1 - self.cost)

    def ask(self, by_chance: Chance) -> float:
        """Releases agreement rates, and, unless users repeat nothing, rows per user and the table
        of users; the share of mu^2 that is left over."""
        self._ask_for_nulls()
        declared = self.job.schema.of_users()
        columns = tuple(
            n for n in self.session.domain if declared.get(n) not in ("constant", "free")
        )
        self.chance = by_chance.of(columns)
        self.by_chance = self.chance.two
        domain = self.session.domain
        schema = self.job.schema
        self.decided = self._agreement(columns, declared)
        ordered = {n: domain[n] for n in columns if schema.columns[n].ordered}
        pairs = pairs_to_ask(self.decided, ordered, columns, self.numbers())
        if pairs:
            self.rates = self.rates.with_pairs(pairs, self._ask(Agreement(pairs), 2, self._part(2)))
        left = self.shares["agreement rates"] - self.spent
        left += self.shares[CONSTANTS_LABEL] - self.constants_spent
        if schema.order:
            self._ask_for_order(self.decided)
        counted = users_share(self.config, public=self.job.public is not None, user=True) > 0
        if counted and not (self.decided.constant or self.decided.dealt or self.order):
            unspent = self.shares["number of rows"] + self.shares["table of users"]
            return left + unspent + self.shares[FACTS_LABEL]
        self._ask_for_people(self.decided)
        self.told = self._worth_facts()
        return left + (0.0 if self.told else self.shares[FACTS_LABEL])

    def numbers(self) -> tuple[str, ...]:
        """Columns of numbers in whose level users may differ: amounts, and the first of the order,
        since users come at some time."""
        schema = self.job.schema
        domain = self.session.domain
        sums = (one.sum_of for one in self.features())
        names = dict.fromkeys([*schema.user_amounts, *sums, *schema.order_columns[:1]])
        return tuple(n for n in names if n in domain)

    def once(self) -> bool:
        """Whether no two rows of a user share a code of the first column of the order. How often they
        agree, and how often a row comes no time after the one before, are not surely above 0. And
        they agree surely less than a part MOST_ONCE of chance, or as many users as nowhere near
        have a row for each code."""
        rates = self.rates
        order = self.job.schema.order_columns[:1]
        if not order or order[0] not in rates.columns:
            return False
        at = rates.columns.index(order[0])
        doubt = LIKELY * float(rates.error[at])
        rate = float(rates.overall[at])
        gaps = self.gaps()
        if rate >= doubt or (gaps is not None and gaps.shares[0] > SURE * gaps.error):
            return False
        return self.full or rate + doubt < MOST_ONCE * float(self.by_chance[at])

    def periods(self) -> int:
        """The values of the first column of the order, without codes of null and of others; 1 without
        an order."""
        columns = self.job.schema.columns
        return max((columns[n].base for n in self.job.schema.order_columns[:1]), default=1)

    def gaps(self) -> Gaps | None:
        """What was released of gaps between rows, where they have an order."""
        return None if self.order is None else self.order[1].gaps(self.order[0].key)

    def features(self) -> list[Feature]:
        """What the owner adds to the table about users."""
        schema = self.job.schema
        bound = choice_bound(self.job.schema)
        return [feature_of(one, schema, bound) for one in schema.user_features]

    def _worth_facts(self) -> bool:
        """Whether facts about users are worth a release, by what is known of their number."""
        mu = part_mu(self.session, self.shares[FACTS_LABEL])
        return self.coarse is None or float(self.coarse.values.sum()) * mu >= LEAST_FACTS

    def _ask_for_nulls(self) -> None:
        """Counts the rows without a user id, as many as the clip of them together being one
        unit."""
        key = WithoutId(min(UNITS, 1 << (self.session.clip - 1).bit_length()))
        mu = part_mu(self.session, self.shares[NULLS_LABEL])
        counted = self.session.user_histogram(key, mu=mu, label=NULLS_LABEL)
        self.released.append(counted)
        self.nulls = key.together, float(counted.values[0]), float(np.max(counted.sigma))

    def without_id(self, rows: int) -> dict:
        """The rows without a user id, for the statement: a 95 % interval of their share of all
        rows, of which `rows` are counted otherwise."""
        together, count, error = self.nulls
        others = rows if self.job.schema.null_user == "drop" else 0
        ends = [max(0.0, together * (count + z * error)) for z in (-Z95, Z95)]
        share = [min(1.0, end / max(1.0, others + end if others else rows)) for end in ends]
        return {"share_interval": share, "together": together}

    def _agreement(self, columns: tuple[str, ...], declared: Mapping[str, str]) -> Roles:
        """Releases rates of all columns and, where users repeat something, by rows per user rates
        of columns that they may repeat. Which roles the columns have."""
        after = followed_columns(self.job.schema)
        never = tuple(constrained_columns(self.job.schema) - set(after.values()))
        if columns:
            overall = self._ask(
                Agreement(tuple((n,) for n in columns)), 0, self._enough(len(columns), 0)
            )
            self.rates = rates_of(
                columns, overall, self.chance, self.coarse, clip=self.session.clip
            )
        known = (*never, *declared)
        found, refuted = self._constants(known)
        decided = roles(self.rates, self.by_chance, found, declared, after)
        maybe = may_repeat(decided, self.rates, self.by_chance)
        if not maybe:
            return decided
        by_group = self._ask(
            Agreement(tuple((n,) for n in maybe), GROUPS), 1, self._enough(len(maybe), 1)
        )
        self.rates = rates_of(
            columns, overall, self.chance, self.coarse, (maybe, by_group), self.session.clip
        )
        likely = constant_by_rate(self.rates, self.by_chance, without=(*known, *refuted, *found))
        return roles(self.rates, self.by_chance, (*found, *likely), declared, after)

    def _constants(self, known: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Releases how many users disagree in the columns that may be constant, other than `known`
        ones: (those that are constant, those that surely are not)."""
        sure = constant_by_rate(self.rates, self.by_chance, without=known, sure=True)
        refuted: tuple[str, ...] = ()
        passed: tuple[str, ...] = ()
        mu = part_mu(self.session, self.shares[CONSTANTS_LABEL])
        different = disagreeing_if_repeated(self.by_chance, self.coarse)
        columns = columns_to_test(self.rates, self.by_chance, different, mu, (*known, *sure))
        if columns:
            needed = share_needed(self.rates, len(columns), part_mu(self.session, 1.0))
            share = min(self.shares[CONSTANTS_LABEL], needed)
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
        """The share of mu^2 for rates of so many columns: `share_of_rates`, at most that of `_part`;
        by group (which = 1) of a third of the users."""
        users = 1.0 if self.coarse is None else max(1.0, float(self.coarse.values[1:].sum()))
        needed = share_of_rates(users, columns, part_mu(self.session, 1.0), 3 if which else 1)
        return min(self._part(which), needed)

    def _part(self, which: int) -> float:
        """The share of mu^2 of one release of agreement rates, at most."""
        return AGREEMENT[which] * (self.shares["agreement rates"] / USERS["agreement rates"])

    def _ask(self, key: Agreement, which: int, share: float) -> Measurement:
        mu = part_mu(self.session, share)
        self.spent += share
        self.released.append(self.session.user_histogram(key, mu=mu, label=LABELS[which]))
        return self.released[-1]

    def _ask_for_order(self, decided: Roles) -> None:
        schema = self.job.schema
        domain = self.session.domain
        key = to_ask(schema, domain, decided)
        mu = part_mu(self.session, self.shares[ORDER_LABEL])
        self.released.append(self.session.user_histogram(key, mu=mu, label=ORDER_LABEL))
        self.order = order_of(key, self.released[-1], self.rates, dict(domain))

    def _ask_for_people(self, decided: Roles) -> None:
        sizes = self._sizes(1.0 if not decided.constant else SIZES_PART, self.periods())
        if self.once():
            sizes = replace(sizes, limit=self.periods())
        if not decided.constant:
            self.people = People(sizes)
            return
        share = self.shares["table of users"] * (1 - SIZES_PART)
        groups = sizes.groups(LEAST_USERS / part_mu(self.session, share))
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
        rows = self.tables.run(of_users, task).rows
        assert isinstance(rows, ModelRows)
        drawn = rows.some(
            min(MOST_USERS, max(LEAST_DRAWN, 2 * int(sizes.users.sum()))), self.job.seed
        )
        self.people = People.of(sizes, view.edges, view.name, drawn)

    def _sizes(self, part: float, periods: int) -> Sizes:
        """Rows per user: a histogram in fine bins, the number of rows, and the histogram that the
        clip was chosen from. Whether users pile up at a row for each of the `periods`."""
        session = self.session
        bound = choice_bound(self.job.schema)
        coarse = self.coarse
        mu = part_mu(session, self.shares["number of rows"])
        most = bound if coarse is None else rows_limit(coarse, bound)
        count = session.user_histogram(RowsUpTo(most), mu=mu, label=ROWS_LABEL)
        mu = part_mu(session, self.shares["table of users"] * part)
        edges = size_bins(bound, coarse, 1 / mu, periods)
        fine = session.user_histogram(RowsPerUser(edges), mu=mu, label=SIZES_LABEL)
        self.released += [count, fine]
        self.fine_edges = [int(e) for e in edges]
        counted = RowCount(most, float(count.values[0]), float(np.max(count.sigma)))
        by_rows = Histogram(edges, fine.values, float(np.max(fine.sigma)))
        self.full = piles_up(by_rows, periods, bound)
        return sizes_of(by_rows, coarse, counted, bound)

    def described(self) -> dict:
        """What was decided, for the statement: released numbers only."""
        assert self.decided is not None
        columns = self.rates.columns
        pairs = [list(pair) for pair in self.rates.pairs]
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
