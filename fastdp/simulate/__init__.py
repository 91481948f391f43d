"""Seeded stand-ins for the public challenge tables; made up from stated rules, no real record inside."""

from fastdp.simulate.incidents import incidents
from fastdp.simulate.taxi import taxi

__all__ = ["incidents", "taxi"]
