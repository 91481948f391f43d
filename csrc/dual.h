/* The dual of estimation from whole marginals (docs/estimator.md, "The dual").
 *
 * A REGION is a measured marginal: a table of rows x cols cells with answers y (in units of their noise
 * sigma) and centres c. A CONSTRAINT says that two regions agree on a marginal both contain, or that a region
 * sums to the total; its multipliers are a segment of one vector x[P]. A LINK says how a segment lies in a
 * region: for row i it starts at base[i], and walks along the columns not at all, one by one, or by a map. At
 * given multipliers every cell is known in closed form,
 *
 *     u = sigma phi(y + sigma w; c, tau),   w = sum over the region's links of sign * x,
 *     phi(v; c, tau) = 1 / (exp(-v tau) / c + (1 - exp(-v tau)) / v),
 *
 * phi being where the mirror flow u' = -u (u - v) from c is after the time tau (tau infinite: max(v, 0)). The
 * gradient of the dual is what the constraints lack, sum of sign * projection(u) - rhs; its Hessian is the
 * sum of sign * projections of diag(sigma^2 phi') onto the links, never built: only multiplied by.
 *
 * Rows of a region are split into lanes that depend on its size alone. A lane projects into segments of its
 * own ("edges"), which are added up in order, so results do not depend on the number of threads. */
#ifndef FDP_DUAL_H
#define FDP_DUAL_H

#include "fdp.h"
#include "team.h"

enum { FDP_LINK_ROW = 0, FDP_LINK_CELL = 1, FDP_LINK_MAP = 2 };

typedef struct {
    int64_t at;          /* offset of the segment in the vector */
    int64_t size;        /* its multipliers */
    int64_t edge;        /* offset of the first lane's edge; lane l has edge + l * size */
    const int32_t *base; /* [rows] or NULL: 0 */
    const int32_t *map;  /* [cols], where kind is FDP_LINK_MAP */
    int32_t kind;
    double sign;
} fdp_dual_link;

typedef struct {
    int64_t rows, cols;
    int64_t cell;         /* offset of its cells */
    int64_t lanes;        /* lane l holds rows [rows * l / lanes, rows * (l + 1) / lanes) */
    double sigma;         /* where sigmas is NULL */
    const double *sigmas; /* [rows * cols] or NULL */
    int64_t n_links;
    const fdp_dual_link *links;
} fdp_dual_region;

/* A part of a constraint, for vector work: entries [at, at + size) of the vector, fed by edges first_edge ..
 * + n_edges. */
typedef struct {
    int64_t at, size;
    int64_t first_edge, n_edges;
} fdp_dual_piece;

typedef struct {
    int64_t size;  /* P */
    int64_t edges; /* numbers in the edge space */
    int64_t n_regions, n_items, n_pieces;
    const fdp_dual_region *regions;
    const int64_t *item_region, *item_lane;
    const fdp_dual_piece *pieces;
    const int64_t *edge_at; /* offset in the edge space of the piece's part of each edge */
    const double *edge_sign;
    const double *rhs;     /* [P] */
    const double *y;       /* [cells], in sigma */
    const double *inverse; /* [cells] 1 / centre, in 1 / sigma; 0: the cell is impossible, u = 0 */
} fdp_dual;

typedef struct {
    double *slope;   /* [cells] sigma^2 phi' of the last evaluation */
    double *edge_u;  /* [edges] */
    double *edge_d;  /* [edges] */
    double *sums;    /* [items, 2] */
    double *vectors; /* [4, P] */
    double *dots;    /* [2, pieces] */
} fdp_dual_work;

/* At multipliers x[P], strengths tau[regions] (time) and kappa[regions] (factor of the centres): gradient
 * g[P], the diagonal of the Hessian, and per region sums[regions, 2] = (|u / sigma - y|^2, sum of phi').
 * cells: u, in rows, or NULL. */
int fdp_dual_evaluate(const fdp_dual *dual, const double *x, const double *tau, const double *kappa,
                      fdp_team *team, const fdp_dual_work *work, double *g, double *diagonal, double *sums,
                      double *cells);

/* Conjugate gradients on H out = b at the last evaluation, preconditioned by the diagonal, until the
 * preconditioned residual is tol of its first or after `most` products; *products counts them. */
int fdp_dual_solve(const fdp_dual *dual, const double *b, const double *diagonal, double tol, int64_t most,
                   fdp_team *team, const fdp_dual_work *work, double *out, int64_t *products);

/* The derivative of the gradient in the direction of random signs times sigma on all answers: b[P]; the signs
 * follow from `seed` and the cell's number. The work's edges keep the regions' parts of it for
 * fdp_dual_answer. */
int fdp_dual_probe(const fdp_dual *dual, uint64_t seed, fdp_team *team, const fdp_dual_work *work, double *b);

/* With x = -H^-1 b of the probe: out[regions] = signs * (change of u / sigma through the multipliers),
 * summed. */
int fdp_dual_answer(const fdp_dual *dual, const double *x, const fdp_dual_work *work, double *out);

#endif
