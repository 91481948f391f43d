"""Rows from a directed junction tree; see csrc/sample.h. Arguments are checked in fastdp/model/sampler.py."""

from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free

from fastdp._core.status cimport check


cdef extern from "sample.h" nogil:
    ctypedef struct fdp_sample_node:
        uint64_t id
        int first
        int same_sep
        int sep_len
        int res_len
        const int32_t *sep
        const int32_t *res
        int64_t groups
        int64_t cells
        const double *table
        const double *overall
        const uint32_t *decode

    ctypedef struct fdp_sample_plan:
        uint64_t seed
        int method
        int64_t rows
        int64_t shard_rows
        int attributes
        const uint32_t *sizes
        const int32_t *widths
        int nodes_len
        const fdp_sample_node *nodes

    int fdp_sample(const fdp_sample_plan *plan, int64_t first, int64_t count, int threads, void *const *out)


cdef class Tree:
    """The tree in the kernel's form; keeps the arrays it points into alive."""

    cdef fdp_sample_node *_nodes
    cdef int _len
    cdef const uint32_t[::1] _sizes
    cdef const int32_t[::1] _widths
    cdef list _keep

    def __cinit__(self, list nodes, const uint32_t[::1] sizes, const int32_t[::1] widths):
        """nodes: (id, same_sep, sep, res, table, overall, decode) per node, in the order of sampling."""
        cdef const int32_t[::1] sep, res
        cdef const double[:, ::1] table
        cdef const double[::1] overall
        cdef const uint32_t[:, ::1] decode
        cdef fdp_sample_node *node
        self._len = len(nodes)
        self._nodes = <fdp_sample_node *>calloc(max(self._len, 1), sizeof(fdp_sample_node))
        if self._nodes == NULL:
            raise MemoryError
        self._sizes, self._widths, self._keep = sizes, widths, []
        for i, described in enumerate(nodes):
            number, same_sep, sep_array, res_array, table_array, overall_array, decode_array = described
            node = &self._nodes[<int>i]
            sep, res, table, overall = sep_array, res_array, table_array, overall_array
            node.id, node.first, node.same_sep = number, i == 0, same_sep
            node.sep_len, node.res_len = <int>sep.shape[0], <int>res.shape[0]
            node.sep = &sep[0] if node.sep_len else NULL
            node.res = &res[0]
            node.groups, node.cells = table.shape[0], table.shape[1]
            node.table, node.overall = &table[0, 0], &overall[0]
            if decode_array is not None:
                decode = decode_array
                node.decode = &decode[0, 0]
            self._keep.append((sep_array, res_array, table_array, overall_array, decode_array))

    def __dealloc__(self):
        free(self._nodes)

    def fill(self, list columns, int64_t rows, int64_t shard_rows, int64_t first, int64_t count, int method,
             uint64_t seed, int threads):
        """Rows of shards first .. first+count-1 into the columns (one array per attribute, of its width)."""
        cdef int n = <int>self._widths.shape[0]
        cdef fdp_sample_plan plan
        cdef void **out = <void **>calloc(max(n, 1), sizeof(void *))
        cdef size_t address
        cdef int code
        if out == NULL:
            raise MemoryError
        try:
            for i, column in enumerate(columns):
                address = column.ctypes.data
                out[<int>i] = <void *>address
            plan.seed, plan.method, plan.rows, plan.shard_rows = seed, method, rows, shard_rows
            plan.attributes, plan.sizes, plan.widths = n, &self._sizes[0], &self._widths[0]
            plan.nodes_len, plan.nodes = self._len, self._nodes
            with nogil:
                code = fdp_sample(&plan, first, count, threads, out)
        finally:
            free(out)
        check(code, "sampling: the working columns of a shard")
