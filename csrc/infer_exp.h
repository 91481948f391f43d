/* exp of a block, for potentials already shifted so that the largest is 0.
 *
 * exp(x) = 2^k * p(r) with k = round(x / ln 2), |r| <= ln(2)/2, p of degree 11 (Chebyshev fit, error 4e-18
 * before rounding). The rounding is done by adding 1.5 * 2^52, so that the loop is nothing but fused
 * multiply-adds and integer shifts and gcc vectorises it on SSE2, AVX2, AVX-512 and NEON alike. Anything
 * below FDP_EXP_MIN (also -inf) gives exactly 0, which is how structural zeros stay zero. */
#ifndef FDP_INFER_EXP_H
#define FDP_INFER_EXP_H

#include <stdint.h>
#include <string.h>

#define FDP_EXP_MIN (-708.0)
#define FDP_EXP_MIN_F (-87.0f)

static inline double fdp_exp(double x) {
    const double shift = 0x1.8p52;
    double c = x < FDP_EXP_MIN ? FDP_EXP_MIN : x;
    double kd = c * 1.4426950408889634 + shift;
    int64_t k;
    memcpy(&k, &kd, sizeof k);
    kd -= shift;
    double r = c - kd * 0x1.62e42fefa3800p-1;
    r = r - kd * 0x1.ef35793c76730p-45;
    double r2 = r * r, r4 = r2 * r2, r8 = r4 * r4;
    double p01 = 1.0 + 1.0 * r, p23 = 0x1.0000000000011p-1 + 0x1.555555555555ap-3 * r,
           p45 = 0x1.555555554f0cep-5 + 0x1.111111110f225p-7 * r,
           p67 = 0x1.6c16c187fbeb1p-10 + 0x1.a01a01b1437fbp-13 * r;
    double p89 = 0x1.a01991ac69d18p-16 + 0x1.71ddf5748b00cp-19 * r,
           pab = 0x1.28b4059a6fc39p-22 + 0x1.af631d21c7c3ap-26 * r;
    double p = (p01 + p23 * r2) + (p45 + p67 * r2) * r4 + (p89 + pab * r2) * r8;
    int64_t bits;
    memcpy(&bits, &p, sizeof bits);
    bits += (int64_t)((uint64_t)k << 52);
    memcpy(&p, &bits, sizeof p);
    return x < FDP_EXP_MIN ? 0.0 : p;
}

/* The same in single precision: degree 6, relative error 2e-9 before rounding; zero below FDP_EXP_MIN_F. */
static inline float fdp_expf(float x) {
    const float shift = 0x1.8p23f;
    float c = x < FDP_EXP_MIN_F ? FDP_EXP_MIN_F : x;
    float kd = c * 1.44269504f + shift;
    int32_t k;
    memcpy(&k, &kd, sizeof k);
    kd -= shift;
    float r = c - kd * 0x1.62e400p-1f;
    r = r - kd * 0x1.7f7d1cp-20f;
    float r2 = r * r;
    float p = (1.0f + 1.0000000377164404f * r) + (0.5000000047118041f + 0.16666415513647304f * r) * r2 +
              ((0.04166635289551871f + 0.008375126481913865f * r) + 0.0013941108538586104f * r2) * (r2 * r2);
    int32_t bits;
    memcpy(&bits, &p, sizeof bits);
    bits += (int32_t)((uint32_t)k << 23);
    memcpy(&p, &bits, sizeof p);
    return x < FDP_EXP_MIN_F ? 0.0f : p;
}

/* log of a positive normal number: 2^k * m with m in [1/sqrt 2, sqrt 2), log m = 2 atanh((m - 1) / (m + 1));
 * relative error under 1e-15. No branches, so that a row of them vectorises. */
static inline double fdp_log(double x) {
    int64_t bits;
    memcpy(&bits, &x, sizeof bits);
    const int64_t k =
        (int64_t)((uint64_t)(bits - 0x3fe6a09e667f3bcdLL) >> 52); /* exponent once m is in range, mod 2^12 */
    const int64_t e = (k & 0x7ff) - ((k & 0x800) ? 0x800 : 0);
    bits -= (int64_t)((uint64_t)e << 52);
    double m;
    memcpy(&m, &bits, sizeof m);
    const double s = (m - 1) / (m + 1), q = s * s;
    double p = 0x1.af286bca1af28p-5; /* 1/19 */
    p = p * q + 0x1.e1e1e1e1e1e1ep-5;
    p = p * q + 0x1.1111111111111p-4;
    p = p * q + 0x1.3b13b13b13b14p-4;
    p = p * q + 0x1.745d1745d1746p-4;
    p = p * q + 0x1.c71c71c71c71cp-4;
    p = p * q + 0x1.2492492492492p-3;
    p = p * q + 0x1.999999999999ap-3;
    p = p * q + 0x1.5555555555555p-2;
    return (double)e * 0x1.62e42fefa39efp-1 + (2 * s + 2 * s * q * p);
}

#endif
