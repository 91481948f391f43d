/* One lane of the dual (see dual.h): multipliers gathered along its rows, cells from them, and sums of cells
 * scattered into the lane's spans. Included by dual.c alone. */
#ifndef FDP_DUAL_LANE_H
#define FDP_DUAL_LANE_H

#include <math.h>
#include <string.h>

#include "dual.h"
#include "infer_exp.h"

#define BLOCK 512         /* columns worked on at a time */
#define FLAT 0.03         /* below this z the series of (1 - exp(-z)) / z is used; its error there is 1e-12 */
#define LEAST_Z (-300.0)  /* cells further down than this are zero for every purpose, and their slope is */
#define LEAST_SLOPE 1e-25 /* of phi: smaller ones would lead to denormals */

typedef struct {
    double rss, divergence;
} totals;

/* w[n] = sum of sign * multipliers over the region's links, for columns [from, from + n) of row i. */
static inline __attribute__((always_inline)) void gather_row(const fdp_dual_region *r, const double *x,
                                                             int64_t i, int64_t from, int64_t n,
                                                             double *restrict w) {
    double flat = 0;
    for (int64_t l = 0; l < r->n_links; l++)
        if (r->links[l].view.kind == FDP_VIEW_ROW)
            flat += r->links[l].sign * x[r->links[l].at + fdp_view_base(&r->links[l].view, i)];
    for (int64_t j = 0; j < n; j++) w[j] = flat;
    for (int64_t l = 0; l < r->n_links; l++) {
        const fdp_dual_link *link = &r->links[l];
        if (link->view.kind == FDP_VIEW_ROW) continue;
        const double *v = x + link->at + fdp_view_base(&link->view, i);
        const double sign = link->sign;
        if (link->view.kind == FDP_VIEW_CELL)
            for (int64_t j = 0; j < n; j++) w[j] += sign * v[from + j];
        else
            for (int64_t j = 0; j < n; j++) w[j] += sign * v[link->view.map[from + j]];
    }
}

/* Adds columns [from, from + n) of row i to the lane's spans. */
static inline __attribute__((always_inline)) void scatter_row(const fdp_dual_region *r, int64_t lane,
                                                              int64_t i, int64_t from, int64_t n,
                                                              const double *u, double *edges) {
    for (int64_t l = 0; l < r->n_links; l++) {
        if (r->links[l].again) continue;
        const fdp_span *span = r->links[l].spans + lane;
        fdp_view_add(&r->links[l].view, i, from, n, u, edges + span->edge - span->from);
    }
}

/* Zeros in all spans of a lane. */
static void clear_lane(const fdp_dual_region *r, int64_t lane, double *edges) {
    for (int64_t l = 0; l < r->n_links; l++) {
        const fdp_span *span = r->links[l].spans + lane;
        if (!r->links[l].again) memset(edges + span->edge, 0, (size_t)span->size * sizeof(double));
    }
}

/* TILE(lane): rows [i, i + rows) and columns [from, from + n) of a lane, in turn: whole rows up to BLOCK
 * cells, or parts of one. Their cells lie side by side from `at` on. */
#define TILES(r, lane) \
    for (int64_t i = (r)->rows * (lane) / (r)->lanes, end_ = (r)->rows * ((lane) + 1) / (r)->lanes, \
                 step_ = FDP_MAX(1, BLOCK / (r)->cols), rows = FDP_MIN(step_, end_ - i); \
         i < end_; i += step_, rows = FDP_MIN(step_, end_ - i)) \
        for (int64_t from = 0, n = FDP_MIN(BLOCK, (r)->cols), at = (r)->cell + i * (r)->cols; \
             from < (r)->cols; from += BLOCK, n = FDP_MIN(BLOCK, (r)->cols - from), at += BLOCK)

/* phi and its slope for n cells. w: in, multipliers; out, u in rows. bend: sigma^2 phi'; slope: phi'. With
 * z = v tau and h = (1 - e) / z, u = 1 / (e c + tau h) and 1 / z come from one division,
 * q = 1 / (z (e c z + tau (1 - e))); near 0 a series stands for h, and 1 for z, chosen by arithmetic: a
 * branch would end the vector loop. `own`: cells have sigmas of their own; constant where inlined, so that
 * either loop is a vector loop. */
static inline __attribute__((always_inline)) void
flow_loop(int64_t n, const double *restrict y, const double *restrict inverse, const double *restrict sigmas,
          const int own, double sigma, double tau, double weight, double *restrict w, double *restrict bend,
          float *restrict slope, totals *t) {
    double rss = 0, divergence = 0;
#pragma omp simd reduction(+ : rss, divergence)
    for (int64_t j = 0; j < n; j++) {
        const double s = own ? sigmas[j] : sigma;
        const double v = y[j] + s * w[j], far = v * tau, z = far < LEAST_Z ? LEAST_Z : far;
        const double near = fabs(z) < FLAT ? 1.0 : 0.0, alive = inverse[j] > 0 ? 1.0 : 0.0;
        const double e = fdp_exp(-z), ec = e * inverse[j] * weight, gone = 1.0 - e;
        const double h = 1.0 - z * (0.5 - z * (1.0 / 6 - z * (1.0 / 24 - z * (1.0 / 120))));
        const double dh = -0.5 + z * (1.0 / 3 - z * (0.125 - z * (1.0 / 30 - z * (1.0 / 144))));
        const double by = z + near * (1.0 - z), plain = ec * z + tau * gone;
        const double below = plain + near * (ec + tau * h - plain);
        const double q = 1.0 / (by * below), over = below * q, steep = (e - gone * over) * over;
        const double u = alive * (by * by * q);
        const double slow = u * u * tau * (ec - tau * (steep + near * (dh - steep)));
        const double d = slow < LEAST_SLOPE ? 0.0 : slow;
        const double gap = u - y[j];
        rss += gap * gap;
        divergence += d;
        w[j] = s * u;
        bend[j] = s * s * d;
        slope[j] = (float)d;
    }
    t->rss += rss;
    t->divergence += divergence;
}

/* The same at tau = infinity: the positive part. */
static inline __attribute__((always_inline)) void
positive_loop(int64_t n, const double *restrict y, const double *restrict inverse,
              const double *restrict sigmas, const int own, double sigma, double *restrict w,
              double *restrict bend, float *restrict slope, totals *t) {
    double rss = 0, divergence = 0;
#pragma omp simd reduction(+ : rss, divergence)
    for (int64_t j = 0; j < n; j++) {
        const double s = own ? sigmas[j] : sigma, v = y[j] + s * w[j];
        const double above = v > 0 ? 1.0 : 0.0, d = inverse[j] > 0 ? above : 0.0;
        const double u = d * v, gap = u - y[j];
        rss += gap * gap;
        divergence += d;
        w[j] = s * u;
        bend[j] = s * s * d;
        slope[j] = (float)d;
    }
    t->rss += rss;
    t->divergence += divergence;
}

/* Cells with one sigma and cells with their own have a loop each. */
FDP_CLONES
static void flow(int64_t n, const double *y, const double *inverse, const double *sigmas, double sigma,
                 double tau, double weight, double *w, double *bend, float *slope, totals *t) {
    if (sigmas)
        flow_loop(n, y, inverse, sigmas, 1, sigma, tau, weight, w, bend, slope, t);
    else
        flow_loop(n, y, inverse, NULL, 0, sigma, tau, weight, w, bend, slope, t);
}

FDP_CLONES
static void positive(int64_t n, const double *y, const double *inverse, const double *sigmas, double sigma,
                     double *w, double *bend, float *slope, totals *t) {
    if (sigmas)
        positive_loop(n, y, inverse, sigmas, 1, sigma, w, bend, slope, t);
    else
        positive_loop(n, y, inverse, NULL, 0, sigma, w, bend, slope, t);
}

/* All cells of a lane: multipliers gathered, cells and slopes from them, both added up into the lane's
 * spans. */
FDP_CLONES
static void evaluate_lane(const fdp_dual *dual, const fdp_dual_region *r, int64_t lane, const double *x,
                          double tau, double kappa, const fdp_dual_work *work, double *cells, float *seen,
                          totals *t) {
    double w[BLOCK], bend[BLOCK];
    clear_lane(r, lane, work->edge_u);
    clear_lane(r, lane, work->edge_d);
    TILES(r, lane) {
        const double *sigmas = r->sigmas ? r->sigmas + at - r->cell : NULL;
        for (int64_t k = 0; k < rows; k++) gather_row(r, x, i + k, from, n, w + k * n);
        if (isinf(tau))
            positive(rows * n, dual->y + at, dual->inverse + at, sigmas, r->sigma, w, bend, work->slope + at,
                     t);
        else
            flow(rows * n, dual->y + at, dual->inverse + at, sigmas, r->sigma, tau, 1.0 / kappa, w, bend,
                 work->slope + at, t);
        for (int64_t k = 0; k < rows; k++) {
            scatter_row(r, lane, i + k, from, n, w + k * n, work->edge_u);
            scatter_row(r, lane, i + k, from, n, bend + k * n, work->edge_d);
        }
        if (cells) memcpy(cells + at, w, (size_t)(rows * n) * sizeof(double));
        for (int64_t j = 0; seen && j < rows * n; j++)
            seen[at + j] = (float)(w[j] / (sigmas ? sigmas[j] : r->sigma));
    }
}

/* w[j] *= sigma^2 slope[j]; returns the sum of the new times the old ones. */
static inline __attribute__((always_inline)) double bend_loop(int64_t n, const float *restrict slope,
                                                              const double *restrict sigmas, const int own,
                                                              double sigma, double *restrict w) {
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t j = 0; j < n; j++) {
        const double s = own ? sigmas[j] : sigma, bent = w[j] * (s * s * (double)slope[j]);
        sum += bent * w[j];
        w[j] = bent;
    }
    return sum;
}

#define MOST_FUSED 3 /* links that lie cell by cell, at most, for a row to be multiplied in one loop */

/* A row of n cells whose links lie cell by cell (D of them, or all of the row: `flat` is their multiplier):
 * gathers, bends and scatters in one loop. sums[2]: of the products, and of products times multipliers. */
static inline __attribute__((always_inline)) void fused_loop(const int D, int64_t n, double flat,
                                                             const double *const *v, const double *sign,
                                                             double *const *e, const float *restrict slope,
                                                             const double *restrict sigmas, const int own,
                                                             double sigma, double *restrict sums) {
    double whole = 0, along = 0;
    const double *v0 = v[0], *v1 = v[1], *v2 = v[2], s0 = sign[0], s1 = sign[1], s2 = sign[2];
    double *e0 = e[0], *e1 = e[1], *e2 = e[2];
#pragma omp simd reduction(+ : whole, along)
    for (int64_t j = 0; j < n; j++) {
        const double s = own ? sigmas[j] : sigma;
        double w = flat;
        if (D > 0) w += s0 * v0[j];
        if (D > 1) w += s1 * v1[j];
        if (D > 2) w += s2 * v2[j];
        const double bent = w * (s * s * (double)slope[j]);
        whole += bent;
        along += bent * w;
        if (D > 0) e0[j] += bent;
        if (D > 1) e1[j] += bent;
        if (D > 2) e2[j] += bent;
    }
    sums[0] = whole, sums[1] = along;
}

/* The links of a region that lie cell by cell, those that lie alike as one; -1 where a map is among the
 * links, or more than MOST_FUSED. */
static int fused_links(const fdp_dual_region *r, int64_t *first) {
    int count = 0;
    for (int64_t l = 0; l < r->n_links; l++) {
        if (r->links[l].view.kind == FDP_VIEW_MAP) return -1;
        if (r->links[l].view.kind == FDP_VIEW_ROW || r->links[l].again) continue;
        if (count == MOST_FUSED) return -1;
        first[count++] = l;
    }
    return r->cols <= BLOCK ? count : -1;
}

/* Row i of such a region. */
static inline __attribute__((always_inline)) double fused_row(const fdp_dual_region *r, int64_t lane,
                                                              int64_t i, int count, const int64_t *first,
                                                              const double *p, const fdp_dual_work *work) {
    double room[MOST_FUSED][BLOCK], sign[MOST_FUSED] = {0}, sums[2] = {0, 0}, flat = 0;
    const double *v[MOST_FUSED] = {0};
    double *e[MOST_FUSED] = {0};
    const int64_t n = r->cols, at = r->cell + i * n;
    const double *sigmas = r->sigmas ? r->sigmas + i * n : NULL;
    /* Where each of the links begins in this row, in the multipliers and in the lane's span. */
    for (int k = 0; k < count; k++) {
        const fdp_dual_link *link = &r->links[first[k]];
        const int64_t base = fdp_view_base(&link->view, i);
        v[k] = p + link->at + base, sign[k] = link->sign;
        e[k] = work->edge_u + link->spans[lane].edge - link->spans[lane].from + base;
        /* Links that lie alike share a span, so their multipliers are added first. */
        for (int64_t l = first[k] + 1; l < r->n_links; l++) {
            if (!r->links[l].again || r->links[l].spans->edge != link->spans->edge) continue;
            const double *more = p + r->links[l].at + base, *so_far = v[k], by = sign[k],
                         too = r->links[l].sign;
            for (int64_t j = 0; j < n; j++) room[k][j] = by * so_far[j] + too * more[j];
            v[k] = room[k], sign[k] = 1;
        }
    }
    for (int64_t l = 0; l < r->n_links; l++)
        if (r->links[l].view.kind == FDP_VIEW_ROW)
            flat += r->links[l].sign * p[r->links[l].at + fdp_view_base(&r->links[l].view, i)];
#define FUSED(D) \
    if (count == (D) && sigmas) fused_loop(D, n, flat, v, sign, e, work->slope + at, sigmas, 1, 0, sums); \
    if (count == (D) && !sigmas) fused_loop(D, n, flat, v, sign, e, work->slope + at, NULL, 0, r->sigma, sums)
    FUSED(0);
    FUSED(1);
    FUSED(2);
    FUSED(3);
#undef FUSED
    for (int64_t l = 0; l < r->n_links; l++) {
        const fdp_dual_link *link = &r->links[l];
        const fdp_span *span = link->spans + lane;
        if (link->view.kind == FDP_VIEW_ROW && !link->again)
            work->edge_u[span->edge - span->from + fdp_view_base(&link->view, i)] += sums[0];
    }
    return sums[1];
}

/* Edges of diag(slope) times the broadcast of p; returns p times that. */
FDP_CLONES
static double multiply_lane(const fdp_dual_region *r, int64_t lane, const double *p,
                            const fdp_dual_work *work) {
    double w[BLOCK], sum = 0;
    int64_t first[MOST_FUSED];
    const int count = fused_links(r, first);
    clear_lane(r, lane, work->edge_u);
    if (count >= 0) {
        for (int64_t i = r->rows * lane / r->lanes; i < r->rows * (lane + 1) / r->lanes; i++)
            sum += fused_row(r, lane, i, count, first, p, work);
        return sum;
    }
    TILES(r, lane) {
        for (int64_t k = 0; k < rows; k++) gather_row(r, p, i + k, from, n, w + k * n);
        if (r->sigmas)
            sum += bend_loop(rows * n, work->slope + at, r->sigmas + at - r->cell, 1, 0, w);
        else
            sum += bend_loop(rows * n, work->slope + at, NULL, 0, r->sigma, w);
        for (int64_t k = 0; k < rows; k++) scatter_row(r, lane, i + k, from, n, w + k * n, work->edge_u);
    }
    return sum;
}

/* A sign of its own for every cell: the top bit of a mixed number (splitmix64). */
static inline double sign_of(uint64_t seed, uint64_t cell) {
    uint64_t h = seed * 0x9e3779b97f4a7c15u + cell * 0xd1b54a32d192ed03u;
    h = (h ^ (h >> 30)) * 0xbf58476d1ce4e5b9u;
    h = (h ^ (h >> 27)) * 0x94d049bb133111ebu;
    return (h ^ (h >> 31)) >> 63 ? 1.0 : -1.0;
}

/* Random signs times sigma times slope, added up into the lane's spans. */
FDP_CLONES
static void probe_lane(const fdp_dual_region *r, int64_t lane, uint64_t seed, const fdp_dual_work *work) {
    double w[BLOCK];
    clear_lane(r, lane, work->edge_d);
    TILES(r, lane) {
        for (int64_t j = 0; j < rows * n; j++) {
            const double s = r->sigmas ? r->sigmas[at - r->cell + j] : r->sigma;
            w[j] = sign_of(seed, (uint64_t)(at + j)) * s * (double)work->slope[at + j];
        }
        for (int64_t k = 0; k < rows; k++) scatter_row(r, lane, i + k, from, n, w + k * n, work->edge_d);
    }
}
#undef TILES

#endif
