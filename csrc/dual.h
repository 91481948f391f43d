/* The dual of estimation from whole marginals (docs/explain/estimator.md, "The dual").
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
 * Rows of a region are split into LANES that depend on sizes alone. A lane projects into room of its own for
 * those entries of a segment that its rows reach (a SPAN), and spans are added up in order, so results do not
 * depend on the number of threads. estimate/dual/dual_plan.py cuts the work so. */
#ifndef FDP_DUAL_H
#define FDP_DUAL_H

#include "fdp.h"
#include "team.h"
#include "view.h"

#define FDP_DUAL_WORTH 4 /* a cell is as much work as so many of a table that is only multiplied */

typedef struct {
    fdp_view view;
    int64_t at, size;      /* of the segment in the vector */
    const fdp_span *spans; /* [lanes] of the segment, in the edge space */
    double sign;
    int32_t again; /* not 0: link again - 1 of the region lies alike; both project into its spans */
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

typedef struct {
    int64_t region, lane;
} fdp_dual_item;

/* Entries [at, at + size) of the vector, fed by `n_feeds` parts of spans: `size` numbers from `edge`, added
 * with their sign (1 or -1) to entries from `at` on. */
typedef struct {
    int64_t at, size;
    int64_t first_feed, n_feeds;
} fdp_dual_piece;

typedef struct {
    int64_t edge, at, size, sign;
} fdp_dual_feed;

/* Where all segments of a region lie inside the largest of them, a product with the Hessian needs that
 * marginal of the slopes only: entries [from, to) of it, from the spans of link `link` of region `region`,
 * are the slopes from `cell` on, in units of 1 / scale. Products then take a table of these entries for the
 * region. */
typedef struct {
    int64_t region, link, from, to, cell;
} fdp_dual_fold;

typedef struct {
    int64_t size;  /* P */
    int64_t edges; /* numbers in the edge space */
    int64_t cells; /* of all regions */
    int64_t n_regions, n_items, n_pieces;
    const fdp_dual_region *regions;
    const fdp_dual_item *items;
    const fdp_dual_piece *pieces;
    const fdp_dual_feed *feeds;
    int64_t n_folds;
    const fdp_dual_fold *folds;
    const double *scale;   /* [folds] */
    const double *rhs;     /* [P] */
    const double *y;       /* [cells], in sigma */
    const double *inverse; /* [cells] 1 / centre, in 1 / sigma; 0: the cell is impossible, u = 0 */
} fdp_dual;

typedef struct {
    float *slope;    /* [cells, and those of folds] phi' of the last evaluation */
    double *edge_u;  /* [edges] */
    double *edge_d;  /* [edges] */
    double *sums;    /* [items, 2] */
    double *vectors; /* [5, P] */
    double *dots;    /* [3, pieces] */
} fdp_dual_work;

/* Where all tables that products take have the same last axis (`cols` codes), and with it the first one
 * (`codes`; 1: it is not shared), and so have all segments but TOTALS, which have one entry, multipliers
 * of different codes meet in no cell: the Hessian falls into BLOCKS. A block is a code of the first axis
 * and one of `parts` of the last; a LINE is what a block holds of a row. Multipliers are `lines` lines,
 * segment after segment, and cells are `cell_lines`. A LAYER is a table's part of a block. Those of its
 * links that lie alike are a BUNDLE: row i lies on line line_of[i] of each of their segments, the STRANDS. */
#define FDP_DUAL_TOTALS 4
#define FDP_DUAL_BUNDLES 3 /* of a layer, at most */

typedef struct {
    int64_t at, lines; /* offset in the vector, lines of a block */
} fdp_dual_segment;

typedef struct {
    int64_t line, sign; /* its first line in a block */
} fdp_dual_strand;

typedef struct {
    int64_t line_of, lines, first, n_strands; /* line_of: where its rows' lines begin */
} fdp_dual_bundle;

typedef struct {
    int64_t rows, first, n_bundles;
    int64_t totals, straight; /* whether it is in a total; whether its one bundle has row i on line i */
} fdp_dual_layer;

typedef struct {
    int64_t codes, cols, parts, lines, cell_lines;
    int64_t bundle_lines; /* room of bundles with several strands, for any layer */
    int64_t n_segments, n_totals;
    fdp_dual_segment *segments; /* [links], at most, like bundles and strands */
    fdp_dual_layer *layers;     /* [regions] */
    fdp_dual_bundle *bundles;
    fdp_dual_strand *strands;
    int32_t *line_of; /* [rows of all links], at most */
    int64_t *totals;  /* [links], at most: entries of the vector */
    int64_t *sides;   /* [regions, n_totals] signs, or 0; n_totals is FDP_DUAL_TOTALS at most */
    int64_t stride;   /* numbers of a block's room: 7 lines, 2 bundle_lines and cell_lines, rounded up */
    double *room;     /* [codes, parts, stride] */
    double *sums;     /* [codes, parts, 2 + n_totals] */
} fdp_dual_blocks;

/* At multipliers x[P], strengths tau[regions] (time) and kappa[regions] (factor of the centres): gradient
 * g[P], the diagonal of the Hessian, and per region sums[regions, 2] = (|u / sigma - y|^2, sum of phi').
 * cells: u, in rows, or NULL; seen: u in sigma, or NULL. state[3]: the worst violation of a constraint, in
 * standard errors of its own side, the sum of their squares, and g times way[P] (0 where that is NULL). With
 * `ahead`[P] that is filled with x + length * way, and evaluated in place of x. */
int fdp_dual_evaluate(const fdp_dual *dual, const double *x, const double *way, double length,
                      const double *tau, const double *kappa, fdp_team *team, const fdp_dual_work *work,
                      double *ahead, double *g, double *diagonal, double *sums, double *cells, float *seen,
                      double *state);

/* Conjugate gradients on H out = sign * b at the last evaluation (`dual`: the regions as products take them;
 * slopes where the evaluation left them), preconditioned by the diagonal, until the preconditioned residual
 * is tol of its first or after `most` products; *products counts them; *along = b times out. */
int fdp_dual_solve(const fdp_dual *dual, const double *b, double sign, const double *diagonal, double tol,
                   int64_t most, fdp_team *team, const fdp_dual_work *work, double *out, int64_t *products,
                   double *along);

/* Finds the blocks of the tables that products take, of about `lane_cells` cells each; the caller gives the
 * arrays, and room and sums afterwards. Returns 1, or 0 where there are none, or too few for the work. */
int fdp_dual_find_blocks(const fdp_dual *dual, int64_t lane_cells, fdp_dual_blocks *blocks);

/* The same by blocks: one step of the team for an iteration, in memory that one thread works on. `slope`:
 * those of the work. With `ahead`[P] that is filled with from[P] + out. */
int fdp_dual_solve_blocks(const fdp_dual *dual, const fdp_dual_blocks *blocks, const double *b, double sign,
                          const double *diagonal, double tol, int64_t most, fdp_team *team,
                          const float *slope, const double *from, double *out, double *ahead,
                          int64_t *products, double *along);

/* The derivative of the gradient in the direction of random signs times sigma on all answers: b[P]; the signs
 * follow from `seed` and the cell's number. The work's edges keep the regions' parts of it for
 * fdp_dual_answer. */
int fdp_dual_probe(const fdp_dual *dual, uint64_t seed, fdp_team *team, const fdp_dual_work *work, double *b);

/* With x = -H^-1 b of the probe: out[regions] = signs * (change of u / sigma through the multipliers),
 * summed. */
int fdp_dual_answer(const fdp_dual *dual, const double *x, fdp_team *team, const fdp_dual_work *work,
                    double *out);

/* out[regions, n] = the items' numbers [items, n], added up in order. */
void fdp_dual_by_region(const fdp_dual *dual, int64_t n, const double *of_items, double *out);

#define FDP_DUAL_LEAST 1e-9 /* the least centre, in sigma, of a cell that is possible */
#define FDP_DUAL_SEEN 8     /* candidates that are mixed, at most */

/* Gives a region its answers and its centre, both [cells] in rows; possible: 0 where a cell stays zero, or
 * NULL. y and inverse are those of `dual`. */
int fdp_dual_centre(const fdp_dual *dual, int64_t region, const double *table, const double *given,
                    const uint8_t *possible, fdp_team *team, double *y, double *inverse);

/* gram[regions, n, n]: products of the gaps seen - y of every two candidates, seen[n, cells] in sigma;
 * room: [items, n, n]. */
int fdp_dual_gram(const fdp_dual *dual, int64_t n, const float *seen, fdp_team *team, double *room,
                  double *gram);

/* weights[n] >= 0 that add up to 1 and make weights' gram weights + 2 gain' weights least: the best of the
 * stationary points on all faces of the simplex. */
int fdp_dual_mixture(int64_t n, const double *gram, const double *gain, double *weights);

/* Makes mixtures of the candidates, with weights[regions, n], the answers and the centres of all regions;
 * cells that are not possible stay so. y and inverse are those of `dual`. */
int fdp_dual_mix(const fdp_dual *dual, int64_t n, const float *seen, const double *weights, fdp_team *team,
                 double *y, double *inverse);

#endif
