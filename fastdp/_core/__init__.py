"""Thin Cython over `csrc/`. Arguments are validated one floor above; nothing here is public."""
