"""From arrays to the kernels' pointers, by the buffer protocol.

numpy's C interface would tie a build to one version of Python; buffers are part of the stable ABI
(3.11). A pointer stays valid after its buffer is released: an array keeps its memory as long as it
lives, and the caller keeps the array alive."""

from cpython.buffer cimport (
    PyBUF_C_CONTIGUOUS,
    PyBUF_FORMAT,
    PyBUF_STRIDES,
    PyBUF_WRITABLE,
    PyBuffer_Release,
    PyObject_GetBuffer,
)
from libc.stdint cimport int64_t

import numpy as np


cdef inline void *_start(array, int flags, int64_t n) except NULL:
    """Where an array begins that has at least n float64, or n = -1 items of any type."""
    cdef Py_buffer view
    cdef void *start
    cdef bint fits = True
    PyObject_GetBuffer(array, &view, flags)
    start = view.buf
    if n >= 0:
        fits = view.format[0] == c"d" and view.format[1] == 0 and view.len >= 8 * n
    PyBuffer_Release(&view)
    if not fits:
        raise ValueError(f"a kernel needs {n} numbers of float64, not {array.size} of {array.dtype}")
    if start == NULL:
        raise ValueError("a kernel cannot use an array without memory")
    return start


cdef inline void *address(array) except NULL:
    """Where a contiguous array that somebody keeps alive begins."""
    return _start(array, PyBUF_C_CONTIGUOUS, -1)


cdef inline void *strided(array) except NULL:
    """Where the first item of an array of any strides lies."""
    return _start(array, PyBUF_STRIDES, -1)


cdef inline const double *read(array, int64_t n) except NULL:
    """An array of n float64 or more. Cheaper than a memoryview, and a step has fifteen of them."""
    return <const double *> _start(array, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT, n)


cdef inline double *fill(array, int64_t n) except NULL:
    """The same, to be written to."""
    return <double *> _start(array, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT | PyBUF_WRITABLE, n)


cdef inline void *kept(list keep, values, dtype) except NULL:
    """Values as a contiguous array of the dtype, which goes onto the list that keeps it alive; of one entry
    where there are none."""
    array = np.ascontiguousarray(values, dtype)
    if array.size == 0:
        array = np.zeros(1, dtype)
    keep.append(array)
    return address(array)
