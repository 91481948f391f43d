"""The estimator against its peers on the same measurements of simulated taxi rows."""

from __future__ import annotations

from .measurements import Problem, load, prepare

__all__ = ["Problem", "load", "prepare"]
