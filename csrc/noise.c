/* Samplers of the rounded Gaussian and the discrete Laplace. The law, the proof of exactness up to 2^-117 and
 * the error bounds quoted below are in docs/explain/noise.md.
 *
 * Both draw a positive real x = (strip + u) / 16 by rejection: the strip from a table of 128-bit cumulative
 * weights, u uniform on [0, 1) with as many bits as are asked for, accepted with probability exp(-z). The
 * sample is an integer, so only as many bits of u are drawn as decide it. All arithmetic is on integers. */
#include <string.h>

#include "noise.h"
#include "noise_table.h"
#include "team.h"

typedef unsigned __int128 u128;

#define TAYLOR_TERMS 34
#define DOMAIN_GAUSSIAN 1u
#define DOMAIN_LAPLACE 2u
#define DOMAIN_BYTES 3u
#define LAPLACE_LAPS 16 /* of 8 units each: the tail beyond weighs exp(-128) < 2^-184 */

/* floor(a * b / 2^128) */
static inline u128 multiply_high(u128 a, u128 b) {
    uint64_t a1 = (uint64_t)(a >> 64), a0 = (uint64_t)a, b1 = (uint64_t)(b >> 64), b0 = (uint64_t)b;
    u128 cross = ((u128)a0 * b0 >> 64) + (uint64_t)((u128)a1 * b0) + (uint64_t)((u128)a0 * b1);
    return (u128)a1 * b1 + ((u128)a1 * b0 >> 64) + ((u128)a0 * b1 >> 64) + (cross >> 64);
}

/* exp(-z) in units of 2^-128, off by less than 8 units; z < 7/8. Horner on 1 - z/1 (1 - z/2 (1 - z/3
 * ...)). */
static u128 exp_minus(u128 z) {
    const u128 one = ~(u128)0;
    u128 r = one;
    for (unsigned k = TAYLOR_TERMS; k > 0; k--) r = one - multiply_high(z, r) / k;
    return r;
}

/* z = (2 strip u + u^2) / 512 in units of 2^-128, short by less than 4 units; strip < 224 */
static u128 gauss_exponent(uint32_t strip, uint64_t u_hi, uint64_t u_lo) {
    u128 u = (u128)u_hi << 64 | u_lo;
    u128 linear = ((u128)strip * u_hi << 56) + ((u128)strip * u_lo >> 8);
    return linear + (multiply_high(u, u) >> 9);
}

void fdp_exp_minus(uint64_t z_hi, uint64_t z_lo, uint64_t *hi, uint64_t *lo) {
    u128 e = exp_minus((u128)z_hi << 64 | z_lo);
    *hi = (uint64_t)(e >> 64);
    *lo = (uint64_t)e;
}

void fdp_gauss_exponent(uint32_t strip, uint64_t u_hi, uint64_t u_lo, uint64_t *hi, uint64_t *lo) {
    u128 z = gauss_exponent(strip, u_hi, u_lo);
    *hi = (uint64_t)(z >> 64);
    *lo = (uint64_t)z;
}

/* u of the accepted x: its first word, and the second where the decision needed it */
typedef struct {
    uint64_t hi, lo;
    int have_lo;
} lazy_uniform;

/* Whether v < exp(-z) for a fresh uniform v. `z64` is z in units of 2^-64, short by less than 2. Decided by
 * 1 - z <= exp(-z) <= 1 - z + z^2/2 on the first 64 bits nearly always; `strip` < 0 marks the Laplace
 * exponent z = u / 16. */
static inline int accept(fdp_stream *stream, uint64_t z64, int strip, lazy_uniform *u) {
    uint64_t v = fdp_stream_next(stream);
    uint64_t line = ~z64; /* 1 - z lies in (line - 1, line + 1] units */
    if (v + 2 < line && v < UINT64_MAX - 2) return 1;
    uint64_t square = (uint64_t)((u128)z64 * z64 >> 65);
    if (v > line && v - line > square + 8) /* 8 units cover the truncations of z64 and of its square */
        return 0;
    u->lo = fdp_stream_next(stream);
    u->have_lo = 1;
    u128 z = strip < 0 ? ((u128)u->hi << 64 | u->lo) >> 4 : gauss_exponent((uint32_t)strip, u->hi, u->lo);
    u128 wide = (u128)v << 64 | fdp_stream_next(stream);
    return wide < exp_minus(z);
}

/* The strip of a fresh uniform: the first whose cumulative weight exceeds it. The second 64 bits are drawn
 * only where the first tie with an entry. */
static inline uint32_t draw_strip(fdp_stream *stream, const uint64_t *hi, const uint64_t *lo,
                                  const uint8_t *guide, uint32_t last) {
    uint64_t w = fdp_stream_next(stream);
    uint32_t strip = guide[w >> 54];
    while (w > hi[strip]) strip++;
    if (w == hi[strip]) {
        uint64_t low = fdp_stream_next(stream);
        while (strip < last && w == hi[strip] && low >= lo[strip]) strip++;
    }
    return strip;
}

/* A scale as the rational it is, arranged so that scale * (strip + u) / 16 equals
 * mantissa * (strip * 2^64 + U) / 2^shift for u = U / 2^64. */
typedef struct {
    uint64_t mantissa; /* [2^52, 2^53) */
    int shift;         /* 66 .. 130; the samplers see at most 127 */
} exact_scale;

static inline exact_scale split_scale(double scale) {
    uint64_t bits;
    memcpy(&bits, &scale, 8); /* positive and normal by the caller's range check */
    int exponent = (int)(bits >> 52) - 1075;
    exact_scale s = {(bits & ((1ull << 52) - 1)) | 1ull << 52, 68 - exponent};
    return s;
}

/* floor(scale * (strip + u) / 16 + half/2), drawing further bits of u until they decide it. */
static inline int64_t decide(fdp_stream *stream, exact_scale s, uint32_t strip, lazy_uniform u, int half) {
    u128 low = (u128)s.mantissa * ((u128)strip << 64 | u.hi);
    u128 offset = half ? (u128)1 << (s.shift - 1) : 0;
    uint64_t least = (uint64_t)((low + offset) >> s.shift);
    uint64_t most = (uint64_t)((low + offset + s.mantissa - 1) >> s.shift);
    if (least == most) return (int64_t)least;
    /* a grid boundary lies gap units above `low`, 0 < gap < mantissa: compare mantissa * u' with gap */
    uint64_t gap = (uint64_t)(((u128)most << s.shift) - low - offset);
    for (;;) {
        uint64_t word = u.have_lo ? u.lo : fdp_stream_next(stream);
        u.have_lo = 0;
        u128 product = (u128)s.mantissa * word, target = (u128)gap << 64;
        if (product >= target) return (int64_t)most;
        if (product + s.mantissa <= target) return (int64_t)least;
        gap = (uint64_t)(target - product);
    }
}

static int64_t draw_gaussian(fdp_stream *stream, exact_scale s) {
    for (;;) {
        uint32_t strip =
            draw_strip(stream, fdp_gauss_hi, fdp_gauss_lo, fdp_gauss_guide, FDP_GAUSS_STRIPS - 1);
        lazy_uniform u = {fdp_stream_next(stream), 0, 0};
        uint64_t z64 = (uint64_t)(((u128)(2 * strip) * u.hi + ((u128)u.hi * u.hi >> 64)) >> 9);
        if (!accept(stream, z64, (int)strip, &u)) continue;
        int64_t k = decide(stream, s, strip, u, 1);
        return fdp_stream_bit(stream) ? -k : k;
    }
}

/* The strip of an exponential variable: entry FDP_EXPO_STRIPS of the table means 8 or more, and by the lack
 * of memory the rest beyond 8 is drawn anew. */
static uint32_t draw_lapped_strip(fdp_stream *stream) {
    for (uint32_t lap = 0; lap < LAPLACE_LAPS; lap++) {
        uint32_t part = draw_strip(stream, fdp_expo_hi, fdp_expo_lo, fdp_expo_guide, FDP_EXPO_STRIPS);
        if (part < FDP_EXPO_STRIPS) return lap * FDP_EXPO_STRIPS + part;
    }
    return LAPLACE_LAPS * FDP_EXPO_STRIPS - 1;
}

/* One draw of discrete Laplace noise: a sign, and the floor of an exponential number times the scale. The
 * number is a strip plus a uniform u, of which only as many bits are drawn as decide the result. */
static int64_t draw_laplace(fdp_stream *stream, exact_scale s) {
    for (;;) {
        uint32_t strip = draw_lapped_strip(stream);
        int negative = fdp_stream_bit(stream);
        /* zero would come from both signs: one of them is drawn again */
        if ((((u128)s.mantissa * (strip + 1) << 64) - 1) >> s.shift == 0) { /* 0 for every u of the strip */
            if (negative) continue;
            return 0;
        }
        lazy_uniform u;
        do {
            u.hi = fdp_stream_next(stream);
            u.lo = 0;
            u.have_lo = 0;
        } while (!accept(stream, u.hi >> 4, -1, &u)); /* the exponent is the same in every strip */
        int64_t k = decide(stream, s, strip, u, 0);
        if (!negative) return k;
        if (k != 0) return -k;
    }
}

/* The threads of one call live only as long as it, so a later fork finds no pool to wait for. */
typedef struct {
    const double *scale;
    int64_t *out;
    int64_t n;
    atomic_llong next; /* chunk to take */
    int per_row;
    uint32_t domain;
    uint32_t key[8];
} noise_job;

/* Chunks are taken in any order by any thread. A chunk's stream follows from its number, so the noise is the
 * same for any number of threads. */
static void work(fdp_team *team, int number, void *ctx) {
    noise_job *job = ctx;
    fdp_stream stream;
    (void)team, (void)number;
    for (;;) {
        int64_t chunk = atomic_fetch_add(&job->next, 1);
        int64_t first = chunk * FDP_NOISE_CHUNK;
        if (first >= job->n) break;
        int64_t last = FDP_MIN(first + FDP_NOISE_CHUNK, job->n);
        fdp_stream_open(&stream, job->key, job->domain, (uint64_t)chunk);
        for (int64_t i = first; i < last; i++) {
            exact_scale s = split_scale(job->scale[job->per_row ? i : 0]);
            if (s.shift > 127) /* scale < 2^-7: the largest x still rounds or floors to 0 */
                job->out[i] = 0;
            else if (job->domain == DOMAIN_GAUSSIAN)
                job->out[i] = draw_gaussian(&stream, s);
            else
                job->out[i] = draw_laplace(&stream, s);
        }
    }
    fdp_wipe(&stream, sizeof stream);
    fdp_wipe_stack();
}

/* Checks scales, takes or makes the key, and lets threads draw. The key is wiped from memory at the end. */
static int run(uint32_t domain, const double *scale, int per_row, int64_t n, const uint32_t *key, int threads,
               int64_t *out) {
    int code = FDP_OK;
    noise_job job = {.scale = scale, .out = out, .n = n, .per_row = per_row, .domain = domain};
    if (n <= 0) return n < 0 ? FDP_ERR_ARGUMENT : FDP_OK;
    for (int64_t i = 0; i < (per_row ? n : 1); i++)
        if (!(scale[i] >= 0x1p-10 && scale[i] <= 0x1p54)) return FDP_ERR_ARGUMENT;
    atomic_init(&job.next, 0);
    if (key)
        memcpy(job.key, key, 32);
    else
        code = fdp_random_key(job.key);
    if (code != FDP_OK) goto out;
    int64_t chunks = (n + FDP_NOISE_CHUNK - 1) / FDP_NOISE_CHUNK;
    fdp_team_run((int)FDP_MIN((int64_t)threads, chunks), work, &job);
out:
    fdp_wipe(job.key, sizeof job.key);
    return code;
}

int fdp_noise_gaussian(const double *scale, int per_row, int64_t n, const uint32_t *key, int threads,
                       int64_t *out) {
    return run(DOMAIN_GAUSSIAN, scale, per_row, n, key, threads, out);
}

int fdp_noise_laplace(const double *scale, int per_row, int64_t n, const uint32_t *key, int threads,
                      int64_t *out) {
    return run(DOMAIN_LAPLACE, scale, per_row, n, key, threads, out);
}

int fdp_noise_bytes(const uint32_t *key, int64_t n, uint8_t *out) {
    uint32_t fresh[8];
    fdp_stream stream;
    int code = FDP_OK;
    if (key)
        memcpy(fresh, key, 32);
    else
        code = fdp_random_key(fresh);
    if (code == FDP_OK) {
        fdp_stream_open(&stream, fresh, DOMAIN_BYTES, 0);
        for (int64_t i = 0; i < n; i += 8) {
            uint64_t word = fdp_stream_next(&stream);
            memcpy(out + i, &word, (size_t)FDP_MIN(n - i, 8));
        }
        fdp_wipe(&stream, sizeof stream);
        fdp_wipe_stack();
    }
    fdp_wipe(fresh, sizeof fresh);
    return code;
}
