"""Values to codes and back, by the public schema: `encode` (over `maps`, `text`, `policy`) and `decode` (over
`bins`).

Every value is read by itself. Imports `schema` and the kernels; no table, no engine, nothing of privacy.
"""
