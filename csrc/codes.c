/* Column encoding and decoding, in blocks that stay in the first-level cache: a block is mapped to 32-bit
 * codes by the rule and the element type, then nulls are laid over it, then it is narrowed.
 *
 * A worked example for each rule.
 *
 * AFFINE, whole numbers 18 to 20: lo = 18, count = 3, below = above = 3, null = 4. Values 19, 25, null, 18
 * lie at 1, beyond, anywhere, 0, so codes are 1, 3, 3, 0; lay_nulls makes them 1, 3, 4, 0; each becomes one
 * byte.
 *
 * TABLE, the same range with table = {2, 0, 1}: value 19 is entry 1, so its code is 0.
 *
 * SORTED, a list of numbers: ikeys = {3, 7, 9}, table = {0, 1, 2}, other = FDP_DROP. Value 7 is found at 1,
 * code 1. Value 8 is no key: mark_drops gives it code 0 and keep 0.
 *
 * EDGES, bins [0, 10) and [10, 20): edges = {0, 10, 20}, table = {2, 0, 1, 2}. Value 10 has two edges at or
 * below it, so its code is table[2] = 1. Value 20 has three and -1 has none: both get code 2, outside.
 *
 * Decoding by fdp_draw: code 1 is the bin [10, 20). With u = 0.25 the value is 10 + 0.25 * 10 = 12.5, or 12
 * where numbers are whole. */
#include "codes.h"

#include <math.h>
#include <string.h>

/* A fused multiply-add would make draws depend on the machine: a seed must give the same values
 * everywhere. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("fp-contract=off")
#else
#pragma STDC FP_CONTRACT OFF
#endif

/* Values worked on at a time: their codes take 4 kB. */
#define BLOCK 1024
/* Up to so many edges, counting all of them in a vector loop is faster than a search. */
#define FEW_EDGES 32

/* How many of the rule's keys are below v, or, with <=, at most v. */
#define FIND(at, keys, BELOW, v) \
    at = 0; \
    for (uint64_t len = m->count; len > 0;) { \
        const uint64_t half = len >> 1; \
        if (keys[at + half] BELOW v) { \
            at += half + 1; \
            len -= half + 1; \
        } else { \
            len = half; \
        } \
    }

/* How many edges each value has at or below it: of few edges by counting, of many by a search. */
#define DEFINE_EDGES(TAG, T, keys, NUMBER) \
    FDP_CLONES static void count_edges_##TAG(const T *x, size_t n, const struct fdp_map *m, uint32_t *out) { \
        memset(out, 0, n * sizeof *out); \
        for (uint64_t j = 0; j < m->count; j++) { \
            const NUMBER edge = m->keys[j]; \
            for (size_t i = 0; i < n; i++) out[i] += (uint32_t)((NUMBER)x[i] >= edge); \
        } \
    } \
    static void find_edges_##TAG(const T *x, size_t n, const struct fdp_map *m, uint32_t *out) { \
        for (size_t i = 0; i < n; i++) { \
            uint64_t at; \
            FIND(at, m->keys, <=, (NUMBER)x[i]); \
            out[i] = (uint32_t)at; \
        } \
    }

/* X(type of an element, its C type) for each type that a rule of whole numbers reads as it is. */
#define INT_TYPES(X) \
    X(FDP_I8, int8_t) \
    X(FDP_U8, uint8_t) \
    X(FDP_I16, int16_t) \
    X(FDP_U16, uint16_t) \
    X(FDP_I32, int32_t) \
    X(FDP_U32, uint32_t) \
    X(FDP_I64, int64_t)
#define ALL_TYPES(X) INT_TYPES(X) X(FDP_F32, float) X(FDP_F64, double)

/* Unsigned numbers as signed ones; those beyond int64 become its largest, which lies outside any range. */
static void widen_u64(const uint64_t *x, size_t n, int64_t *out) {
    for (size_t i = 0; i < n; i++) out[i] = x[i] > INT64_MAX ? INT64_MAX : (int64_t)x[i];
}

/* The rules for one type of whole numbers. affine, table: by the distance d from lo. sorted: by a binary
 * search for the first key >= v. count_edges, find_edges: the number of edges <= v, by comparing with each
 * edge or by a binary search for the first edge > v. */
#define DEFINE_INT(TAG, T) \
    FDP_CLONES static void affine_##TAG(const T *x, size_t n, const struct fdp_map *m, uint32_t *out) { \
        const uint64_t lo = (uint64_t)m->lo, count = m->count; \
        const uint32_t below = m->below, above = m->above; \
        for (size_t i = 0; i < n; i++) { \
            const int64_t v = (int64_t)x[i]; \
            const uint64_t d = (uint64_t)v - lo; \
            const uint32_t outside = v < m->lo ? below : above; \
            out[i] = v >= m->lo && d < count ? (uint32_t)d : outside; \
        } \
    } \
    static void table_##TAG(const T *x, size_t n, const struct fdp_map *m, uint32_t *out) { \
        const uint64_t lo = (uint64_t)m->lo, count = m->count; \
        for (size_t i = 0; i < n; i++) { \
            const int64_t v = (int64_t)x[i]; \
            const uint64_t d = (uint64_t)v - lo; \
            out[i] = v >= m->lo && d < count ? m->table[d] : m->other; \
        } \
    } \
    static void sorted_##TAG(const T *x, size_t n, const struct fdp_map *m, uint32_t *out) { \
        for (size_t i = 0; i < n; i++) { \
            const int64_t v = (int64_t)x[i]; \
            uint64_t at; \
            FIND(at, m->ikeys, <, v); \
            out[i] = at < m->count && m->ikeys[at] == v ? m->table[at] : m->other; \
        } \
    } \
    DEFINE_EDGES(TAG, T, ikeys, int64_t)
INT_TYPES(DEFINE_INT)

/* The least double that is at least k, and the greatest that is at most k: beyond 2^53 not every whole number
 * is one. */
static double at_least(int64_t k) {
    const double d = (double)k;
    return d >= 0x1p63 || (int64_t)d >= k ? d : nextafter(d, INFINITY);
}

static double at_most(int64_t k) {
    const double d = (double)k;
    return d < 0x1p63 && (int64_t)d <= k ? d : nextafter(d, -INFINITY);
}

/* Floating point: a number that is not whole is no key of a whole-number rule. */
#define DEFINE_FLOAT(TAG, T) \
    static void affine_##TAG(const T *x, size_t n, const struct fdp_map *m, uint32_t *out) { \
        const double lo = at_least(m->lo), hi = at_most(m->lo + ((int64_t)m->count - 1)); \
        for (size_t i = 0; i < n; i++) { \
            const double v = (double)x[i]; \
            if (v >= lo && v <= hi) { \
                const int64_t t = (int64_t)v; \
                const uint64_t d = (uint64_t)t - (uint64_t)m->lo; \
                out[i] = (double)t != v ? m->other : m->rule == FDP_TABLE ? m->table[d] : (uint32_t)d; \
            } else { \
                out[i] = v != v ? m->nan : m->rule == FDP_TABLE ? m->other : v < lo ? m->below : m->above; \
            } \
        } \
    } \
    static void table_##TAG(const T *x, size_t n, const struct fdp_map *m, uint32_t *out) { \
        affine_##TAG(x, n, m, out); \
    } \
    static void sorted_##TAG(const T *x, size_t n, const struct fdp_map *m, uint32_t *out) { \
        for (size_t i = 0; i < n; i++) { \
            const double v = (double)x[i]; \
            uint64_t at; \
            FIND(at, m->fkeys, <, v); \
            out[i] = v != v ? m->nan : at < m->count && m->fkeys[at] == v ? m->table[at] : m->other; \
        } \
    } \
    DEFINE_EDGES(TAG, T, fkeys, double) \
    static void nans_##TAG(const T *x, size_t n, uint32_t nan, uint32_t *out) { \
        for (size_t i = 0; i < n; i++) out[i] = x[i] != x[i] ? nan : out[i]; \
    }
DEFINE_FLOAT(FDP_F32, float)
DEFINE_FLOAT(FDP_F64, double)

/* Numbers of edges to codes. */
static void through_table(const uint32_t *table, size_t n, uint32_t *out) {
    for (size_t i = 0; i < n; i++) out[i] = table[out[i]];
}

/* Codes of a block of values, by the rule and the type of an element; nulls are not looked at yet. */
static int map_block(const void *x, int type, size_t n, const struct fdp_map *m, uint32_t *out) {
    switch (type) {
#define CASE(TAG, T) \
    case TAG: \
        if (m->rule == FDP_AFFINE) \
            affine_##TAG((const T *)x, n, m, out); \
        else if (m->rule == FDP_TABLE) \
            table_##TAG((const T *)x, n, m, out); \
        else if (m->rule == FDP_SORTED) \
            sorted_##TAG((const T *)x, n, m, out); \
        else if (m->count <= FEW_EDGES) \
            count_edges_##TAG((const T *)x, n, m, out); \
        else \
            find_edges_##TAG((const T *)x, n, m, out); \
        break;
        ALL_TYPES(CASE)
#undef CASE
    default:
        return FDP_ERR_ARGUMENT;
    }
    /* Numbers of edges become codes; NaN, which has no edge below it, gets its own code. */
    if (m->rule == FDP_EDGES) {
        through_table(m->table, n, out);
        if (type == FDP_F32) nans_FDP_F32((const float *)x, n, m->nan, out);
        if (type == FDP_F64) nans_FDP_F64((const double *)x, n, m->nan, out);
    }
    return FDP_OK;
}

/* The code of null where the validity bitmap has a 0. */
static void lay_nulls(const uint8_t *valid, int64_t bit, size_t n, uint32_t null, uint32_t *out) {
    for (size_t i = 0; i < n; i++) {
        const int64_t at = bit + (int64_t)i;
        out[i] = valid[at >> 3] >> (at & 7) & 1 ? out[i] : null;
    }
}

/* Rows to leave out: keep becomes 0, and the code 0, so that it can index any table. */
static void mark_drops(size_t n, uint32_t *codes, uint8_t *keep) {
    for (size_t i = 0; i < n; i++) {
        const int drop = codes[i] == FDP_DROP;
        keep[i] = drop ? 0 : keep[i];
        codes[i] = drop ? 0 : codes[i];
    }
}

/* Bytes of an element, in the order of enum fdp_type; 0 of an unknown type. */
static size_t type_size(int type) {
    static const uint8_t sizes[] = {1, 1, 2, 2, 4, 4, 8, 8, 4, 8};
    return type < 0 || type > FDP_F64 ? 0 : sizes[type];
}

int fdp_encode(const void *x, int type, size_t n, const struct fdp_map *map, const uint8_t *valid,
               int64_t bit0, int width, void *out, uint8_t *keep) {
    const size_t step = type_size(type);
    uint32_t codes[BLOCK];
    int64_t wide[BLOCK];
    if (!step || (width != 1 && width != 2 && width != 4)) return FDP_ERR_ARGUMENT;
    for (size_t start = 0; start < n; start += BLOCK) {
        const size_t m = FDP_MIN((size_t)BLOCK, n - start);
        const void *at = (const char *)x + start * step;
        int code;
        if (type == FDP_U64) {
            widen_u64(at, m, wide);
            code = map_block(wide, FDP_I64, m, map, codes);
        } else {
            code = map_block(at, type, m, map, codes);
        }
        if (code != FDP_OK) return code;
        /* Nulls and dropped rows are laid over the codes. */
        if (valid) lay_nulls(valid, bit0 + (int64_t)start, m, map->null, codes);
        if (keep) mark_drops(m, codes, keep + start);
        /* Written with as few bytes as the column has. */
        if (width == 1) {
            uint8_t *o = (uint8_t *)out + start;
            for (size_t i = 0; i < m; i++) o[i] = (uint8_t)codes[i];
        } else if (width == 2) {
            uint16_t *o = (uint16_t *)out + start;
            for (size_t i = 0; i < m; i++) o[i] = (uint16_t)codes[i];
        } else {
            memcpy((uint32_t *)out + start, codes, m * sizeof *codes);
        }
    }
    return FDP_OK;
}

/* The largest code, for each width: a range check of a column before it indexes anything. */
FDP_CLONES static uint32_t largest_8(const uint8_t *c, size_t n) {
    uint8_t most = 0;
    for (size_t i = 0; i < n; i++) most = c[i] > most ? c[i] : most;
    return most;
}

FDP_CLONES static uint32_t largest_16(const uint16_t *c, size_t n) {
    uint16_t most = 0;
    for (size_t i = 0; i < n; i++) most = c[i] > most ? c[i] : most;
    return most;
}

FDP_CLONES static uint32_t largest_32(const uint32_t *c, size_t n) {
    uint32_t most = 0;
    for (size_t i = 0; i < n; i++) most = c[i] > most ? c[i] : most;
    return most;
}

uint32_t fdp_largest(const void *codes, int width, size_t n) {
    return width == 1 ? largest_8(codes, n) : width == 2 ? largest_16(codes, n) : largest_32(codes, n);
}

/* The large page of its column that a piece fills: whoever touches a page first has to wait until the system
 * has cleared it, and so has everybody else who comes meanwhile. */
static void join_page(void *ctx, int64_t kind, int64_t page) {
    const struct fdp_joint *joint = ctx;
    (void)kind;
    for (; page >= fdp_join_pages(joint); joint++) page -= fdp_join_pages(joint);
    const uintptr_t start = (uintptr_t)joint->to, end = start + joint->bytes;
    const uintptr_t first = (start / FDP_ROOM_PAGE + (uintptr_t)page) * FDP_ROOM_PAGE;
    size_t from = FDP_MAX(first, start) - start, to = FDP_MIN(first + FDP_ROOM_PAGE, end) - start, at = 0;
    for (int64_t k = 0; k < joint->chunks && at < to; at += joint->sizes[k++]) {
        if (at + joint->sizes[k] <= from) continue;
        const size_t begin = FDP_MAX(at, from), some = FDP_MIN(at + joint->sizes[k], to) - begin;
        memcpy((char *)joint->to + begin, (const char *)joint->from[k] + (begin - at), some);
    }
}

int fdp_join(int64_t n, struct fdp_joint *joints, fdp_team *team) {
    int64_t pages = 0;
    for (int64_t i = 0; i < n; i++) pages += fdp_join_pages(joints + i);
    fdp_team_each(team, (int)FDP_MIN(pages, team ? team->most : 1), FDP_TEAM_BLOCK, pages, join_page, joints);
    return FDP_OK;
}

/* A block of codes of any width as 32-bit codes. */
static void widen(const void *codes, int width, size_t start, size_t n, uint32_t *out) {
    if (width == 1) {
        const uint8_t *c = (const uint8_t *)codes + start;
        for (size_t i = 0; i < n; i++) out[i] = c[i];
    } else if (width == 2) {
        const uint16_t *c = (const uint16_t *)codes + start;
        for (size_t i = 0; i < n; i++) out[i] = c[i];
    } else {
        memcpy(out, (const uint32_t *)codes + start, n * sizeof *out);
    }
}

int fdp_lookup(const void *codes, int width, size_t n, const void *table, int size, void *out) {
    uint32_t block[BLOCK];
    if (width != 1 && width != 2 && width != 4) return FDP_ERR_ARGUMENT;
    for (size_t start = 0; start < n; start += BLOCK) {
        const size_t m = FDP_MIN((size_t)BLOCK, n - start);
        widen(codes, width, start, m, block);
        switch (size) {
#define CASE(SIZE, T) \
    case SIZE: \
        for (size_t i = 0; i < m; i++) ((T *)out)[start + i] = ((const T *)table)[block[i]]; \
        break;
            CASE(1, uint8_t)
            CASE(2, uint16_t)
            CASE(4, uint32_t)
            CASE(8, uint64_t)
#undef CASE
        default:
            return FDP_ERR_ARGUMENT;
        }
    }
    return FDP_OK;
}

/* SplitMix64 at positions row + 1, row + 2, ...: each number is a function of its position alone. */
FDP_CLONES static void uniform_block(uint64_t key, uint64_t row, size_t n, double *u) {
    for (size_t i = 0; i < n; i++) {
        uint64_t z = key + (row + i + 1) * 0x9E3779B97F4A7C15u;
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
        z ^= z >> 31;
        u[i] = (double)(int64_t)(z >> 11) * 0x1p-53;
    }
}

int fdp_uniform(uint64_t key, uint64_t row0, size_t n, double *u) {
    uniform_block(key, row0, n, u);
    return FDP_OK;
}

/* The inverse distribution function at u of an exponential of this mean, cut off at `width`. */
static double beyond(double u, double mean, double width) {
    return isinf(width) ? -mean * log1p(-u) : -mean * log1p(u * expm1(-width / mean));
}

/* Even draws over every bin of the block: no calls, so that it vectorises. */
FDP_CLONES static void even(const uint32_t *codes, size_t n, const struct fdp_bins *b, double *v) {
    for (size_t i = 0; i < n; i++) v[i] = b->lo[codes[i]] + v[i] * (b->hi[codes[i]] - b->lo[codes[i]]);
}

/* Rounds down where numbers are whole, clamps to the limits of the code, and scales. */
FDP_CLONES static void settle(const uint32_t *codes, size_t n, const struct fdp_bins *b, int whole,
                              double unit, double *v) {
    if (whole)
        for (size_t i = 0; i < n; i++) v[i] = floor(v[i]);
    for (size_t i = 0; i < n; i++) {
        const double low = b->low[codes[i]], high = b->high[codes[i]];
        double x = v[i] > low ? v[i] : low;
        v[i] = x < high ? x : high;
    }
    if (unit != 1)
        for (size_t i = 0; i < n; i++) v[i] /= unit;
}

int fdp_draw(const void *codes, int width, size_t n, const struct fdp_bins *b, int whole, double unit,
             uint64_t key, uint64_t row0, int type, void *out) {
    uint32_t block[BLOCK];
    double u[BLOCK], v[BLOCK];
    if (width != 1 && width != 2 && width != 4) return FDP_ERR_ARGUMENT;
    for (size_t start = 0; start < n; start += BLOCK) {
        const size_t m = FDP_MIN((size_t)BLOCK, n - start);
        widen(codes, width, start, m, block);
        uniform_block(key, row0 + start, m, u);
        memcpy(v, u, m * sizeof *v);
        even(block, m, b, v);
        /* Bins with a mean are drawn again, from an exponential: there are few of them. */
        for (size_t i = 0; i < m; i++) {
            const uint32_t c = block[i];
            const double mean = b->mean[c];
            if (mean > 0)
                v[i] = b->lo[c] + beyond(u[i], mean, b->hi[c] - b->lo[c]);
            else if (mean < 0)
                v[i] = b->hi[c] - beyond(1 - u[i] - 0x1p-53, -mean, b->hi[c] - b->lo[c]);
        }
        settle(block, m, b, whole, unit, v);
        /* Written in the type of the output column. */
        switch (type) {
#define CASE(TAG, T) \
    case TAG: \
        for (size_t i = 0; i < m; i++) ((T *)out)[start + i] = (T)v[i]; \
        break;
            ALL_TYPES(CASE)
#undef CASE
        case FDP_U64:
            for (size_t i = 0; i < m; i++) ((uint64_t *)out)[start + i] = (uint64_t)v[i];
            break;
        default:
            return FDP_ERR_ARGUMENT;
        }
    }
    return FDP_OK;
}
