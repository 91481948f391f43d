/* Sparse counting: 64-bit cell numbers of all rows, sorted with their weights, then summed by run.
 *
 * Least-significant-digit radix sort, 11 bits a pass, so a domain of 2^44 cells takes 4 passes of 16 bytes
 * read and 16 written a row. A pass whose digit is the same in all rows is skipped. The sort is stable and
 * the sums are integers: the result depends on the multiset of rows alone. */
#include "count.h"

#include <stdlib.h>
#include <string.h>

#define DIGIT 11
#define BUCKETS (1 << DIGIT)
#define BLOCK 4096

/* cell = cell * size + code: one more column of a mixed-radix number, for each width of codes. */
#define EXTEND64(NAME, TYPE) \
    FDP_CLONES static void NAME(const TYPE *restrict code, uint64_t size, int n, uint64_t *restrict cell) { \
        for (int i = 0; i < n; i++) cell[i] = cell[i] * size + code[i]; \
    }
EXTEND64(extend8, uint8_t)
EXTEND64(extend16, uint16_t)
EXTEND64(extend32, uint32_t)

/* Arguments of fdp_cells; threads take blocks of rows from `next`. */
typedef struct {
    const fdp_rows *rows;
    int columns;
    const uint64_t *size;
    uint64_t *cell;
    atomic_llong next;
} cells_job;

/* Cell numbers of one block after another, column by column. */
static void cells_work(fdp_team *team, int number, void *ctx) {
    cells_job *job = ctx;
    const fdp_rows *rows = job->rows;
    (void)team, (void)number;
    for (int64_t row; (row = BLOCK * fdp_team_next(&job->next)) < rows->rows;) {
        int n = (int)FDP_MIN(BLOCK, rows->rows - row);
        uint64_t *cell = job->cell + row;
        memset(cell, 0, sizeof *cell * (size_t)n);
        for (int c = 0; c < job->columns; c++) {
            if (rows->width[c] == 1)
                extend8((const uint8_t *)rows->column[c] + row, job->size[c], n, cell);
            else if (rows->width[c] == 2)
                extend16((const uint16_t *)rows->column[c] + row, job->size[c], n, cell);
            else
                extend32((const uint32_t *)rows->column[c] + row, job->size[c], n, cell);
        }
    }
}

int fdp_cells(const fdp_rows *rows, int columns, const uint64_t *size, fdp_team *team, uint64_t *cell) {
    cells_job job = {.rows = rows, .columns = columns, .size = size, .cell = cell};
    fdp_team_do(team, (int)FDP_MIN(FDP_TEAM_MAX, 1 + rows->rows / BLOCK), cells_work, &job);
    return FDP_OK;
}

/* The weight of each row: its user's, its own, or 1. */
int fdp_row_weights(const fdp_rows *rows, int64_t *sums) {
    for (int64_t i = 0; i < rows->rows; i++)
        sums[i] = rows->user ? rows->weight[rows->user[i]] : rows->weight ? rows->weight[i] : 1;
    return FDP_OK;
}

typedef struct {
    int64_t n;
    const uint64_t *key;
    const int64_t *sum;
    int shift, shares;
    int64_t *count; /* shares x BUCKETS */
    uint64_t *key_out;
    int64_t *sum_out;
    int same; /* all rows share the digit: nothing moves */
    atomic_llong next[2];
} pass_job;

/* Turns counts into the first place of every (share, digit); returns whether one digit has all rows. */
static int first_places(int64_t n, int shares, int64_t *count) {
    int64_t next = 0;
    for (int d = 0; d < BUCKETS; d++) {
        int64_t whole = 0;
        for (int t = 0; t < shares; t++) {
            int64_t here = count[(size_t)t * BUCKETS + d];
            count[(size_t)t * BUCKETS + d] = next + whole;
            whole += here;
        }
        if (whole == n) return 1;
        next += whole;
    }
    return 0;
}

/* One pass of the sort in three steps: counts of digits by share, first places, rows moved. */
static void pass_work(fdp_team *team, int number, void *ctx) {
    pass_job *job = ctx;
    const int64_t n = job->n, shares = job->shares;
    for (int64_t t; (t = fdp_team_next(&job->next[0])) < shares;) {
        int64_t *own_counts = job->count + (size_t)t * BUCKETS;
        memset(own_counts, 0, sizeof *own_counts * BUCKETS);
        for (int64_t i = n * t / shares; i < n * (t + 1) / shares; i++)
            own_counts[(job->key[i] >> job->shift) & (BUCKETS - 1)]++;
    }
    fdp_team_wait(team);
    if (number == 0) job->same = first_places(n, job->shares, job->count);
    fdp_team_wait(team);
    for (int64_t t; !job->same && (t = fdp_team_next(&job->next[1])) < shares;) {
        int64_t *place = job->count + (size_t)t * BUCKETS;
        for (int64_t i = n * t / shares; i < n * (t + 1) / shares; i++) {
            int64_t to = place[(job->key[i] >> job->shift) & (BUCKETS - 1)]++;
            job->key_out[to] = job->key[i];
            job->sum_out[to] = job->sum[i];
        }
    }
}

/* One stable pass by the digit at `shift`, in contiguous shares. Returns 1 if all rows share the digit
 * (nothing moved), 0 otherwise. count: shares x BUCKETS. */
static int pass(int64_t n, const uint64_t *key, const int64_t *sum, int shift, int shares, fdp_team *team,
                int64_t *count, uint64_t *key_out, int64_t *sum_out) {
    pass_job job = {.n = n,
                    .key = key,
                    .sum = sum,
                    .shift = shift,
                    .shares = shares,
                    .count = count,
                    .key_out = key_out,
                    .sum_out = sum_out};
    fdp_team_do(team, shares, pass_work, &job);
    return job.same;
}

int fdp_sparse(int64_t rows, uint64_t *keys, int64_t *sums, int bits, fdp_team *team, int64_t *distinct) {
    int status = FDP_OK;
    *distinct = 0;
    if (rows == 0) return FDP_OK;
    const int shares = (int)FDP_MAX(1, FDP_MIN(team ? team->most : 1, rows / BUCKETS));
    uint64_t *key = keys, *other_key = malloc(sizeof *other_key * (size_t)rows);
    int64_t *sum = sums, *other_sum = malloc(sizeof *other_sum * (size_t)rows);
    int64_t *count = malloc(sizeof *count * BUCKETS * (size_t)shares);
    uint64_t *spare_key = other_key;
    int64_t *spare_sum = other_sum;
    if (other_key == NULL || other_sum == NULL || count == NULL) {
        status = FDP_ERR_MEMORY;
        goto out;
    }
    /* The two arrays exchange their roles after each pass that moved something. */
    for (int shift = 0; shift < bits; shift += DIGIT) {
        if (pass(rows, key, sum, shift, shares, team, count, other_key, other_sum)) continue;
        uint64_t *k = key;
        int64_t *s = sum;
        key = other_key, sum = other_sum;
        other_key = k, other_sum = s;
    }
    /* Equal keys lie together now: one entry for each run. keys and sums are written behind where they
     * are read, also where they are the sorted arrays themselves. */
    int64_t n = 0;
    for (int64_t i = 0; i < rows;) {
        uint64_t k = key[i];
        int64_t s = 0;
        for (; i < rows && key[i] == k; i++) s += sum[i];
        keys[n] = k;
        sums[n++] = s;
    }
    *distinct = n;
out:
    free(spare_key);
    free(spare_sum);
    free(count);
    return status;
}
