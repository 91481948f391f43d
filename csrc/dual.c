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

#define SHARE 16384          /* cells that a thread takes at a time where nothing is added up */
#define LEAST_VARIANCE 1e-12 /* of a constraint's side, in rows^2 */

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
    const double *from, *way, *x, *tau, *kappa, *b, *diagonal;
    double *g, *out, *cells, *ahead;
    float *seen;
    double length, sign, tol;
    int64_t most, products;
    uint64_t seed;
    fdp_team_turns turns;
} task;

#define ITEMS(t, i) FDP_TEAM_SHARE(&(t)->turns, phase, i, (t)->dual->n_items)
#define PIECES(t, i) FDP_TEAM_SHARE(&(t)->turns, phase, i, (t)->dual->n_pieces)
#define ENTRIES(dual, i, j) \
    for (int64_t j = (dual)->pieces[i].at, end_ = j + (dual)->pieces[i].size; j < end_; j++)

/* Gradient and diagonal of a piece; its worst violation of a constraint in standard errors of its own side,
 * the sum of their squares, and what of the gradient lies along the way. */
static void conclude(const task *t, int64_t i) {
    const fdp_dual *dual = t->dual;
    const fdp_dual_piece *piece = &dual->pieces[i];
    double worst = 0, squares = 0, along = 0;
    collect(dual, piece, t->work->edge_u, 0, t->g);
    collect(dual, piece, t->work->edge_d, 1, t->out);
    ENTRIES(dual, i, j) {
        t->g[j] -= dual->rhs[j];
        const double square = t->g[j] * t->g[j] / FDP_MAX(t->out[j], LEAST_VARIANCE);
        worst = FDP_MAX(worst, square);
        squares += square;
    }
    if (t->way) ENTRIES(dual, i, j) along += t->g[j] * t->way[j];
    double *dots = t->work->dots + 3 * i;
    dots[0] = worst, dots[1] = squares, dots[2] = along;
}

static void evaluate_member(fdp_team *team, int number, void *argument) {
    task *t = argument;
    int64_t phase = 0;
    if (t->ahead) {
        PIECES(t, i) ENTRIES(t->dual, i, j) t->ahead[j] = t->from[j] + t->length * t->way[j];
        fdp_team_turn(team, number, &t->turns, &phase);
    }
    ITEMS(t, i) {
        const fdp_dual_item item = t->dual->items[i];
        totals sums = {0, 0};
        evaluate_lane(t->dual, &t->dual->regions[item.region], item.lane, t->x, t->tau[item.region],
                      t->kappa[item.region], t->work, t->cells, t->seen, &sums);
        t->work->sums[2 * i] = sums.rss;
        t->work->sums[2 * i + 1] = sums.divergence;
    }
    fdp_team_turn(team, number, &t->turns, &phase);
    const int64_t pieces = t->dual->n_pieces;
    FDP_TEAM_SHARE(&t->turns, phase, i, pieces + t->dual->n_folds) {
        const int64_t f = i - pieces;
        if (f < 0)
            conclude(t, i);
        else
            fold(t->dual, t->dual->folds + f, t->dual->scale[f], t->work->edge_d, t->work->slope);
    }
}

static void run_task(fdp_team *team, fdp_team_fn member, task *t) {
    fdp_team_turns_make(&t->turns);
    fdp_team_do(team, fdp_team_worth(team, WORTH * t->dual->cells), member, t);
}

/* out[regions, n] = the items' numbers [items, n], added up in order. */
static void by_region(const fdp_dual *dual, int64_t n, const double *of_items, double *out) {
    memset(out, 0, (size_t)(dual->n_regions * n) * sizeof(double));
    for (int64_t i = 0; i < dual->n_items; i++)
        for (int64_t k = 0; k < n; k++) out[dual->items[i].region * n + k] += of_items[i * n + k];
}

int fdp_dual_evaluate(const fdp_dual *dual, const double *x, const double *way, double length,
                      const double *tau, const double *kappa, fdp_team *team, const fdp_dual_work *work,
                      double *ahead, double *g, double *diagonal, double *sums, double *cells, float *seen,
                      double *state) {
    task t = {.dual = dual, .work = work, .from = x, .way = way, .x = ahead ? ahead : x, .length = length};
    t.tau = tau, t.kappa = kappa, t.ahead = ahead, t.g = g, t.out = diagonal, t.cells = cells, t.seen = seen;
    run_task(team, evaluate_member, &t);
    by_region(dual, 2, work->sums, sums);
    memset(state, 0, 3 * sizeof *state);
    for (int64_t i = 0; i < dual->n_pieces; i++) {
        const double *dots = work->dots + 3 * i;
        state[0] = FDP_MAX(state[0], dots[0]);
        state[1] += dots[1];
        state[2] += dots[2];
    }
    state[0] = state[1] < INFINITY ? sqrt(state[0]) : INFINITY; /* FDP_MAX does not see what is no number */
    return FDP_OK;
}

/* A multiplier all of whose cells have slope 0 gets a step of 0. */
static inline double preconditioned(double r, double diagonal) {
    return diagonal > 0 ? r / diagonal : 0.0;
}

static double add_up(const double *parts, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += parts[i];
    return sum;
}

/* Conjugate gradients as Chronopoulos and Gear (1989) order them, with three phases an iteration: the
 * products A u with the preconditioned residuals u give those with the directions p, by recursion. */
static void solve_member(fdp_team *team, int number, void *argument) {
    task *t = argument;
    const fdp_dual *dual = t->dual;
    const int64_t size = dual->size, pieces = dual->n_pieces;
    double *r = t->work->vectors, *u = r + size, *p = u + size, *s = p + size, *w = s + size;
    double *x = t->out, *first = t->work->dots, *second = first + pieces, *along = second + pieces;
    double step = 0, turn = 0;
    int64_t products = 0, phase = 0;
    PIECES(t, i) {
        double sum = 0;
        ENTRIES(dual, i, j) {
            x[j] = p[j] = s[j] = 0;
            r[j] = t->sign * t->b[j];
            u[j] = preconditioned(r[j], t->diagonal[j]);
            sum += r[j] * u[j];
        }
        second[i] = sum;
        along[i] = 0;
    }
    fdp_team_turn(team, number, &t->turns, &phase);
    double rz = add_up(second, pieces);
    const double least = t->tol * t->tol * rz;
    while (products < t->most && rz > 0) {
        ITEMS(t, i) multiply_lane(&dual->regions[dual->items[i].region], dual->items[i].lane, u, t->work);
        products++;
        fdp_team_turn(team, number, &t->turns, &phase);
        PIECES(t, i) {
            double sum = 0;
            collect(dual, &dual->pieces[i], t->work->edge_u, 0, w);
            ENTRIES(dual, i, j) sum += u[j] * w[j];
            first[i] = sum;
        }
        fdp_team_turn(team, number, &t->turns, &phase);
        const double curvature = add_up(first, pieces) - (products > 1 ? turn * rz / step : 0.0);
        if (!(curvature > 0)) break;
        step = rz / curvature;
        PIECES(t, i) {
            double sum = 0, part = 0;
            ENTRIES(dual, i, j) {
                p[j] = u[j] + turn * p[j];
                s[j] = w[j] + turn * s[j];
                x[j] += step * p[j];
                r[j] -= step * s[j];
                u[j] = preconditioned(r[j], t->diagonal[j]);
                sum += r[j] * u[j];
                part += x[j] * t->b[j];
            }
            second[i] = sum;
            along[i] = part;
        }
        fdp_team_turn(team, number, &t->turns, &phase);
        const double next = add_up(second, pieces);
        if (!(next > least)) break;
        turn = next / rz;
        rz = next;
    }
    if (number == 0) t->products = products;
}

int fdp_dual_solve(const fdp_dual *dual, const double *b, double sign, const double *diagonal, double tol,
                   int64_t most, fdp_team *team, const fdp_dual_work *work, double *out, int64_t *products,
                   double *along) {
    task t = {.dual = dual, .work = work, .b = b, .sign = sign, .diagonal = diagonal, .out = out};
    t.tol = tol, t.most = most;
    run_task(team, solve_member, &t);
    *products = t.products;
    *along = add_up(work->dots + 2 * dual->n_pieces, dual->n_pieces);
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

static void answer_member(fdp_team *team, int number, void *argument) {
    task *t = argument;
    const int64_t phase = 0;
    (void)team, (void)number;
    ITEMS(t, i) {
        const fdp_dual_item item = t->dual->items[i];
        const fdp_dual_region *r = &t->dual->regions[item.region];
        double total = 0;
        for (int64_t l = 0; l < r->n_links; l++) {
            const fdp_dual_span *span = r->links[l].spans + item.lane;
            const double *e = t->work->edge_d + span->edge, *own = t->x + r->links[l].at + span->from;
            double sum = 0;
            for (int64_t j = 0; j < span->size; j++) sum += e[j] * own[j];
            total += r->links[l].sign * sum;
        }
        t->work->sums[i] = total;
    }
}

int fdp_dual_answer(const fdp_dual *dual, const double *x, fdp_team *team, const fdp_dual_work *work,
                    double *out) {
    task t = {.dual = dual, .work = work, .x = x};
    run_task(team, answer_member, &t);
    by_region(dual, 1, work->sums, out);
    return FDP_OK;
}

/* Work on cells alone: their answers and centres, and mixtures of candidates. */
typedef struct {
    const fdp_dual *dual;
    int64_t region, n;
    const double *table, *given, *weights;
    const uint8_t *possible;
    const float *seen; /* [n, cells] */
    double *y, *inverse, *gram;
    fdp_team_turns turns;
} cells_task;

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

static void centre_member(fdp_team *team, int number, void *argument) {
    cells_task *t = argument;
    const fdp_dual_region *r = &t->dual->regions[t->region];
    const int64_t cells = r->rows * r->cols;
    (void)team, (void)number;
    FDP_TEAM_SHARE(&t->turns, 0, i, (cells + SHARE - 1) / SHARE)
    centre_cells(t, r, i * SHARE, FDP_MIN(cells, (i + 1) * SHARE));
}

int fdp_dual_centre(const fdp_dual *dual, int64_t region, const double *table, const double *given,
                    const uint8_t *possible, fdp_team *team, double *y, double *inverse) {
    cells_task t = {.dual = dual, .region = region, .table = table, .given = given, .possible = possible};
    t.y = y, t.inverse = inverse;
    fdp_team_turns_make(&t.turns);
    fdp_team_do(team, fdp_team_worth(team, dual->regions[region].rows * dual->regions[region].cols),
                centre_member, &t);
    return FDP_OK;
}

/* The cells of item i: [*from, *to). */
static void cells_of(const fdp_dual *dual, int64_t i, int64_t *from, int64_t *to) {
    const fdp_dual_region *r = &dual->regions[dual->items[i].region];
    const int64_t lane = dual->items[i].lane;
    *from = r->cell + r->rows * lane / r->lanes * r->cols;
    *to = r->cell + r->rows * (lane + 1) / r->lanes * r->cols;
}

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

static void gram_member(fdp_team *team, int number, void *argument) {
    cells_task *t = argument;
    (void)team, (void)number;
    FDP_TEAM_SHARE(&t->turns, 0, i, t->dual->n_items) {
        int64_t from, to;
        double *gram = t->gram + i * t->n * t->n;
        cells_of(t->dual, i, &from, &to);
        memset(gram, 0, (size_t)(t->n * t->n) * sizeof *gram);
        gram_cells(t, from, to, gram);
    }
}

int fdp_dual_gram(const fdp_dual *dual, int64_t n, const float *seen, fdp_team *team, double *room,
                  double *gram) {
    cells_task t = {.dual = dual, .n = n, .seen = seen, .gram = room};
    if (n < 1 || n > FDP_DUAL_SEEN) return FDP_ERR_ARGUMENT;
    fdp_team_turns_make(&t.turns);
    fdp_team_do(team, fdp_team_worth(team, dual->cells), gram_member, &t);
    by_region(dual, n * n, room, gram);
    for (int64_t k = 0; k < dual->n_regions; k++)
        for (int64_t a = 0; a < n; a++)
            for (int64_t b = a + 1; b < n; b++) gram[(k * n + a) * n + b] = gram[(k * n + b) * n + a];
    return FDP_OK;
}

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

static void mix_member(fdp_team *team, int number, void *argument) {
    cells_task *t = argument;
    (void)team, (void)number;
    FDP_TEAM_SHARE(&t->turns, 0, i, t->dual->n_items) {
        int64_t from, to;
        cells_of(t->dual, i, &from, &to);
        mix_cells(t, t->weights + t->dual->items[i].region * t->n, from, to);
    }
}

int fdp_dual_mix(const fdp_dual *dual, int64_t n, const float *seen, const double *weights, fdp_team *team,
                 double *y, double *inverse) {
    cells_task t = {.dual = dual, .n = n, .seen = seen, .weights = weights, .y = y, .inverse = inverse};
    fdp_team_turns_make(&t.turns);
    fdp_team_do(team, fdp_team_worth(team, dual->cells), mix_member, &t);
    return FDP_OK;
}
