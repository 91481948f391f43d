"""From numpy's arrays to the kernels' pointers. A file that uses it calls `cnp.import_array()`."""

from libc.stdint cimport int64_t

import numpy as np

cimport numpy as cnp


cdef inline void *address(cnp.ndarray array) except NULL:
    """Where a contiguous array that somebody keeps alive begins."""
    if not cnp.PyArray_IS_C_CONTIGUOUS(array):
        raise ValueError("a kernel needs contiguous arrays")
    return cnp.PyArray_DATA(array)


cdef inline const double *read(cnp.ndarray array, int64_t n) except NULL:
    """An array of n float64 or more. Cheaper than a memoryview, and a step has fifteen of them."""
    if cnp.PyArray_TYPE(array) != cnp.NPY_FLOAT64 or cnp.PyArray_SIZE(array) < n:
        raise ValueError(f"a kernel needs {n} numbers of float64, not {array.size} of {array.dtype}")
    return <const double *> address(array)


cdef inline double *fill(cnp.ndarray array, int64_t n) except NULL:
    """The same, to be written to."""
    if not cnp.PyArray_ISWRITEABLE(array):
        raise ValueError("a kernel cannot write to a read-only array")
    return <double *> read(array, n)


cdef inline void *kept(list keep, values, dtype) except NULL:
    """Values as a contiguous array of the dtype, which goes onto the list that keeps it alive; of one entry
    where there are none."""
    array = np.ascontiguousarray(values, dtype)
    if array.size == 0:
        array = np.zeros(1, dtype)
    keep.append(array)
    return address(array)
