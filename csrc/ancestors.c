/* The approximate inverse of ancestors.h: which entries its rows have, and their values. An example:
 * cell (a, b) of a pair of columns has the ancestors a and b, so its row has three entries. With a block
 * of covariances H of (a, b, ab) and its Cholesky factor C, the row is the last one of C^-1: it solves
 * C' row = (0, 0, 1)'. */
#include "ancestors.h"
#include "ancestors_rows.h"

#include <math.h>

#define FDP_ANCESTORS_CHUNK 256  /* rows that a thread takes at a time; no result depends on it */
#define FDP_ANCESTORS_FEW 64     /* rows of the matrix that a thread fills at a time, some 10 us */
#define ENTRIES_CELLS 4          /* an entry is as much work as so many cells: x is read here and there */
#define FDP_ANCESTORS_FLOOR 1e-9 /* least count, in rows, and least pivot relative to its diagonal */

/* Part b + 1 of a cell is an entry of its row if it is measured; what is left of a cell is an entry of
 * its own. Without `column` the entries are only counted, so that the caller can make room. */
void fdp_ancestors_rows(int64_t rows, int64_t cells, const int64_t *number, const int64_t *begin,
                        const int64_t *width, const int64_t *place, int64_t *first, int32_t *column,
                        uint8_t *mask) {
    int64_t entry = 0;
    for (int64_t i = 0; i < rows; i++) {
        first[i] = entry;
        for (int64_t b = 0; b < width[i]; b++) {
            const int64_t found = number[place[begin[i] + b]];
            if (found < 0) continue;
            if (column) column[entry] = (int32_t)found, mask[entry] = (uint8_t)(b + 1);
            entry++;
        }
        if (i < cells) continue;
        if (column) column[entry] = (int32_t)i, mask[entry] = 0;
        entry++;
    }
    first[rows] = entry;
}

/* A counting sort of the entries by column. Walking backwards keeps the rows of each column in order. */
void fdp_ancestors_turn(int64_t rows, const int64_t *first, const int32_t *column, int64_t *t_first,
                        int64_t *at, int32_t *row) {
    for (int64_t i = 0; i <= rows; i++) t_first[i] = 0;
    /* Entries of each column, then where each column ends; the loop below moves the ends to the
     * beginnings. */
    for (int64_t e = 0; e < first[rows]; e++) t_first[column[e]]++;
    int64_t end = 0;
    for (int64_t i = 0; i <= rows; i++) end += t_first[i], t_first[i] = end;
    for (int64_t i = rows - 1; i >= 0; i--) {
        for (int64_t e = first[i + 1] - 1; e >= first[i]; e--) {
            const int64_t to = --t_first[column[e]];
            at[to] = e;
            row[to] = (int32_t)i;
        }
    }
}

typedef struct {
    const fdp_ancestors_shape *shape;
    const double *m, *f, *variance;
    double time, total;
    double *values;
} fill_job;

/* Row i of L: the last row of the inverse of its block's Cholesky factor. */
static void fill_row(const fill_job *job, int64_t i) {
    const fdp_ancestors_shape *s = job->shape;
    const int64_t from = s->first[i];
    const int n = (int)(s->first[i + 1] - from);
    double block[FDP_ANCESTORS_MOST][FDP_ANCESTORS_MOST], count[FDP_ANCESTORS_MOST];
    /* The block: covariances of counts of a multinomial, n p (1 - p) on the diagonal and joint count
     * minus product of counts over total elsewhere; noise adds to the diagonal. Cells that fix the axes
     * of two parts together fix the union of their axes. */
    const int64_t *place = s->place + s->parts[i] - 1;
    for (int a = 0; a < n; a++) {
        const int own = s->mask[from + a];
        count[a] = fmax(own ? job->m[place[own]] : job->f[i], FDP_ANCESTORS_FLOOR);
        for (int b = 0; b < a; b++) {
            const int other = s->mask[from + b];
            /* what is left of a cell lies inside all of the cell's parts */
            const double both = own ? fmax(job->m[place[own | other]], 0) : count[a];
            block[a][b] = both - count[a] * count[b] / job->total;
        }
        block[a][a] = count[a] * fmax(1 - count[a] / job->total, 0) + FDP_ANCESTORS_FLOOR * count[a] +
                      job->variance[s->column[from + a]] / job->time;
    }
    /* Cholesky in place, row by row. Pivots have a floor: nested cells with equal counts make a singular
     * block. */
    for (int a = 0; a < n; a++) {
        for (int b = 0; b < a; b++) {
            double x = block[a][b];
            for (int c = 0; c < b; c++) x -= block[a][c] * block[b][c];
            block[a][b] = x / block[b][b];
        }
        double x = block[a][a];
        for (int c = 0; c < a; c++) x -= block[a][c] * block[a][c];
        block[a][a] = sqrt(fmax(x, FDP_ANCESTORS_FLOOR * block[a][a]));
    }
    /* Solve (transposed factor) out = last unit vector, from the last entry to the first. */
    double *out = job->values + from;
    for (int a = n - 1; a >= 0; a--) {
        double x = a == n - 1 ? 1 : 0;
        for (int b = a + 1; b < n; b++) x -= block[b][a] * out[b];
        out[a] = x / block[a][a];
    }
}

/* Rows of one piece of work. */
static void fill_some(void *ctx, int64_t kind, int64_t piece) {
    (void)kind;
    fill_job *job = ctx;
    const int64_t from = piece * FDP_ANCESTORS_FEW, to = FDP_MIN(from + FDP_ANCESTORS_FEW, job->shape->rows);
    for (int64_t i = from; i < to; i++) fill_row(job, i);
}

int fdp_ancestors_fill(const fdp_ancestors_shape *shape, const double *m, const double *f,
                       const double *variance, double time, double total, fdp_team *team, double *values) {
    for (int64_t i = 0; i < shape->rows; i++) {
        const int64_t n = shape->first[i + 1] - shape->first[i];
        if (n < 1 || n > FDP_ANCESTORS_MOST) return FDP_ERR_ARGUMENT;
    }
    fill_job job = {shape, m, f, variance, time, total, values};
    fdp_team_each(team, shape->rows > 8 * FDP_ANCESTORS_CHUNK ? team->most : 1, FDP_TEAM_BLOCK,
                  (shape->rows + FDP_ANCESTORS_FEW - 1) / FDP_ANCESTORS_FEW, fill_some, &job);
    return FDP_OK;
}

typedef struct {
    const fdp_sparse_rows *matrix;
    const double *x;
    double *out;
} product_job;

/* Rows of one piece of the product. */
static void product_some(void *ctx, int64_t kind, int64_t piece) {
    (void)kind;
    product_job *job = ctx;
    const int64_t from = piece * FDP_ANCESTORS_CHUNK;
    const int64_t to = FDP_MIN(from + FDP_ANCESTORS_CHUNK, job->matrix->rows);
    fdp_sparse_some(job->matrix, from, to, job->x, job->out);
}

int fdp_sparse_product(const fdp_sparse_rows *matrix, const double *x, fdp_team *team, double *out) {
    product_job job = {matrix, x, out};
    fdp_team_each(team, fdp_team_worth(team, ENTRIES_CELLS * matrix->first[matrix->rows]), FDP_TEAM_BLOCK,
                  (matrix->rows + FDP_ANCESTORS_CHUNK - 1) / FDP_ANCESTORS_CHUNK, product_some, &job);
    return FDP_OK;
}
