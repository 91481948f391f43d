"""The public schema: columns, derived columns and types; TOML and JSON in and out (`document`), other
people's files (`importers`), and the built-in schemas. It is never learnt from private data: everything here
may be released. Imports `domain` and `errors`.
"""

from .schema import Schema

__all__ = ["Schema"]
