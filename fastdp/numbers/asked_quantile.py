"""A quantile of users' values: six histograms, each inside the one before."""

from __future__ import annotations

import math

from ..significance import SURE
from . import quantile_zoom as quantiles
from .asking import TOP, Asking, Line, top_of
from .declared import Declared
from .people_encodings import Histogram
from .typed import TypedNumber


def quantile(ask: Asking, number: TypedNumber, facts: Declared) -> Line:
    """Its interval ends at the declared maximum, or at what the schema lets a user have."""
    top = min(top_of(facts), facts.allowed or TOP)
    least = -top if facts.signed else 0
    edges = quantiles.first_edges(top, facts.signed)
    found: list[quantiles.Ranks] = []
    low = least
    high = top + 1
    q = float(number.q or 0.5)
    for i, share in enumerate(quantiles.SHARES):
        if found:
            a, b = found[-1].bracket(SURE, low, high)
            low, high = max(a, low), min(b, high)
            if low >= high:
                low, high = a, b
            inside = found[-1].between(low, high)
            parts = quantiles.next_bins(inside, 1 / (ask.mu * math.sqrt(share)))
            edges = quantiles.zoomed(low, high, parts)
        counts, s = ask(Histogram(edges=edges), share, f"histogram {i + 1}")
        found.append(quantiles.ranks(counts, s, edges, q))
    return None, quantiles.interval(found, least, top + 1), None, ""
