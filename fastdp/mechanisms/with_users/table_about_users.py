"""The table about users, U: asked with the pool's users as a prior, and what it says."""

from collections.abc import Mapping

import numpy as np
from msgspec.structs import replace

from ..._util.lazy import pa
from ..._util.threads import resolve
from ...answers.evidence import code_maps, marginals_of
from ...answers.people_facts import described_facts, pairs_of_users
from ...answers.values import numbers_of
from ...privacy.clip import choice_bound
from ...user_views import UserFacts
from ...users.dealing import Dealer
from ...users.once import once_per_period
from ...users.order import to_ask
from ...users.siblings import Likeness
from ...users.trials import SAMPLE_ROWS
from ...users.user_table import Marginal, PoolTable, combined, pool_facts, user_facts
from ..limits.structural_zeros import StructuralZeros
from ..shared.model_rows import ModelRows
from .user_budget import FACTS_LABEL, ORDER_LABEL
from .user_demands import group_column
from .user_questions import UserQuestions


class TableAboutUsers:
    """`view`: the facts that it holds. `pairs`: of facts, by its model; `codes`: which codes of a fact
    were counted together."""

    def __init__(self, asked: UserQuestions):
        self.asked = asked
        self.view = _facts(asked)
        self.codes: Mapping[str, np.ndarray] = {}
        self.pairs: pa.Table | None = None

    def release(self, made: Dealer, rows: ModelRows, pool: int, alike: Likeness) -> list[Marginal]:
        """The table's marginals. Its prior is what the dealer makes by itself of `pool` times as many
        rows."""
        asked = self.asked
        job, session = asked.job, asked.session
        some = rows.plain().some(min(rows.total * pool, SAMPLE_ROWS), job.seed)
        alone = replace(made, order=None)
        codes, owner = alone.deal(some, job.seed, resolve(job.threads))
        if alike.once:
            codes = once_per_period(codes, owner, alike, asked.gaps(), job.seed)
        order = np.argsort(owner, kind="stable")
        start = np.append(0, np.cumsum(np.bincount(owner)))
        in_order = {n: c[order] for n, c in codes.items()}
        found = pool_facts(self.view, session.schema, in_order, start)
        of_users = session.part(asked.shares[FACTS_LABEL], self.view)
        task = replace(
            job,
            schema=of_users.schema,
            rows=None,
            public=PoolTable(of_users.schema, found),
            zeros=StructuralZeros(),
            users=None,
            given=frozenset(),
        )
        outcome = asked.tables.run(of_users, task)
        asked.released += [m for m in outcome.measurements if m.clique]
        self.codes = code_maps(outcome.tables.get("codes"))
        names = list(of_users.domain)
        self.pairs = pairs_of_users(outcome.model, names, outcome.tables.get("distances"))
        answers = marginals_of(outcome.measurements, of_users.domain, self.codes)
        return combined(
            [
                Marginal(m.axes, m.maps, m.values.reshape(-1), np.sqrt(m.variances).reshape(-1))
                for m in answers
                if m.axes and m.complete
            ]
        )

    def first_and_last(self) -> tuple[UserFacts, list[Marginal]]:
        """First and last periods by the release of users' order, which has more periods than the table
        where there are more than `user_table.PERIODS`; and the table's facts with these beside
        them."""
        asked = self.asked
        if asked.decided is None:
            raise RuntimeError("the order of rows is asked about after columns have their roles")
        answers = next(m for m in asked.released if m.label == ORDER_LABEL)
        key = to_ask(asked.job.schema, asked.session.domain, asked.decided)
        parts = key.parts(answers.values)
        sigma = np.full(key.ends, float(np.max(answers.sigma)))
        found, finer = [], []
        for fact in self.view.facts:
            name, kind, column, numbers, edges = fact
            if kind in ("first", "last"):
                if numbers != (key.ends,):
                    name = f"{name} in {key.ends} periods"
                    finer.append((name, kind, column, (key.ends,), edges))
                found.append(Marginal((name,), (np.arange(key.ends),), parts[kind], sigma))
        return UserFacts(self.view.edges, self.view.name, (*self.view.facts, *finer)), found

    def described(self) -> list[dict]:
        """The table's columns, for answers about users."""
        schema = self.asked.job.schema
        domain = self.asked.session.domain
        rows = (self.view.name, self.view.edges)
        bound = choice_bound(schema)
        return described_facts(
            self.view.facts,
            rows,
            dict(domain),
            bound,
            amounts_of(self.asked),
            self.codes,
            self.asked.features(),
        )


def amounts_of(asked: UserQuestions) -> dict[str, np.ndarray]:
    """The number that each code counts as, of columns that the owner calls amounts."""
    schema = asked.job.schema
    return {n: numbers_of(schema.columns[n]).middle for n in schema.user_amounts}


def _facts(asked: UserQuestions) -> UserFacts:
    """The facts about users by which they are chosen."""
    schema = asked.job.schema
    domain = asked.session.domain
    assert asked.decided is not None
    order = [n for n in schema.order_columns[:1] if n in domain]
    bound = choice_bound(schema)
    name = group_column(schema, of_users=True)
    own = asked.features()
    return user_facts(domain, asked.decided, order, amounts_of(asked), bound, name, own)
