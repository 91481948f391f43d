/* Evaluation of the dual and conjugate gradients on it: see dual.h for the terms. A worked example.
 *
 * Two regions with sigma 1 and tau infinite, so that phi(v) = max(v, 0):
 *
 *     A, answers 6 4        A x B, answers 1 2 | 3 6, whose projection on A is 3 9.
 *
 * One constraint says that both agree on A. Its multipliers are x[2], with sign 1 in region A and -1 in A x
 * B: cells are 6 + x0, 4 + x1 and 1 - x0, 2 - x0 | 3 - x1, 6 - x1.
 *
 * At x = 0 (fdp_dual_evaluate) the gradient is what the constraint lacks, 6 - 3 and 4 - 9: g = (3, -5). Every
 * cell has slope 1, so the diagonal of the Hessian is 1 + 2 = 3 for both multipliers; nothing else links
 * them, so it is the whole Hessian. Newton's step (fdp_dual_solve) is -g / 3 = (-1, 5/3).
 *
 * Then A is 5, 17/3 and A x B is 2 3 | 4/3 13/3, whose projection is 5, 17/3: the constraint holds. 5 is the
 * mean of 6 and 3 with weights 1 and 1/2, since a sum of two noisy cells has twice the variance. */
#include "dual.h"

#include <math.h>
#include <string.h>

#include "dual_lane.h"

#define FOLD 512 /* entries of a fold worked on at a time */

#define LEAST_VARIANCE 1e-12 /* of a constraint's side, in rows^2 */

/* out = what feeds the piece, added up; without signs for a diagonal. */
FDP_CLONES static void collect(const fdp_dual *dual, const fdp_dual_piece *piece, const double *edges,
                               int diagonal, double *out) {
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
            const fdp_span *span = r->links[f->link].spans + lane;
            const int64_t a = FDP_MAX(span->from, from), b = FDP_MIN(span->from + span->size, from + n);
            const double *e = edges + span->edge - span->from;
            for (int64_t j = a; j < b; j++) sums[j - from] += e[j];
        }
        for (int64_t j = 0; j < n; j++) slope[f->cell + from + j] = (float)(scale * sums[j]);
    }
}

/* What a step of the team needs: arguments of the public function, and the state of conjugate gradients. */
typedef struct {
    const fdp_dual *dual;
    const fdp_dual_work *work;
    const double *from, *way, *x, *tau, *kappa, *b, *diagonal;
    double *g, *out, *cells, *ahead;
    float *seen;
    double length, sign, tol;
    int64_t most, products;
    uint64_t seed;
    int64_t at;                          /* the step under way */
    double step, turn, rz, least, along; /* of conjugate gradients */
    double *r, *u, *p, *s, *w;           /* their vectors */
    double *parts;                       /* [pieces] sums of r times u */
} task;

/* Steps of an evaluation, of conjugate gradients and of a probe. */
enum { BEGIN, AHEAD, EVALUATE, CONCLUDE, START, MULTIPLY, ITERATE, PROBE, PROBED };

/* For each entry j of the vector in piece i. */
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

/* A piece of an evaluation: the point ahead, a lane of a region, or a piece of the gradient or of a fold. */
static void evaluate_piece(void *ctx, int64_t kind, int64_t i) {
    task *t = ctx;
    const int64_t f = i - t->dual->n_pieces;
    if (kind == AHEAD) {
        ENTRIES(t->dual, i, j) t->ahead[j] = t->from[j] + t->length * t->way[j];
    } else if (kind == EVALUATE) {
        const fdp_dual_item item = t->dual->items[i];
        totals sums = {0, 0};
        evaluate_lane(t->dual, &t->dual->regions[item.region], item.lane, t->x, t->tau[item.region],
                      t->kappa[item.region], t->work, t->cells, t->seen, &sums);
        t->work->sums[2 * i] = sums.rss;
        t->work->sums[2 * i + 1] = sums.divergence;
    } else if (f < 0) {
        conclude(t, i);
    } else {
        fold(t->dual, t->dual->folds + f, t->dual->scale[f], t->work->edge_d, t->work->slope);
    }
}

/* The steps of an evaluation in order, each with its number of pieces; steps without work are skipped. */
static int64_t evaluate_plan(void *ctx, int64_t *kind) {
    task *t = ctx;
    const fdp_dual *dual = t->dual;
    const int64_t sizes[] = {0, t->ahead ? dual->n_pieces : 0, dual->n_items, dual->n_pieces + dual->n_folds};
    while (++t->at <= CONCLUDE)
        if (sizes[ *kind = t->at]) return sizes[t->at];
    return 0;
}

/* Runs a task in steps, with as many threads as its cells are worth. */
static void run_task(fdp_team *team, fdp_team_plan plan, fdp_team_piece piece, task *t) {
    fdp_team_steps(team, fdp_team_worth(team, FDP_DUAL_WORTH * t->dual->cells), FDP_TEAM_SPREAD, plan, piece,
                   t);
}

void fdp_dual_by_region(const fdp_dual *dual, int64_t n, const double *of_items, double *out) {
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
    run_task(team, evaluate_plan, evaluate_piece, &t);
    fdp_dual_by_region(dual, 2, work->sums, sums);
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

/* A multiplier all of whose cells have slope 0 gets a step of 0; no branch would end the vector loop. */
static inline __attribute__((always_inline)) double preconditioned(double r, double diagonal) {
    const double safe = diagonal > 0 ? diagonal : 1.0;
    return diagonal > 0 ? r / safe : 0.0;
}

/* A piece's part of an iteration, n entries; returns r times u. */
FDP_CLONES static double iterate_piece(int64_t n, double step, double turn, const double *restrict w,
                                       const double *restrict diagonal, double *restrict r,
                                       double *restrict u, double *restrict p, double *restrict s,
                                       double *restrict x) {
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t j = 0; j < n; j++) {
        p[j] = u[j] + turn * p[j];
        s[j] = w[j] + turn * s[j];
        x[j] += step * p[j];
        r[j] -= step * s[j];
        u[j] = preconditioned(r[j], diagonal[j]);
        sum += r[j] * u[j];
    }
    return sum;
}

/* The sum of the pieces' numbers, in order. */
static double add_up(const double *parts, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += parts[i];
    return sum;
}

/* Conjugate gradients as Chronopoulos and Gear (1989) order them: the products A u with the preconditioned
 * residuals u give those with the directions p, by recursion. u times A u is a sum over the cells, known
 * before the products are added up, so that an iteration has two steps. */
static void solve_piece(void *ctx, int64_t kind, int64_t i) {
    task *t = ctx;
    const fdp_dual *dual = t->dual;
    double sum = 0;
    if (kind == START) {
        ENTRIES(dual, i, j) {
            t->out[j] = t->p[j] = t->s[j] = 0;
            t->r[j] = t->sign * t->b[j];
            t->u[j] = preconditioned(t->r[j], t->diagonal[j]);
            sum += t->r[j] * t->u[j];
        }
        t->parts[i] = sum;
    } else if (kind == MULTIPLY) {
        const fdp_dual_item item = dual->items[i];
        t->work->sums[i] = multiply_lane(&dual->regions[item.region], item.lane, t->u, t->work);
    } else {
        const int64_t at = dual->pieces[i].at;
        const int64_t n = dual->pieces[i].size;
        collect(dual, &dual->pieces[i], t->work->edge_u, 0, t->w);
        t->parts[i] = iterate_piece(n, t->step, t->turn, t->w + at, t->diagonal + at, t->r + at, t->u + at,
                                    t->p + at, t->s + at, t->out + at);
    }
}

/* The next step of conjugate gradients, with the scalars that the one before has made known: START, then
 * MULTIPLY and ITERATE in turn until the residual is small or the products are used up. */
static int64_t solve_plan(void *ctx, int64_t *kind) {
    task *t = ctx;
    const int64_t pieces = t->dual->n_pieces, before = t->at;
    *kind = t->at = before == BEGIN ? START : before == START || before == ITERATE ? MULTIPLY : before + 1;
    if (before == START) {
        t->rz = add_up(t->parts, pieces);
        t->least = t->tol * t->tol * t->rz;
    } else if (before == MULTIPLY) {
        const double more = t->products > 1 ? t->turn * t->rz / t->step : 0.0;
        const double curvature = add_up(t->work->sums, t->dual->n_items) - more;
        if (!(curvature > 0)) return 0;
        t->step = t->rz / curvature;
        t->along += t->step * t->rz; /* the product of b with the step's part of the solution */
    } else if (before == ITERATE) {
        const double next = add_up(t->parts, pieces);
        if (!(next > t->least)) return 0;
        t->turn = next / t->rz;
        t->rz = next;
    }
    if (*kind != MULTIPLY) return pieces;
    if (t->products >= t->most || !(t->rz > 0)) return 0;
    t->products++;
    return t->dual->n_items;
}

int fdp_dual_solve(const fdp_dual *dual, const double *b, double sign, const double *diagonal, double tol,
                   int64_t most, fdp_team *team, const fdp_dual_work *work, double *out, int64_t *products,
                   double *along) {
    task t = {.dual = dual, .work = work, .b = b, .sign = sign, .diagonal = diagonal, .out = out};
    t.tol = tol, t.most = most;
    t.r = work->vectors, t.u = t.r + dual->size, t.p = t.u + dual->size, t.s = t.p + dual->size;
    t.w = t.s + dual->size;
    t.parts = work->dots;
    run_task(team, solve_plan, solve_piece, &t);
    *products = t.products;
    *along = sign * t.along;
    return FDP_OK;
}

/* A lane of the probe, or a piece of its vector. */
static void probe_piece(void *ctx, int64_t kind, int64_t i) {
    task *t = ctx;
    const fdp_dual_item item = t->dual->items[kind == PROBE ? i : 0];
    if (kind == PROBE)
        probe_lane(&t->dual->regions[item.region], item.lane, t->seed, t->work);
    else
        collect(t->dual, &t->dual->pieces[i], t->work->edge_d, 0, t->g);
}

/* The two steps of a probe: all lanes, then all pieces of the vector. */
static int64_t probe_plan(void *ctx, int64_t *kind) {
    task *t = ctx;
    *kind = t->at = t->at == BEGIN ? PROBE : t->at + 1;
    return *kind == PROBE ? t->dual->n_items : *kind == PROBED ? t->dual->n_pieces : 0;
}

int fdp_dual_probe(const fdp_dual *dual, uint64_t seed, fdp_team *team, const fdp_dual_work *work,
                   double *b) {
    task t = {.dual = dual, .work = work, .seed = seed, .g = b};
    run_task(team, probe_plan, probe_piece, &t);
    return FDP_OK;
}

/* A lane's part of the answer: what its links project of the probe, times the multipliers. */
static void answer_piece(void *ctx, int64_t kind, int64_t i) {
    (void)kind;
    task *t = ctx;
    const fdp_dual_item item = t->dual->items[i];
    const fdp_dual_region *r = &t->dual->regions[item.region];
    double total = 0;
    for (int64_t l = 0; l < r->n_links; l++) {
        const fdp_span *span = r->links[l].spans + item.lane;
        const double *e = t->work->edge_d + span->edge, *own = t->x + r->links[l].at + span->from;
        double sum = 0;
        for (int64_t j = 0; j < span->size; j++) sum += e[j] * own[j];
        total += r->links[l].sign * sum;
    }
    t->work->sums[i] = total;
}

int fdp_dual_answer(const fdp_dual *dual, const double *x, fdp_team *team, const fdp_dual_work *work,
                    double *out) {
    task t = {.dual = dual, .work = work, .x = x};
    fdp_team_each(team, fdp_team_worth(team, FDP_DUAL_WORTH * dual->cells), FDP_TEAM_SPREAD, dual->n_items,
                  answer_piece, &t);
    fdp_dual_by_region(dual, 1, work->sums, out);
    return FDP_OK;
}
