"""One module or package per mechanism; `registry` lists them.

A mechanism sees private data through the session it is handed, and nowhere else: it imports neither
`tables` nor `engines` nor what opens sessions. `base` says what a mechanism is, `shared/` holds
what several use.
"""

from .registry import get, names

__all__ = ["get", "names"]
