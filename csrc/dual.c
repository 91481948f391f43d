/* See dual.h. */
#include "dual.h"

#include <math.h>
#include <string.h>

#include "infer_exp.h"

#define BLOCK 512        /* columns worked on at a time */
#define FLAT 0.03        /* below this z the series of (1 - exp(-z)) / z is used; its error there is 1e-12 */
#define LEAST_Z (-300.0) /* cells further down than this are zero for every purpose, and their slope is */

#define LEAST_SLOPE 1e-25 /* of phi; below, products would be of numbers too small for the processor's pace */

typedef struct {
    double rss, divergence;
} totals;

/* w[n] = sum of sign * multipliers over the region's links, for columns [from, from + n) of row i. */
static inline void gather_row(const fdp_dual_region *r, const double *x, int64_t i, int64_t from, int64_t n,
                              double *w) {
    double flat = 0;
    for (int64_t l = 0; l < r->n_links; l++)
        if (r->links[l].kind == FDP_LINK_ROW)
            flat += r->links[l].sign * x[r->links[l].at + (r->links[l].base ? r->links[l].base[i] : 0)];
    for (int64_t j = 0; j < n; j++) w[j] = flat;
    for (int64_t l = 0; l < r->n_links; l++) {
        const fdp_dual_link *link = &r->links[l];
        if (link->kind == FDP_LINK_ROW) continue;
        const double *v = x + link->at + (link->base ? link->base[i] : 0);
        const double sign = link->sign;
        if (link->kind == FDP_LINK_CELL)
            for (int64_t j = 0; j < n; j++) w[j] += sign * v[from + j];
        else
            for (int64_t j = 0; j < n; j++) w[j] += sign * v[link->map[from + j]];
    }
}

/* Adds columns [from, from + n) of row i, which sum to `sum`, to the lane's edges. */
static inline void scatter_row(const fdp_dual_region *r, int64_t lane, int64_t i, int64_t from, int64_t n,
                               const double *u, double sum, double *edges) {
    for (int64_t l = 0; l < r->n_links; l++) {
        const fdp_dual_link *link = &r->links[l];
        double *e = edges + link->edge + lane * link->size + (link->base ? link->base[i] : 0);
        if (link->kind == FDP_LINK_ROW)
            e[0] += sum;
        else if (link->kind == FDP_LINK_CELL)
            for (int64_t j = 0; j < n; j++) e[from + j] += u[j];
        else
            for (int64_t j = 0; j < n; j++) e[link->map[from + j]] += u[j];
    }
}

static void clear_lane(const fdp_dual_region *r, int64_t lane, double *edges) {
    for (int64_t l = 0; l < r->n_links; l++)
        memset(edges + r->links[l].edge + lane * r->links[l].size, 0,
               (size_t)r->links[l].size * sizeof(double));
}

/* phi and its slope for n cells. w: in, multipliers; out, u in rows. slope: sigma^2 phi'. */
static inline void flow(int64_t n, const double *y, const double *inverse, const double *sigmas, double sigma,
                        double tau, double weight, double *w, double *slope, totals *t, double *sum_u,
                        double *sum_d) {
    double rss = 0, divergence = 0, total_u = 0, total_d = 0;
#pragma omp simd reduction(+ : rss, divergence, total_u, total_d)
    for (int64_t j = 0; j < n; j++) {
        const double s = sigmas ? sigmas[j] : sigma;
        const double v = y[j] + s * w[j];
        double z = v * tau;
        z = z < LEAST_Z ? LEAST_Z : z;
        const double e = fdp_exp(-z);
        const int near = z < FLAT && z > -FLAT;
        const double over = 1.0 / (near ? 1.0 : z);
        const double far_h = (1.0 - e) * over;
        const double h = near ? 1.0 - z * (0.5 - z * (1.0 / 6 - z * (1.0 / 24 - z * (1.0 / 120)))) : far_h;
        const double dh =
            near ? -0.5 + z * (1.0 / 3 - z * (0.125 - z * (1.0 / 30 - z * (1.0 / 144)))) : (e - far_h) * over;
        const double c = inverse[j] * weight;
        const double u = inverse[j] > 0 ? 1.0 / (e * c + tau * h) : 0.0;
        double d = u * u * (tau * e * c - tau * tau * dh);
        d = d < LEAST_SLOPE ? 0.0 : d;
        const double gap = u - y[j];
        rss += gap * gap;
        divergence += d;
        w[j] = s * u;
        slope[j] = s * s * d;
        total_u += w[j];
        total_d += slope[j];
    }
    t->rss += rss;
    t->divergence += divergence;
    *sum_u = total_u;
    *sum_d = total_d;
}

/* The same at tau = infinity: the positive part. */
static inline void positive(int64_t n, const double *y, const double *inverse, const double *sigmas,
                            double sigma, double *w, double *slope, totals *t, double *sum_u, double *sum_d) {
    double rss = 0, divergence = 0, total_u = 0, total_d = 0;
#pragma omp simd reduction(+ : rss, divergence, total_u, total_d)
    for (int64_t j = 0; j < n; j++) {
        const double s = sigmas ? sigmas[j] : sigma;
        const double v = y[j] + s * w[j];
        const double d = v > 0 && inverse[j] > 0 ? 1.0 : 0.0;
        const double u = d * v, gap = u - y[j];
        rss += gap * gap;
        divergence += d;
        w[j] = s * u;
        slope[j] = s * s * d;
        total_u += w[j];
        total_d += slope[j];
    }
    t->rss += rss;
    t->divergence += divergence;
    *sum_u = total_u;
    *sum_d = total_d;
}

FDP_CLONES
static void evaluate_lane(const fdp_dual *dual, const fdp_dual_region *r, int64_t lane, const double *x,
                          double tau, double kappa, const fdp_dual_work *work, double *cells, totals *t) {
    double w[BLOCK], sum_u, sum_d;
    clear_lane(r, lane, work->edge_u);
    clear_lane(r, lane, work->edge_d);
    for (int64_t i = r->rows * lane / r->lanes; i < r->rows * (lane + 1) / r->lanes; i++)
        for (int64_t from = 0; from < r->cols; from += BLOCK) {
            const int64_t n = FDP_MIN(BLOCK, r->cols - from), at = r->cell + i * r->cols + from;
            const double *sigmas = r->sigmas ? r->sigmas + i * r->cols + from : NULL;
            double *slope = work->slope + at;
            gather_row(r, x, i, from, n, w);
            if (isinf(tau))
                positive(n, dual->y + at, dual->inverse + at, sigmas, r->sigma, w, slope, t, &sum_u, &sum_d);
            else
                flow(n, dual->y + at, dual->inverse + at, sigmas, r->sigma, tau, 1.0 / kappa, w, slope, t,
                     &sum_u, &sum_d);
            scatter_row(r, lane, i, from, n, w, sum_u, work->edge_u);
            scatter_row(r, lane, i, from, n, slope, sum_d, work->edge_d);
            if (cells) memcpy(cells + at, w, (size_t)n * sizeof(double));
        }
}

/* Edges of diag(slope) times the broadcast of p. */
FDP_CLONES
static void multiply_lane(const fdp_dual_region *r, int64_t lane, const double *p,
                          const fdp_dual_work *work) {
    double w[BLOCK];
    clear_lane(r, lane, work->edge_u);
    for (int64_t i = r->rows * lane / r->lanes; i < r->rows * (lane + 1) / r->lanes; i++)
        for (int64_t from = 0; from < r->cols; from += BLOCK) {
            const int64_t n = FDP_MIN(BLOCK, r->cols - from);
            const double *slope = work->slope + r->cell + i * r->cols + from;
            double sum = 0;
            gather_row(r, p, i, from, n, w);
#pragma omp simd reduction(+ : sum)
            for (int64_t j = 0; j < n; j++) {
                w[j] *= slope[j];
                sum += w[j];
            }
            scatter_row(r, lane, i, from, n, w, sum, work->edge_u);
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
    for (int64_t i = r->rows * lane / r->lanes; i < r->rows * (lane + 1) / r->lanes; i++)
        for (int64_t from = 0; from < r->cols; from += BLOCK) {
            const int64_t n = FDP_MIN(BLOCK, r->cols - from), at = r->cell + i * r->cols + from;
            double sum = 0;
            for (int64_t j = 0; j < n; j++) {
                const double s = r->sigmas ? r->sigmas[i * r->cols + from + j] : r->sigma;
                w[j] = sign_of(seed, (uint64_t)(at + j)) * work->slope[at + j] / s;
                sum += w[j];
            }
            scatter_row(r, lane, i, from, n, w, sum, work->edge_d);
        }
}

/* out = sum of the piece's edges, with their signs unless `squares`. */
static void collect(const fdp_dual *dual, const fdp_dual_piece *piece, const double *edges, int squares,
                    double *out) {
    memset(out + piece->at, 0, (size_t)piece->size * sizeof(double));
    for (int64_t k = piece->first_edge; k < piece->first_edge + piece->n_edges; k++) {
        const double sign = squares ? 1.0 : dual->edge_sign[k];
        const double *e = edges + dual->edge_at[k];
        for (int64_t j = 0; j < piece->size; j++) out[piece->at + j] += sign * e[j];
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
} task;

static void evaluate_member(fdp_team *team, int number, void *argument) {
    task *t = argument;
    for (int64_t i = number; i < t->dual->n_items; i += team->threads) {
        const int64_t k = t->dual->item_region[i];
        totals sums = {0, 0};
        evaluate_lane(t->dual, &t->dual->regions[k], t->dual->item_lane[i], t->x, t->tau[k], t->kappa[k],
                      t->work, t->cells, &sums);
        t->work->sums[2 * i] = sums.rss;
        t->work->sums[2 * i + 1] = sums.divergence;
    }
    fdp_team_wait(team);
    for (int64_t i = number; i < t->dual->n_pieces; i += team->threads) {
        const fdp_dual_piece *piece = &t->dual->pieces[i];
        collect(t->dual, piece, t->work->edge_u, 0, t->g);
        collect(t->dual, piece, t->work->edge_d, 1, t->out);
        for (int64_t j = piece->at; j < piece->at + piece->size; j++) t->g[j] -= t->dual->rhs[j];
    }
}

int fdp_dual_evaluate(const fdp_dual *dual, const double *x, const double *tau, const double *kappa,
                      fdp_team *team, const fdp_dual_work *work, double *g, double *diagonal, double *sums,
                      double *cells) {
    task t = {.dual = dual,
              .work = work,
              .x = x,
              .tau = tau,
              .kappa = kappa,
              .g = g,
              .out = diagonal,
              .cells = cells};
    fdp_team_do(team, team ? team->most : 1, evaluate_member, &t);
    memset(sums, 0, (size_t)dual->n_regions * 2 * sizeof(double));
    for (int64_t i = 0; i < dual->n_items; i++)
        for (int k = 0; k < 2; k++) sums[2 * dual->item_region[i] + k] += work->sums[2 * i + k];
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
#define PIECES(i, j) \
    for (int64_t i = number; i < pieces; i += team->threads) \
        for (int64_t j = dual->pieces[i].at, end_ = j + dual->pieces[i].size; j < end_; j++)
    for (int64_t i = number; i < pieces; i += team->threads) second[i] = 0;
    PIECES(i, j) {
        x[j] = 0;
        r[j] = t->b[j];
        p[j] = preconditioned(r[j], t->diagonal[j]);
        second[i] += r[j] * p[j];
    }
    fdp_team_wait(team);
    rz = add_up(second, pieces);
    least = t->tol * t->tol * rz;
    int64_t products = 0;
    while (products < t->most && rz > 0) {
        for (int64_t i = number; i < dual->n_items; i += team->threads)
            multiply_lane(&dual->regions[dual->item_region[i]], dual->item_lane[i], p, t->work);
        products++;
        fdp_team_wait(team);
        for (int64_t i = number; i < pieces; i += team->threads) {
            collect(dual, &dual->pieces[i], t->work->edge_u, 0, q);
            first[i] = 0;
        }
        PIECES(i, j) first[i] += p[j] * q[j];
        fdp_team_wait(team);
        const double curvature = add_up(first, pieces);
        if (!(curvature > 0)) break;
        const double step = rz / curvature;
        for (int64_t i = number; i < pieces; i += team->threads) second[i] = 0;
        PIECES(i, j) {
            x[j] += step * p[j];
            r[j] -= step * q[j];
            second[i] += r[j] * preconditioned(r[j], t->diagonal[j]);
        }
        fdp_team_wait(team);
        const double next = add_up(second, pieces);
        if (!(next > least)) break;
        const double turn = next / rz;
        PIECES(i, j) p[j] = preconditioned(r[j], t->diagonal[j]) + turn * p[j];
        rz = next;
        fdp_team_wait(team);
    }
#undef PIECES
    if (number == 0) t->products = products;
}

int fdp_dual_solve(const fdp_dual *dual, const double *b, const double *diagonal, double tol, int64_t most,
                   fdp_team *team, const fdp_dual_work *work, double *out, int64_t *products) {
    task t = {.dual = dual, .work = work, .b = b, .diagonal = diagonal, .out = out, .tol = tol, .most = most};
    fdp_team_do(team, team ? team->most : 1, solve_member, &t);
    *products = t.products;
    return FDP_OK;
}

static void probe_member(fdp_team *team, int number, void *argument) {
    task *t = argument;
    for (int64_t i = number; i < t->dual->n_items; i += team->threads)
        probe_lane(&t->dual->regions[t->dual->item_region[i]], t->dual->item_lane[i], t->seed, t->work);
    fdp_team_wait(team);
    for (int64_t i = number; i < t->dual->n_pieces; i += team->threads)
        collect(t->dual, &t->dual->pieces[i], t->work->edge_d, 0, t->g);
}

int fdp_dual_probe(const fdp_dual *dual, uint64_t seed, fdp_team *team, const fdp_dual_work *work,
                   double *b) {
    task t = {.dual = dual, .work = work, .seed = seed, .g = b};
    fdp_team_do(team, team ? team->most : 1, probe_member, &t);
    return FDP_OK;
}

int fdp_dual_answer(const fdp_dual *dual, const double *x, const fdp_dual_work *work, double *out) {
    for (int64_t k = 0; k < dual->n_regions; k++) {
        const fdp_dual_region *r = &dual->regions[k];
        out[k] = 0;
        for (int64_t l = 0; l < r->n_links; l++)
            for (int64_t lane = 0; lane < r->lanes; lane++) {
                const double *e = work->edge_d + r->links[l].edge + lane * r->links[l].size;
                double sum = 0;
                for (int64_t j = 0; j < r->links[l].size; j++) sum += e[j] * x[r->links[l].at + j];
                out[k] += r->links[l].sign * sum;
            }
    }
    return FDP_OK;
}
