/* ChaCha20 (RFC 8439) as a stream of 64-bit words. State lives in the caller's frame for the length of one
 * call, so neither fork nor threads can share or repeat it. */
#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "noise.h"

/* The quarter round of RFC 8439, section 2.1, and its double round: four columns, then four diagonals. */
#define ROTATE(x, n) (((x) << (n)) | ((x) >> (32 - (n))))
#define QUARTER(a, b, c, d) \
    a += b; \
    d ^= a; \
    d = ROTATE(d, 16); \
    c += d; \
    b ^= c; \
    b = ROTATE(b, 12); \
    a += b; \
    d ^= a; \
    d = ROTATE(d, 8); \
    c += d; \
    b ^= c; \
    b = ROTATE(b, 7);
#define DOUBLE_ROUND(x) \
    QUARTER(x[0], x[4], x[8], x[12]) \
    QUARTER(x[1], x[5], x[9], x[13]) \
    QUARTER(x[2], x[6], x[10], x[14]) \
    QUARTER(x[3], x[7], x[11], x[15]) \
    QUARTER(x[0], x[5], x[10], x[15]) \
    QUARTER(x[1], x[6], x[11], x[12]) \
    QUARTER(x[2], x[7], x[8], x[13]) \
    QUARTER(x[3], x[4], x[9], x[14])

/* Four constant words ("expand 32-byte k"), the key, the counter of blocks, the nonce. */
static void initial_state(const uint32_t key[8], uint32_t counter, const uint32_t nonce[3],
                          uint32_t state[16]) {
    state[0] = 0x61707865u;
    state[1] = 0x3320646eu;
    state[2] = 0x79622d32u;
    state[3] = 0x6b206574u;
    memcpy(state + 4, key, 32);
    state[12] = counter;
    memcpy(state + 13, nonce, 12);
}

/* One block of 16 words: ten double rounds, then the initial state is added. */
void fdp_chacha20_block(const uint32_t key[8], uint32_t counter, const uint32_t nonce[3], uint32_t out[16]) {
    uint32_t state[16], x[16];
    initial_state(key, counter, nonce, state);
    memcpy(x, state, sizeof x);
    for (int round = 0; round < 10; round++) {
        DOUBLE_ROUND(x)
    }
    for (int i = 0; i < 16; i++) out[i] = x[i] + state[i];
    fdp_wipe(state, sizeof state);
    fdp_wipe(x, sizeof x);
}

/* FDP_LANES blocks at once: element `lane` of every vector belongs to the block counter + lane. */
typedef uint32_t lanes_t __attribute__((vector_size(4 * FDP_LANES)));

/* Ten double rounds on all blocks, then the start is added, as in the standard. Word i of block `lane` goes to
 * out[i * FDP_LANES + lane]. */
FDP_CLONES
void fdp_chacha20_lanes(const uint32_t key[8], uint32_t counter, const uint32_t nonce[3], uint32_t *out) {
    uint32_t state[16];
    lanes_t x[16], start[16];
    initial_state(key, counter, nonce, state);
    for (int i = 0; i < 16; i++)
        for (int lane = 0; lane < FDP_LANES; lane++)
            start[i][lane] = state[i] + (i == 12 ? (uint32_t)lane : 0u);
    for (int i = 0; i < 16; i++) x[i] = start[i];
    for (int round = 0; round < 10; round++) {
        DOUBLE_ROUND(x)
    }
    for (int i = 0; i < 16; i++) {
        x[i] += start[i];
        memcpy(out + i * FDP_LANES, &x[i], sizeof(lanes_t));
    }
}

/* A key from the operating system; a call may give fewer bytes than asked, or be interrupted. */
int fdp_random_key(uint32_t key[8]) {
    size_t have = 0;
    while (have < 32) {
        ssize_t got = getrandom((char *)key + have, 32 - have, 0);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return FDP_ERR_RANDOM;
        have += (size_t)got;
    }
    return FDP_OK;
}

/* explicit_bzero is not removed by the compiler, as memset may be. */
void fdp_wipe(void *memory, size_t bytes) {
    explicit_bzero(memory, bytes);
}

/* Overwrites the part of the stack that functions called before have used. */
__attribute__((noinline)) void fdp_wipe_stack(void) {
    unsigned char below[FDP_WIPE_STACK];
    explicit_bzero(below, sizeof below);
}

/* A stream is named by (domain, nonce) under its key; no words are ready, so the first use fills it. */
void fdp_stream_open(fdp_stream *stream, const uint32_t key[8], uint32_t domain, uint64_t nonce) {
    memcpy(stream->key, key, 32);
    stream->nonce[0] = domain;
    stream->nonce[1] = (uint32_t)nonce;
    stream->nonce[2] = (uint32_t)(nonce >> 32);
    stream->counter = 0;
    stream->left = 0;
    stream->used = FDP_STREAM_WORDS / 2;
}

/* The next FDP_LANES blocks of the stream. */
void fdp_stream_refill(fdp_stream *stream) {
    fdp_chacha20_lanes(stream->key, stream->counter, stream->nonce, (uint32_t *)stream->words);
    stream->counter += FDP_LANES;
    stream->used = 0;
}
