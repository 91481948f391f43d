"""Simulated tables with the columns of the public challenge tables. Rows are drawn from stated
rules with a seed and contain no real record. Of the package, `errors` and the built-in schemas are
used."""

from fastdp.simulate.census import census, census_cities
from fastdp.simulate.flights import flights
from fastdp.simulate.households import households
from fastdp.simulate.incidents import incidents
from fastdp.simulate.purchases import purchases
from fastdp.simulate.taxi import taxi

__all__ = ["census", "census_cities", "flights", "households", "incidents", "purchases", "taxi"]
