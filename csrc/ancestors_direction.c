/* A direction of L-BFGS by a team (see ancestors.h).
 *
 * The floor. With 10 pairs the two loops read 20 vectors once each and write one 20 times: fused so, a pair
 * costs one phase, which subtracts the last pair's part and takes the product with the next. 10,769
 * functionals and 46,458 entries (5 million taxi trips): 5 MB out of the cache of the second level, some 0.15
 * ms on one thread, and 0.1 ms for three products with the factor. */
#include <string.h>

#include "ancestors_rows.h"

#define CHUNK 512       /* functionals whose products are added up together */
#define CELLS_A_LINE 20 /* a functional is as much work as so many cells */

typedef struct {
    const fdp_sparse_rows *factor, *turned;
    int64_t n, chunks, pairs;
    const double *const *s, *const *change;
    const double *soft, *slope;
    double *y, *q, *between, *half; /* [pairs, n], [n], [n], [n] */
    double *part;                   /* [2, pairs + 1, chunks]; phases take turns */
    double *way, descent;
} task;

static inline void next_phase(fdp_team *team, int64_t *phase) {
    fdp_team_wait(team);
    *phase += 1;
}

FDP_CLONES static double change_of(int64_t n, const double *restrict s, const double *restrict change,
                                   const double *restrict soft, double *restrict y) {
    double sy = 0;
#pragma omp simd reduction(+ : sy)
    for (int64_t j = 0; j < n; j++) {
        y[j] = change[j] + soft[j] * s[j];
        sy += s[j] * y[j];
    }
    return sy;
}

FDP_CLONES static double product(int64_t n, const double *restrict a, const double *restrict b) {
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t j = 0; j < n; j++) sum += a[j] * b[j];
    return sum;
}

/* to += factor * by; returns the product of the result with `next`, if that is not NULL. */
FDP_CLONES static double add_and_multiply(int64_t n, double factor, const double *restrict by,
                                          const double *restrict next, double *restrict to) {
    double sum = 0;
    if (next) {
#pragma omp simd reduction(+ : sum)
        for (int64_t j = 0; j < n; j++) {
            to[j] += factor * by[j];
            sum += to[j] * next[j];
        }
    } else {
        for (int64_t j = 0; j < n; j++) to[j] += factor * by[j];
    }
    return sum;
}

int64_t fdp_direction_chunks(int64_t n) {
    return (n + CHUNK - 1) / CHUNK;
}

/* What the chunks' parts number k of a phase add up to. */
static double whole(const task *t, int64_t phase, int64_t k) {
    const double *part = t->part + ((phase % 2) * (t->pairs + 1) + k) * t->chunks;
    double sum = 0;
    for (int64_t c = 0; c < t->chunks; c++) sum += part[c];
    return sum;
}

/* Phases are so short that chunks are dealt out beforehand. */
#define CHUNKS(t, c, at, size) \
    for (int64_t c = number; c < (t)->chunks; c += team->threads) \
    for (int64_t at = c * CHUNK, size = FDP_MIN(CHUNK, (t)->n - at), once_ = 1; once_; once_ = 0)
#define PART(t, k, c) (t)->part[((phase % 2) * ((t)->pairs + 1) + (k)) * (t)->chunks + (c)]

static void direction_member(fdp_team *team, int number, void *ctx) {
    task *t = ctx;
    const int64_t n = t->n, pairs = t->pairs;
    double sy[FDP_DIRECTION_PAIRS], share[FDP_DIRECTION_PAIRS];
    int64_t phase = 0;
    CHUNKS(t, c, at, size) {
        for (int64_t i = 0; i < pairs; i++)
            PART(t, i, c) = change_of(size, t->s[i] + at, t->change[i] + at, t->soft + at, t->y + i * n + at);
        memcpy(t->q + at, t->slope + at, (size_t)size * sizeof *t->q);
        PART(t, pairs, c) = pairs ? product(size, t->s[pairs - 1] + at, t->q + at) : 0;
    }
    next_phase(team, &phase);
    int64_t newest = -1;
    for (int64_t i = 0; i < pairs; i++) {
        sy[i] = whole(t, phase - 1, i);
        newest = sy[i] > 0 ? i : newest;
    }
    for (int64_t i = pairs - 1; i >= 0; i--) {
        share[i] = sy[i] > 0 ? whole(t, phase - 1, pairs) / sy[i] : 0;
        CHUNKS(t, c, at, size)
        PART(t, pairs, c) =
            add_and_multiply(size, -share[i], t->y + i * n + at, i ? t->s[i - 1] + at : NULL, t->q + at);
        next_phase(team, &phase);
    }
    CHUNKS(t, c, at, size) {
        fdp_sparse_some(t->factor, at, at + size, t->q, t->between);
        if (newest >= 0) fdp_sparse_some(t->factor, at, at + size, t->y + newest * n, t->half);
        PART(t, pairs, c) = newest >= 0 ? product(size, t->half + at, t->half + at) : 0;
    }
    next_phase(team, &phase);
    const double scale = newest < 0 ? 1 : sy[newest] / whole(t, phase - 1, pairs);
    CHUNKS(t, c, at, size) {
        fdp_sparse_some(t->turned, at, at + size, t->between, t->way);
        for (int64_t j = at; j < at + size; j++) t->way[j] *= scale;
        PART(t, pairs, c) = pairs ? product(size, t->y + at, t->way + at) : 0;
    }
    next_phase(team, &phase);
    for (int64_t i = 0; i < pairs; i++) {
        const double back = sy[i] > 0 ? share[i] - whole(t, phase - 1, pairs) / sy[i] : 0;
        CHUNKS(t, c, at, size)
        PART(t, pairs, c) = add_and_multiply(size, back, t->s[i] + at,
                                             i + 1 < pairs ? t->y + (i + 1) * n + at : NULL, t->way + at);
        next_phase(team, &phase);
    }
    CHUNKS(t, c, at, size) {
        for (int64_t j = at; j < at + size; j++) t->way[j] = -t->way[j];
        PART(t, pairs, c) = product(size, t->slope + at, t->way + at);
    }
    next_phase(team, &phase);
    if (number == 0) t->descent = whole(t, phase - 1, pairs);
}

int fdp_direction(const fdp_sparse_rows *factor, const fdp_sparse_rows *turned, int64_t pairs,
                  const double *const *s, const double *const *change, const double *soft,
                  const double *slope, fdp_team *team, double *room, double *part, double *way,
                  double *descent) {
    const int64_t n = factor->rows;
    if (pairs > FDP_DIRECTION_PAIRS || turned->rows != n) return FDP_ERR_ARGUMENT;
    task t = {.factor = factor, .turned = turned, .n = n, .chunks = fdp_direction_chunks(n), .pairs = pairs};
    t.s = s, t.change = change, t.soft = soft, t.slope = slope, t.part = part, t.way = way;
    t.y = room, t.q = room + pairs * n, t.between = t.q + n, t.half = t.between + n;
    fdp_team_do(team, fdp_team_worth(team, CELLS_A_LINE * n), direction_member, &t);
    *descent = t.descent;
    return FDP_OK;
}

FDP_CLONES int fdp_slope(int64_t n, const double *restrict target, const double *restrict variance,
                         const double *restrict f, const double *restrict soft, const double *restrict at,
                         const double *restrict pull, const double *restrict way, double *restrict slope,
                         double *restrict sums) {
    double along = 0, steep = 0, squares = 0;
#pragma omp simd reduction(+ : along, steep, squares)
    for (int64_t j = 0; j < n; j++) {
        const double gap = target[j] - f[j], here = gap + soft[j] * (at[j] - pull[j]);
        slope[j] = here;
        along += here * way[j];
        steep += here * here / variance[j];
        squares += gap * gap / variance[j];
    }
    sums[0] = along, sums[1] = steep, sums[2] = squares;
    return FDP_OK;
}
