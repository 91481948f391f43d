"""Thin Cython over `csrc/`: pointers in, return codes out, through one funnel (`status.pxd`) to
exceptions. Arguments are validated one floor above; nothing here is public. Imports nothing of the
package."""
