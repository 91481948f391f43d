/* See tables.h. */
#include "tables.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "infer_exp.h"

#define CELLS 8192 /* of a block, at least */

/* What a block needs of a call; each uses some of it. Work is cut into blocks of rows: sizes alone decide
 * where, so results are the same for any number of threads. */
typedef struct {
    int axes;
    const int64_t *shape, *stride;
    int64_t rows, cols, step; /* rows of a block */
    const double *a, *b, *sigmas;
    double sigma, least;
    double *out, *by_row, *room;
    double part[FDP_TABLES_BLOCKS];
} job;

/* `most`: blocks, at most; 0: as many as there are. */
static void cut(job *t, int64_t rows, int64_t cols, int64_t most) {
    t->rows = rows, t->cols = cols;
    t->step = FDP_MAX(1, CELLS / FDP_MAX(1, cols));
    if (most) t->step = FDP_MAX(t->step, (rows + most - 1) / most);
}

/* Rows [from, to) of block i. */
#define ROWS_OF(t, i) \
    const int64_t from = (i) * (t)->step, to = FDP_MIN(from + (t)->step, (t)->rows); \
    (void)kind

/* All blocks, by as many threads as the work is worth. */
static void run(fdp_team *team, fdp_team_piece piece, job *t) {
    fdp_team_each(team, fdp_team_worth(team, t->rows * t->cols), FDP_TEAM_BLOCK,
                  (t->rows + t->step - 1) / t->step, piece, t);
}

typedef struct {
    char *from, *to, *first; /* `first`: where the large page with `from` in it begins */
} pages;

/* Bytes of a large page, and of a small one. */
#define LARGE ((int64_t)1 << 21)
#define SMALL 4096

/* Writes to each small page of large page i that lies in the memory asked for. */
static void touch_page(void *ctx, int64_t kind, int64_t i) {
    (void)kind;
    const pages *t = ctx;
    char *end = t->first + (i + 1) * LARGE;
    for (volatile char *at = FDP_MAX(t->from, t->first + i * LARGE); at < FDP_MIN(end, t->to); at += SMALL)
        *at = 0;
}

int fdp_tables_touch(int64_t bytes, char *out, fdp_team *team) {
    pages t = {out, out + bytes, out - (intptr_t)((uintptr_t)out % (uintptr_t)LARGE)};
    const int64_t n = (t.to - t.first + LARGE - 1) / LARGE;
    fdp_team_each(team, fdp_team_worth(team, bytes / 8), FDP_TEAM_SPREAD, n, touch_page, &t);
    return FDP_OK;
}

/* Rows of the copy: an odometer over all axes but the last, which is copied in one go. */
static void copy_rows(const job *t, int64_t from, int64_t to) {
    const int lead = t->axes - 1;
    const int64_t n = t->cols, step = t->stride[lead];
    /* Where row `from` begins: its place on each axis, the last axis first. */
    int64_t at[FDP_TABLES_AXES], offset = 0, rest = from;
    for (int d = lead - 1; d >= 0; d--) {
        at[d] = rest % t->shape[d];
        rest /= t->shape[d];
        offset += at[d] * t->stride[d];
    }
    double *out = t->out + from * n;
    for (int64_t row = from; row < to; row++, out += n) {
        const double *in = t->a + offset;
        if (step == 1)
            memcpy(out, in, (size_t)n * sizeof *out);
        else
            for (int64_t j = 0; j < n; j++) out[j] = in[j * step];
        /* The next row: one step on the last leading axis, with a carry to those before it. */
        for (int d = lead - 1; d >= 0; d--) {
            offset += t->stride[d];
            if (++at[d] < t->shape[d]) break;
            offset -= t->shape[d] * t->stride[d];
            at[d] = 0;
        }
    }
}

static void copy_block(void *ctx, int64_t kind, int64_t i) {
    job *t = ctx;
    ROWS_OF(t, i);
    copy_rows(t, from, to);
}

int fdp_tables_copy(int axes, const int64_t *shape, const int64_t *stride, const double *in, fdp_team *team,
                    double *out) {
    if (axes < 1 || axes > FDP_TABLES_AXES) return FDP_ERR_ARGUMENT;
    job t = {.axes = axes, .shape = shape, .stride = stride, .a = in, .out = out};
    int64_t rows = 1;
    for (int d = 0; d < axes - 1; d++) rows *= shape[d];
    cut(&t, rows, shape[axes - 1], 0);
    run(team, copy_block, &t);
    return FDP_OK;
}

/* out[i, j] = a[i] b[j] for the rows of one block. */
FDP_CLONES static void outer_rows(int64_t rows, int64_t n, const double *restrict a, const double *restrict b,
                                  double *restrict out) {
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < n; j++) out[i * n + j] = a[i] * b[j];
}

static void outer_block(void *ctx, int64_t kind, int64_t i) {
    job *t = ctx;
    ROWS_OF(t, i);
    outer_rows(to - from, t->cols, t->a + from, t->b, t->out + from * t->cols);
}

int fdp_tables_outer(int64_t rows, int64_t cols, const double *a, const double *b, fdp_team *team,
                     double *out) {
    job t = {.a = a, .b = b, .out = out};
    cut(&t, rows, cols, 0);
    run(team, outer_block, &t);
    return FDP_OK;
}

/* The largest |x|; numbers are counted, as comparisons with NaN are false and would lose it. */
FDP_CLONES static double farthest_of(int64_t n, const double *restrict x) {
    double most = 0, numbers = 0;
#pragma omp simd reduction(max : most) reduction(+ : numbers)
    for (int64_t j = 0; j < n; j++) {
        const double size = fabs(x[j]);
        most = size > most ? size : most;
        numbers += size <= DBL_MAX ? 1.0 : 0.0;
    }
    return numbers < (double)n ? INFINITY : most;
}

static void farthest_block(void *ctx, int64_t kind, int64_t i) {
    job *t = ctx;
    ROWS_OF(t, i);
    t->part[i] = farthest_of(to - from, t->a + from);
}

int fdp_tables_farthest(int64_t n, const double *x, fdp_team *team, double *most) {
    job t = {.a = x};
    cut(&t, n, 1, FDP_TABLES_BLOCKS);
    run(team, farthest_block, &t);
    *most = 0;
    for (int64_t i = 0; i * t.step < n; i++) *most = FDP_MAX(*most, t.part[i]);
    return FDP_OK;
}

/* Sum of squared deviations; one division for all where sigma is the same. */
FDP_CLONES static double squares_of(int64_t n, const double *restrict x, const double *restrict y,
                                    const double *restrict sigmas, double sigma) {
    double sum = 0;
    if (sigmas) {
#pragma omp simd reduction(+ : sum)
        for (int64_t j = 0; j < n; j++) {
            const double gap = (x[j] - y[j]) / sigmas[j];
            sum += gap * gap;
        }
    } else {
        const double over = 1 / sigma;
#pragma omp simd reduction(+ : sum)
        for (int64_t j = 0; j < n; j++) {
            const double gap = (x[j] - y[j]) * over;
            sum += gap * gap;
        }
    }
    return sum;
}

static void squares_block(void *ctx, int64_t kind, int64_t i) {
    job *t = ctx;
    ROWS_OF(t, i);
    t->part[i] =
        squares_of(to - from, t->a + from, t->b + from, t->sigmas ? t->sigmas + from : NULL, t->sigma);
}

/* The parts of all blocks, added in their order. */
static double added(const job *t) {
    double sum = 0;
    for (int64_t i = 0; i * t->step < t->rows; i++) sum += t->part[i];
    return sum;
}

int fdp_tables_squares(int64_t n, const double *x, const double *y, const double *sigmas, double sigma,
                       fdp_team *team, double *sum) {
    job t = {.a = x, .b = y, .sigmas = sigmas, .sigma = sigma};
    cut(&t, n, 1, FDP_TABLES_BLOCKS);
    run(team, squares_block, &t);
    *sum = added(&t);
    return FDP_OK;
}

/* Sums of a block by row and by column. With `least` above 0 also the sum of x log x, with the logarithm of
 * smaller x taken at `least`; the loop over columns is then separate, so that both are vectorised. */
FDP_CLONES static double sum_rows(int64_t rows, int64_t n, const double *restrict table, double least,
                                  double *restrict by_row, double *restrict by_col) {
    double logs = 0;
    for (int64_t i = 0; i < rows; i++, table += n) {
        double sum = 0, part = 0;
        if (!(least > 0)) {
#pragma omp simd reduction(+ : sum)
            for (int64_t j = 0; j < n; j++) {
                sum += table[j];
                by_col[j] += table[j];
            }
            by_row[i] = sum;
            continue;
        }
#pragma omp simd reduction(+ : sum, part)
        for (int64_t j = 0; j < n; j++) {
            const double x = table[j];
            sum += x;
            part += x * fdp_log(x > least ? x : least);
        }
        for (int64_t j = 0; j < n; j++) by_col[j] += table[j];
        by_row[i] = sum;
        logs += part;
    }
    return logs;
}

static void sums_block(void *ctx, int64_t kind, int64_t i) {
    job *t = ctx;
    ROWS_OF(t, i);
    double *by_col = t->room + i * t->cols;
    memset(by_col, 0, (size_t)t->cols * sizeof *by_col);
    t->part[i] = sum_rows(to - from, t->cols, t->a + from * t->cols, t->least, t->by_row + from, by_col);
}

int fdp_tables_sums(int64_t rows, int64_t cols, const double *table, double least, fdp_team *team,
                    double *room, double *by_row, double *by_col, double *logs) {
    job t = {.a = table, .least = least, .room = room, .by_row = by_row};
    cut(&t, rows, cols, FDP_TABLES_BLOCKS);
    run(team, sums_block, &t);
    /* Each block has column sums of its own in `room`; they are added in the order of the blocks. */
    memset(by_col, 0, (size_t)cols * sizeof *by_col);
    for (int64_t i = 0; i * t.step < rows; i++)
        for (int64_t j = 0; j < cols; j++) by_col[j] += room[i * cols + j];
    *logs = added(&t);
    return FDP_OK;
}
