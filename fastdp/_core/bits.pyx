"""Thin Cython over csrc/bits.c. Arguments are checked in _util/bit_rows.py."""

from libc.stdint cimport int32_t, int64_t, uint64_t

import numpy as np

from fastdp._core.status cimport check
from fastdp._core.team cimport Team, fdp_team, team_of


cdef extern from "bits.h" nogil:
    int fdp_bits_ones(
        const uint64_t *, const int64_t *, int64_t, const int32_t *, int32_t, int64_t, fdp_team *, int64_t *
    )


def ones(const uint64_t[:, ::1] words, const int64_t[::1] weight, const int32_t[:, ::1] sets, threads):
    """The weighted rows of each set in which all of its columns are 1 (see csrc/bits.h)."""
    out = np.zeros(sets.shape[0], np.int64)
    cdef int64_t[::1] view = out
    cdef int code
    cdef Team team = team_of(threads)
    if sets.shape[0] and weight.shape[0]:
        with nogil:
            code = fdp_bits_ones(
                &words[0, 0],
                &weight[0],
                weight.shape[0],
                &sets[0, 0],
                <int32_t>sets.shape[1],
                sets.shape[0],
                team.c,
                &view[0],
            )
        check(code, "counting rows by bits")
    return out
