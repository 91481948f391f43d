"""Noise of a histogram of users, Gaussian or discrete Laplace, by the share of the budget it gets."""

from __future__ import annotations

import math

from msgspec import Struct

from ...measurement import Measurement
from ...privacy.scale import laplace_std
from ...release.gateway import Session
from ...userkeys import UserKey


class HistogramNoise(Struct, frozen=True):
    """The noise of a histogram in which each user counts in at most `cap` cells. `pure`: discrete
    Laplace of scale cap / (share * whole), `whole` being epsilon. Otherwise it is Gaussian of standard
    deviation sqrt(cap) / (sqrt(share) * whole), `whole` being mu."""

    pure: bool
    cap: int
    whole: float

    def std(self, share: float) -> float:
        """Standard error of one answer."""
        if self.pure:
            return laplace_std(self.cap / (self.whole * share))
        return math.sqrt(self.cap / share) / self.whole

    def ask(self, session: Session, key: UserKey, share: float, label: str) -> Measurement:
        """Users by key, for `share` of the budget."""
        if self.pure:
            return session.user_histogram(key, self.cap, epsilon=self.whole * share, label=label)
        return session.user_histogram(key, self.cap, mu=self.whole * math.sqrt(share), label=label)
