"""The lines of a plan about private columns: how each would be found, and with what noise."""

import math

from .. import division
from ..release import domaincosts
from ..release.domaincosts import DomainCosts, keys_cap, keys_delta, users_needed
from ..schema import Schema
from ..significance import SURE
from .plan_result import DomainLine


def domain_lines(
    schema: Schema, mu: float, costs: DomainCosts, clip: int
) -> tuple[DomainLine, ...]:
    """How the schema's private columns would be found, from public facts alone."""
    if not schema.unfinished:
        return ()
    own = domaincosts.column_mu(schema, mu)
    lines = []
    for name, column in schema.pending.items():
        if column.keyed:
            cap = keys_cap(schema, column)
            share, delta = domaincosts.expected_keys(schema, costs)
            sigma, bar = users_needed(cap, mu, share, delta)
            each = (
                f"; of users with t values, sqrt(t) times as many, t up to {cap}" if cap > 1 else ""
            )
            how = f"values of so many users are found with a probability of 95 %{each}"
            lines.append(DomainLine(name, how, sigma, bar, listed=True))
            continue
        sigma = clip / (own * math.sqrt(division.PARTITIONS[-1]))
        if column.wanted == "timestamp":
            how = "span of time"
        else:
            how = f"bounds and at most {column.bins} bins"
        if column.low is not None and column.high is not None:
            how = f"at most {column.bins} bins between public bounds"
        lines.append(DomainLine(name, how, sigma, sigma * SURE))
    for name in schema.atomic:
        count = len(schema.atomic)
        cap = keys_cap(schema, schema.columns[name])
        sigma, bar = users_needed(cap, mu, costs.atoms / count, keys_delta(costs, count))
        lines.append(
            DomainLine(name, "atoms: values of so many users get codes of their own", sigma, bar)
        )
    measured = [*schema.measured, *(n for n, c in schema.pending.items() if c.measured)]
    for name in measured:
        sigma = clip / (mu * math.sqrt(costs.sums * (1 - division.RANKS) / len(measured)))
        how = "sums inside bins: a bin of so many rows has its mean to a tenth of its width"
        lines.append(DomainLine(name, how, sigma, sigma / math.sqrt(2) / 0.1))
    return tuple(lines)
