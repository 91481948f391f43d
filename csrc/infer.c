/* Belief propagation: see infer.h for the terms. A worked example.
 *
 * Attributes A, B and C have two codes each. Node 0 is the root [ | A B], one row of four cells. Node 1 is
 * [B | C], a row of two cells for each code of its separator B, which node 0 hosts. The local potentials are
 * the logarithms of
 *
 *     node 0: (a, b) = 00: 1, 01: 2, 10: 3, 11: 4        node 1: b = 0: 1 1,  b = 1: 1 3
 *
 * Upward (UP), node 1 takes the maximum out of each row and sums what is left:
 *     b = 0: cells 1 1, sum 2, message log 1 + log 2 = log 2;
 *     b = 1: cells 1/3 1, sum 4/3, message log 3 + log 4/3 = log 4.
 * DELIVER adds the messages to the potential of B inside node 0, whose cells are then
 *     2 8 6 16, without their maximum 1/8 1/2 3/8 1, sum 2, message log 16 + log 2 = log 32 = log Z.
 *
 * Downward (DOWN), the root has mass 1, so its factor is 1/2: marginals 1/16 1/4 3/16 1/2. Its projection on
 * B is 1/4 3/4. This is the mass of node 1's rows, whose factors are 1/4 / 2 and 3/4 / (4/3): marginals 1/8
 * 1/8 and 3/16 9/16. So C has the marginal 5/16 11/16.
 *
 * MOVE does the same from a state: cells are multiplied by the exp of a change instead of built from nothing.
 */
#include "infer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "infer_exp.h"

/* A log potential that stands for minus infinity: exp of it is 0, and sums of a few stay finite. */
#define IMPOSSIBLE (-1e30)
/* Rows of a slice whose factors a thread keeps on its stack. */
#define MOST_ROWS 512
#define UP_SUMS (FDP_DIRECT_SUM + 1)
#define PIECE 4096     /* entries of a vector that one thread takes at a time */
#define FEW_CELLS 8192 /* of tables inside others: less work than a step of their own costs */

typedef enum { INFER, ADOPT, MOVE, NORMALISE } pass_kind;

/* The loops of a pass. Upward, from COPY to RESCALE for all tables that take no messages, then for each stage
 * from INSIDE to DELIVER. Downward a step has all of DOWN, GATHER and FOLDS that can be done by then. */
enum { BEGIN, CLEAR, COPY, INSIDE, RATIOS, RESCALE, UP, DELIVER, DOWN };

/* The list of a loop on the way up; stage n_stages: what takes no messages. */
static fdp_run run_of(const fdp_tree *tree, int64_t number, int64_t loop) {
    const int early = number == tree->n_stages;
    const fdp_stage *stage = tree->stages + number;
    switch (loop) {
    case CLEAR:
        return (fdp_run){0, (tree->shared + PIECE - 1) / PIECE};
    case COPY:
        return (fdp_run){0, tree->n_copies};
    case INSIDE:
        return early ? (fdp_run){0, tree->n_hosted} : stage->hosted;
    case UP:
        return stage->up;
    case DELIVER:
        return stage->deliveries;
    default:
        return early ? (fdp_run){0, tree->n_early} : stage->ratios;
    }
}

/* Whether a pass of that kind has the loop. */
static int takes_part(pass_kind kind, int64_t loop) {
    if (loop == CLEAR) return kind == ADOPT;
    if (loop == RESCALE) return kind == MOVE;
    return loop == UP || kind == INFER || kind == MOVE;
}

/* Sums that each lane has of its own for a link; 0 where no two lanes write the same cells. */
static int64_t own_sums(const fdp_node *node, int64_t link) {
    return node->links[link].shared && node->lanes > 1 ? node->links[link].size : 0;
}

/* Cells of the larger table that a fold walks over. */
static int64_t fold_cells(const fdp_fold *fold) {
    int64_t cells = 1;
    for (int d = 0; d < fold->link.nd; d++) cells *= fold->link.n[d];
    return cells;
}

/* Cells of tables inside the hosted ones of a run that have tables inside themselves. */
static int64_t cells_inside(const fdp_tree *tree, fdp_run run, int late) {
    int64_t cells = 0;
    for (int64_t i = run.first; i < run.first + run.count; i++)
        for (int64_t f = 0; f < tree->hosted[i].n_folds && tree->hosted[i].late == late; f++) {
            const fdp_fold *fold = tree->folds + tree->hosted[i].first_fold + f;
            cells += fold->host_at != tree->hosted[i].at ? fold_cells(fold) : 0;
        }
    return cells;
}

/* The part of the kernels that does not depend on REAL is declared before, defined after them. */
static void folds_inside(const fdp_tree *tree, const fdp_hosted *hosted, const double *change, double *up);
static void fold_some(const fdp_fold *fold, int64_t from, int64_t to, const double *change, double *up);
static void folds_down(const fdp_tree *tree, const fdp_piece *piece, double *m);

/* to += from, entry by entry. */
FDP_CLONES static void add_to(int64_t n, const double *restrict from, double *restrict to) {
    for (int64_t i = 0; i < n; i++) to[i] += from[i];
}

/* Some cells of a link that several lanes wrote: their buffers, added in lane order. */
static void gather_lanes(const fdp_tree *tree, const fdp_piece *piece, const double *buffer, double *m) {
    const fdp_node *node = tree->nodes + piece->first;
    int64_t offset = node->buffer_at;
    for (int64_t l = 0; l < piece->last; l++) offset += own_sums(node, l);
    double *dst = m + node->links[piece->last].at;
    for (int lane = 0; lane < node->lanes; lane++, offset += node->lane_buffer)
        add_to(piece->to - piece->from, buffer + offset + piece->from, dst + piece->from);
}

/* Messages of some nodes to some cells of the separator that they have in common, in node order. */
static void deliver(const fdp_tree *tree, const fdp_piece *piece, const double *message, double *up) {
    for (int64_t i = piece->first; i < piece->last; i++) {
        const fdp_node *node = tree->nodes + i;
        add_to(piece->to - piece->from, message + node->row_at + piece->from,
               up + node->separator + piece->from);
    }
}

/* The roots' messages add up to log Z. */
static int arrive_at_roots(const fdp_tree *tree, const double *message, double *log_z) {
    const fdp_run roots = tree->stages[0].nodes;
    for (int64_t i = roots.first; i < roots.first + roots.count; i++) {
        const double mass = message[tree->nodes[i].row_at];
        if (!(mass > 0.1 * IMPOSSIBLE)) return FDP_ERR_IMPOSSIBLE;
        *log_z += mass;
    }
    return FDP_OK;
}

/* out[r] = mass[r] / rowsum[r], 0 for an empty row */
FDP_CLONES static void shares(int64_t n, const double *restrict mass, const double *restrict rowsum,
                              double *restrict out) {
    for (int64_t r = 0; r < n; r++) {
        const double safe = rowsum[r] > 0 ? rowsum[r] : 1;
        out[r] = rowsum[r] > 0 ? mass[r] / safe : 0;
    }
}

/* out[r] = log(rowsum[r] / mass[r]), 0 where either is 0. A mass below `least`, what a row of the smallest
 * cells holds, counts as that: those cells were raised when they were stored, which is no message to
 * anybody. */
FDP_CLONES static void log_shares(int64_t n, const double *restrict rowsum, const double *restrict mass,
                                  double least, double *restrict out) {
    for (int64_t r = 0; r < n; r++) {
        const int some = rowsum[r] > 0 && mass[r] > 0;
        const double before = mass[r] > least ? mass[r] : least;
        out[r] = fdp_log(some ? rowsum[r] / before : 1);
    }
}

/* Row kernels work in blocks of 64 bytes, made of PARTS vectors: of one on x86-64, where the compiler splits
 * it as the registers are; of four on ARM64, where gcc would keep anything longer than a NEON register in
 * memory. fdp_sum holds in doubles what the lanes of a vector of either kind add up to. */
#if defined(__aarch64__)
enum { VECTOR = 16, PARTS = 4 };
#else
enum { VECTOR = 64, PARTS = 1 };
#endif
typedef double fdp_sum __attribute__((vector_size(VECTOR), aligned(8), may_alias));
typedef float fdp_half_f32 __attribute__((vector_size(VECTOR / 2)));
typedef float fdp_whole_f32 __attribute__((vector_size(VECTOR), aligned(4), may_alias));

/* A vector of cells as doubles; two halves of floats are added. */
static inline __attribute__((always_inline)) fdp_sum fdp_widen_f64(fdp_sum v) {
    return v;
}

static inline __attribute__((always_inline)) fdp_sum fdp_widen_f32(fdp_whole_f32 v) {
    union {
        fdp_whole_f32 whole;
        fdp_half_f32 half[2];
    } parts = {v};
    return __builtin_convertvector(parts.half[0], fdp_sum) + __builtin_convertvector(parts.half[1], fdp_sum);
}

/* What the lanes of all parts add up to, in the same order on all machines (float64). */
#if defined(__aarch64__)
static inline __attribute__((always_inline)) double across(const fdp_sum *v) {
    const fdp_sum two = (v[0] + v[2]) + (v[1] + v[3]);
    return two[0] + two[1];
}

static inline __attribute__((always_inline)) double fdp_across_f32(const fdp_whole_f32 *v) {
    const fdp_whole_f32 four = (v[0] + v[1]) + (v[2] + v[3]);
    return (four[0] + four[2]) + (four[1] + four[3]);
}
#else
static inline __attribute__((always_inline)) double across(const fdp_sum *v) {
    typedef double four_doubles __attribute__((vector_size(32)));
    union {
        fdp_sum whole;
        four_doubles half[2];
    } parts = {v[0]};
    const four_doubles four = parts.half[0] + parts.half[1];
    return (four[0] + four[2]) + (four[1] + four[3]);
}

static inline __attribute__((always_inline)) double fdp_across_f32(const fdp_whole_f32 *v) {
    typedef float quarter __attribute__((vector_size(16)));
    union {
        fdp_whole_f32 whole;
        quarter part[4];
    } parts = {v[0]};
    const quarter four = (parts.part[0] + parts.part[1]) + (parts.part[2] + parts.part[3]);
    return (four[0] + four[2]) + (four[1] + four[3]);
}
#endif

static inline __attribute__((always_inline)) double fdp_across_f64(const fdp_sum *v) {
    return across(v);
}

/* TINY: where a cell that is not zero ends; FAR: the longest step, in nats, that cannot leave the number
 * format. */
/* The same kernels for tables of doubles and of floats. */
#define REAL double
#define EXP fdp_exp
#define TINY 1e-280
#define FAR 600
#define NAME(x) fdp_##x##_f64
#include "infer_tile.h"

#include "infer_pass.h"
#undef REAL
#undef EXP
#undef TINY
#undef FAR
#undef NAME
#define REAL float
#define EXP fdp_expf
#define TINY 1e-30f
#define FAR 50
#define NAME(x) fdp_##x##_f32
#include "infer_tile.h"

#include "infer_pass.h"
#undef REAL
#undef EXP
#undef TINY
#undef FAR
#undef NAME

/* m of a hosted table from the larger hosted table it lies in. One of several parts: along the first
 * dimension, which both have. */
static void fold_down(const fdp_fold *fold, int64_t part, int64_t parts, double *m) {
    const double one = 1;
    const int64_t all = fold_cells(fold), cells = all / parts, size = fold->link.size / parts;
    fdp_link link = fold->link;
    if (parts > 1) link.n[0] /= parts;
    double *to = m + link.at + part * size;
    memset(to, 0, (size_t)size * sizeof(double));
    fdp_tile_project_f64(1, cells, m + fold->host_at + part * cells, &one, &link, NULL, to);
}

/* Marginals of all tables inside a hosted table, the largest first: each is a projection of its host. */
static void folds_down(const fdp_tree *tree, const fdp_piece *piece, double *m) {
    const fdp_hosted *hosted = tree->hosted + piece->first;
    for (int64_t f = hosted->n_folds - 1; f >= 0; f--)
        fold_down(tree->folds + hosted->first_fold + f, piece->from, piece->last, m);
}

/* Adds potentials of the innermost tables to the tables between them and the hosted table. */
static void folds_inside(const fdp_tree *tree, const fdp_hosted *hosted, const double *change, double *up) {
    for (int64_t f = hosted->first_fold; f < hosted->first_fold + hosted->n_folds; f++)
        if (tree->folds[f].host_at != hosted->at)
            fold_some(tree->folds + f, 0, fold_cells(tree->folds + f), change, up);
}

/* One fold for cells [from, to) of the larger table. */
static void fold_some(const fdp_fold *fold, int64_t from, int64_t to, const double *change, double *up) {
    const fdp_link *link = &fold->link;
    const double *own = (link->shared ? up : change) + link->at;
    const int last = link->nd - 1;
    const int64_t inner = last >= 0 ? link->n[last] : 1, step = last >= 0 ? link->ts[last] : 0;
    /* The place of cell `from`: its code along each dimension, and the offset in the smaller table. */
    int64_t at[FDP_MAX_DIMS], far = 0, rest = from / inner;
    for (int d = last - 1; d >= 0; d--) {
        at[d] = rest % link->n[d];
        rest /= link->n[d];
        far += at[d] * link->ts[d];
    }
    for (int64_t run = from - from % inner; run < to; run += inner) {
        const double *s = own + far;
        double *b = up + fold->host_at + run;
        const int64_t first = FDP_MAX(from - run, 0), end = FDP_MIN(to - run, inner);
        /* A run along the last dimension, which the smaller table has (step 1) or not (step 0). */
        if (step)
            for (int64_t i = first; i < end; i++) b[i] += s[i];
        else
            for (int64_t i = first; i < end; i++) b[i] += s[0];
        /* On to the next run: an odometer over the other dimensions. */
        for (int d = last - 1; d >= 0; d--) {
            far += link->ts[d];
            if (++at[d] < link->n[d]) break;
            far -= link->ts[d] * link->n[d];
            at[d] = 0;
        }
    }
}

/* Vector kernels: chunks of fixed length, partial sums added in chunk order (same result for any threads). */
#define CHUNK 16384
#define MAX_CHUNKS 1024
#define ENTRIES_A_CELL 4 /* entries of a vector that are as much work as a cell of a table */

/* Entries of a chunk: CHUNK, or more where that would make more than MAX_CHUNKS. */
static int64_t chunk_of(int64_t n) {
    const int64_t least = (n + MAX_CHUNKS - 1) / MAX_CHUNKS;
    return least > CHUNK ? least : CHUNK;
}

/* One operation on vectors: its kernel, inputs, output, and what each chunk adds to the sums. */
typedef struct vector_job {
    void (*kernel)(const struct vector_job *job, int64_t n, int64_t at, double *part, double *second);
    int64_t n, chunk, chunks;
    double a, b;
    const double *in[5];
    const float *in32;
    void *out;
    double *part, *second; /* [chunks] */
} vector_job;

/* Chunk c of a vector operation. */
static void vector_piece(void *ctx, int64_t kind, int64_t c) {
    (void)kind;
    vector_job *job = ctx;
    const int64_t at = c * job->chunk;
    job->kernel(job, FDP_MIN(job->chunk, job->n - at), at, job->part + c, job->second + c);
}

/* The sum of the chunks' first numbers; of their second ones in *second where asked. */
static double vector_run(vector_job *job, fdp_team *team, double *second) {
    double parts[MAX_CHUNKS], seconds[MAX_CHUNKS];
    job->part = parts, job->second = seconds;
    job->chunk = chunk_of(job->n);
    job->chunks = (job->n + job->chunk - 1) / job->chunk;
    memset(job->part, 0, (size_t)job->chunks * sizeof *job->part);
    fdp_team_each(team, fdp_team_worth(team, job->n / ENTRIES_A_CELL), FDP_TEAM_BLOCK, job->chunks,
                  vector_piece, job);
    double sum = 0;
    for (int64_t c = 0; c < job->chunks; c++) sum += job->part[c];
    if (second) *second = 0;
    for (int64_t c = 0; second && c < job->chunks; c++) *second += job->second[c];
    return sum;
}

/* out = -w (a dx + b dz): a step against the gradient, in potentials. */
FDP_CLONES static void step_loop(int64_t n, double a, double b, const double *restrict dx,
                                 const double *restrict dz, const double *restrict w, double *restrict out) {
    for (int64_t i = 0; i < n; i++) out[i] = -w[i] * (a * dx[i] + b * dz[i]);
}

static void step_kernel(const vector_job *job, int64_t n, int64_t at, double *part, double *second) {
    (void)part, (void)second;
    step_loop(n, job->a, job->b, job->in[0] + at, job->in[1] + at, job->in[2] + at, (double *)job->out + at);
}

int fdp_step(int64_t n, double a, const double *dx, double b, const double *dz, const double *w,
             fdp_team *team, double *out) {
    vector_job job = {.kernel = step_kernel, .n = n, .a = a, .b = b, .in = {dx, dz, w}, .out = out};
    vector_run(&job, team, NULL);
    return FDP_OK;
}

/* After a step: out = m - t, the new residuals. Returns half of delta times their change (the Bregman
 * distance); *second is half of the weighted squares of the change (the curvature). */
FDP_CLONES static double arrive_loop(int64_t n, const double *restrict m, const double *restrict t,
                                     const double *restrict dz, const double *restrict w,
                                     const double *restrict delta, double *restrict out, double *second) {
    double distance = 0, curvature = 0;
#pragma omp simd reduction(+ : distance, curvature)
    for (int64_t i = 0; i < n; i++) {
        const double fresh = m[i] - t[i], gap = fresh - dz[i];
        out[i] = fresh;
        distance += delta[i] * gap;
        curvature += w[i] * gap * gap;
    }
    *second = 0.5 * curvature;
    return 0.5 * distance;
}

static void arrive_kernel(const vector_job *job, int64_t n, int64_t at, double *part, double *second) {
    *part = arrive_loop(n, job->in[0] + at, job->in[1] + at, job->in[2] + at, job->in[3] + at,
                        job->in[4] + at, (double *)job->out + at, second);
}

int fdp_arrive(int64_t n, const double *m, const double *t, const double *dz, const double *w,
               const double *delta, fdp_team *team, double *out, double *distance, double *curvature) {
    vector_job job = {.kernel = arrive_kernel, .n = n, .in = {m, t, dz, w, delta}, .out = out};
    *distance = vector_run(&job, team, curvature);
    return FDP_OK;
}

/* d = a new + (1 - a) d, residuals of an average; returns its loss, half of the weighted squares. */
FDP_CLONES static double blend_loop(int64_t n, double a, const double *restrict new, const double *restrict w,
                                    double *restrict d) {
    double loss = 0;
    const double b = 1 - a;
#pragma omp simd reduction(+ : loss)
    for (int64_t i = 0; i < n; i++) {
        d[i] = a * new[i] + b * d[i];
        loss += w[i] * d[i] * d[i];
    }
    return 0.5 * loss;
}

static void blend_kernel(const vector_job *job, int64_t n, int64_t at, double *part, double *second) {
    (void)second;
    *part = blend_loop(n, job->a, job->in[0] + at, job->in[1] + at, (double *)job->out + at);
}

int fdp_blend(int64_t n, double a, const double *new, const double *w, fdp_team *team, double *d,
              double *loss) {
    vector_job job = {.kernel = blend_kernel, .n = n, .a = a, .in = {new, w}, .out = d};
    *loss = vector_run(&job, team, NULL);
    return FDP_OK;
}

/* y = a x + (1 - a) y: the average of two tables. */
FDP_CLONES static void average_loop_f64(int64_t n, double a, const double *restrict x, double *restrict y) {
    for (int64_t i = 0; i < n; i++) y[i] = a * x[i] + (1 - a) * y[i];
}

FDP_CLONES static void average_loop_f32(int64_t n, float a, const float *restrict x, float *restrict y) {
    for (int64_t i = 0; i < n; i++) y[i] = a * x[i] + (1 - a) * y[i];
}

static void average_kernel_f64(const vector_job *job, int64_t n, int64_t at, double *part, double *second) {
    (void)part, (void)second;
    average_loop_f64(n, job->a, job->in[0] + at, (double *)job->out + at);
}

static void average_kernel_f32(const vector_job *job, int64_t n, int64_t at, double *part, double *second) {
    (void)part, (void)second;
    average_loop_f32(n, (float)job->a, job->in32 + at, (float *)job->out + at);
}

int fdp_average_f64(int64_t n, double a, const double *x, fdp_team *team, double *y) {
    vector_job job = {.kernel = average_kernel_f64, .n = n, .a = a, .in = {x}, .out = y};
    vector_run(&job, team, NULL);
    return FDP_OK;
}

int fdp_average_f32(int64_t n, double a, const float *x, fdp_team *team, float *y) {
    vector_job job = {.kernel = average_kernel_f32, .n = n, .a = a, .in32 = x, .out = y};
    vector_run(&job, team, NULL);
    return FDP_OK;
}
