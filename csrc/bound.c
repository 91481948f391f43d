/* Rows of one user together, and a cap on them that depends on that user alone. */
#include "bound.h"
#include "team.h"

#include <stdlib.h>
#include <string.h>

int fdp_rows_per_user(int64_t rows, const uint32_t *user, uint32_t *count) {
    for (int64_t i = 0; i < rows; i++)
        if (++count[user[i]] == 0) return FDP_ERR_OVERFLOW;
    return FDP_OK;
}

int fdp_group(int64_t rows, const uint32_t *user, int64_t users, const uint32_t *count, const uint64_t *value,
              int64_t *start, uint64_t *sorted) {
    /* start[u + 1] serves as the place of user u's next row, so that it ends as the start of user u + 1. */
    int64_t place = 0;
    start[0] = 0;
    for (int64_t u = 0; u < users; u++) {
        start[u + 1] = place;
        place += count[u];
    }
    if (place != rows) return FDP_ERR_ARGUMENT;
    for (int64_t i = 0; i < rows; i++) {
        if (i + 16 < rows) __builtin_prefetch(&start[user[i + 16] + 1], 1);
        sorted[start[user[i] + 1]++] = value ? value[i] : (uint64_t)i;
    }
    return FDP_OK;
}

#define HASH(TYPE) \
    for (int64_t i = 0; i < rows; i++) hash[i] = fdp_mix2(hash[i], ((const TYPE *)column)[i])

FDP_CLONES static void hash8(int64_t rows, const void *column, uint64_t *restrict hash) {
    HASH(uint8_t);
}
FDP_CLONES static void hash16(int64_t rows, const void *column, uint64_t *restrict hash) {
    HASH(uint16_t);
}
FDP_CLONES static void hash32(int64_t rows, const void *column, uint64_t *restrict hash) {
    HASH(uint32_t);
}

int fdp_hash_column(int64_t rows, const void *column, int width, uint64_t *hash) {
    if (width == 1)
        hash8(rows, column, hash);
    else if (width == 2)
        hash16(rows, column, hash);
    else if (width == 4)
        hash32(rows, column, hash);
    else
        return FDP_ERR_ARGUMENT;
    return FDP_OK;
}

typedef struct {
    uint64_t hash, row;
} ranked;

static int by_hash(const void *a, const void *b) {
    const ranked *x = a, *y = b;
    if (x->hash != y->hash) return x->hash < y->hash ? -1 : 1;
    return (x->row > y->row) - (x->row < y->row);
}

typedef struct {
    int64_t users, k;
    const int64_t *start;
    const uint64_t *order, *content, *user_hash;
    uint8_t *keep;
    atomic_llong next;
    atomic_int status;
} cap_job;

/* Keeps at most k rows of one user; `rows` is room for all of them. */
static void cap_user(const cap_job *job, int64_t u, ranked *rows) {
    const int64_t n = job->start[u + 1] - job->start[u];
    const uint64_t *own_rows = job->order + job->start[u];
    for (int64_t i = 0; i < n; i++) rows[i] = (ranked){job->content[own_rows[i]], own_rows[i]};
    qsort(rows, (size_t)n, sizeof *rows, by_hash);
    /* Equal rows are told apart by their number among equals, so the multiset kept is order-free. */
    uint64_t content_before = 0, among = 0;
    for (int64_t i = 0; i < n; i++) {
        among = i && rows[i].hash == content_before ? among + 1 : 0;
        content_before = rows[i].hash;
        rows[i].hash = fdp_mix2(fdp_mix2(job->user_hash[u], content_before), among);
    }
    qsort(rows, (size_t)n, sizeof *rows, by_hash);
    for (int64_t i = 0; i < job->k; i++) job->keep[rows[i].row] = 1;
}

static void cap_work(fdp_team *team, int number, void *ctx) {
    cap_job *job = ctx;
    ranked *rows = NULL;
    int64_t room = 0;
    (void)team, (void)number;
    for (int64_t from; (from = USERS_AT_ONCE * fdp_team_next(&job->next)) < job->users;)
        for (int64_t u = from; u < FDP_MIN(from + USERS_AT_ONCE, job->users); u++) {
            const int64_t n = job->start[u + 1] - job->start[u];
            if (n <= job->k) {
                for (int64_t i = job->start[u]; i < job->start[u + 1]; i++) job->keep[job->order[i]] = 1;
                continue;
            }
            if (n > room) {
                free(rows);
                room = n * 2;
                rows = malloc(sizeof *rows * (size_t)room);
                if (rows == NULL) {
                    room = 0;
                    atomic_store(&job->status, FDP_ERR_MEMORY);
                    continue;
                }
            }
            cap_user(job, u, rows);
        }
    free(rows);
}

int fdp_cap(int64_t users, const int64_t *start, const uint64_t *order, const uint64_t *content,
            const uint64_t *user_hash, int64_t k, int threads, uint8_t *keep) {
    cap_job job = {.users = users,
                   .k = k,
                   .start = start,
                   .order = order,
                   .content = content,
                   .user_hash = user_hash,
                   .keep = keep};
    fdp_team_run(threads, cap_work, &job);
    return atomic_load(&job.status);
}
