/* Dense counting.
 *
 * The floor. 10 million taxi rows have 10 one-byte codes and a 4-byte user number whose weight comes out of a
 * table of the size of L2: under 1 ns a row. Cell numbers of the 7 outer cliques take 27 steps on 32-bit
 * lanes, 1 to 2 ns. What costs is 7 read-modify-writes a row on 20 MB of tables: half a nanosecond each where
 * the line is in L1, 1.5 where it comes out of L2 and another goes back. So 6 to 12 ns a row, and nothing in
 * the way of using all cores. Reached on 2 cores of a 2.1 GHz x86 server with 2 MB of L2 each, while nobody
 * else used them: 12 ns a row on one thread and 6.2 on two with simulated trips, whose cells are spread
 * widely, 9 and 4.9 with real ones; 0.062 and 0.049 s for 10 million rows with all projections.
 * bench/counting.py measures it anew. (That was before threads kept their cliques.) Tables of 32-bit sums
 * with a carry were no faster.
 *
 * How. A thread counts one clique at a time, chunk after chunk of the rows, so that the clique's table (0.4
 * to 1.6 MB for most of AdaGrid's) stays in its L2. Within a chunk rows go in blocks whose cell numbers stay
 * in L1, one vector loop per column, then a loop of additions with as few instructions as it takes: two cell
 * numbers and two weights a load. Tables larger than L2 are fetched some additions ahead.
 *
 * Who. Rows go in rounds, whose row weights are looked up first and whose codes the last cache holds. Within
 * a round a thread takes the clique it had, else that of most work which nobody counts, else it joins another
 * thread at the clique where most is left, with a table of its own that is added to the first in the end, if
 * what it takes over is worth that; of 32-bit sums where rows have no weights: half as much to clear and to
 * add. It stays until the clique has no rows left: a table that goes from one thread to another goes from one
 * L2 to another. Where copies of the tables would exceed the budget, threads divide the cells of a table. All
 * sums are integers: no order can change a bit. */
#include "count.h"
#include "room.h"

#include <stdlib.h>
#include <string.h>

#define BLOCK 4096
#define FAR (1 << 18)  /* a table of more cells (2 MB) does not stay in L2 */
#define AHEAD 64       /* additions between fetching a cell and adding to it */
#define FAR_COSTS 3    /* an addition to such a table, in additions to one that stays there: an estimate */
#define FAR_NARROW 2   /* the same where copies have 32-bit sums: taxi rows, 16 threads, 2 MB of L2 each */
#define COPY_COSTS .25 /* clearing and adding up a byte of a copy, in additions: an estimate */
#define MOST_ROUND (1 << 22) /* rows of a round that looks up weights: 16 MB of them */
#define MOST_PLAIN (1 << 23) /* rows of one that does not: at its end threads wait for the last */
#define UNIT (1 << 14)       /* rows that a thread takes at a time */
#define APART 4096           /* bytes by whose multiples copies of tables lie apart */
#define MERGES 64            /* parts of a table whose copies are added up by one thread each */

#define COLUMN(NAME, TYPE) \
    FDP_CLONES static void first_##NAME(const TYPE *restrict code, int n, uint32_t *restrict cell) { \
        for (int i = 0; i < n; i++) cell[i] = code[i]; \
    } \
    FDP_CLONES static void next_##NAME(const TYPE *restrict code, uint32_t size, int n, \
                                       uint32_t *restrict cell) { \
        for (int i = 0; i < n; i++) cell[i] = cell[i] * size + code[i]; \
    } \
    static void column_##NAME(const void *codes, int64_t row, int first, uint32_t size, int n, \
                              uint32_t *cell) { \
        if (first) \
            first_##NAME((const TYPE *)codes + row, n, cell); \
        else \
            next_##NAME((const TYPE *)codes + row, size, n, cell); \
    }
COLUMN(8, uint8_t)
COLUMN(16, uint16_t)
COLUMN(32, uint32_t)

FDP_CLONES static void look_up(const uint32_t *restrict weight, const uint32_t *restrict user, int64_t n,
                               uint32_t *restrict out) {
    for (int64_t i = 0; i < n; i++) out[i] = weight[user[i]];
}

/* Two times two 32-bit numbers: which half is which does not matter, as long as cells and weights agree. */
typedef struct {
    uint64_t a, b;
} pair;

static inline pair four(const uint32_t *from) {
    pair p;
    memcpy(&p, from, sizeof p);
    return p;
}

static inline void add_four(const uint32_t *cell, const uint32_t *weight, int64_t *table) {
    const pair c = four(cell), w = four(weight);
    table[(uint32_t)c.a] += (uint32_t)w.a;
    table[c.a >> 32] += (int64_t)(w.a >> 32);
    table[(uint32_t)c.b] += (uint32_t)w.b;
    table[c.b >> 32] += (int64_t)(w.b >> 32);
}

/* table[0 .. 3] of four cells, whatever the bytes of one. */
#define FETCH_FOUR(cell, table) \
    do { \
        const pair c_ = four(cell); \
        __builtin_prefetch(&(table)[(uint32_t)c_.a], 1); \
        __builtin_prefetch(&(table)[c_.a >> 32], 1); \
        __builtin_prefetch(&(table)[(uint32_t)c_.b], 1); \
        __builtin_prefetch(&(table)[c_.b >> 32], 1); \
    } while (0)

static void add_weighted(const uint32_t *restrict cell, const uint32_t *restrict weight, int n, int far,
                         int64_t *restrict table) {
    int i = 0;
    if (far) {
        for (; i + AHEAD + 4 <= n; i += 4) {
            FETCH_FOUR(cell + i + AHEAD, table);
            add_four(cell + i, weight + i, table);
        }
    }
    for (; i + 4 <= n; i += 4) add_four(cell + i, weight + i, table);
    for (; i < n; i++) table[cell[i]] += weight[i];
}

#define ADD_ONES(NAME, TYPE) \
    static void NAME(const uint32_t *restrict cell, int n, int far, TYPE *restrict table) { \
        int i = 0; \
        for (; far && i + AHEAD + 4 <= n; i += 4) { \
            FETCH_FOUR(cell + i + AHEAD, table); \
            for (int j = 0; j < 4; j++) table[cell[i + j]] += 1; \
        } \
        for (; i < n; i++) table[cell[i]] += 1; \
    }
ADD_ONES(add_ones, int64_t)
ADD_ONES(add_ones_narrow, uint32_t)

/* Adds only to cells first <= cell < first + count; the others add nothing to the first of them (no
 * branches). */
static void add_range(const uint32_t *restrict cell, const uint32_t *restrict weight, int n, uint32_t first,
                      uint32_t count, int64_t *restrict table) {
    for (int i = 0; i < n; i++) {
        uint32_t k = cell[i] - first;
        int in_range = k < count;
        table[in_range ? k : 0] += in_range ? (weight ? weight[i] : 1) : 0;
    }
}

FDP_CLONES static void add_up(const int64_t *restrict from, int64_t n, int64_t *restrict to) {
    for (int64_t i = 0; i < n; i++) to[i] += from[i];
}

FDP_CLONES static void add_up_narrow(const uint32_t *restrict from, int64_t n, int64_t *restrict to) {
    for (int64_t i = 0; i < n; i++) to[i] += from[i];
}

/* A clique within a round: rows from `next` on are not taken yet; `threads` count it. Its tables: the first
 * is the caller's (not `clear` before a thread takes it, and has it in its caches then), copies follow; a
 * table is held by one thread at a time, `busy` says which are. */
typedef struct {
    atomic_llong next;
    int threads, tables, clear;
    void **table;
    uint8_t *busy;
    char apart[64];
} clique_state;

typedef struct {
    const fdp_rows *rows;
    const fdp_plan *plan;
    int split, copies, most; /* tables of a clique, at most */
    int narrow;              /* copies have 4 bytes a cell: no weights, and fewer than 2^32 rows */
    int64_t unit, round;
    uint32_t *weights;    /* [round], where they have to be looked up */
    char *more;           /* room for copies */
    size_t used, room;    /* bytes of it */
    clique_state *clique; /* [cliques] */
    pthread_mutex_t lock; /* guards the above and what is no counter of a clique */
    fdp_team_turns turns;
} count_job;

/* Rows [begin, end) of clique k into table `number` of its own; of its cells only those of part `part` of
 * `split` where threads divide them. `first`: the row of the first weight. */
static void count_rows(const count_job *job, int64_t k, int64_t begin, int64_t end, int64_t first, int part,
                       int number) {
    const fdp_rows *rows = job->rows;
    const fdp_plan *plan = job->plan;
    const int64_t cells = plan->cells[k], lo = cells * part / job->split;
    const int64_t hi = cells * (part + 1) / job->split;
    void *own = job->clique[k].table[number];
    int64_t *table = own;
    if (lo == hi) return; /* a table of fewer cells than parts */
    if (!job->copies && begin == 0) memset(table + lo, 0, (size_t)(hi - lo) * sizeof *table);
    uint32_t cell[BLOCK];
    for (int64_t row = begin; row < end; row += BLOCK) {
        const int n = (int)FDP_MIN(BLOCK, end - row);
        for (int s = plan->start[k]; s < plan->start[k + 1]; s++) {
            const void *codes = rows->column[plan->column[s]];
            const int width = rows->width[plan->column[s]], leading = s == plan->start[k];
            (width == 1   ? column_8
             : width == 2 ? column_16
                          : column_32)(codes, row, leading, plan->size[s], n, cell);
        }
        const uint32_t *w = job->weights   ? job->weights + (row - first)
                            : rows->weight ? rows->weight + row
                                           : NULL;
        if (!job->copies && job->split > 1)
            add_range(cell, w, n, (uint32_t)lo, (uint32_t)(hi - lo), table + lo);
        else if (w)
            add_weighted(cell, w, n, cells > FAR, table);
        else if (number > 0 && job->narrow)
            add_ones_narrow(cell, n, cells > 2 * FAR, own);
        else
            add_ones(cell, n, cells > FAR, table);
    }
}

/* Copies lie close together: the system clears every large page that one of them touches. */
static size_t bytes_of(const count_job *job, int64_t cells) {
    return ((size_t)cells * (job->narrow ? sizeof(uint32_t) : sizeof(int64_t)) / APART + 1) * APART;
}

/* A table of clique k that nobody holds: the number of a free one, that of a new one, or -1. */
static int free_table(const count_job *job, int64_t k) {
    const clique_state *c = job->clique + k;
    for (int i = 0; i < c->tables; i++)
        if (!c->busy[i]) return i;
    const int fits = job->more && job->used + bytes_of(job, job->plan->cells[k]) <= job->room;
    return fits && c->tables < job->most ? c->tables : -1;
}

/* The clique that a thread shall count next (see "Who"), with its table in *table, and whether that is clear;
 * -1: none. */
static int64_t choose(count_job *job, int64_t last, int64_t end, int *table, int *clear) {
    const fdp_plan *plan = job->plan;
    int64_t best = -1;
    double most = 0;
    pthread_mutex_lock(&job->lock);
    for (int64_t k = 0; k < plan->cliques; k++) {
        clique_state *c = job->clique + k;
        const int64_t left = end - atomic_load(&c->next);
        const int at = left > 0 ? free_table(job, k) : -1;
        if (at < 0) continue;
        /* The more rows are left for each thread, the more it gains; tables beyond the cache cost more. */
        const int costs = plan->cells[k] <= FAR ? 1 : job->narrow ? FAR_NARROW : FAR_COSTS;
        double gain = (double)left * costs / (c->threads + 1);
        /* A further thread may need a copy of the table, which has to be cleared and merged. */
        if (c->threads && gain < COPY_COSTS * (double)bytes_of(job, plan->cells[k]) && at == c->tables)
            continue;
        /* First the clique it counted last, then one that nobody counts, then the others. */
        if (k == last || !c->threads) gain *= k == last ? 1e12 : 1e6;
        if (gain > most) most = gain, best = k, *table = at;
    }
    if (best >= 0) {
        /* The table is taken; a new copy is cut off what is left of the room. */
        clique_state *c = job->clique + best;
        if (*table == c->tables) {
            c->table[c->tables++] = job->more + job->used;
            job->used += bytes_of(job, plan->cells[best]);
        }
        c->busy[*table] = 1;
        *clear = *table > 0 || c->clear;
        c->clear = 1;
        c->threads++;
    }
    pthread_mutex_unlock(&job->lock);
    return best;
}

/* What a thread counts of rows begin .. end - 1: units of rows of the cliques that it chooses, until none has
 * rows left. */
static void count_round(count_job *job, int64_t begin, int64_t end, int64_t *last) {
    int table = 0, clear = 0;
    for (int64_t k; (k = choose(job, *last, end, &table, &clear)) >= 0; *last = k) {
        clique_state *c = job->clique + k;
        if (!clear) memset(c->table[0], 0, (size_t)job->plan->cells[k] * sizeof(int64_t));
        for (int64_t row; (row = atomic_fetch_add(&c->next, job->unit)) < end;)
            count_rows(job, k, row, FDP_MIN(end, row + job->unit), begin, 0, table);
        pthread_mutex_lock(&job->lock);
        c->busy[table] = 0;
        c->threads--;
        pthread_mutex_unlock(&job->lock);
    }
}

/* One thread's part. The rows are counted round by round: the weights of a round's rows are looked up, then
 * threads count its rows, in copies of the tables or clique by clique. At the end copies are merged. */
static void count_work(fdp_team *team, int number, void *ctx) {
    count_job *job = ctx;
    const fdp_rows *rows = job->rows;
    const int64_t cliques = job->plan->cliques;
    int64_t phase = 0, last = -1;
    for (int64_t begin = 0; begin < rows->rows; begin += job->round) {
        const int64_t end = FDP_MIN(rows->rows, begin + job->round);
        /* Every clique starts at the round's first row. */
        for (int64_t k = 0; begin > 0 && number == 0 && k < cliques; k++)
            atomic_store(&job->clique[k].next, begin);
        if (job->weights) {
            FDP_TEAM_SHARE(&job->turns, phase, i, (end - begin + UNIT - 1) / UNIT)
            look_up(rows->weight, rows->user + begin + i * UNIT, FDP_MIN(UNIT, end - begin - i * UNIT),
                    job->weights + i * UNIT);
        }
        if (begin > 0 || job->weights) fdp_team_turn(team, number, &job->turns, &phase);
        if (job->copies)
            count_round(job, begin, end, &last);
        else
            FDP_TEAM_SHARE(&job->turns, phase, i, cliques * job->split)
        count_rows(job, i / job->split, begin, end, begin, (int)(i % job->split), 0);
        fdp_team_turn(team, number, &job->turns, &phase);
    }
    /* Copies are added to the first table, each clique in MERGES pieces. */
    FDP_TEAM_SHARE(&job->turns, phase, i, cliques * MERGES) {
        const clique_state *c = job->clique + i / MERGES;
        const int64_t cells = job->plan->cells[i / MERGES], m = i % MERGES;
        const int64_t from = cells * m / MERGES, n = cells * (m + 1) / MERGES - from;
        int64_t *sum = (int64_t *)c->table[0] + from;
        for (int t = 1; t < c->tables; t++)
            if (job->narrow)
                add_up_narrow((const uint32_t *)c->table[t] + from, n, sum);
            else
                add_up((const int64_t *)c->table[t] + from, n, sum);
    }
}

int fdp_count(const fdp_rows *rows, const fdp_plan *plan, fdp_team *team, int64_t chunk, int64_t budget,
              int64_t total, int64_t *tables) {
    const int64_t cliques = plan->cliques, all = rows->rows;
    int status = FDP_ERR_MEMORY;
    if (chunk < 1 || cliques < 1) return FDP_ERR_ARGUMENT;
    for (int64_t k = 0; k < cliques; k++)
        if (plan->start[k] >= plan->start[k + 1]) return FDP_ERR_ARGUMENT;
    const int threads = (int)FDP_MIN(team ? team->most : 1, 1 + all * cliques / FDP_MIN(chunk, BLOCK));
    count_job job = {.rows = rows, .plan = plan, .split = 1, .copies = 1};
    /* Half as many lanes again as threads: cliques differ in what they cost. */
    if (2 * cliques < 3 * (int64_t)threads)
        job.split = (int)FDP_MIN(threads, (3 * threads + 2 * cliques - 1) / (2 * cliques));
    job.copies = (job.split - 1) <= budget / 8 / FDP_MAX(1, total);
    if (job.copies) job.split = 1;
    job.most = job.copies ? threads : 1;
    job.narrow = rows->weight == NULL && all <= UINT32_MAX;
    job.unit = FDP_MIN(chunk, UNIT);
    const int looks = rows->user != NULL && rows->weight != NULL;
    const int64_t most = FDP_MIN(FDP_MAX(chunk, MOST_ROUND), chunk * threads);
    job.round = FDP_MIN(FDP_MAX(1, all), looks || threads == 1 ? most : MOST_PLAIN);
    job.weights = looks ? malloc(sizeof *job.weights * (size_t)job.round) : NULL;
    job.clique = calloc((size_t)cliques, sizeof *job.clique);
    void **held = calloc((size_t)(cliques * job.most), sizeof *held);
    uint8_t *busy = calloc((size_t)(cliques * job.most), 1);
    if (threads > 1 && job.copies)
        job.room = FDP_MIN((size_t)budget, (size_t)threads * bytes_of(&job, total));
    if ((looks && !job.weights) || !job.clique || !held || !busy) goto out;
    job.more = fdp_room(job.room);
    for (int64_t k = 0; k < cliques; k++) {
        job.clique[k].table = held + k * job.most;
        job.clique[k].busy = busy + k * job.most;
        job.clique[k].table[0] = tables + plan->offset[k];
        job.clique[k].tables = 1;
    }
    fdp_team_turns_make(&job.turns);
    pthread_mutex_init(&job.lock, NULL);
    fdp_team_do(team, threads, count_work, &job);
    pthread_mutex_destroy(&job.lock);
    status = FDP_OK;
out:
    fdp_room_end(job.more, job.room);
    free(busy);
    free(held);
    free(job.clique);
    free(job.weights);
    return status;
}
