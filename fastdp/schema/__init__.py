"""The public schema: columns, derived columns, named transforms and types; TOML and JSON in and out
(`document`), numbers of codes and drafts (`importers`), and what ships about particular data (`builtin/`). It
is never learnt from private data: everything here may be released. Imports `domain` and `errors`.
"""

from .schema import Schema

__all__ = ["Schema"]
