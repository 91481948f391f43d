/* Work of the dual on cells alone (see dual.h): their answers and centres, and mixtures of candidates. */
#include <math.h>
#include <string.h>

#include "dual.h"

#define BLOCK 512   /* cells worked on at a time */
#define SHARE 16384 /* cells that a thread takes at a time where nothing is added up */

/* Arguments of the three functions below: centre, gram and mix. */
typedef struct {
    const fdp_dual *dual;
    int64_t region, n;
    const double *table, *given, *weights;
    const uint8_t *possible;
    const float *seen; /* [n, cells] */
    double *y, *inverse, *gram;
} cells_task;

/* Answers and centres of some cells in units of sigma. The centre is kept as its inverse; 0 marks an
 * impossible cell. */
FDP_CLONES
static void centre_cells(const cells_task *t, const fdp_dual_region *r, int64_t from, int64_t to) {
    double *y = t->y + r->cell, *inverse = t->inverse + r->cell;
    for (int64_t j = from; j < to; j++) {
        const double s = r->sigmas ? r->sigmas[j] : r->sigma;
        const double over = s / FDP_MAX(t->table[j], 1e-300);
        inverse[j] = FDP_MIN(over, 1 / FDP_DUAL_LEAST);
        y[j] = t->given[j] / s;
    }
    for (int64_t j = from; t->possible && j < to; j++) inverse[j] = t->possible[j] ? inverse[j] : 0.0;
}

static void centre_piece(void *argument, int64_t kind, int64_t i) {
    (void)kind;
    cells_task *t = argument;
    const fdp_dual_region *r = &t->dual->regions[t->region];
    centre_cells(t, r, i * SHARE, FDP_MIN(r->rows * r->cols, (i + 1) * SHARE));
}

int fdp_dual_centre(const fdp_dual *dual, int64_t region, const double *table, const double *given,
                    const uint8_t *possible, fdp_team *team, double *y, double *inverse) {
    cells_task t = {.dual = dual, .region = region, .table = table, .given = given, .possible = possible};
    t.y = y, t.inverse = inverse;
    const int64_t cells = dual->regions[region].rows * dual->regions[region].cols;
    fdp_team_each(team, fdp_team_worth(team, cells), FDP_TEAM_SPREAD, (cells + SHARE - 1) / SHARE,
                  centre_piece, &t);
    return FDP_OK;
}

/* The cells of item i: [*from, *to). */
static void cells_of(const fdp_dual *dual, int64_t i, int64_t *from, int64_t *to) {
    const fdp_dual_region *r = &dual->regions[dual->items[i].region];
    const int64_t lane = dual->items[i].lane;
    *from = r->cell + r->rows * lane / r->lanes * r->cols;
    *to = r->cell + r->rows * (lane + 1) / r->lanes * r->cols;
}

/* Adds the products of gaps of every two candidates over some cells; the lower triangle alone. */
FDP_CLONES
static void gram_cells(const cells_task *t, int64_t from, int64_t to, double *gram) {
    double gap[FDP_DUAL_SEEN][BLOCK];
    const int64_t n = t->n;
    for (int64_t at = from; at < to; at += BLOCK) {
        const int64_t size = FDP_MIN(BLOCK, to - at);
        const double *y = t->dual->y + at;
        for (int64_t a = 0; a < n; a++) {
            const float *seen = t->seen + a * t->dual->cells + at;
            for (int64_t j = 0; j < size; j++) gap[a][j] = (double)seen[j] - y[j];
            for (int64_t b = 0; b <= a; b++) {
                double sum = 0;
#pragma omp simd reduction(+ : sum)
                for (int64_t j = 0; j < size; j++) sum += gap[a][j] * gap[b][j];
                gram[a * n + b] += sum;
            }
        }
    }
}

static void gram_piece(void *argument, int64_t kind, int64_t i) {
    (void)kind;
    cells_task *t = argument;
    int64_t from, to;
    double *gram = t->gram + i * t->n * t->n;
    cells_of(t->dual, i, &from, &to);
    memset(gram, 0, (size_t)(t->n * t->n) * sizeof *gram);
    gram_cells(t, from, to, gram);
}

int fdp_dual_gram(const fdp_dual *dual, int64_t n, const float *seen, fdp_team *team, double *room,
                  double *gram) {
    cells_task t = {.dual = dual, .n = n, .seen = seen, .gram = room};
    if (n < 1 || n > FDP_DUAL_SEEN) return FDP_ERR_ARGUMENT;
    fdp_team_each(team, fdp_team_worth(team, dual->cells), FDP_TEAM_SPREAD, dual->n_items, gram_piece, &t);
    fdp_dual_by_region(dual, n * n, room, gram);
    /* The upper triangle is a copy of the lower one. */
    for (int64_t k = 0; k < dual->n_regions; k++)
        for (int64_t a = 0; a < n; a++)
            for (int64_t b = a + 1; b < n; b++) gram[(k * n + a) * n + b] = gram[(k * n + b) * n + a];
    return FDP_OK;
}

/* Solves a x = b of m unknowns, columns exchanged for rows of largest pivots; a[m][m + 1] has b at the end of
 * its rows, and then x. */
static void solve_small(int m, double a[][FDP_DUAL_SEEN + 2]) {
    /* The row with the largest entry in column k comes to place k, and column k is cleared in all other
     * rows. */
    for (int k = 0; k < m; k++) {
        int best = k;
        for (int i = k + 1; i < m; i++) best = fabs(a[i][k]) > fabs(a[best][k]) ? i : best;
        for (int j = k; j <= m; j++) {
            const double kept = a[k][j];
            a[k][j] = a[best][j], a[best][j] = kept;
        }
        for (int i = 0; i < m; i++) {
            const double by = i == k ? 0.0 : a[i][k] / a[k][k];
            for (int j = k; j <= m; j++) a[i][j] -= by * a[k][j];
        }
    }
    for (int k = 0; k < m; k++) a[k][m] /= a[k][k];
}

/* On each face (a set of candidates) the best weights solve gram w + gain + multiplier = 0 with sum w =
 * 1, one small linear system. At most 255 faces: all are tried, and of those with w >= 0 the best one is
 * kept. */
int fdp_dual_mixture(int64_t n, const double *gram, const double *gain, double *weights) {
    double scale = 1, least = INFINITY, sum = 0;
    if (n < 1 || n > FDP_DUAL_SEEN) return FDP_ERR_ARGUMENT;
    for (int64_t i = 0; i < n; i++) scale += gram[i * n + i];
    for (unsigned face = 1; face < 1u << n; face++) {
        double a[FDP_DUAL_SEEN + 1][FDP_DUAL_SEEN + 2];
        int64_t corner[FDP_DUAL_SEEN];
        int m = 0, inside = 1;
        for (int64_t i = 0; i < n; i++)
            if (face >> i & 1) corner[m++] = i;
        /* Row i: gram w + multiplier = -gain at corner i. The last row: w adds up to 1. */
        for (int i = 0; i < m; i++) {
            for (int j = 0; j < m; j++)
                a[i][j] = gram[corner[i] * n + corner[j]] / scale + (i == j ? 1e-9 : 0.0);
            a[i][m] = a[m][i] = 1;
            a[i][m + 1] = -gain[corner[i]] / scale;
        }
        a[m][m] = 0, a[m][m + 1] = 1;
        solve_small(m + 1, a);
        /* At a stationary point the objective is gain' w minus the multiplier. */
        double value = -a[m][m + 1];
        for (int i = 0; i < m; i++) {
            value += gain[corner[i]] / scale * a[i][m + 1];
            inside &= a[i][m + 1] >= -1e-12;
        }
        if (!inside || !(value < least)) continue;
        least = value, sum = 0;
        memset(weights, 0, (size_t)n * sizeof *weights);
        for (int i = 0; i < m; i++) sum += weights[corner[i]] = FDP_MAX(a[i][m + 1], 0.0);
    }
    if (!(sum > 0)) return FDP_ERR_ARGUMENT;
    for (int64_t i = 0; i < n; i++) weights[i] /= sum;
    return FDP_OK;
}

/* The weighted mean of the candidates becomes the answers of some cells, and their centre. */
FDP_CLONES
static void mix_cells(const cells_task *t, const double *weights, int64_t from, int64_t to) {
    double sum[BLOCK];
    for (int64_t at = from; at < to; at += BLOCK) {
        const int64_t size = FDP_MIN(BLOCK, to - at);
        memset(sum, 0, sizeof sum);
        for (int64_t a = 0; a < t->n; a++) {
            const float *seen = t->seen + a * t->dual->cells + at;
            if (!(weights[a] > 0)) continue;
            for (int64_t j = 0; j < size; j++) sum[j] += weights[a] * (double)seen[j];
        }
        double *y = t->y + at, *inverse = t->inverse + at;
        for (int64_t j = 0; j < size; j++) {
            y[j] = sum[j];
            inverse[j] = inverse[j] > 0 ? 1 / FDP_MAX(sum[j], FDP_DUAL_LEAST) : inverse[j];
        }
    }
}

static void mix_piece(void *argument, int64_t kind, int64_t i) {
    (void)kind;
    cells_task *t = argument;
    int64_t from, to;
    cells_of(t->dual, i, &from, &to);
    mix_cells(t, t->weights + t->dual->items[i].region * t->n, from, to);
}

int fdp_dual_mix(const fdp_dual *dual, int64_t n, const float *seen, const double *weights, fdp_team *team,
                 double *y, double *inverse) {
    cells_task t = {.dual = dual, .n = n, .seen = seen, .weights = weights, .y = y, .inverse = inverse};
    fdp_team_each(team, fdp_team_worth(team, dual->cells), FDP_TEAM_SPREAD, dual->n_items, mix_piece, &t);
    return FDP_OK;
}
