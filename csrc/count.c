/* Dense counting.
 *
 * The floor. 10 million taxi rows, 10 one-byte codes, a 4-byte user number, and the user's weight out of a table that fits
 * in L2: 18 bytes a row, about 1 ns a row at 20 GB/s. The arithmetic of the 7 outer cliques' cell numbers is 9
 * multiply-adds on 32-bit lanes, 0.5 ns. What costs is 7 read-modify-writes a row on 20 MB of tables (L2 and L3):
 * 1 to 2 ns each. So 8 to 15 ns a row and thread, 0.04 to 0.08 s on two. Reached on 2 cores of a 2.1 GHz x86 server with
 * 2 MB of L2, shared with others: 17 to 20 ns a row on one thread, 0.11 s for 10 million rows on two, where numpy needs
 * 1.3 s; an addition costs 2.5 ns, most of it lines moving between L1 and L2. Blocks of 4,096 to 65,536 rows
 * differ by less than a tenth, 262,144 are a quarter slower. bench/counting.py measures it anew.
 *
 * How. Rows go in blocks whose cell numbers stay in L1. Cliques that share leading columns share their cell
 * numbers (the prefix tree), each clique then has its own tight loop of additions, so that many misses are in
 * flight at once. Threads have tables of their own, added up at the end; where those would be larger than the
 * budget, threads divide the cells instead of the rows. All sums are integers: no order can change a bit. */
#include "count.h"
#include "team.h"

#include <stdlib.h>
#include <string.h>

#define BLOCK 4096

#define EXTEND(NAME, TYPE) \
    FDP_CLONES static void NAME(const TYPE *restrict code, const uint32_t *restrict parent, uint32_t size, int n, \
                                uint32_t *restrict cell) { \
        if (parent == NULL) \
            for (int i = 0; i < n; i++) cell[i] = code[i]; \
        else \
            for (int i = 0; i < n; i++) cell[i] = parent[i] * size + code[i]; \
    }
EXTEND(extend8, uint8_t)
EXTEND(extend16, uint16_t)
EXTEND(extend32, uint32_t)

static void extend(const void *column, int width, int64_t row, const uint32_t *parent, uint32_t size, int n,
                   uint32_t *cell) {
    if (width == 1)
        extend8((const uint8_t *)column + row, parent, size, n, cell);
    else if (width == 2)
        extend16((const uint16_t *)column + row, parent, size, n, cell);
    else
        extend32((const uint32_t *)column + row, parent, size, n, cell);
}

FDP_CLONES static void look_up(const uint32_t *restrict weight, const uint32_t *restrict user, int n,
                               uint32_t *restrict out) {
    for (int i = 0; i < n; i++) out[i] = weight[user[i]];
}

static void add_weighted(const uint32_t *restrict cell, const uint32_t *restrict weight, int n, int64_t *table) {
    for (int i = 0; i < n; i++) table[cell[i]] += weight[i];
}

static void add_ones(const uint32_t *restrict cell, int n, int64_t *table) {
    for (int i = 0; i < n; i++) table[cell[i]] += 1;
}

/* Adds only to cells first <= cell < first + count; the others add nothing to the first of them (no branches). */
static void add_range(const uint32_t *restrict cell, const uint32_t *restrict weight, int n, uint32_t first,
                      uint32_t count, int64_t *table) {
    for (int i = 0; i < n; i++) {
        uint32_t k = cell[i] - first;
        int mine = k < count;
        table[mine ? k : 0] += mine ? (weight ? weight[i] : 1) : 0;
    }
}

/* Counts rows [begin, end) into the part [lo, hi) of the concatenated tables; base points at cell 0 of them. */
static void count_rows(const fdp_rows *rows, const fdp_plan *plan, int64_t begin, int64_t end, int64_t lo, int64_t hi,
                       int whole, uint32_t *scratch, int64_t *base) {
    uint32_t *weights = scratch, *cells = scratch + BLOCK;
    for (int64_t row = begin; row < end; row += BLOCK) {
        int n = (int)FDP_MIN(BLOCK, end - row);
        const uint32_t *w = NULL;
        if (rows->user != NULL) {
            look_up(rows->weight, rows->user + row, n, weights);
            w = weights;
        } else if (rows->weight != NULL) {
            w = rows->weight + row;
        }
        for (int s = 0; s < plan->steps; s++) {
            int d = plan->depth[s], c = plan->column[s];
            uint32_t *cell = cells + (size_t)d * BLOCK;
            extend(rows->column[c], rows->width[c], row, d ? cell - BLOCK : NULL, plan->size[s], n, cell);
            int64_t offset = plan->offset[s];
            if (offset < 0) continue;
            if (whole) {
                if (w)
                    add_weighted(cell, w, n, base + offset);
                else
                    add_ones(cell, n, base + offset);
                continue;
            }
            int64_t first = FDP_MAX(lo, offset), last = FDP_MIN(hi, offset + plan->cells[s]);
            if (first < last) add_range(cell, w, n, (uint32_t)(first - offset), (uint32_t)(last - first), base + first);
        }
    }
}

FDP_CLONES static void add_up(const int64_t *restrict from, int64_t n, int64_t *restrict to) {
    for (int64_t i = 0; i < n; i++) to[i] += from[i];
}

typedef struct {
    const fdp_rows *rows;
    const fdp_plan *plan;
    int shares, private_tables;
    int64_t blocks, total;
    size_t words;
    uint32_t *scratch;
    int64_t **own, *tables;
    atomic_llong next[2];
} count_job;

/* Each share is a fixed part of the work, whatever number of threads the system really grants. */
static void count_work(fdp_team *team, int number, void *ctx) {
    count_job *job = ctx;
    const fdp_rows *rows = job->rows;
    const int64_t total = job->total, n = job->shares;
    (void)number;
    for (int64_t t; (t = fdp_team_next(&job->next[0])) < n;) {
        uint32_t *scratch = job->scratch + job->words * (size_t)t;
        if (job->private_tables)
            count_rows(rows, job->plan, FDP_MIN(rows->rows, job->blocks * t / n * BLOCK),
                       FDP_MIN(rows->rows, job->blocks * (t + 1) / n * BLOCK), 0, total, 1, scratch, job->own[t]);
        else
            count_rows(rows, job->plan, 0, rows->rows, total * t / n, total * (t + 1) / n, 0, scratch, job->tables);
    }
    fdp_team_wait(team);
    for (int64_t t; job->private_tables && (t = fdp_team_next(&job->next[1])) < n;) {
        int64_t lo = total * t / n, hi = total * (t + 1) / n;
        for (int64_t u = 1; u < n; u++) add_up(job->own[u] + lo, hi - lo, job->tables + lo);
    }
}

int fdp_count(const fdp_rows *rows, const fdp_plan *plan, int threads, int64_t budget, int64_t total, int64_t *tables) {
    int depth = 0, leaves = 0, status = FDP_OK;
    for (int s = 0; s < plan->steps; s++) {
        depth = FDP_MAX(depth, plan->depth[s] + 1);
        leaves += plan->offset[s] >= 0;
    }
    if (depth > FDP_MAX_DEPTH) return FDP_ERR_ARGUMENT;
    int64_t blocks = (rows->rows + BLOCK - 1) / BLOCK;
    threads = (int)FDP_MAX(1, FDP_MIN(threads, blocks));
    int private_tables = total <= budget / 8 / FDP_MAX(1, threads - 1);
    /* A table of one's own is cleared and added up again: it must save several times as many additions. */
    if (private_tables) threads = (int)FDP_MIN(threads, 1 + rows->rows * leaves / (4 * FDP_MAX(1, total)));
    size_t words = (size_t)(depth + 1) * BLOCK;
    uint32_t *scratch = malloc(sizeof(uint32_t) * words * (size_t)threads);
    int64_t **own = calloc((size_t)threads, sizeof *own);
    if (scratch == NULL || own == NULL) {
        status = FDP_ERR_MEMORY;
        goto out;
    }
    own[0] = tables;
    for (int t = 1; private_tables && t < threads; t++) {
        own[t] = calloc((size_t)FDP_MAX(1, total), sizeof **own);
        if (own[t] == NULL) {
            status = FDP_ERR_MEMORY;
            goto out;
        }
    }
    count_job job = {.rows = rows,
                     .plan = plan,
                     .shares = threads,
                     .private_tables = private_tables,
                     .blocks = blocks,
                     .total = total,
                     .words = words,
                     .scratch = scratch,
                     .own = own,
                     .tables = tables};
    fdp_team_run(threads, count_work, &job);
out:
    for (int t = 1; own != NULL && t < threads; t++) free(own[t]);
    free(own);
    free(scratch);
    return status;
}
