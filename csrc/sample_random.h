/* Random numbers of the samplers: streams named by (seed, shard, node, purpose), a draw by cumulative
 * weights, and a shuffle. */
#ifndef FDP_SAMPLE_RANDOM_H
#define FDP_SAMPLE_RANDOM_H

#include <stdint.h>

/* SplitMix64 as a counter-based generator: output i of a stream is mix(key + i * GOLDEN). */
#define GOLDEN 0x9E3779B97F4A7C15ull

typedef unsigned __int128 u128;

typedef struct {
    uint64_t state;
} stream;

/* The finaliser of SplitMix64, a bijection. */
static inline uint64_t mix(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
}

/* Streams differ in (shard, node, purpose); GLOBAL stands for what all shards share. */
#define GLOBAL UINT64_MAX
enum purpose { VALUES = 1, ORDER = 2, OFFSETS = 3, STRATA = 4, TAIL = 5 };

/* The first state of a stream. */
static inline uint64_t stream_key(uint64_t seed, uint64_t shard, uint64_t node, enum purpose purpose) {
    uint64_t key = mix(seed + GOLDEN);
    key = mix(key ^ (shard + 0xD1B54A32D192ED03ull));
    return mix(key ^ (node * 8 + (uint64_t)purpose + 0x8CB92BA72F3D8DD7ull));
}

/* The next number of a stream. */
static inline uint64_t next64(stream *s) {
    return mix(s->state += GOLDEN);
}

static inline double unit(uint64_t bits) /* in [0, 1), a multiple of 2^-53 */
{
    return (double)(bits >> 11) * 0x1p-53;
}

static inline uint64_t below(uint64_t bits, uint64_t n) /* uniform in 0..n-1 to within n / 2^64 */
{
    return (uint64_t)(((u128)bits * n) >> 64);
}

/* The first k with cum[k] > x, of n ascending numbers; n - 1 where there is none. */
static inline uint32_t search(const double *cum, int64_t n, double x) {
    const double *base = cum;
    while (n > 1) {
        int64_t half = n / 2;
        /* No branch: it would be mispredicted half the time. */
        base += half & -(int64_t)(base[half - 1] <= x);
        n -= half;
    }
    return (uint32_t)(base - cum);
}

/* Fisher-Yates. Up to 1024 values one 64-bit number serves two swaps: 32 bits are uniform over so few to
 * within a relative 2^-22. */
static void shuffle(uint32_t *v, uint64_t n, stream *s) {
    uint64_t i = n;
    for (; i > (1u << 10); i--) {
        uint64_t j = below(next64(s), i);
        uint32_t t = v[i - 1];
        v[i - 1] = v[j];
        v[j] = t;
    }
    for (; i > 2; i -= 2) {
        uint64_t bits = next64(s);
        uint64_t j = ((bits >> 32) * i) >> 32;
        uint64_t k = ((bits & 0xFFFFFFFFu) * (i - 1)) >> 32;
        uint32_t t = v[i - 1];
        v[i - 1] = v[j];
        v[j] = t;
        t = v[i - 2];
        v[i - 2] = v[k];
        v[k] = t;
    }
    if (i == 2 && (next64(s) >> 63)) {
        uint32_t t = v[0];
        v[0] = v[1];
        v[1] = t;
    }
}

#endif
