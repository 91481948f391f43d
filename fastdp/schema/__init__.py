"""The public schema: columns, derived columns, named transforms and types; reading and writing TOML and JSON
(`document`), schemas from other descriptions (`importers`), and built-in schemas of particular data sets
(`builtin/`). A schema is never learnt from private data: everything in it may be released. Imports `domain`
and `errors`.
"""

from .schema import Schema

__all__ = ["Schema"]
