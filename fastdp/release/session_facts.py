"""The public facts of a session: what a mechanism may know before anything is released."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from ..domain import Domain
from ..errors import PrivacyError
from ..privacy.accountant import Event
from ..schema import Schema


class SessionFacts:
    """Public facts of one epsilon of a run. They cannot be changed, pickled or copied.

    All attributes are fixed before data is read. A share s of the budget is `mu * sqrt(s)`.
    """

    __slots__ = tuple("asked cap delta domain epsilon mu private pure schema unit".split())

    def __init__(
        self,
        schema: Schema,
        *,
        cap: Event,
        mu: float | None,
        pure: float | None,
        asked: Mapping,
        unit: str,
        private: bool,
    ):
        """`cap`: the most that all releases together may cost. `private`: no seed fixed the noise."""
        self.schema: Schema = schema
        self.domain: Domain = schema.modelled
        self.unit = unit
        self.cap = cap
        self.mu = mu
        self.pure = pure
        self.asked = MappingProxyType(dict(asked))
        self.epsilon = asked["epsilon"]
        self.delta = asked["delta"]
        self.private = private

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "clip" or (not name.startswith("_") and hasattr(self, name)):
            raise PrivacyError(
                f"{name!r} of a session cannot be changed: it is fixed before data is read"
            )
        object.__setattr__(self, name, value)

    def __reduce__(self):
        raise PrivacyError("a session cannot be pickled or copied, because it holds private data")
