"""Rows of a tree given evidence; see csrc/condition.h. Arguments are checked in
fastdp/model/conditional_model.py."""

from libc.stdint cimport int32_t, int64_t, uint64_t
from libc.stdlib cimport calloc, free

import numpy as np

from fastdp._core.arrays cimport kept
from fastdp._core.status cimport check

cdef extern from "condition.h" nogil:
    ctypedef struct fdp_condition_node:
        int32_t attribute
        int32_t sep_len
        const int32_t *sep
        const int64_t *stride
        const double *table
        const double *inverse
        const double *overall
        int32_t children_len
        const int32_t *children
    ctypedef struct fdp_condition_plan:
        int32_t attributes
        const int64_t *sizes
        int32_t nodes_len
        const fdp_condition_node *nodes
        const double *const *likelihood
    int fdp_condition(const fdp_condition_plan *, int64_t, const int32_t *, const int32_t *, const
    int64_t *,
                      const int64_t *, uint64_t, double *, int32_t *, double *)



cdef class Tree:
    """Nodes (attribute, sep, stride, table, inverse, overall, children) over attributes of these sizes. May be
    used by several threads at once."""

    cdef fdp_condition_node *nodes
    cdef int32_t n, attributes
    cdef int64_t first_size
    cdef list keep
    cdef const int64_t *sizes
    cdef list size_list

    def __cinit__(self, nodes, sizes):
        self.keep, self.n, self.attributes = [], len(nodes), len(sizes)
        self.size_list = [int(s) for s in sizes]
        self.sizes = <const int64_t *> kept(self.keep, sizes, np.int64)
        self.nodes = <fdp_condition_node *> calloc(max(1, self.n), sizeof(fdp_condition_node))
        if self.nodes == NULL:
            raise MemoryError
        cdef fdp_condition_node *node
        for i, (attribute, sep, stride, table, inverse, overall, children) in enumerate(nodes):
            node = &self.nodes[<int> i]
            cells = len(inverse)
            if not 0 <= attribute < self.attributes or any(not 0 <= a < self.attributes for a in sep):
                raise ValueError("a node names an attribute that there is not")
            reach = sum((self.size_list[a] - 1) * s for a, s in zip(sep, stride))
            if len(stride) != len(sep) or reach >= cells or table.size != cells * self.size_list[attribute]:
                raise ValueError("a node leaves its table")
            if len(overall) != self.size_list[attribute] or any(not i < c < self.n for c in children):
                raise ValueError("a node's sums or children do not fit")
            node.attribute, node.sep_len, node.children_len = attribute, len(sep), len(children)
            node.sep = <const int32_t *> kept(self.keep, sep, np.int32)
            node.stride = <const int64_t *> kept(self.keep, stride, np.int64)
            node.table = <const double *> kept(self.keep, table, np.float64)
            node.inverse = <const double *> kept(self.keep, inverse, np.float64)
            node.overall = <const double *> kept(self.keep, overall, np.float64)
            node.children = <const int32_t *> kept(self.keep, children, np.int32)
        self.first_size = self.size_list[nodes[0][0]] if self.n else 0

    def __dealloc__(self):
        free(self.nodes)

    def run(self, const int32_t[:, ::1] hard, const int32_t[:, ::1] soft, const int64_t[::1] start,
            const int64_t[::1] number, uint64_t seed, likelihood, bint draw, bint posterior):
        """(log probability of each piece of evidence, codes [rows, attributes] or None, distribution of the first
        node's attribute or None). `likelihood`: a matrix [k, codes] per attribute, or None."""
        cdef int64_t count = hard.shape[0], rows = number.shape[0]
        cdef int32_t a
        cdef int code
        cdef fdp_condition_plan plan
        if hard.shape[1] != self.attributes or soft.shape[0] != count or soft.shape[1] != self.attributes:
            raise ValueError("evidence of another tree")
        if start.shape[0] != count + 1 or start[0] != 0 or start[count] != rows or len(likelihood) != self.attributes:
            raise ValueError("evidence and rows do not fit")
        if np.any(np.diff(start) < 0):
            raise ValueError("rows of evidence must be in order")
        most = np.max(hard, axis=0, initial=-1)
        rank = np.max(soft, axis=0, initial=-1)
        keep = []
        cdef const double **tables = <const double **> calloc(max(1, self.attributes), sizeof(double
        *))
        if tables == NULL:
            raise MemoryError
        logs = np.zeros(max(count, 1))
        codes = np.zeros((max(rows, 1), max(self.attributes, 1)), np.int32) if draw else None
        chances = np.zeros((max(count, 1), max(self.first_size, 1))) if posterior else None
        cdef double[::1] logs_v = logs
        cdef int32_t[:, ::1] codes_v = codes
        cdef double[:, ::1] chances_v = chances
        try:
            for a in range(self.attributes):
                given = likelihood[a]
                if most[a] >= self.size_list[a] or rank[a] >= (0 if given is None else len(given)):
                    raise ValueError("evidence outside its domain")
                if given is not None and len(given):
                    if given.shape[1] != self.size_list[a]:
                        raise ValueError("a likelihood of another attribute")
                    tables[a] = <const double *> kept(keep, given, np.float64)
            plan.attributes, plan.sizes, plan.likelihood = self.attributes, self.sizes, tables
            plan.nodes_len, plan.nodes = self.n, self.nodes
            if count and self.attributes:
                with nogil:
                    code = fdp_condition(&plan, count, &hard[0, 0], &soft[0, 0], &start[0],
                                         &number[0] if rows else NULL, seed, &logs_v[0],
                                         &codes_v[0, 0] if draw and rows else NULL,
                                         &chances_v[0, 0] if posterior else NULL)
                check(code, "conditioning rows")
        finally:
            free(tables)
        return logs[:count], codes[:rows] if draw else None, chances[:count] if posterior else None
