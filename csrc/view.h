/* A VIEW says where the cells of a table of rows x cols lie in a smaller marginal: the cell of row i and
 * column j belongs to entry base[i], plus nothing, j, or map[j]. */
#ifndef FDP_VIEW_H
#define FDP_VIEW_H

#include "fdp.h"

enum { FDP_VIEW_ROW = 0, FDP_VIEW_CELL = 1, FDP_VIEW_MAP = 2 };

typedef struct {
    const int32_t *base; /* [rows] or NULL: 0 */
    const int32_t *map;  /* [cols], where kind is FDP_VIEW_MAP */
    int32_t kind;
} fdp_view;

/* Entries [from, from + size) of a marginal, those that some rows of a table reach, at `edge` in the room
 * where these rows are added up. */
typedef struct {
    int64_t edge, from, size;
} fdp_span;

/* The first entry of row i. */
static inline int64_t fdp_view_base(const fdp_view *view, int64_t i) {
    return view->base ? view->base[i] : 0;
}

/* Adds columns [from, from + n) of row i to the marginal. */
static inline __attribute__((always_inline)) void fdp_view_add(const fdp_view *view, int64_t i, int64_t from,
                                                               int64_t n, const double *restrict u,
                                                               double *restrict marginal) {
    double *restrict e = marginal + fdp_view_base(view, i);
    if (view->kind == FDP_VIEW_ROW) {
        double sum = 0;
#pragma omp simd reduction(+ : sum)
        for (int64_t j = 0; j < n; j++) sum += u[j];
        e[0] += sum;
    } else if (view->kind == FDP_VIEW_CELL) {
        for (int64_t j = 0; j < n; j++) e[from + j] += u[j];
    } else {
        for (int64_t j = 0; j < n; j++) e[view->map[from + j]] += u[j];
    }
}

#endif
