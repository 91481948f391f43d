"""What ships with fastdp for particular data sets: built-in schemas (*.toml), the named transforms
they use, readers of the NIST challenges' files, and maps of places for reports (maps/*.toml). A new
data set or city is added as a file in this folder. Imports `errors` and other modules of `schema`.
"""
