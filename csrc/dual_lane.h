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
        const fdp_dual_span *span = r->links[l].spans + lane;
        fdp_view_add(&r->links[l].view, i, from, n, u, edges + span->edge - span->from);
    }
}

static void clear_lane(const fdp_dual_region *r, int64_t lane, double *edges) {
    for (int64_t l = 0; l < r->n_links; l++) {
        const fdp_dual_span *span = r->links[l].spans + lane;
        memset(edges + span->edge, 0, (size_t)span->size * sizeof(double));
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

/* w[j] *= sigma^2 slope[j] */
static inline __attribute__((always_inline)) void bend_loop(int64_t n, const float *restrict slope,
                                                            const double *restrict sigmas, const int own,
                                                            double sigma, double *restrict w) {
    for (int64_t j = 0; j < n; j++) {
        const double s = own ? sigmas[j] : sigma;
        w[j] *= s * s * (double)slope[j];
    }
}

/* Edges of diag(slope) times the broadcast of p. */
FDP_CLONES
static void multiply_lane(const fdp_dual_region *r, int64_t lane, const double *p,
                          const fdp_dual_work *work) {
    double w[BLOCK];
    clear_lane(r, lane, work->edge_u);
    TILES(r, lane) {
        for (int64_t k = 0; k < rows; k++) gather_row(r, p, i + k, from, n, w + k * n);
        if (r->sigmas)
            bend_loop(rows * n, work->slope + at, r->sigmas + at - r->cell, 1, 0, w);
        else
            bend_loop(rows * n, work->slope + at, NULL, 0, r->sigma, w);
        for (int64_t k = 0; k < rows; k++) scatter_row(r, lane, i + k, from, n, w + k * n, work->edge_u);
    }
}

/* A sign of its own for every cell: the top bit of a mixed number (splitmix64). */
static inline double sign_of(uint64_t seed, uint64_t cell) {
    uint64_t h = seed * 0x9e3779b97f4a7c15u + cell * 0xd1b54a32d192ed03u;
    h = (h ^ (h >> 30)) * 0xbf58476d1ce4e5b9u;
    h = (h ^ (h >> 27)) * 0x94d049bb133111ebu;
    return (h ^ (h >> 31)) >> 63 ? 1.0 : -1.0;
}

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
