/* Rows of each user in their order, and how often neighbours agree. */
#include "bound.h"
#include "team.h"

#include <stdlib.h>

/* A row of one user with what it is sorted by. */
typedef struct {
    uint64_t time, tie, row;
    const uint32_t *content;
    int words;
} item;

/* By time, then tie number, then content; rows alike in all three keep the order of the table. */
static int by_time(const void *a, const void *b) {
    const item *x = a, *y = b;
    if (x->time != y->time) return x->time < y->time ? -1 : 1;
    if (x->tie != y->tie) return x->tie < y->tie ? -1 : 1;
    for (int w = 0; w < x->words; w++)
        if (x->content[w] != y->content[w]) return x->content[w] < y->content[w] ? -1 : 1;
    return (x->row > y->row) - (x->row < y->row);
}

/* The tie number of a row's words. */
static uint64_t tie_of(uint64_t hash, int words, const uint32_t *content) {
    uint64_t s = fdp_tie_begin(hash);
    for (int w = 0; w < words; w++) s = fdp_tie_step(s, content[w]);
    return fdp_tie_end(s, hash);
}

/* Arguments of both functions: times and content for fdp_order, codes and groups for fdp_neighbours. */
typedef struct {
    int64_t users;
    const int64_t *start;
    const uint64_t *user_hash, *time;
    int words;
    const uint32_t *content;
    uint64_t *rows;
    const uint32_t *this, *that;
    const int32_t *group_of;
    uint64_t keys;
    int64_t groups;
    int64_t *out;
    atomic_llong next;
    atomic_int status;
} order_job;

/* A thread takes some users at a time and sorts each user's rows in room of its own. */
static void order_work(fdp_team *team, int number, void *ctx) {
    order_job *job = ctx;
    item *mine = NULL;
    int64_t room = 0;
    (void)team, (void)number;
    for (int64_t from; (from = USERS_AT_ONCE * fdp_team_next(&job->next)) < job->users;)
        for (int64_t u = from; u < FDP_MIN(from + USERS_AT_ONCE, job->users); u++) {
            uint64_t *row = job->rows + job->start[u];
            const int64_t n = job->start[u + 1] - job->start[u];
            /* Room for twice the user's rows, so that it grows only now and then. */
            if (n > room) {
                free(mine);
                room = n * 2;
                mine = malloc(sizeof *mine * (size_t)room);
                if (mine == NULL) {
                    room = 0;
                    atomic_store(&job->status, FDP_ERR_MEMORY);
                    continue;
                }
            }
            for (int64_t i = 0; i < n; i++) {
                const uint32_t *content = job->content + row[i] * (uint64_t)job->words;
                /* A single row needs no tie number. */
                const uint64_t tie = n > 1 ? tie_of(job->user_hash[u], job->words, content) : 0;
                mine[i] = (item){job->time[row[i]], tie, row[i], content, job->words};
            }
            qsort(mine, (size_t)n, sizeof *mine, by_time);
            for (int64_t i = 0; i < n; i++) row[i] = mine[i].row;
        }
    free(mine);
}

int fdp_order(int64_t users, const int64_t *start, uint64_t *rows, const uint64_t *user_hash,
              const uint64_t *time, int words, const uint32_t *content, int threads) {
    if (threads < 1 || words < 1) return FDP_ERR_ARGUMENT;
    order_job job = {.users = users, .start = start, .rows = rows, .user_hash = user_hash, .time = time};
    job.words = words;
    job.content = content;
    fdp_team_run(threads, order_work, &job);
    return atomic_load(&job.status);
}

/* Sums of shares are whole numbers, so the order in which threads add users does not matter. */
static void neighbours_work(fdp_team *team, int number, void *ctx) {
    order_job *job = ctx;
    uint64_t *tally = calloc((size_t)job->keys, sizeof *tally);
    (void)team, (void)number;
    if (tally == NULL) {
        atomic_store(&job->status, FDP_ERR_MEMORY);
        return;
    }
    for (int64_t from; (from = USERS_AT_ONCE * fdp_team_next(&job->next)) < job->users;)
        for (int64_t u = from; u < FDP_MIN(from + USERS_AT_ONCE, job->users); u++) {
            const uint32_t *x = job->this + job->start[u], *y = job->that + job->start[u];
            const uint64_t n = (uint64_t)(job->start[u + 1] - job->start[u]);
            if (n < 2 || job->group_of[u] < 0) continue;
            /* near: rows whose `this` is the next row's `that`. any: pairs of different rows in any
             * order, by a tally of the codes; a row does not meet itself. The tally is zeroed by the
             * same codes, for the next user. */
            uint64_t near = 0, any = 0;
            for (uint64_t i = 0; i + 1 < n; i++) near += x[i] == y[i + 1];
            for (uint64_t i = 0; i < n; i++) tally[x[i]]++;
            for (uint64_t i = 0; i < n; i++) any += tally[y[i]] - (x[i] == y[i]);
            for (uint64_t i = 0; i < n; i++) tally[x[i]] = 0;
            __atomic_fetch_add(job->out + job->group_of[u], (int64_t)((near << 20) / (n - 1)),
                               __ATOMIC_RELAXED);
            const uint64_t share = (uint64_t)(((unsigned __int128)any << 20) / (n * (n - 1)));
            __atomic_fetch_add(job->out + job->groups, (int64_t)share, __ATOMIC_RELAXED);
        }
    free(tally);
}

int fdp_neighbours(int64_t users, const int64_t *start, const uint32_t *this, const uint32_t *that,
                   const int32_t *group_of, int64_t groups, uint64_t keys, int threads, int64_t *out) {
    if (threads < 1 || keys < 1) return FDP_ERR_ARGUMENT;
    order_job job = {.users = users, .start = start, .this = this, .that = that, .keys = keys, .out = out};
    job.group_of = group_of;
    job.groups = groups;
    fdp_team_run(threads, neighbours_work, &job);
    return atomic_load(&job.status);
}
