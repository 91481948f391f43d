"""The two-round mechanism: `two_round` (config and run), `region` (public groups of values), and
`affordable_cliques` (what a model can hold)."""

from .two_round import Marginal, TwoRound

__all__ = ["Marginal", "TwoRound"]
