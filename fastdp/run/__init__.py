"""A whole run: arguments checked (`synthesize`), steps strung together (`steps`), rows written
(`output`), a folder that appears whole or not at all (`folder`), what is handed back (`result`),
what would happen (`plan`), and `verify`.

Imports everything below it; private numbers reach it only through `release`.
"""
