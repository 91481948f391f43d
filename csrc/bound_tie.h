/* Choices among the rows of one user, by numbers that a database can compute as well: SHA-256 of the id once,
 * then fifth powers modulo 2^31 - 1, whose products fit in 62 bits. docs/explain/ties.md specifies them. */
#ifndef FDP_BOUND_TIE_H
#define FDP_BOUND_TIE_H

#include <stddef.h>
#include <stdint.h>

#define FDP_TIE_PRIME 0x7fffffffULL
#define FDP_TIE_DIGIT 30 /* bits of a digit of a key */

/* x modulo the prime, for x < 2^62. */
static inline uint64_t fdp_tie_reduced(uint64_t x) {
    x = (x & FDP_TIE_PRIME) + (x >> 31);
    x = (x & FDP_TIE_PRIME) + (x >> 31);
    return x >= FDP_TIE_PRIME ? x - FDP_TIE_PRIME : x;
}

/* (s + w)^5 modulo the prime: a bijection of s. */
static inline uint64_t fdp_tie_step(uint64_t s, uint64_t w) {
    const uint64_t x = fdp_tie_reduced(s + w), square = fdp_tie_reduced(x * x);
    return fdp_tie_reduced(fdp_tie_reduced(square * square) * x);
}

/* hash: the first 8 bytes of the SHA-256 of an id, as fdp_sha64 returns them. */
/* The first state: the high half of the id's hash. */
static inline uint64_t fdp_tie_begin(uint64_t hash) {
    return fdp_tie_reduced(hash >> 32);
}

/* The last step mixes in the low half of the id's hash. */
static inline uint64_t fdp_tie_end(uint64_t s, uint64_t hash) {
    return fdp_tie_step(s, fdp_tie_reduced(hash & 0xffffffffULL));
}

/* The tie number of a user's key: its digits in base 2^30, the lowest first, without leading zeros. */
static inline uint64_t fdp_tie(uint64_t hash, uint64_t key) {
    uint64_t s = fdp_tie_begin(hash);
    do {
        s = fdp_tie_step(s, key & ((1ULL << FDP_TIE_DIGIT) - 1));
        key >>= FDP_TIE_DIGIT;
    } while (key != 0);
    return fdp_tie_end(s, hash);
}

/* The first 8 bytes of the SHA-256 of n bytes, most significant first. */
uint64_t fdp_sha64(const uint8_t *data, size_t n);

/* The same of the decimal digits of a 64-bit word. */
uint64_t fdp_sha64_word(uint64_t word, int is_signed);

#endif
