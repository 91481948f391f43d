/* See dual.h. */
#include "dual.h"

#include <math.h>
#include <string.h>

#include "infer_exp.h"

#define BLOCK 512        /* columns worked on at a time */
#define FLAT 0.03        /* below this z the series of (1 - exp(-z)) / z is used; its error there is 1e-12 */
#define LEAST_Z (-300.0) /* cells further down than this are zero for every purpose, and their slope is */

#define FOLD 512 /* entries of a fold worked on at a time */
#define WORTH 4  /* a cell is as much work as so many of a table that is only multiplied */

#define LEAST_SLOPE 1e-25 /* of phi; below, products would be of numbers too small for the processor's pace */

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
                          double tau, double kappa, const fdp_dual_work *work, double *cells, totals *t) {
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

/* out = what feeds the piece, added up; without signs for a diagonal. */
static void collect(const fdp_dual *dual, const fdp_dual_piece *piece, const double *edges, int diagonal,
                    double *out) {
    memset(out + piece->at, 0, (size_t)piece->size * sizeof(double));
    for (int64_t k = piece->first_feed; k < piece->first_feed + piece->n_feeds; k++) {
        const fdp_dual_feed *feed = dual->feeds + k;
        const double sign = diagonal ? 1.0 : (double)feed->sign, *restrict e = edges + feed->edge;
        double *restrict to = out + feed->at;
        for (int64_t j = 0; j < feed->size; j++) to[j] += sign * e[j];
    }
}

/* The slopes of a folded region: its lanes' spans, added up in order. */
static void fold(const fdp_dual *dual, const fdp_dual_fold *f, double scale, const double *edges,
                 float *slope) {
    const fdp_dual_region *r = &dual->regions[f->region];
    double sums[FOLD];
    for (int64_t from = f->from; from < f->to; from += FOLD) {
        const int64_t n = FDP_MIN(FOLD, f->to - from);
        memset(sums, 0, (size_t)n * sizeof *sums);
        for (int64_t lane = 0; lane < r->lanes; lane++) {
            const fdp_dual_span *span = r->links[f->link].spans + lane;
            const int64_t a = FDP_MAX(span->from, from), b = FDP_MIN(span->from + span->size, from + n);
            const double *e = edges + span->edge - span->from;
            for (int64_t j = a; j < b; j++) sums[j - from] += e[j];
        }
        for (int64_t j = 0; j < n; j++) slope[f->cell + from + j] = (float)(scale * sums[j]);
    }
}

typedef struct {
    const fdp_dual *dual;
    const fdp_dual_work *work;
    const double *x, *tau, *kappa, *b, *diagonal;
    double *g, *out, *cells;
    double tol;
    int64_t most, products;
    uint64_t seed;
    fdp_team_turns turns;
} task;

#define ITEMS(t, i) FDP_TEAM_SHARE(&(t)->turns, phase, i, (t)->dual->n_items)
#define PIECES(t, i) FDP_TEAM_SHARE(&(t)->turns, phase, i, (t)->dual->n_pieces)

static void evaluate_member(fdp_team *team, int number, void *argument) {
    task *t = argument;
    int64_t phase = 0;
    ITEMS(t, i) {
        const fdp_dual_item item = t->dual->items[i];
        totals sums = {0, 0};
        evaluate_lane(t->dual, &t->dual->regions[item.region], item.lane, t->x, t->tau[item.region],
                      t->kappa[item.region], t->work, t->cells, &sums);
        t->work->sums[2 * i] = sums.rss;
        t->work->sums[2 * i + 1] = sums.divergence;
    }
    fdp_team_turn(team, number, &t->turns, &phase);
    PIECES(t, i) {
        const fdp_dual_piece *piece = &t->dual->pieces[i];
        collect(t->dual, piece, t->work->edge_u, 0, t->g);
        collect(t->dual, piece, t->work->edge_d, 1, t->out);
        for (int64_t j = piece->at; j < piece->at + piece->size; j++) t->g[j] -= t->dual->rhs[j];
    }
    if (t->dual->n_folds == 0) return;
    fdp_team_turn(team, number, &t->turns, &phase);
    FDP_TEAM_SHARE(&t->turns, phase, i, t->dual->n_folds)
    fold(t->dual, t->dual->folds + i, t->dual->scale[i], t->work->edge_d, t->work->slope);
}

static void run_task(fdp_team *team, fdp_team_fn member, task *t) {
    fdp_team_turns_make(&t->turns);
    fdp_team_do(team, fdp_team_worth(team, WORTH * t->dual->cells), member, t);
}

int fdp_dual_evaluate(const fdp_dual *dual, const double *x, const double *tau, const double *kappa,
                      fdp_team *team, const fdp_dual_work *work, double *g, double *diagonal, double *sums,
                      double *cells) {
    task t = {.dual = dual, .work = work, .x = x, .tau = tau, .kappa = kappa, .g = g, .out = diagonal};
    t.cells = cells;
    run_task(team, evaluate_member, &t);
    memset(sums, 0, (size_t)dual->n_regions * 2 * sizeof(double));
    for (int64_t i = 0; i < dual->n_items; i++)
        for (int k = 0; k < 2; k++) sums[2 * dual->items[i].region + k] += work->sums[2 * i + k];
    return FDP_OK;
}

static double add_up(const double *parts, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += parts[i];
    return sum;
}

/* A multiplier all of whose cells have slope 0 gets a step of 0. */
static inline double preconditioned(double r, double diagonal) {
    return diagonal > 0 ? r / diagonal : 0.0;
}

static void solve_member(fdp_team *team, int number, void *argument) {
    task *t = argument;
    const fdp_dual *dual = t->dual;
    const int64_t size = dual->size, pieces = dual->n_pieces;
    double *r = t->work->vectors, *p = r + size, *q = p + size, *first = t->work->dots,
           *second = first + pieces;
    double *x = t->out, rz, least;
    int64_t products = 0, phase = 0;
#define ENTRIES(i, j) for (int64_t j = dual->pieces[i].at, end_ = j + dual->pieces[i].size; j < end_; j++)
    PIECES(t, i) {
        double sum = 0;
        ENTRIES(i, j) {
            x[j] = 0;
            r[j] = t->b[j];
            p[j] = preconditioned(r[j], t->diagonal[j]);
            sum += r[j] * p[j];
        }
        second[i] = sum;
    }
    fdp_team_turn(team, number, &t->turns, &phase);
    rz = add_up(second, pieces);
    least = t->tol * t->tol * rz;
    while (products < t->most && rz > 0) {
        ITEMS(t, i) multiply_lane(&dual->regions[dual->items[i].region], dual->items[i].lane, p, t->work);
        products++;
        fdp_team_turn(team, number, &t->turns, &phase);
        PIECES(t, i) {
            double sum = 0;
            collect(dual, &dual->pieces[i], t->work->edge_u, 0, q);
            ENTRIES(i, j) sum += p[j] * q[j];
            first[i] = sum;
        }
        fdp_team_turn(team, number, &t->turns, &phase);
        const double curvature = add_up(first, pieces);
        if (!(curvature > 0)) break;
        const double step = rz / curvature;
        PIECES(t, i) {
            double sum = 0;
            ENTRIES(i, j) {
                x[j] += step * p[j];
                r[j] -= step * q[j];
                sum += r[j] * preconditioned(r[j], t->diagonal[j]);
            }
            second[i] = sum;
        }
        fdp_team_turn(team, number, &t->turns, &phase);
        const double next = add_up(second, pieces);
        if (!(next > least)) break;
        const double turn = next / rz;
        PIECES(t, i) ENTRIES(i, j) p[j] = preconditioned(r[j], t->diagonal[j]) + turn * p[j];
        rz = next;
        fdp_team_turn(team, number, &t->turns, &phase);
    }
#undef ENTRIES
    if (number == 0) t->products = products;
}

int fdp_dual_solve(const fdp_dual *dual, const double *b, const double *diagonal, double tol, int64_t most,
                   fdp_team *team, const fdp_dual_work *work, double *out, int64_t *products) {
    task t = {.dual = dual, .work = work, .b = b, .diagonal = diagonal, .out = out, .tol = tol, .most = most};
    run_task(team, solve_member, &t);
    *products = t.products;
    return FDP_OK;
}

static void probe_member(fdp_team *team, int number, void *argument) {
    task *t = argument;
    int64_t phase = 0;
    ITEMS(t, i) {
        const fdp_dual_item item = t->dual->items[i];
        probe_lane(&t->dual->regions[item.region], item.lane, t->seed, t->work);
    }
    fdp_team_turn(team, number, &t->turns, &phase);
    PIECES(t, i) collect(t->dual, &t->dual->pieces[i], t->work->edge_d, 0, t->g);
}

int fdp_dual_probe(const fdp_dual *dual, uint64_t seed, fdp_team *team, const fdp_dual_work *work,
                   double *b) {
    task t = {.dual = dual, .work = work, .seed = seed, .g = b};
    run_task(team, probe_member, &t);
    return FDP_OK;
}

int fdp_dual_answer(const fdp_dual *dual, const double *x, const fdp_dual_work *work, double *out) {
    for (int64_t k = 0; k < dual->n_regions; k++) {
        const fdp_dual_region *r = &dual->regions[k];
        out[k] = 0;
        for (int64_t l = 0; l < r->n_links; l++)
            for (int64_t lane = 0; lane < r->lanes; lane++) {
                const fdp_dual_span *span = r->links[l].spans + lane;
                const double *e = work->edge_d + span->edge, *own = x + r->links[l].at + span->from;
                double sum = 0;
                for (int64_t j = 0; j < span->size; j++) sum += e[j] * own[j];
                out[k] += r->links[l].sign * sum;
            }
    }
    return FDP_OK;
}
