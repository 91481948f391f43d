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

/* One direction under way. Nocedal's two loops: q = slope, then from the newest pair to the oldest share
 * = s q / (s y) and q -= share * y; way = scale * factor' factor q, with scale = s y / |factor y|^2 of
 * the newest pair; then from the oldest to the newest way += (share - y way / (s y)) * s. The direction
 * is -way. */
typedef struct {
    const fdp_sparse_rows *factor, *turned;
    int64_t n, chunks, pairs;
    const double *const *s, *const *change;
    const double *soft, *slope;
    double *y, *q, *between, *half; /* [pairs, n], [n], [n], [n] */
    double *part;                   /* [pairs + 1, chunks] */
    double *way, descent;
    int64_t step, newest; /* the last pair that is taken in */
    double sy[FDP_DIRECTION_PAIRS], share[FDP_DIRECTION_PAIRS], factor_now;
} task;

/* y = change + soft * s, the change of the slope with the soft term's part; returns s times y. */
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

/* The inner product of a and b. */
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

/* What the chunks' parts number k add up to. */
static double whole(const task *t, int64_t k) {
    const double *part = t->part + k * t->chunks;
    double sum = 0;
    for (int64_t c = 0; c < t->chunks; c++) sum += part[c];
    return sum;
}

/* Steps of a direction: the pairs' changes; their parts taken off, the newest first; the product with the
 * factor; that with its transpose; the pairs' parts added, the oldest first; the end. */
enum { CHANGES, OFF, FACTOR, TURNED, ADDED, END };

/* The kind of the present step, and the pair that it works on. */
static int64_t kind_of(const task *t, int64_t *pair) {
    const int64_t step = t->step, pairs = t->pairs;
    *pair = step <= pairs ? pairs - step : step - pairs - 3;
    if (step == 0) return CHANGES;
    if (step <= pairs) return OFF;
    if (step <= pairs + 2) return step == pairs + 1 ? FACTOR : TURNED;
    return step <= 2 * pairs + 2 ? ADDED : END;
}

/* One chunk of the vector in one step. `last` gets the chunk's part of the inner product that the next
 * step needs. */
static void direction_piece(void *ctx, int64_t kind, int64_t c) {
    task *t = ctx;
    const int64_t n = t->n, pairs = t->pairs, at = c * CHUNK, size = FDP_MIN(CHUNK, n - at);
    double *parts = t->part + c, *last = parts + pairs * t->chunks;
    int64_t i;
    kind_of(t, &i);
    /* Every pair's y and s y; q begins as the slope. */
    if (kind == CHANGES) {
        for (int64_t k = 0; k < pairs; k++)
            parts[k * t->chunks] =
                change_of(size, t->s[k] + at, t->change[k] + at, t->soft + at, t->y + k * n + at);
        memcpy(t->q + at, t->slope + at, (size_t)size * sizeof *t->q);
        *last = pairs ? product(size, t->s[pairs - 1] + at, t->q + at) : 0;
        /* q -= share * y of this pair, and its product with the s of the next older one. */
    } else if (kind == OFF) {
        *last =
            add_and_multiply(size, t->factor_now, t->y + i * n + at, i ? t->s[i - 1] + at : NULL, t->q + at);
        /* factor q, and factor y of the newest pair, whose length scales the approximate inverse. */
    } else if (kind == FACTOR) {
        fdp_sparse_some(t->factor, at, at + size, t->q, t->between);
        if (t->newest >= 0) fdp_sparse_some(t->factor, at, at + size, t->y + t->newest * n, t->half);
        *last = t->newest >= 0 ? product(size, t->half + at, t->half + at) : 0;
        /* way = scale * factor' (factor q), and its product with the oldest y. */
    } else if (kind == TURNED) {
        fdp_sparse_some(t->turned, at, at + size, t->between, t->way);
        for (int64_t j = at; j < at + size; j++) t->way[j] *= t->factor_now;
        *last = pairs ? product(size, t->y + at, t->way + at) : 0;
        /* way += (share - y way / (s y)) * s of this pair, and its product with the y of the next newer
         * one. */
    } else if (kind == ADDED) {
        *last = add_and_multiply(size, t->factor_now, t->s[i] + at,
                                 i + 1 < pairs ? t->y + (i + 1) * n + at : NULL, t->way + at);
    } else {
        for (int64_t j = at; j < at + size; j++) t->way[j] = -t->way[j];
        *last = product(size, t->slope + at, t->way + at);
    }
}

/* What the step before adds up to gives the factor of the next one. */
static int64_t direction_plan(void *ctx, int64_t *kind) {
    task *t = ctx;
    int64_t i;
    const int64_t pairs = t->pairs, before = t->step < 0 ? -1 : kind_of(t, &i);
    if (before == END) {
        t->descent = whole(t, pairs);
        return 0;
    }
    for (int64_t k = 0; before == CHANGES && k < pairs; k++) {
        t->sy[k] = whole(t, k);
        t->newest = t->sy[k] > 0 ? k : t->newest;
    }
    t->step++;
    *kind = kind_of(t, &i);
    if (*kind == OFF) {
        t->share[i] = t->sy[i] > 0 ? whole(t, pairs) / t->sy[i] : 0;
        t->factor_now = -t->share[i];
    } else if (*kind == TURNED) {
        t->factor_now = t->newest < 0 ? 1 : t->sy[t->newest] / whole(t, pairs);
    } else if (*kind == ADDED) {
        t->factor_now = t->sy[i] > 0 ? t->share[i] - whole(t, pairs) / t->sy[i] : 0;
    }
    return t->chunks;
}

int fdp_direction(const fdp_sparse_rows *factor, const fdp_sparse_rows *turned, int64_t pairs,
                  const double *const *s, const double *const *change, const double *soft,
                  const double *slope, fdp_team *team, double *room, double *part, double *way,
                  double *descent) {
    const int64_t n = factor->rows;
    if (pairs > FDP_DIRECTION_PAIRS || turned->rows != n) return FDP_ERR_ARGUMENT;
    task t = {.factor = factor, .turned = turned, .n = n, .chunks = fdp_direction_chunks(n), .pairs = pairs};
    t.s = s, t.change = change, t.soft = soft, t.slope = slope, t.part = part, t.way = way;
    /* The caller's room, cut into the vectors of the task. */
    t.y = room, t.q = room + pairs * n, t.between = t.q + n, t.half = t.between + n;
    t.step = t.newest = -1;
    fdp_team_steps(team, fdp_team_worth(team, CELLS_A_LINE * n), FDP_TEAM_BLOCK, direction_plan,
                   direction_piece, &t);
    *descent = t.descent;
    return FDP_OK;
}

/* One pass for the slope and the three sums that the line search and the stopping rule read. */
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

/* moved = step * way, to = at + moved. */
FDP_CLONES static void along(int64_t n, double step, const double *restrict way, const double *restrict at,
                             double *restrict moved, double *restrict to) {
    for (int64_t j = 0; j < n; j++) {
        moved[j] = step * way[j];
        to[j] = at[j] + moved[j];
    }
}

int fdp_advance(int64_t n, double step, const double *way, const double *at, double *moved, double *to,
                int64_t k, const double *change, const double *before, const int64_t *active, double *changed,
                double *delta) {
    along(n, step, way, at, moved, to);
    for (int64_t j = 0; j < k; j++) delta[active[j]] = changed[j] = before[j] + step * change[j];
    return FDP_OK;
}
