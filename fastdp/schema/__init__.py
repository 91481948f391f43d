"""The public schema: columns, derived columns, named transforms and types. `document` reads and
writes TOML and JSON. There are schemas from other descriptions (`importers`), and built-in schemas
of particular data sets (`builtin/`). Everything in a schema may be released: it is public
knowledge, or was found privately in a run (`pending` columns, docs/guide/domains.md). Imports
`domain` and `errors`.
"""

from .schema import Schema

__all__ = ["Schema"]
