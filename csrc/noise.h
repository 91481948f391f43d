/* Exact noise on the integer grid, from a ChaCha20 stream. Laws and proofs: docs/explain/noise.md. */
#ifndef FDP_NOISE_H
#define FDP_NOISE_H

#include "fdp.h"

#define FDP_LANES 8                       /* ChaCha20 blocks computed side by side */
#define FDP_STREAM_WORDS (16 * FDP_LANES) /* 32-bit words of one refill */
#define FDP_NOISE_CHUNK 16384 /* samples that share one nonce; fixes seeded output for any thread count */

typedef struct {
    uint32_t key[8];
    uint32_t nonce[3];
    uint32_t counter; /* of the next block; one nonce yields 2^38 bytes */
    uint32_t used;    /* 64-bit words of `words` already handed out */
    uint64_t bits;    /* what is left of a word that is handed out bit by bit */
    uint32_t left;
    uint64_t words[FDP_STREAM_WORDS / 2];
} fdp_stream;

/* One block of RFC 8439, the obvious way. */
void fdp_chacha20_block(const uint32_t key[8], uint32_t counter, const uint32_t nonce[3], uint32_t out[16]);

/* FDP_LANES consecutive blocks; word i of block `counter + l` goes to out[i * FDP_LANES + l]. */
void fdp_chacha20_lanes(const uint32_t key[8], uint32_t counter, const uint32_t nonce[3], uint32_t *out);

/* 32 bytes from the operating system; FDP_ERR_RANDOM where it has none. */
int fdp_random_key(uint32_t key[8]);

void fdp_stream_open(fdp_stream *stream, const uint32_t key[8], uint32_t domain, uint64_t nonce);
void fdp_stream_refill(fdp_stream *stream);
void fdp_wipe(void *memory, size_t bytes);

/* Overwrites the stack below the caller's frame, where calls that have returned left state and words of the
 * stream: fdp_chacha20_lanes keeps its own in registers as far as they reach, and does not wipe them. */
#define FDP_WIPE_STACK 8192
void fdp_wipe_stack(void);

static inline uint64_t fdp_stream_next(fdp_stream *stream) {
    if (stream->used == FDP_STREAM_WORDS / 2) fdp_stream_refill(stream);
    return stream->words[stream->used++];
}

static inline int fdp_stream_bit(fdp_stream *stream) {
    if (stream->left == 0) {
        stream->bits = fdp_stream_next(stream);
        stream->left = 64;
    }
    int bit = (int)(stream->bits & 1);
    stream->bits >>= 1;
    stream->left--;
    return bit;
}

/* n draws; `scale` holds one double (per_row 0) or n (per_row 1), each within [2^-10, 2^54]. key NULL: a
 * fresh key from the operating system, wiped on return. Gaussian: floor(|scale * N(0,1)| + 1/2) with its
 * sign. Laplace: P(k) proportional to exp(-|k| / scale). */
int fdp_noise_gaussian(const double *scale, int per_row, int64_t n, const uint32_t *key, int threads,
                       int64_t *out);
int fdp_noise_laplace(const double *scale, int per_row, int64_t n, const uint32_t *key, int threads,
                      int64_t *out);
int fdp_noise_bytes(const uint32_t *key, int64_t n, uint8_t *out);

/* The deterministic parts, apart from the stream so that tests can reach their rare branches.
 * fdp_exp_minus: exp(-z) for z = z_hi:z_lo < 7/8, both in units of 2^-128, off by less than 8 units.
 * fdp_gauss_exponent: z = (2 strip u + u^2) / 512, short by less than 4 units. */
void fdp_exp_minus(uint64_t z_hi, uint64_t z_lo, uint64_t *hi, uint64_t *lo);
void fdp_gauss_exponent(uint32_t strip, uint64_t u_hi, uint64_t u_lo, uint64_t *hi, uint64_t *lo);

#endif
