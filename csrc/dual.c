/* See dual.h. */
#include "dual.h"

#include <math.h>
#include <string.h>

#include "dual_lane.h"

#define FOLD 512 /* entries of a fold worked on at a time */
#define WORTH 4  /* a cell is as much work as so many of a table that is only multiplied */

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
    run_task(team, evaluate_member, &t);
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

/* A piece's part of an iteration, n entries; sums[2]: r times u, and x times b. */
FDP_CLONES static void iterate_piece(int64_t n, double step, double turn, const double *restrict w,
                                     const double *restrict b, const double *restrict diagonal,
                                     double *restrict r, double *restrict u, double *restrict p,
                                     double *restrict s, double *restrict x, double *restrict sums) {
    double sum = 0, part = 0;
#pragma omp simd reduction(+ : sum, part)
    for (int64_t j = 0; j < n; j++) {
        p[j] = u[j] + turn * p[j];
        s[j] = w[j] + turn * s[j];
        x[j] += step * p[j];
        r[j] -= step * s[j];
        u[j] = preconditioned(r[j], diagonal[j]);
        sum += r[j] * u[j];
        part += x[j] * b[j];
    }
    sums[0] = sum, sums[1] = part;
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
            const int64_t at = dual->pieces[i].at;
            double sums[2];
            iterate_piece(dual->pieces[i].size, step, turn, w + at, t->b + at, t->diagonal + at, r + at,
                          u + at, p + at, s + at, x + at, sums);
            second[i] = sums[0];
            along[i] = sums[1];
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
    fdp_dual_by_region(dual, 1, work->sums, out);
    return FDP_OK;
}
