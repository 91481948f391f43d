"""Literal wrapper of csrc/noise.h. Ranges and shapes are checked in `fastdp.privacy.noise`."""

import numpy as np

from fastdp._core.status cimport check

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t


cdef extern from "noise.h" nogil:
    enum: FDP_LANES
    int fdp_noise_gaussian(const double *, int, int64_t, const uint32_t *, int, int64_t *)
    int fdp_noise_laplace(const double *, int, int64_t, const uint32_t *, int, int64_t *)
    int fdp_noise_bytes(const uint32_t *, int64_t, uint8_t *)
    void fdp_chacha20_block(const uint32_t *, uint32_t, const uint32_t *, uint32_t *)
    void fdp_chacha20_lanes(const uint32_t *, uint32_t, const uint32_t *, uint32_t *)
    void fdp_exp_minus(uint64_t, uint64_t, uint64_t *, uint64_t *)
    void fdp_gauss_exponent(uint32_t, uint64_t, uint64_t, uint64_t *, uint64_t *)

LANES = FDP_LANES


ctypedef int (*sampler)(const double *, int, int64_t, const uint32_t *, int, int64_t *) noexcept nogil


cdef int fill(sampler draw, const double[::1] scale, const uint32_t[::1] key, int threads,
              int64_t[::1] out) except -1:
    cdef const uint32_t *words = NULL
    cdef int code, per_row = scale.shape[0] != 1
    if out.shape[0] == 0:
        return 0
    if key is not None:
        words = &key[0]
    with nogil:
        code = draw(&scale[0], per_row, out.shape[0], words, threads, &out[0])
    check(code, "drawing noise")
    return 0


def gaussian(const double[::1] scale, const uint32_t[::1] key, int threads, int64_t[::1] out):
    """Fills `out` (OUT); `scale` (IN) holds 1 or out.size doubles; `key` (IN) 8 words or None."""
    fill(fdp_noise_gaussian, scale, key, threads, out)


def laplace(const double[::1] scale, const uint32_t[::1] key, int threads, int64_t[::1] out):
    """As `gaussian`, with the discrete Laplace law."""
    fill(fdp_noise_laplace, scale, key, threads, out)


def random_bytes(const uint32_t[::1] key, uint8_t[::1] out):
    """Fills `out` (OUT) with uniform bytes."""
    cdef const uint32_t *words = NULL
    cdef int code
    if out.shape[0] == 0:
        return
    if key is not None:
        words = &key[0]
    with nogil:
        code = fdp_noise_bytes(words, out.shape[0], &out[0])
    check(code, "drawing noise")


def chacha20_block(const uint32_t[::1] key, uint32_t counter, const uint32_t[::1] nonce):
    """One block of RFC 8439 as 16 words."""
    cdef uint32_t[::1] out = np.empty(16, dtype=np.uint32)
    fdp_chacha20_block(&key[0], counter, &nonce[0], &out[0])
    return np.asarray(out)


def chacha20_lanes(const uint32_t[::1] key, uint32_t counter, const uint32_t[::1] nonce):
    """LANES consecutive blocks as an array [16, LANES]: word by block."""
    cdef uint32_t[::1] out = np.empty(16 * FDP_LANES, dtype=np.uint32)
    fdp_chacha20_lanes(&key[0], counter, &nonce[0], &out[0])
    return np.asarray(out).reshape(16, FDP_LANES)


def exp_minus(z):
    """exp(-z / 2^128) * 2^128 as the samplers compute it, for an int z."""
    cdef uint64_t hi = 0, lo = 0
    fdp_exp_minus(z >> 64, z & 0xFFFFFFFFFFFFFFFF, &hi, &lo)
    return int(hi) << 64 | int(lo)


def gauss_exponent(uint32_t strip, u):
    """(2 strip u + u^2) / 512 in units of 2^-128 as the sampler computes it, for an int u of 128 bits."""
    cdef uint64_t hi = 0, lo = 0
    fdp_gauss_exponent(strip, u >> 64, u & 0xFFFFFFFFFFFFFFFF, &hi, &lo)
    return int(hi) << 64 | int(lo)
