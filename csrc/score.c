/* Why integers: with A and B rows in the two groups, the L1 distance of the normalised counts is
 * sum |a*B - b*A| / (A*B). One int64 table of a*B - b*A per pair of columns is therefore enough; every row of
 * the first table adds B, every row of the second subtracts A, and nothing is rounded before the last
 * division. */
#include "score.h"
#include "team.h"

#include <stdlib.h>
#include <string.h>

/* Rows in each group, where each group begins, then every row behind the ones of its group before it. */
int fdp_score_group_rows(const uint32_t *group, const uint8_t *const *columns, int64_t rows,
                         int32_t column_count, int64_t groups, int64_t *start, uint64_t *packed) {
    if (column_count < 1 || column_count > FDP_SCORE_COLUMNS) return FDP_ERR_ARGUMENT;
    int64_t *next = calloc((size_t)groups + 1, sizeof *next);
    if (next == NULL) return FDP_ERR_MEMORY;
    for (int64_t i = 0; i < rows; i++) next[group[i]]++;
    int64_t sum = 0;
    for (int64_t g = 0; g < groups; g++) {
        const int64_t count = next[g];
        start[g] = next[g] = sum;
        sum += count;
    }
    start[groups] = sum;
    for (int64_t i = 0; i < rows; i++) {
        uint64_t row = 0;
        for (int32_t c = 0; c < column_count; c++) row |= (uint64_t)columns[c][i] << (8 * c);
        packed[next[group[i]]++] = row;
    }
    free(next);
    return FDP_OK;
}

/* Where each pair's table begins; offset[pairs] is the number of cells of all. */
static int32_t lay_out(const int32_t *sizes, int32_t columns, int32_t *offset) {
    int32_t pair = 0, sum = 0;
    for (int32_t a = 0; a < columns; a++)
        for (int32_t b = a + 1; b < columns; b++) {
            offset[pair++] = sum;
            sum += sizes[a] * sizes[b];
        }
    offset[pair] = sum;
    return pair;
}

/* Inlined into callers that pass a constant number of columns, so that the loops over pairs unroll. */
static inline __attribute__((always_inline)) void add_rows_of(const uint64_t *packed, int64_t rows,
                                                              int64_t weight, const int32_t *sizes,
                                                              int32_t columns, const int32_t *offset,
                                                              int64_t *restrict cells) {
    for (int64_t i = 0; i < rows; i++) {
        const uint64_t row = packed[i];
        int32_t pair = 0;
#pragma GCC unroll 8
        for (int32_t a = 0; a < columns; a++) {
            const int32_t x = (int32_t)(row >> (8 * a)) & 255;
#pragma GCC unroll 8
            for (int32_t b = a + 1; b < columns; b++, pair++) {
                const int32_t y = (int32_t)(row >> (8 * b)) & 255;
                cells[offset[pair] + x * sizes[b] + y] += weight;
            }
        }
    }
}

/* Eight columns are the common case and get loops of constant length. */
static void add_rows(const uint64_t *packed, int64_t rows, int64_t weight, const int32_t *sizes,
                     int32_t columns, const int32_t *offset, int64_t *cells) {
    if (columns == FDP_SCORE_COLUMNS)
        add_rows_of(packed, rows, weight, sizes, FDP_SCORE_COLUMNS, offset, cells);
    else
        add_rows_of(packed, rows, weight, sizes, columns, offset, cells);
}

/* Small groups touch few cells: read and clear just those. */
static void take_rows(const uint64_t *packed, int64_t rows, const int32_t *sizes, int32_t columns,
                      const int32_t *offset, int64_t *cells, int64_t *sum) {
    for (int64_t i = 0; i < rows; i++) {
        const uint64_t row = packed[i];
        int32_t pair = 0;
        for (int32_t a = 0; a < columns; a++) {
            const int32_t x = (int32_t)(row >> (8 * a)) & 255;
            for (int32_t b = a + 1; b < columns; b++, pair++) {
                const int32_t y = (int32_t)(row >> (8 * b)) & 255;
                int64_t *cell = &cells[offset[pair] + x * sizes[b] + y];
                sum[pair] += llabs(*cell);
                *cell = 0;
            }
        }
    }
}

/* The sum of absolute values of a whole table, which is zeroed. */
FDP_CLONES static int64_t take_all(int64_t *cells, int32_t count) {
    int64_t sum = 0;
    for (int32_t i = 0; i < count; i++) {
        sum += cells[i] < 0 ? -cells[i] : cells[i];
        cells[i] = 0;
    }
    return sum;
}

#define GROUPS_AT_ONCE 8

typedef struct {
    const uint64_t *packed[2];
    const int64_t *start[2];
    int64_t groups;
    const int32_t *sizes;
    int32_t columns, pairs;
    int32_t offset[FDP_SCORE_COLUMNS * (FDP_SCORE_COLUMNS - 1) / 2 + 1];
    double *distance;
    atomic_llong next;
    atomic_int status;
} pairs_job;

/* Distances of one group's pairs; `cells` is all zero on entry and on return. */
static void score_group(const pairs_job *job, int64_t g, int64_t *cells) {
    const int32_t *sizes = job->sizes, *offset = job->offset, columns = job->columns, pairs = job->pairs;
    const uint64_t *a = job->packed[0] + job->start[0][g], *b = job->packed[1] + job->start[1][g];
    const int64_t rows_a = job->start[0][g + 1] - job->start[0][g],
                  rows_b = job->start[1][g + 1] - job->start[1][g];
    double *out = job->distance + g * pairs;
    if (rows_a == 0 || rows_b == 0) {
        for (int32_t p = 0; p < pairs; p++) out[p] = rows_a + rows_b ? 2.0 : 0.0;
        return;
    }
    /* Each cell becomes a*B - b*A. The sums are read from the rows' own cells or from all of them,
     * whichever are fewer. */
    const double scale = 1.0 / ((double)rows_a * (double)rows_b);
    add_rows(a, rows_a, rows_b, sizes, columns, offset, cells);
    add_rows(b, rows_b, -rows_a, sizes, columns, offset, cells);
    if ((rows_a + rows_b) * pairs < offset[pairs]) {
        int64_t sum[FDP_SCORE_COLUMNS * (FDP_SCORE_COLUMNS - 1) / 2] = {0};
        take_rows(a, rows_a, sizes, columns, offset, cells, sum);
        take_rows(b, rows_b, sizes, columns, offset, cells, sum);
        for (int32_t p = 0; p < pairs; p++) out[p] = (double)sum[p] * scale;
    } else {
        for (int32_t p = 0; p < pairs; p++)
            out[p] = (double)take_all(cells + offset[p], offset[p + 1] - offset[p]) * scale;
    }
}

/* A thread has one set of tables and takes some groups at a time. */
static void pairs_work(fdp_team *team, int number, void *ctx) {
    pairs_job *job = ctx;
    int64_t *cells = calloc((size_t)job->offset[job->pairs], sizeof *cells);
    (void)team, (void)number;
    if (cells == NULL) {
        atomic_store(&job->status, FDP_ERR_MEMORY);
        return;
    }
    for (int64_t from; (from = GROUPS_AT_ONCE * fdp_team_next(&job->next)) < job->groups;)
        for (int64_t g = from; g < FDP_MIN(from + GROUPS_AT_ONCE, job->groups); g++)
            score_group(job, g, cells);
    free(cells);
}

int fdp_score_grouped_pairs(const uint64_t *packed_a, const int64_t *start_a, const uint64_t *packed_b,
                            const int64_t *start_b, int64_t groups, const int32_t *sizes,
                            int32_t column_count, int32_t threads, double *distance) {
    if (column_count < 2 || column_count > FDP_SCORE_COLUMNS) return FDP_ERR_ARGUMENT;
    pairs_job job = {.packed = {packed_a, packed_b},
                     .start = {start_a, start_b},
                     .groups = groups,
                     .sizes = sizes,
                     .columns = column_count,
                     .distance = distance};
    job.pairs = lay_out(sizes, column_count, job.offset);
    fdp_team_run(threads, pairs_work, &job);
    return atomic_load(&job.status);
}

/* The same sum for one table that the caller has already reduced to cell numbers. */
int fdp_score_distance(const uint32_t *cells_a, int64_t rows_a, const uint32_t *cells_b, int64_t rows_b,
                       int64_t cells, double *distance) {
    if (rows_a == 0 || rows_b == 0) {
        *distance = rows_a + rows_b ? 2.0 : 0.0;
        return FDP_OK;
    }
    int64_t *table = calloc((size_t)cells, sizeof *table);
    if (table == NULL) return FDP_ERR_MEMORY;
    for (int64_t i = 0; i < rows_a; i++) table[cells_a[i]] += rows_b;
    for (int64_t i = 0; i < rows_b; i++) table[cells_b[i]] -= rows_a;
    double sum = 0.0;
    for (int64_t i = 0; i < cells; i++) sum += (double)llabs(table[i]);
    *distance = sum / ((double)rows_a * (double)rows_b);
    free(table);
    return FDP_OK;
}
