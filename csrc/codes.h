/* Values to codes and codes to values, one column at a time; see codes.c. */
#ifndef FDP_CODES_H
#define FDP_CODES_H

#include "fdp.h"
#include "room.h"
#include "team.h"

/* Element types of a source or output column. */
enum fdp_type { FDP_I8, FDP_U8, FDP_I16, FDP_U16, FDP_I32, FDP_U32, FDP_I64, FDP_U64, FDP_F32, FDP_F64 };

/* How values become codes. AFFINE: value - lo, for lo <= value < lo + count. TABLE: table[value - lo] on the
 * same range. SORTED: the value's position among `count` sorted keys, then table[position]. EDGES: the number
 * of edges <= value, then table[number], which has count + 1 entries. */
enum fdp_rule { FDP_AFFINE, FDP_TABLE, FDP_SORTED, FDP_EDGES };

#define FDP_DROP 0xFFFFFFFFu /* in place of a code: the row is left out */

struct fdp_map {
    int rule;
    int64_t lo;
    uint64_t count;
    const int64_t *ikeys; /* keys or edges for whole numbers */
    const double *fkeys;  /* the same for floating point */
    const uint32_t *table;
    uint32_t below, above; /* codes of numbers outside the range */
    uint32_t other;        /* code of numbers that are no key, or not whole */
    uint32_t nan;
    uint32_t null;
};

/* Codes of n values. `valid` is an Arrow validity bitmap read from bit `bit0`, or NULL. Codes are written
 * with `width` 1, 2 or 4 bytes; a dropped row gets code 0 and keep[i] = 0 (keep may be NULL if nothing
 * drops). */
int fdp_encode(const void *x, int type, size_t n, const struct fdp_map *map, const uint8_t *valid,
               int64_t bit0, int width, void *out, uint8_t *keep);

/* The arguments of one fdp_encode. */
struct fdp_encode_job {
    const void *x;
    int type;
    size_t n;
    const struct fdp_map *map;
    const uint8_t *valid;
    int64_t bit0;
    int width;
    void *out;
    uint8_t *keep;
};

/* The largest of n codes of `width` 1, 2 or 4 bytes; 0 of none. */
uint32_t fdp_largest(const void *codes, int width, size_t n);

/* Chunks, of so many bytes each, that are put together in one room. */
struct fdp_joint {
    int64_t chunks;
    const void **from;
    size_t *sizes, bytes;
    void *to;
};

/* The large pages that a room of some bytes lies in. */
static inline int64_t fdp_join_pages(const struct fdp_joint *joint) {
    const uintptr_t start = (uintptr_t)joint->to, end = start + joint->bytes;
    return joint->bytes ? (int64_t)((end - 1) / FDP_ROOM_PAGE - start / FDP_ROOM_PAGE + 1) : 0;
}

/* Copies the chunks of n rooms. */
int fdp_join(int64_t n, struct fdp_joint *joints, fdp_team *team);

/* out[i] = table[codes[i]], elements of `size` bytes (1, 2, 4, 8). Codes must be < the table's length. */
int fdp_lookup(const void *codes, int width, size_t n, const void *table, int size, void *out);

/* u[i] in [0, 1) with 53 bits, a fixed function of (key, row0 + i): SplitMix64 at any position. */
int fdp_uniform(uint64_t key, uint64_t row0, size_t n, double *u);

/* Values drawn within bins: even over [lo, hi) of the code's bin, or, where mean > 0, lo plus an exponential
 * of that mean cut off at hi - lo; mean < 0 mirrors it (hi minus). With `whole`, rounded down. Results are
 * clamped to [low, high] of their code, divided by `unit`, and depend on (key, row0 + i) and the code
 * only. */
struct fdp_bins {
    const double *lo, *hi, *mean, *low, *high;
};
int fdp_draw(const void *codes, int width, size_t n, const struct fdp_bins *bins, int whole, double unit,
             uint64_t key, uint64_t row0, int type, void *out);

#endif
