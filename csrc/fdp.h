/* What every unit of the core shares: return codes, thread helper, run-time dispatch.
 *
 * Rules of csrc/: C11, no Python, no globals, no I/O; the caller allocates, the kernel fills; inputs are
 * const and come first, outputs last; every function returns FDP_OK or a negative code. */
#ifndef FDP_H
#define FDP_H

#include <stddef.h>
#include <stdint.h>

#define FDP_OK 0
#define FDP_ERR_MEMORY (-1)     /* an allocation failed */
#define FDP_ERR_ARGUMENT (-2)   /* an argument outside its stated range (a bug one floor above) */
#define FDP_ERR_OVERFLOW (-3)   /* a sum would leave int64 */
#define FDP_ERR_RANDOM (-4)     /* the operating system gave no random bits */
#define FDP_ERR_IMPOSSIBLE (-5) /* structural zeros leave no possible cell */

/* FDP_CLONES before a leaf kernel (no threads inside, no recursion) builds it for baseline x86-64, AVX2 and
 * AVX-512 and picks at load time. On ARM64 NEON is the baseline, so nothing is needed. To pick takes an
 * indirect function, which musl's loader does not know. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && defined(__GLIBC__) && \
    !defined(FDP_NO_CLONES)
#define FDP_CLONES __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#else
#define FDP_CLONES
#endif

#define FDP_MIN(a, b) ((a) < (b) ? (a) : (b))
#define FDP_MAX(a, b) ((a) > (b) ? (a) : (b))

#endif
