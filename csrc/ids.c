/* Grouping, unrolling and pairing of rows and units by key (see ids.h). An example: rows have the keys 1
 * 0 1, units of users have the keys 1 1 0 0. Grouped, key 0 has row 1 and units 2, 3; key 1 has rows 0,
 * 2 and units 0, 1. The first of each are paired, in random order; unit 3 (or 2) of key 0 is left over. */
#include "ids.h"

#include <stdlib.h>
#include <string.h>

#include "team.h"

#define BLOCKS 64 /* parts of the groups that threads take one by one */
#define ROWS_A_THREAD (1 << 16)

/* splitmix64: a bijection of the counter, so that the stream needs no state. */
static inline uint64_t mix(uint64_t x) {
    x += 0x9e3779b97f4a7c15ull;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

/* The first group of block b: blocks have about as many positions each. more: those of others in the groups,
 * or NULL. */
static int64_t block_begins(const int64_t *start, const int64_t *more, int64_t keys, int64_t b) {
    if (b == BLOCKS) return keys;
    const int64_t all = start[keys] + (more ? more[keys] : 0), goal = all / BLOCKS * b;
    int64_t low = 0, high = keys;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (start[middle] + (more ? more[middle] : 0) < goal)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* As many threads as rows are worth. */
static int threads_for(int threads, int64_t rows) {
    return (int)FDP_MIN(FDP_MIN(threads, FDP_TEAM_MAX), 1 + rows / ROWS_A_THREAD);
}

typedef struct {
    const uint32_t *key;
    int64_t n, keys, rows[FDP_TEAM_MAX]; /* rows: of the keys that a member adds up */
    uint64_t base;
    uint32_t *order, *cursor; /* cursor: [members, keys] */
    int64_t *start;
    atomic_int code;
    fdp_team_turns turns;
} group_job;

/* Fisher and Yates within one group; the random numbers belong to positions and not to threads. */
static void shuffle_group(const group_job *job, int64_t g) {
    uint32_t *at = job->order + job->start[g];
    for (int64_t i = job->start[g + 1] - job->start[g] - 1; i > 0; i--) {
        const uint64_t r = mix(job->base + (uint64_t)(job->start[g] + i));
        /* Multiply-high maps 32 random bits to 0..i with a bias under (i + 1) / 2^32; no one's privacy rests
         * on it. */
        const int64_t j = (int64_t)(((r >> 32) * (uint64_t)(i + 1)) >> 32);
        const uint32_t t = at[i];
        at[i] = at[j];
        at[j] = t;
    }
}

/* A counting sort: each member counts the keys of its rows, and puts them behind those of the members before
 * it. The order within a group is that of the rows, whoever has them. */
static void group_some(fdp_team *team, int number, void *ctx) {
    group_job *job = ctx;
    const int64_t members = team->threads, keys = job->keys;
    const int64_t from = job->n * number / members, to = job->n * (number + 1) / members;
    const int64_t first = keys * number / members, last = keys * (number + 1) / members;
    uint32_t *own = job->cursor + number * keys;
    int64_t phase = 0, at = 0;
    /* Turn 1: each member counts the keys of its own rows. */
    memset(own, 0, (size_t)keys * sizeof *own);
    for (int64_t i = from; i < to; i++) {
        if (job->key[i] >= (uint64_t)keys) {
            atomic_store(&job->code, FDP_ERR_ARGUMENT);
            break;
        }
        own[job->key[i]]++;
    }
    fdp_team_turn(team, number, &job->turns, &phase);
    if (atomic_load(&job->code) != FDP_OK) return;
    /* Turn 2: rows of the member's share of the keys, so that each knows where its share begins. */
    for (int64_t m = 0; m < members; m++)
        for (int64_t g = first; g < last; g++) at += job->cursor[m * keys + g];
    job->rows[number] = at;
    fdp_team_turn(team, number, &job->turns, &phase);
    /* Turn 3: where each group begins, and where each member writes its rows of the group: behind those
     * of the members before it. */
    at = 0;
    for (int m = 0; m < number; m++) at += job->rows[m];
    for (int64_t g = first; g < last; g++) {
        job->start[g] = at;
        for (int64_t m = 0; m < members; m++) {
            const uint32_t count = job->cursor[m * keys + g];
            job->cursor[m * keys + g] = (uint32_t)at;
            at += count;
        }
    }
    if (number == 0) job->start[keys] = job->n;
    fdp_team_turn(team, number, &job->turns, &phase);
    /* Turn 4: every member puts its rows in place. Turn 5: blocks of groups are shuffled. */
    for (int64_t i = from; i < to; i++) job->order[own[job->key[i]]++] = (uint32_t)i;
    fdp_team_turn(team, number, &job->turns, &phase);
    FDP_TEAM_SHARE(&job->turns, phase, b, BLOCKS) {
        const int64_t end = block_begins(job->start, NULL, keys, b + 1);
        for (int64_t g = block_begins(job->start, NULL, keys, b); g < end; g++) shuffle_group(job, g);
    }
}

int fdp_ids_group(const uint32_t *key, int64_t n, int64_t keys, uint64_t seed, int threads, uint32_t *order,
                  int64_t *start) {
    if (n < 0 || keys < 1 || n > (int64_t)UINT32_MAX) return FDP_ERR_ARGUMENT;
    group_job job = {.key = key, .n = n, .keys = keys, .base = mix(seed), .order = order, .start = start};
    /* Every thread has a table of all keys: with many keys and few rows, fewer threads. */
    threads = (int)FDP_MIN(threads_for(threads, n), FDP_MAX(1, n / keys));
    job.cursor = malloc(sizeof *job.cursor * (size_t)keys * (size_t)threads);
    if (!job.cursor) return FDP_ERR_MEMORY;
    fdp_team_turns_make(&job.turns);
    fdp_team_run(threads, group_some, &job);
    free(job.cursor);
    return atomic_load(&job.code);
}

typedef struct {
    const int64_t *indptr, *counts, *taken;
    const uint32_t *cells;
    int64_t users, units, size[BLOCKS];
    uint32_t *user, *cell;
    atomic_int code;
    fdp_team_turns turns;
} units_job;

/* Turn 1 counts the units of each block of users; turn 2 writes them, each block behind the ones before
 * it. A sum that could overflow or exceed the room is found before anything is written. */
static void units_some(fdp_team *team, int number, void *ctx) {
    units_job *job = ctx;
    int64_t phase = 0, all = 0;
/* e runs over the entries of all users i of block b. */
#define ENTRIES(b, i, e) \
    for (int64_t i = job->users * (b) / BLOCKS, end_ = job->users * ((b) + 1) / BLOCKS; i < end_; i++) \
        for (int64_t e = job->indptr[job->taken[i]]; e < job->indptr[job->taken[i] + 1]; e++)
    FDP_TEAM_SHARE(&job->turns, phase, b, BLOCKS) {
        int64_t size = 0;
        int wrong = 0;
        ENTRIES(b, i, e) {
            wrong |= job->counts[e] < 0 || job->counts[e] > job->units - size;
            size += wrong ? 0 : job->counts[e];
        }
        if (wrong) atomic_store(&job->code, FDP_ERR_ARGUMENT);
        job->size[b] = size;
    }
    fdp_team_turn(team, number, &job->turns, &phase);
    for (int b = 0; b < BLOCKS; b++) all += job->size[b];
    if (all != job->units) atomic_store(&job->code, FDP_ERR_ARGUMENT);
    if (all != job->units || atomic_load(&job->code) != FDP_OK) return;
    FDP_TEAM_SHARE(&job->turns, phase, b, BLOCKS) {
        int64_t n = 0;
        for (int64_t before = 0; before < b; before++) n += job->size[before];
        ENTRIES(b, i, e) for (int64_t k = 0; k < job->counts[e]; k++, n++) {
            job->user[n] = (uint32_t)i;
            job->cell[n] = job->cells[e];
        }
    }
#undef ENTRIES
}

int fdp_ids_units(const int64_t *indptr, const int64_t *counts, const uint32_t *cells, const int64_t *taken,
                  int64_t users, int64_t units, int threads, uint32_t *user, uint32_t *cell) {
    units_job job = {.indptr = indptr, .counts = counts, .taken = taken, .cells = cells, .users = users};
    job.units = units, job.user = user, job.cell = cell;
    fdp_team_turns_make(&job.turns);
    fdp_team_run(threads_for(threads, units), units_some, &job);
    return atomic_load(&job.code);
}

typedef struct {
    const uint32_t *row_order, *unit_order, *row, *unit, *user;
    const int64_t *row_start, *unit_start;
    int64_t keys, left[BLOCKS][2]; /* rows and units that a block does not pair */
    uint32_t *owner, *rest_row, *rest_unit;
    fdp_team_turns turns;
} deal_job;

/* The pairs of one group, and what is left of its longer side; left[2]: where the leftovers go. */
static void deal_group(const deal_job *job, int64_t g, int64_t *left) {
    const uint32_t *r = job->row_order + job->row_start[g], *u = job->unit_order + job->unit_start[g];
    const uint32_t *row = job->row, *unit = job->unit;
    const int64_t rows = job->row_start[g + 1] - job->row_start[g];
    const int64_t units = job->unit_start[g + 1] - job->unit_start[g], pairs = FDP_MIN(rows, units);
    for (int64_t i = 0; i < pairs; i++)
        job->owner[row ? row[r[i]] : r[i]] = job->user[unit ? unit[u[i]] : u[i]];
    for (int64_t i = pairs; i < rows; i++) job->rest_row[left[0]++] = row ? row[r[i]] : r[i];
    for (int64_t i = pairs; i < units; i++) job->rest_unit[left[1]++] = unit ? unit[u[i]] : u[i];
}

/* Turn 1 counts the leftovers of each block of groups; turn 2 pairs, and writes the leftovers of a block
 * behind those of the blocks before it. */
static void deal_some(fdp_team *team, int number, void *ctx) {
    deal_job *job = ctx;
    int64_t phase = 0;
/* g runs over the groups of block b. */
#define GROUPS(b, g) \
    for (int64_t g = block_begins(job->row_start, job->unit_start, job->keys, b), \
                 end_ = block_begins(job->row_start, job->unit_start, job->keys, (b) + 1); \
         g < end_; g++)
    FDP_TEAM_SHARE(&job->turns, phase, b, BLOCKS) {
        int64_t rows = 0, units = 0;
        GROUPS(b, g) {
            const int64_t more =
                job->row_start[g + 1] - job->row_start[g] - (job->unit_start[g + 1] - job->unit_start[g]);
            rows += FDP_MAX(more, 0);
            units += FDP_MAX(-more, 0);
        }
        job->left[b][0] = rows, job->left[b][1] = units;
    }
    fdp_team_turn(team, number, &job->turns, &phase);
    FDP_TEAM_SHARE(&job->turns, phase, b, BLOCKS) {
        int64_t left[2] = {0, 0};
        for (int64_t before = 0; before < b; before++)
            for (int k = 0; k < 2; k++) left[k] += job->left[before][k];
        GROUPS(b, g) deal_group(job, g, left);
    }
#undef GROUPS
}

int fdp_ids_deal(const uint32_t *row_order, const int64_t *row_start, const uint32_t *unit_order,
                 const int64_t *unit_start, int64_t keys, const uint32_t *row, const uint32_t *unit,
                 const uint32_t *user, int threads, uint32_t *owner, uint32_t *rest_row, uint32_t *rest_unit,
                 int64_t *rest) {
    deal_job job = {.row_order = row_order, .unit_order = unit_order, .row = row, .unit = unit, .user = user};
    job.row_start = row_start, job.unit_start = unit_start, job.keys = keys, job.owner = owner;
    job.rest_row = rest_row, job.rest_unit = rest_unit;
    fdp_team_turns_make(&job.turns);
    fdp_team_run(threads_for(threads, row_start[keys]), deal_some, &job);
    rest[0] = rest[1] = 0;
    for (int b = 0; b < BLOCKS; b++)
        for (int k = 0; k < 2; k++) rest[k] += job.left[b][k];
    return FDP_OK;
}
