#include "infer.h"

#include <math.h>
#include <string.h>

#include "infer_exp.h"

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

int fdp_infer_f64(const fdp_tree *tree, const double *theta, double total, int threads, double *up, double *rowsum,
                  double *message, double *buffer, double *tables, double *m, double *log_z) {
    *log_z = 0;
    memcpy(up, theta, (size_t)tree->shared * sizeof(double));
    for (int64_t s = tree->n_stages - 1; s >= 0; s--) {
        fdp_pass_up_f64(tree, tree->stages + s, theta, threads, up, up, rowsum, message, tables);
        const int code = deliver(tree, tree->stages + s, message, up, log_z);
        if (code != FDP_OK)
            return code;
    }
    for (int64_t s = 0; s < tree->n_stages; s++)
        fdp_pass_down_f64(tree, tree->stages + s, total, threads, rowsum, buffer, tables, m);
    return FDP_OK;
}

int fdp_infer_f32(const fdp_tree *tree, const double *theta, double total, int threads, double *up, float *up32,
                  double *rowsum, double *message, double *buffer, float *tables, double *m, double *log_z) {
    *log_z = 0;
    memcpy(up, theta, (size_t)tree->shared * sizeof(double));
    for (int64_t s = tree->n_stages - 1; s >= 0; s--) {
        fdp_pass_up_f32(tree, tree->stages + s, theta, threads, up, up32, rowsum, message, tables);
        const int code = deliver(tree, tree->stages + s, message, up, log_z);
        if (code != FDP_OK)
            return code;
    }
    for (int64_t s = 0; s < tree->n_stages; s++)
        fdp_pass_down_f32(tree, tree->stages + s, total, threads, rowsum, buffer, tables, m);
    return FDP_OK;
}

/* Vector kernels: chunks of fixed length, partial sums added in chunk order (same result for any threads). */
#define CHUNK 16384
#define MAX_CHUNKS 1024

FDP_CLONES static double quadratic_chunk(int64_t n, const double *restrict m, const double *restrict w,
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

static int64_t chunk_of(int64_t n) {
    const int64_t least = (n + MAX_CHUNKS - 1) / MAX_CHUNKS;
    return least > CHUNK ? least : CHUNK;
}

int fdp_quadratic(int64_t n, const double *m, const double *w, const double *t, int threads, double *g, double *loss) {
    const int64_t chunk = chunk_of(n), chunks = (n + chunk - 1) / chunk;
    double part[MAX_CHUNKS];
#pragma omp parallel for num_threads(threads) schedule(static) if (chunks > 8)
    for (int64_t c = 0; c < chunks; c++) {
        const int64_t at = c * chunk;
        part[c] = quadratic_chunk(FDP_MIN(chunk, n - at), m + at, w + at, t + at, g + at);
    }
    *loss = 0;
    for (int64_t c = 0; c < chunks; c++)
        *loss += part[c];
    return FDP_OK;
}

FDP_CLONES static double form_chunk(int64_t n, const double *restrict d, const double *restrict w) {
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++)
        sum += w[i] * d[i] * d[i];
    return 0.5 * sum;
}

int fdp_form(int64_t n, const double *d, const double *w, int threads, double *value) {
    const int64_t chunk = chunk_of(n), chunks = (n + chunk - 1) / chunk;
    double part[MAX_CHUNKS];
#pragma omp parallel for num_threads(threads) schedule(static) if (chunks > 8)
    for (int64_t c = 0; c < chunks; c++)
        part[c] = form_chunk(FDP_MIN(chunk, n - c * chunk), d + c * chunk, w + c * chunk);
    *value = 0;
    for (int64_t c = 0; c < chunks; c++)
        *value += part[c];
    return FDP_OK;
}

FDP_CLONES static void axpby_chunk_f64(int64_t n, double a, const double *restrict x, double b, double *restrict y) {
    for (int64_t i = 0; i < n; i++)
        y[i] = a * x[i] + b * y[i];
}

FDP_CLONES static void axpby_chunk_f32(int64_t n, float a, const float *restrict x, float b, float *restrict y) {
    for (int64_t i = 0; i < n; i++)
        y[i] = a * x[i] + b * y[i];
}

int fdp_axpby_f64(int64_t n, double a, const double *x, double b, int threads, double *y) {
    const int64_t chunk = chunk_of(n), chunks = (n + chunk - 1) / chunk;
#pragma omp parallel for num_threads(threads) schedule(static) if (chunks > 8)
    for (int64_t c = 0; c < chunks; c++)
        axpby_chunk_f64(FDP_MIN(chunk, n - c * chunk), a, x + c * chunk, b, y + c * chunk);
    return FDP_OK;
}

int fdp_axpby_f32(int64_t n, double a, const float *x, double b, int threads, float *y) {
    const int64_t chunk = chunk_of(n), chunks = (n + chunk - 1) / chunk;
#pragma omp parallel for num_threads(threads) schedule(static) if (chunks > 8)
    for (int64_t c = 0; c < chunks; c++)
        axpby_chunk_f32(FDP_MIN(chunk, n - c * chunk), (float)a, x + c * chunk, (float)b, y + c * chunk);
    return FDP_OK;
}

FDP_CLONES static void combine_chunk(int64_t n, double a, const double *restrict x, double b,
                                     const double *restrict y, double *restrict out) {
    for (int64_t i = 0; i < n; i++)
        out[i] = a * x[i] + b * y[i];
}

int fdp_combine(int64_t n, double a, const double *x, double b, const double *y, int threads, double *out) {
    const int64_t chunk = chunk_of(n), chunks = (n + chunk - 1) / chunk;
#pragma omp parallel for num_threads(threads) schedule(static) if (chunks > 8)
    for (int64_t c = 0; c < chunks; c++) {
        const int64_t at = c * chunk;
        combine_chunk(FDP_MIN(chunk, n - at), a, x + at, b, y + at, out + at);
    }
    return FDP_OK;
}

FDP_CLONES static double diff_dot_chunk(int64_t n, const double *restrict x, const double *restrict y,
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

int fdp_diff_dot(int64_t n, const double *x, const double *y, const double *z, int threads, double *dot, double *peak) {
    const int64_t chunk = chunk_of(n), chunks = (n + chunk - 1) / chunk;
    double part[MAX_CHUNKS], tops[MAX_CHUNKS];
#pragma omp parallel for num_threads(threads) schedule(static) if (chunks > 8)
    for (int64_t c = 0; c < chunks; c++) {
        const int64_t at = c * chunk;
        part[c] = diff_dot_chunk(FDP_MIN(chunk, n - at), x + at, y + at, z + at, tops + c);
    }
    *dot = *peak = 0;
    for (int64_t c = 0; c < chunks; c++) {
        *dot += part[c];
        *peak = FDP_MAX(*peak, tops[c]);
    }
    return FDP_OK;
}
