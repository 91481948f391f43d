/* SHA-256 (FIPS 180-4), as far as user ids need it. */
#include "bound_tie.h"

#include <string.h>

/* Rotation of a 32-bit word to the right. */
#define TURN(x, n) (((x) >> (n)) | ((x) << (32 - (n))))

/* Fractional parts of the cube roots of the first 64 primes. */
static const uint32_t ROUNDS[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

/* One block of 64 bytes. The names of the standard: w is the message schedule, s the working variables a
 * to h, `one` and `two` its T1 and T2. */
static void block(uint32_t state[8], const uint8_t *p) {
    uint32_t w[64], s[8];
    /* The first 16 words are the block itself, big-endian; the others follow from them. */
    for (int i = 0; i < 16; i++)
        w[i] = (uint32_t)p[4 * i] << 24 | (uint32_t)p[4 * i + 1] << 16 | (uint32_t)p[4 * i + 2] << 8 |
               p[4 * i + 3];
    for (int i = 16; i < 64; i++) {
        const uint32_t a = TURN(w[i - 15], 7) ^ TURN(w[i - 15], 18) ^ (w[i - 15] >> 3);
        const uint32_t b = TURN(w[i - 2], 17) ^ TURN(w[i - 2], 19) ^ (w[i - 2] >> 10);
        w[i] = w[i - 16] + a + w[i - 7] + b;
    }
    /* 64 rounds, then the working variables are added to the state. */
    memcpy(s, state, sizeof s);
    for (int i = 0; i < 64; i++) {
        const uint32_t e = TURN(s[4], 6) ^ TURN(s[4], 11) ^ TURN(s[4], 25);
        const uint32_t one = s[7] + e + ((s[4] & s[5]) ^ (~s[4] & s[6])) + ROUNDS[i] + w[i];
        const uint32_t a = TURN(s[0], 2) ^ TURN(s[0], 13) ^ TURN(s[0], 22);
        const uint32_t two = a + ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));
        s[7] = s[6], s[6] = s[5], s[5] = s[4], s[4] = s[3] + one;
        s[3] = s[2], s[2] = s[1], s[1] = s[0], s[0] = one + two;
    }
    for (int i = 0; i < 8; i++) state[i] += s[i];
}

/* Whole blocks straight from the data. The last one or two are a copy: the rest, the bit 1, zeros, and
 * the length in bits as eight bytes, big-endian. */
uint64_t fdp_sha64(const uint8_t *data, size_t n) {
    uint32_t state[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                         0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    uint8_t last[128] = {0};
    size_t from = 0;
    for (; n - from >= 64; from += 64) block(state, data + from);
    const size_t rest = n - from, length = rest < 56 ? 64 : 128;
    if (rest > 0) memcpy(last, data + from, rest);
    last[rest] = 0x80;
    for (size_t i = 0; i < 8; i++) last[length - 1 - i] = (uint8_t)((uint64_t)n * 8 >> (8 * i));
    for (size_t i = 0; i < length; i += 64) block(state, last + i);
    return (uint64_t)state[0] << 32 | state[1];
}

/* The decimal digits are written from the end of `text`. ~word + 1 is the absolute value of a negative
 * word, also of the least one. */
uint64_t fdp_sha64_word(uint64_t word, int is_signed) {
    uint8_t text[20];
    size_t at = sizeof text;
    const int negative = is_signed && word >> 63;
    uint64_t rest = negative ? ~word + 1 : word;
    do {
        text[--at] = (uint8_t)('0' + rest % 10);
        rest /= 10;
    } while (rest != 0);
    if (negative) text[--at] = '-';
    return fdp_sha64(text + at, sizeof text - at);
}
