"""Values to codes and back, by the public schema: `encode` (over `maps`, `text`, `policy`) and
`decode` (over `bins`).

A value's code depends on that value and the schema alone. Imports `schema` and the kernels, but
nothing of tables, engines or privacy.
"""
