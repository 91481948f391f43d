"""What ships with fastdp about particular data: built-in schemas (*.toml), the named transforms they use,
readers of the NIST challenges' files, and maps of places for reports (maps/*.toml). Nothing outside this
folder knows a challenge or a city; a new one is a file here. Imports `errors` and its sibling modules of
`schema`.
"""
