/* Dense counting.
 *
 * The floor. 10 million taxi rows have 10 one-byte codes and a 4-byte user number whose weight comes out of a
 * table of the size of L2: under 1 ns a row. Cell numbers of the 7 outer cliques take 27 steps on 32-bit
 * lanes, 1 to 2 ns. What costs is 7 read-modify-writes a row on 20 MB of tables: half a nanosecond each where
 * the line is in L1, 1.5 where it comes out of L2 and another goes back. So 6 to 12 ns a row, and nothing in
 * the way of using all cores. Reached on 2 cores of a 2.1 GHz x86 server with 2 MB of L2 each, while nobody
 * else used them: 12 ns a row on one thread and 6.2 on two with simulated trips, whose cells are spread
 * widely, 9 and 4.9 with real ones; 0.062 and 0.049 s for 10 million rows with all projections.
 * bench/counting.py measures it anew. Units of 131,072 to 524,288 rows differ by less than the noise, of
 * 16,384 are 4 to 15 % slower. Tables of 32-bit sums with a carry were no faster.
 *
 * How. A unit of work is one clique over one chunk of rows, so that the clique's table (0.4 to 1.6 MB for
 * most of AdaGrid's) stays in L2 for 262,144 additions, and no thread needs tables of its own. Within a unit
 * rows go in blocks whose cell numbers stay in L1, one vector loop per column, then a loop of additions with
 * as few instructions as it takes: two cell numbers and two weights a load. Tables larger than L2 are fetched
 * some additions ahead.
 *
 * Who. Units are handed out in the order of chunks, and within a chunk of cliques. A unit waits for the one
 * before it on the same table, handed out a whole round earlier: a table is only ever held by one thread, and
 * as every unit waits for earlier ones alone, nothing can lock up. Row weights are looked up once a chunk, by
 * units of their own that go one round ahead, into a ring of three rounds. All of this is told under one
 * lock, a few hundred times for 10 million rows; the lock is also what makes one thread's sums visible to the
 * next. Where cliques are too few to keep the threads busy, a clique has several lanes: each counts every
 * n-th chunk into a table of its own, added up at the end, or where those would be larger than the budget, a
 * part of the cells. All sums are integers: no order can change a bit. */
#include "count.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define BLOCK 4096
#define RING 3        /* rounds of row weights held at once */
#define FAR (1 << 18) /* a table of more cells (2 MB) does not stay in L2 */
#define AHEAD 64      /* additions between fetching a cell and adding to it */
#define COPY_SAVES \
    4 /* a copy of a table is cleared and added up: it must save so many times as many additions */
#define LARGE_PAGE (1 << 21)
#define CHUNKS_A_LANE 16 /* fewest chunks per lane, so that the last chunk is a small part of the work */

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

static inline void fetch_four(const uint32_t *cell, const int64_t *table) {
    const pair c = four(cell);
    __builtin_prefetch(&table[(uint32_t)c.a], 1);
    __builtin_prefetch(&table[c.a >> 32], 1);
    __builtin_prefetch(&table[(uint32_t)c.b], 1);
    __builtin_prefetch(&table[c.b >> 32], 1);
}

static void add_weighted(const uint32_t *restrict cell, const uint32_t *restrict weight, int n, int far,
                         int64_t *restrict table) {
    int i = 0;
    if (far) {
        for (; i + AHEAD + 4 <= n; i += 4) {
            fetch_four(cell + i + AHEAD, table);
            add_four(cell + i, weight + i, table);
        }
    }
    for (; i + 4 <= n; i += 4) add_four(cell + i, weight + i, table);
    for (; i < n; i++) table[cell[i]] += weight[i];
}

static void add_ones(const uint32_t *restrict cell, int n, int far, int64_t *restrict table) {
    int i = 0;
    if (far) {
        for (; i + AHEAD + 4 <= n; i += 4) {
            fetch_four(cell + i + AHEAD, table);
            for (int j = 0; j < 4; j++) table[cell[i + j]] += 1;
        }
    }
    for (; i < n; i++) table[cell[i]] += 1;
}

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

/* Zeroed cells for copies of tables, in large pages where the system has them: 60 MB of small pages cost more
 * to touch than 16 threads take to count. `bytes` goes to munmap with what is returned; NULL: no memory. */
static int64_t *copies_of_tables(int64_t cells, size_t *bytes) {
    *bytes = ((size_t)cells * sizeof(int64_t) / LARGE_PAGE + 1) * LARGE_PAGE;
    void *found = mmap(NULL, *bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (found == MAP_FAILED) return NULL;
#ifdef MADV_HUGEPAGE
    madvise(found, *bytes, MADV_HUGEPAGE);
#endif
    return found;
}

/* Lanes are numbered clique * split + part; with `copies`, lane part of a clique takes chunks part, part +
 * split, ..., one a round, otherwise all lanes take one and the same chunk a round and differ in the cells
 * they count. Looking up weights has lookers lanes of its own, which come first in every round. */
typedef struct {
    const fdp_rows *rows;
    const fdp_plan *plan;
    int split, copies, lookers;
    int64_t lanes, chunk, rounds, total;
    int64_t *tables, *more; /* more: split - 1 further copies of tables */
    uint32_t *weights;      /* RING rounds of lookers chunks */
    atomic_llong slice;
    pthread_mutex_t lock; /* guards all fields below */
    pthread_cond_t turn;
    int64_t next, waiting;
    int64_t *done, *looked; /* rounds that each lane has behind it */
} count_job;

static int64_t chunk_of(const count_job *job, int64_t round, int64_t part) {
    return job->copies ? round * job->split + part : round;
}

static uint32_t *ring_of(const count_job *job, int64_t chunk) {
    const int64_t slots = (int64_t)RING * FDP_MAX(1, job->lookers);
    return job->weights + chunk % slots * job->chunk;
}

/* One unit: clique over the rows of a chunk, into the lane's own table or part of the cells. */
static void count_chunk(const count_job *job, int64_t lane, int64_t round) {
    const fdp_rows *rows = job->rows;
    const fdp_plan *plan = job->plan;
    const int64_t k = lane / job->split, part = lane % job->split, chunk = chunk_of(job, round, part);
    const int64_t begin = chunk * job->chunk, end = FDP_MIN(rows->rows, begin + job->chunk),
                  cells = plan->cells[k];
    int64_t *table =
        (part && job->copies ? job->more + (part - 1) * job->total : job->tables) + plan->offset[k];
    const int64_t lo = cells * part / job->split, hi = cells * (part + 1) / job->split;
    if (!job->copies && lo == hi) return; /* a table of fewer cells than lanes */
    const uint32_t *weight = rows->weight ? (rows->user ? ring_of(job, chunk) : rows->weight + begin) : NULL;
    uint32_t cell[BLOCK];
    for (int64_t row = begin; row < end; row += BLOCK) {
        const int n = (int)FDP_MIN(BLOCK, end - row);
        for (int s = plan->start[k]; s < plan->start[k + 1]; s++) {
            const void *codes = rows->column[plan->column[s]];
            const int width = rows->width[plan->column[s]], first = s == plan->start[k];
            (width == 1   ? column_8
             : width == 2 ? column_16
                          : column_32)(codes, row, first, plan->size[s], n, cell);
        }
        const uint32_t *w = weight ? weight + (row - begin) : NULL;
        if (!job->copies && job->split > 1)
            add_range(cell, w, n, (uint32_t)lo, (uint32_t)(hi - lo), table + lo);
        else if (w)
            add_weighted(cell, w, n, cells > FAR, table);
        else
            add_ones(cell, n, cells > FAR, table);
    }
}

static void look_up_chunk(const count_job *job, int64_t looker, int64_t round) {
    const int64_t chunk = chunk_of(job, round, looker), begin = chunk * job->chunk;
    const int64_t n = FDP_MIN(job->chunk, job->rows->rows - begin);
    if (n > 0) look_up(job->rows->weight, job->rows->user + begin, n, ring_of(job, chunk));
}

/* Units in turns of lookers + lanes: turn t looks weights up for round t and counts round t - 1, or round t
 * where there is nothing to look up. Called with the lock held. */
static int ready(const count_job *job, int64_t turn, int64_t i) {
    if (i < job->lookers) {
        if (job->looked[i] < turn) return 0;
        for (int64_t l = 0; l < job->lanes; l++)
            if (job->done[l] < turn - RING + 1) return 0;
        return 1;
    }
    const int64_t lane = i - job->lookers, round = job->lookers ? turn - 1 : turn;
    if (job->done[lane] < round) return 0;
    return !job->lookers || job->looked[job->copies ? lane % job->split : 0] > round;
}

static void count_work(fdp_team *team, int number, void *ctx) {
    count_job *job = ctx;
    const int64_t width = job->lookers + job->lanes, turns = job->rounds + (job->lookers > 0);
    (void)number;
    pthread_mutex_lock(&job->lock);
    for (int64_t unit; (unit = job->next++) < turns * width;) {
        const int64_t turn = unit / width, i = unit % width, lane = i - job->lookers;
        const int64_t round = i >= job->lookers && job->lookers ? turn - 1 : turn;
        if (round < 0 || round >= job->rounds) continue;
        while (!ready(job, turn, i)) {
            job->waiting++;
            pthread_cond_wait(&job->turn, &job->lock);
            job->waiting--;
        }
        pthread_mutex_unlock(&job->lock);
        if (i < job->lookers)
            look_up_chunk(job, i, round);
        else
            count_chunk(job, lane, round);
        pthread_mutex_lock(&job->lock);
        *(i < job->lookers ? job->looked + i : job->done + lane) = round + 1;
        if (job->waiting) pthread_cond_broadcast(&job->turn);
    }
    pthread_mutex_unlock(&job->lock);
    if (job->more == NULL) return;
    fdp_team_wait(team);
    const int64_t total = job->total, slices = (total + BLOCK - 1) / BLOCK;
    for (int64_t s; (s = fdp_team_next(&job->slice)) < slices;)
        for (int64_t c = 0; c < job->split - 1; c++)
            add_up(job->more + c * total + s * BLOCK, FDP_MIN(BLOCK, total - s * BLOCK),
                   job->tables + s * BLOCK);
}

int fdp_count(const fdp_rows *rows, const fdp_plan *plan, fdp_team *team, int64_t chunk, int64_t budget,
              int64_t total, int64_t *tables) {
    const int64_t cliques = plan->cliques, all = rows->rows;
    int status = FDP_ERR_MEMORY;
    if (chunk < 1 || cliques < 1) return FDP_ERR_ARGUMENT;
    for (int64_t k = 0; k < cliques; k++)
        if (plan->start[k] >= plan->start[k + 1]) return FDP_ERR_ARGUMENT;
    const int threads = (int)FDP_MIN(team ? team->most : 1, 1 + all * cliques / FDP_MIN(chunk, BLOCK));
    count_job job = {.rows = rows, .plan = plan, .split = 1, .copies = 1, .total = total, .tables = tables};
    /* Half as many lanes again as threads: cliques differ in what they cost. */
    if (2 * cliques < 3 * (int64_t)threads)
        job.split = (int)FDP_MIN(threads, (3 * threads + 2 * cliques - 1) / (2 * cliques));
    job.copies = (job.split - 1) <= budget / 8 / FDP_MAX(1, total);
    if (job.copies) job.split = (int)FDP_MIN(job.split, 1 + all * cliques / (COPY_SAVES * FDP_MAX(1, total)));
    job.lanes = cliques * job.split;
    job.lookers = rows->user == NULL || rows->weight == NULL ? 0 : job.copies ? job.split : 1;
    const int64_t share = all / (CHUNKS_A_LANE * (job.copies ? job.split : 1));
    job.chunk = FDP_MIN(chunk, FDP_MAX(BLOCK, share));
    const int64_t a_round = job.chunk * (job.copies ? job.split : 1);
    job.rounds = (all + a_round - 1) / a_round;
    job.done = calloc((size_t)job.lanes, sizeof *job.done);
    job.looked = calloc((size_t)job.lookers + 1, sizeof *job.looked);
    job.weights = malloc(sizeof *job.weights * (size_t)(RING * job.lookers * job.chunk + 1));
    size_t bytes = 0;
    if (job.copies && job.split > 1) job.more = copies_of_tables(total * (job.split - 1), &bytes);
    if (!job.done || !job.looked || !job.weights || (job.copies && job.split > 1 && !job.more)) goto out;
    pthread_mutex_init(&job.lock, NULL);
    pthread_cond_init(&job.turn, NULL);
    fdp_team_do(team, (int)FDP_MIN(threads, job.lanes), count_work, &job);
    pthread_cond_destroy(&job.turn);
    pthread_mutex_destroy(&job.lock);
    status = FDP_OK;
out:
    if (job.more) munmap(job.more, bytes);
    free(job.weights);
    free(job.looked);
    free(job.done);
    return status;
}
