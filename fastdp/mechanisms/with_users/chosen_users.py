"""Synthetic users of a run: a pool of users dealt from the model's rows, the table about users, and
the choice of whole users of the pool."""

from msgspec.structs import replace

from ..._util.threads import resolve
from ...answers.people_facts import PAIRS
from ...user_views import UserFacts
from ...users.dealing import Dealer
from ...users.siblings import Likeness
from ...users.trials import SAMPLE_ROWS, dealer
from ...users.user_choice import Agreements, Choice
from ...users.user_table import PERIODS
from ..base import Outcome
from ..shared.model_rows import GroupedRows, ModelRows, PoolRows
from .table_about_users import TableAboutUsers
from .user_questions import UserQuestions

OTHER_ROWS = 1 << 18
"""Rows of the model by which marginals of rows are known better than by a pool of fewer."""
OTHER_CODES = 1 << 22
"""The most codes of these rows together: wide tables have fewer of them (16 MB)."""
LEAST_KNOWN = 1.0
"""Users are chosen where the releases about users say more than a sample of users would of this
many counts together (`Choice.known`): else they are noise, and a pool is left alone, unless users have
one row for each period. With 300 people
at epsilon 1, of whom they say .1 to .4, choosing them made pairs of columns of rows 4.3 ± .6 %
worse, and nothing better by more than two standard errors but equal values in two rows of a user
(6.7 ± 3.4 %). At epsilon 3 they say 1.7 to 10: equal values are 8.5 ± 1.8 % better by the choice,
pairs of columns 3.8 ± 1.0 % worse (`python -m bench.users_without "the choice" --tables tiny
--epsilon 1 3 --seeds 700 706`)."""
LEAST_POOL = 3
MOST_POOL = 5
POOL_ROWS = 1 << 20
"""Users of the pool for each user that is chosen: MOST_POOL, but no more than have POOL_ROWS rows, and
no fewer than LEAST_POOL. Chosen by `python -m bench.users --tables cohorts few patients events purchases
--epsilon 1 3 --seeds 100 105 --sources order`. With 3 in place of 5, cohorts of 24,000 people at epsilon
3 are off by .023 in place of .016, gaps of events at 1 by .050 in place of .023; distinct values of
patients at 1 by .032 in place of .036, which is worse. With 8 some are better and some worse."""


def with_chosen_users(asked: UserQuestions, outcome: Outcome) -> Outcome:
    """The outcome with the dealer of its rows and the number of rows that was counted for users."""
    described = asked.described()
    model = outcome.rows
    assert isinstance(model, ModelRows)
    rows = model
    made = None
    tables = outcome.tables
    if asked.groups is not None:
        described["row_groups"] = list(asked.groups.edges)
        rows = GroupedRows(model, asked.groups.name, None)
    if asked.people is not None and asked.decided is not None:
        rows = _rows_of_users(asked, model, rows)
        with asked.job.working("finding how users repeat values"):
            made = _pool(asked, rows)
        described |= _pool_described(asked, made)
        table = TableAboutUsers(asked)
        if asked.told:
            facts = table.view.domain(asked.session.domain)
            described["facts"] = {n: size for n, size in facts.items() if n != table.view.name}
        with asked.job.working("asking about users"):
            made = _with_choice(asked, made, rows, table)
        if made.choice is not None:
            described["pool"] = made.choice.times
        if asked.told:
            described["people"] = table.described()
        tables = {**tables, **({} if table.pairs is None else {PAIRS: table.pairs})}
        rows = PoolRows(rows, made.choice.times) if made.choice is not None else rows
    described["without_id"] = asked.without_id(rows.total)
    details = {**outcome.details, "users": described}
    measurements = (*outcome.measurements, *asked.released)
    return replace(
        outcome,
        measurements=measurements,
        details=details,
        rows=rows,
        dealer=made,
        tables=tables,
    )


def _groups(asked: UserQuestions) -> tuple[str, tuple[int, ...]]:
    """The rows' column of groups of users by their number of rows, and the groups' lower edges."""
    return ("", (1,)) if asked.groups is None else (asked.groups.name, asked.groups.edges)


def _rows_of_users(asked: UserQuestions, model: ModelRows, rows: ModelRows) -> ModelRows:
    """As many rows as users have, of each group as many as its users have."""
    assert asked.people is not None
    groups = _groups(asked)
    sizes = asked.people.sizes
    if asked.groups is not None:
        rows = GroupedRows(model, groups[0], sizes.rows_by((1,), groups[1])[0])
    if asked.job.rows is None:
        rows = rows.again(round(sizes.rows), asked.job.seed)
    return rows


def _pool(asked: UserQuestions, rows: ModelRows) -> Dealer:
    """The dealer of a pool: trials find as many rows as there will be."""
    assert asked.people is not None and asked.decided is not None
    job = asked.job
    some = rows.plain().some(min(rows.total * pool_times(rows.total), SAMPLE_ROWS), job.seed)
    return dealer(
        people=asked.people,
        rates=asked.rates,
        roles=asked.decided,
        codes=some,
        seed=job.seed,
        threads=resolve(job.threads),
        groups=_groups(asked),
        order=asked.order,
        numbers=asked.numbers(),
    )


def _pool_described(asked: UserQuestions, made: Dealer) -> dict:
    """Rows per user, levels and pairs of columns, for the statement."""
    assert asked.people is not None
    sizes = asked.people.sizes
    return {
        "rows": round(sizes.rows),
        "rows_interval": list(sizes.interval),
        "rows_bound": sizes.bound,
        "most_rows": sizes.most_rows,
        "rows_bins": asked.fine_edges,
        "rows_up_to": {"most": sizes.most, "interval": list(sizes.seen_interval)},
        "levels": {x.column: round(x.between, 3) for x in made.levels},
        "together": [list(pair) for pair in made.joint],
    }


def _with_choice(
    asked: UserQuestions, made: Dealer, rows: ModelRows, table: TableAboutUsers
) -> Dealer:
    """The dealer that chooses users of a pool by all that was released about users."""
    schema = asked.session.schema
    times = pool_times(rows.total)
    alike = _alike(asked, table.view)
    marginals = table.release(made, rows, times, alike) if asked.told else []
    gaps = asked.gaps()
    view = table.view
    if gaps is not None:
        view, ends = table.first_and_last()
        marginals += ends
    agreed = _agreed(asked)
    if not marginals and gaps is None and not agreed.columns:
        return made
    assert asked.people is not None
    users = float(asked.people.sizes.users.sum())
    count = min(OTHER_ROWS, OTHER_CODES // max(1, len(schema.domain)))
    others = rows.plain().some(count, asked.job.seed + 1)
    choice = Choice(view, marginals, schema, times, users, gaps, agreed, others, alike)
    if choice.known() < LEAST_KNOWN and not (asked.job.quoted or alike.once):
        return made
    return replace(made, choice=choice)


def pool_times(rows: int) -> int:
    """How many times as many users as are chosen the pool has."""
    return max(LEAST_POOL, min(MOST_POOL, POOL_ROWS // max(rows, 1)))


def _alike(asked: UserQuestions, view: UserFacts) -> Likeness:
    """What rows of siblings have in common: what the table about users and rates say of users."""
    assert asked.decided is not None
    roles = asked.decided
    domain = asked.session.domain
    order = tuple(n for n in asked.job.schema.order_columns if n in domain)
    told = [column for _, kind, column, *_ in view.facts if kind in ("sum", "distinct")]
    size = domain[order[0]] if order else 1
    fixed = (*roles.constant, *roles.following)
    known = (*told, *roles.repeated)
    return Likeness(
        fixed, known, order, min(PERIODS, size), size, asked.periods() if asked.once() else 0
    )


def _agreed(asked: UserQuestions) -> Agreements:
    """The released agreement of columns that are not constant, where users repeat something."""
    assert asked.decided is not None
    rates = asked.rates
    fixed = (*asked.decided.constant, *asked.decided.following)
    at = [i for i, name in enumerate(rates.columns) if name not in fixed]
    if not asked.decided.dealt or not at:
        return Agreements()
    columns = tuple(rates.columns[i] for i in at)
    return Agreements(columns, rates.overall[at], rates.error[at])
