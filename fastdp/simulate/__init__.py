"""Seeded stand-ins for the public challenge tables; made up from stated rules, no real record inside. Imports
nothing of the package but `errors`."""

from fastdp.simulate.census import census
from fastdp.simulate.census_world import census_cities
from fastdp.simulate.flights import flights
from fastdp.simulate.incidents import incidents
from fastdp.simulate.taxi import taxi

__all__ = ["census", "census_cities", "flights", "incidents", "taxi"]
