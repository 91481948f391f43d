"""Cells of the junction tree of a growing graph; see csrc/treesize.h."""

from libc.stdint cimport uint64_t

import numpy as np

from fastdp._core.status cimport check


cdef extern from "treesize.h" nogil:
    uint64_t FDP_TREESIZE_MAX
    int fdp_treesize(int n, const uint64_t *size, const uint64_t *graph, uint64_t *cells)
    int fdp_treesize_fits(int n, const uint64_t *size, const uint64_t *graph, uint64_t most, int *fits)


TOO_LARGE = int(FDP_TREESIZE_MAX)


cdef class Graph:
    """Which attributes are together in a clique. `sizes`: codes of each attribute; cliques are lists of
    attribute numbers."""

    cdef object _size, _graph
    cdef int _n, _words

    def __init__(self, sizes):
        self._size = np.array(sizes, np.uint64).reshape(-1)
        self._n = <int>self._size.shape[0]
        self._words = (self._n + 63) // 64
        self._graph = np.zeros((max(self._n, 1), max(self._words, 1)), np.uint64)

    def copy(self):
        twin = Graph(self._size)
        (<Graph>twin)._graph = self._graph.copy()
        return twin

    def add(self, clique):
        """Joins the clique's attributes with each other."""
        self._graph = self._with(clique)

    def cells(self, clique=()):
        """Cells of the junction tree of the graph, and of this clique too: what `model.tree.junction_tree`
        would make. Exact below `TOO_LARGE`, which stands for anything above it."""
        cdef uint64_t out = 0
        cdef const uint64_t[::1] size = self._size
        cdef const uint64_t[:, ::1] graph = self._with(clique)
        cdef int n = self._n, code
        if n == 0:
            return 0
        with nogil:
            code = fdp_treesize(n, &size[0], &graph[0, 0], &out)
        check(code, "the size of a junction tree")
        return int(out)

    def fits(self, most, clique=()):
        """Whether the junction tree of the graph, and of this clique too, has at most `most` cells."""
        cdef const uint64_t[::1] size = self._size
        cdef const uint64_t[:, ::1] graph = self._with(clique)
        cdef uint64_t limit = min(max(0, int(most)), TOO_LARGE)
        cdef int n = self._n, code, out = 0
        if n == 0:
            return True
        with nogil:
            code = fdp_treesize_fits(n, &size[0], &graph[0, 0], limit, &out)
        check(code, "the size of a junction tree")
        return bool(out)

    def joined(self, clique):
        """Whether all attributes of the clique are joined with each other already."""
        cdef const uint64_t[:, ::1] bits = self._graph
        members = [int(a) for a in clique]
        if not all(0 <= a < self._n for a in members):
            raise ValueError("no such attribute")
        return all((bits[i, j >> 6] >> (j & 63)) & 1 for i in members for j in members if i < j)

    cdef object _with(self, clique):
        cdef int i, j
        members = [int(a) for a in clique]
        if not all(0 <= a < self._n for a in members):
            raise ValueError("no such attribute")
        if len(members) < 2:
            return self._graph
        out = self._graph.copy()
        cdef uint64_t[:, ::1] bits = out
        for i in members:
            for j in members:
                if i != j:
                    bits[i, j >> 6] |= (<uint64_t>1) << (j & 63)
        return out
