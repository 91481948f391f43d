#include "infer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "infer_exp.h"
#include "team.h"

#define IMPOSSIBLE (-1e30)

/* The part of the kernels that does not depend on REAL is declared before, defined after them. */
static void fold_up(const fdp_fold *fold, double *up);
static void fold_down(const fdp_fold *fold, double *m);

/* m of a link that several lanes wrote: their buffers, added in lane order. */
static void gather_lanes(const fdp_node *node, int64_t number, const double *buffer, double *m) {
    const fdp_link *link = node->links + number;
    if (!link->shared || node->lanes == 1)
        return;
    int64_t offset = node->buffer_at;
    for (int64_t l = 0; l < number; l++)
        offset += node->links[l].shared ? node->links[l].size : 0;
    double *dst = m + link->at;
    for (int lane = 0; lane < node->lanes; lane++, offset += node->lane_buffer)
        for (int64_t i = 0; i < link->size; i++)
            dst[i] += buffer[offset + i];
}

/* Messages of a stage's nodes to their separators, in node order; roots add to log Z. */
static int deliver(const fdp_tree *tree, const fdp_stage *stage, const double *message, double *up, double *log_z) {
    for (int64_t i = stage->first_node; i < stage->first_node + stage->n_nodes; i++) {
        const fdp_node *node = tree->nodes + i;
        const double *mine = message + node->row_at;
        if (node->separator < 0) {
            if (!(mine[0] > 0.1 * IMPOSSIBLE))
                return FDP_ERR_IMPOSSIBLE;
            *log_z += mine[0];
            continue;
        }
        double *separator = up + node->separator;
        for (int64_t j = 0; j < node->rows; j++)
            separator[j] += mine[j];
    }
    return FDP_OK;
}

#define REAL double
#define EXP fdp_exp
#define NAME(x) fdp_##x##_f64
#include "infer_tile.h"
#undef REAL
#undef EXP
#undef NAME
#define REAL float
#define EXP fdp_expf
#define NAME(x) fdp_##x##_f32
#include "infer_tile.h"
#undef REAL
#undef EXP
#undef NAME

static int64_t fold_cells(const fdp_fold *fold) {
    int64_t cells = 1;
    for (int d = 0; d < fold->link.nd; d++)
        cells *= fold->link.n[d];
    return cells;
}

/* m of a hosted table from the larger hosted table it lies in. */
static void fold_down(const fdp_fold *fold, double *m) {
    memset(m + fold->link.at, 0, (size_t)fold->link.size * sizeof(double));
    fdp_tile_project_f64(1, fold_cells(fold), m + fold->host_at, &fold->link, NULL, m + fold->link.at);
}

static void fold_up(const fdp_fold *fold, double *up) {
    fdp_tile_add_f64(1, fold_cells(fold), up + fold->link.at, &fold->link, NULL, up + fold->host_at);
}

int fdp_infer_f64(const fdp_tree *tree, const double *theta, double total, int threads, double *up, double *rowsum,
                  double *message, double *buffer, double weight, double *tables, double *average, double *m,
                  double *log_z) {
    return fdp_infer_any_f64(tree, theta, total, threads, up, up, rowsum, message, buffer, weight, tables, average, m,
                             log_z);
}

int fdp_infer_f32(const fdp_tree *tree, const double *theta, double total, int threads, double *up, float *up32,
                  double *rowsum, double *message, double *buffer, double weight, float *tables, float *average,
                  double *m, double *log_z) {
    return fdp_infer_any_f32(tree, theta, total, threads, up, up32, rowsum, message, buffer, weight, tables, average, m,
                             log_z);
}

/* Vector kernels: chunks of fixed length, partial sums added in chunk order (same result for any threads). */
#define CHUNK 16384
#define MAX_CHUNKS 1024
#define TEAM_CHUNKS 32 /* half a million entries: below, a team costs more than it brings */

static int64_t chunk_of(int64_t n) {
    const int64_t least = (n + MAX_CHUNKS - 1) / MAX_CHUNKS;
    return least > CHUNK ? least : CHUNK;
}

typedef struct vector_job {
    void (*kernel)(const struct vector_job *job, int64_t n, int64_t at, double *part, double *top);
    int64_t n, chunk, chunks;
    double a, b;
    const void *x, *y, *z;
    void *out;
    double part[MAX_CHUNKS], top[MAX_CHUNKS];
    atomic_llong next;
} vector_job;

static void vector_work(fdp_team *team, int number, void *ctx) {
    vector_job *job = ctx;
    (void)team, (void)number;
    for (int64_t c; (c = fdp_team_next(&job->next)) < job->chunks;) {
        const int64_t at = c * job->chunk;
        job->kernel(job, FDP_MIN(job->chunk, job->n - at), at, job->part + c, job->top + c);
    }
}

static double vector_run(vector_job *job, int threads) {
    job->chunk = chunk_of(job->n);
    job->chunks = (job->n + job->chunk - 1) / job->chunk;
    memset(job->part, 0, sizeof job->part);
    fdp_team_run(job->chunks >= TEAM_CHUNKS ? threads : 1, vector_work, job);
    double sum = 0;
    for (int64_t c = 0; c < job->chunks; c++)
        sum += job->part[c];
    return sum;
}

FDP_CLONES static double quadratic_loop(int64_t n, const double *restrict m, const double *restrict w,
                                        const double *restrict t, double *restrict g) {
    double loss = 0;
#pragma omp simd reduction(+ : loss)
    for (int64_t i = 0; i < n; i++) {
        const double gap = m[i] - t[i];
        g[i] = w[i] * gap;
        loss += g[i] * gap;
    }
    return 0.5 * loss;
}

static void quadratic_kernel(const vector_job *job, int64_t n, int64_t at, double *part, double *top) {
    (void)top;
    *part = quadratic_loop(n, (const double *)job->x + at, (const double *)job->y + at, (const double *)job->z + at,
                           (double *)job->out + at);
}

int fdp_quadratic(int64_t n, const double *m, const double *w, const double *t, int threads, double *g, double *loss) {
    vector_job job = {.kernel = quadratic_kernel, .n = n, .x = m, .y = w, .z = t, .out = g};
    *loss = vector_run(&job, threads);
    return FDP_OK;
}

FDP_CLONES static double form_loop(int64_t n, const double *restrict d, const double *restrict w) {
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++)
        sum += w[i] * d[i] * d[i];
    return 0.5 * sum;
}

static void form_kernel(const vector_job *job, int64_t n, int64_t at, double *part, double *top) {
    (void)top;
    *part = form_loop(n, (const double *)job->x + at, (const double *)job->y + at);
}

int fdp_form(int64_t n, const double *d, const double *w, int threads, double *value) {
    vector_job job = {.kernel = form_kernel, .n = n, .x = d, .y = w};
    *value = vector_run(&job, threads);
    return FDP_OK;
}

FDP_CLONES static void combine_loop_f64(int64_t n, double a, const double *x, double b, const double *y, double *out) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        out[i] = a * x[i] + b * y[i];
}

FDP_CLONES static void combine_loop_f32(int64_t n, float a, const float *x, float b, const float *y, float *out) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        out[i] = a * x[i] + b * y[i];
}

static void combine_kernel_f64(const vector_job *job, int64_t n, int64_t at, double *part, double *top) {
    (void)part, (void)top;
    combine_loop_f64(n, job->a, (const double *)job->x + at, job->b, (const double *)job->y + at,
                     (double *)job->out + at);
}

static void combine_kernel_f32(const vector_job *job, int64_t n, int64_t at, double *part, double *top) {
    (void)part, (void)top;
    combine_loop_f32(n, (float)job->a, (const float *)job->x + at, (float)job->b, (const float *)job->y + at,
                     (float *)job->out + at);
}

int fdp_combine(int64_t n, double a, const double *x, double b, const double *y, int threads, double *out) {
    vector_job job = {.kernel = combine_kernel_f64, .n = n, .a = a, .b = b, .x = x, .y = y, .out = out};
    vector_run(&job, threads);
    return FDP_OK;
}

int fdp_axpby_f64(int64_t n, double a, const double *x, double b, int threads, double *y) {
    return fdp_combine(n, a, x, b, y, threads, y);
}

int fdp_axpby_f32(int64_t n, double a, const float *x, double b, int threads, float *y) {
    vector_job job = {.kernel = combine_kernel_f32, .n = n, .a = a, .b = b, .x = x, .y = y, .out = y};
    vector_run(&job, threads);
    return FDP_OK;
}

FDP_CLONES static double diff_dot_loop(int64_t n, const double *restrict x, const double *restrict y,
                                       const double *restrict z, double *peak) {
    double sum = 0, top = 0;
#pragma omp simd reduction(+ : sum) reduction(max : top)
    for (int64_t i = 0; i < n; i++) {
        const double gap = x[i] - y[i], size = fabs(gap);
        sum += gap * z[i];
        top = size > top ? size : top;
    }
    *peak = top;
    return sum;
}

static void diff_dot_kernel(const vector_job *job, int64_t n, int64_t at, double *part, double *top) {
    *part = diff_dot_loop(n, (const double *)job->x + at, (const double *)job->y + at, (const double *)job->z + at, top);
}

int fdp_diff_dot(int64_t n, const double *x, const double *y, const double *z, int threads, double *dot, double *peak) {
    vector_job job = {.kernel = diff_dot_kernel, .n = n, .x = x, .y = y, .z = z};
    *dot = vector_run(&job, threads);
    *peak = 0;
    for (int64_t c = 0; c < job.chunks; c++)
        *peak = FDP_MAX(*peak, job.top[c]);
    return FDP_OK;
}
