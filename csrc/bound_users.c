/* Histograms of users: each user's keys are sorted among themselves, then one or few of them are counted. */
#include "bound.h"
#include "team.h"

#include <stdlib.h>

/* With at most so many keys, equal keys are tallied; with more they are sorted. */
#define TALLY_KEYS (1 << 20)

/* Order of 64-bit keys for qsort. */
static int by_value(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Most users have few rows: below 48 of them insertion beats a call of qsort for every comparison. */
static void sort_keys(uint64_t *key, int64_t n) {
    if (n > 48) {
        qsort(key, (size_t)n, sizeof *key, by_value);
        return;
    }
    for (int64_t i = 1; i < n; i++) {
        uint64_t k = key[i];
        int64_t j = i;
        for (; j > 0 && key[j - 1] > k; j--) key[j] = key[j - 1];
        key[j] = k;
    }
}

/* Arguments of all four functions; a comment names the one that a field is for. */
typedef struct {
    int64_t users;
    const int64_t *start;
    uint64_t *sorted;
    const uint64_t *user_hash;
    uint64_t keys;          /* most common: keys of the public set */
    const fdp_cellset *set; /* groups: the public cells */
    int64_t t_max, cap;
    const int32_t *group_of; /* agreement */
    uint64_t *mode;          /* most common: the key of each user, instead of the histogram */
    int64_t *out;
    atomic_llong next;
    atomic_int status;
} users_job;

/* Users are added one at a time to a shared histogram: whole numbers, so the order does not matter. */
static inline void add_one(int64_t *cell) {
    __atomic_fetch_add(cell, 1, __ATOMIC_RELAXED);
}

/* The most common of one user's keys below `keys`; false where it has none. */
static int most_common_key(const users_job *job, int64_t u, uint64_t *found) {
    uint64_t *key = job->sorted + job->start[u], best_tie = 0;
    int64_t n = job->start[u + 1] - job->start[u], most = 0;
    int tied = 0;
    *found = 0;
    sort_keys(key, n);
    /* Runs of equal keys, in ascending order: the longest so far wins, and of equally long ones the tie
     * number decides. */
    for (int64_t i = 0; i < n && key[i] < job->keys;) {
        int64_t j = i;
        while (j < n && key[j] == key[i]) j++;
        if (j - i > most) {
            most = j - i;
            *found = key[i];
            tied = 0;
        } else if (j - i == most) { /* tie numbers are computed where there are ties */
            if (!tied) best_tie = fdp_tie(job->user_hash[u], *found);
            tied = 1;
            const uint64_t tie = fdp_tie(job->user_hash[u], key[i]);
            if (tie < best_tie) {
                *found = key[i];
                best_tie = tie;
            }
        }
        i = j;
    }
    return most > 0;
}

/* Users of one thread: the key goes to `mode`, or one more user to the histogram. */
static void most_common_work(fdp_team *team, int number, void *ctx) {
    users_job *job = ctx;
    (void)team, (void)number;
    for (int64_t from; (from = USERS_AT_ONCE * fdp_team_next(&job->next)) < job->users;)
        for (int64_t u = from; u < FDP_MIN(from + USERS_AT_ONCE, job->users); u++) {
            uint64_t key;
            if (!most_common_key(job, u, &key)) continue;
            if (job->mode != NULL)
                job->mode[u] = key;
            else
                add_one(job->out + key);
        }
}

int fdp_most_common(int64_t users, const int64_t *start, uint64_t *sorted, const uint64_t *user_hash,
                    uint64_t keys, int threads, int64_t *out) {
    if (threads < 1) return FDP_ERR_ARGUMENT;
    users_job job = {
        .users = users, .start = start, .sorted = sorted, .user_hash = user_hash, .keys = keys, .out = out};
    fdp_team_run(threads, most_common_work, &job);
    return FDP_OK;
}

int fdp_modes(int64_t users, const int64_t *start, uint64_t *sorted, const uint64_t *user_hash, uint64_t keys,
              int threads, uint64_t *mode) {
    if (threads < 1) return FDP_ERR_ARGUMENT;
    users_job job = {
        .users = users, .start = start, .sorted = sorted, .user_hash = user_hash, .keys = keys, .mode = mode};
    fdp_team_run(threads, most_common_work, &job);
    return FDP_OK;
}

/* Ordered pairs of one user's rows that have the same key. With `tally`, zeros for all keys: each row meets
 * the equal rows before it, and the tally is zeroed again. Without: by sorting. */
static uint64_t equal_pairs(uint64_t *key, int64_t n, uint32_t *tally) {
    uint64_t pairs = 0;
    if (tally != NULL) {
        for (int64_t i = 0; i < n; i++) pairs += tally[key[i]]++;
        for (int64_t i = 0; i < n; i++) tally[key[i]] = 0;
        return 2 * pairs;
    }
    sort_keys(key, n);
    for (int64_t i = 0; i < n;) {
        int64_t j = i;
        while (j < n && key[j] == key[i]) j++;
        pairs += (uint64_t)(j - i) * (uint64_t)(j - i - 1);
        i = j;
    }
    return pairs;
}

/* floor(2^20 * share of agreeing pairs), added to the user's group. */
static void agreement_work(fdp_team *team, int number, void *ctx) {
    users_job *job = ctx;
    (void)team, (void)number;
    /* Without memory for a tally keys are sorted: slower, the same sums. */
    uint32_t *tally = job->keys <= TALLY_KEYS ? calloc((size_t)job->keys, sizeof *tally) : NULL;
    for (int64_t from; (from = USERS_AT_ONCE * fdp_team_next(&job->next)) < job->users;)
        for (int64_t u = from; u < FDP_MIN(from + USERS_AT_ONCE, job->users); u++) {
            const uint64_t n = (uint64_t)(job->start[u + 1] - job->start[u]);
            if (n < 2 || job->group_of[u] < 0) continue;
            const uint64_t equal = equal_pairs(job->sorted + job->start[u], (int64_t)n, tally);
            const int64_t share = (int64_t)(((unsigned __int128)equal << 20) / (n * (n - 1)));
            __atomic_fetch_add(job->out + job->group_of[u], share, __ATOMIC_RELAXED);
        }
    free(tally);
}

int fdp_agreement(int64_t users, const int64_t *start, uint64_t *sorted, const int32_t *group_of,
                  uint64_t keys, int threads, int64_t *out) {
    if (threads < 1 || keys < 1) return FDP_ERR_ARGUMENT;
    users_job job = {
        .users = users, .start = start, .sorted = sorted, .group_of = group_of, .keys = keys, .out = out};
    fdp_team_run(threads, agreement_work, &job);
    return FDP_OK;
}

/* A key of one user that has a place in the histogram. */
typedef struct {
    uint64_t hash; /* the key, then its tie number */
    int64_t place;
} group;

/* By tie number; of equal ones the smaller place, which is the smaller key. */
static int by_hash(const void *a, const void *b) {
    const group *x = a, *y = b;
    if (x->hash != y->hash) return x->hash < y->hash ? -1 : 1;
    return (x->place > y->place) - (x->place < y->place);
}

/* Place of a cell in the histogram, -1 where it has none. */
static inline int64_t place(const fdp_cellset *set, int64_t cell) {
    if (set->position != NULL) return set->position[cell];
    if (set->cells == NULL) return cell;
    int64_t lo = 0, hi = set->count;
    while (lo < hi) {
        int64_t mid = lo + (hi - lo) / 2;
        if (set->cells[mid] < cell)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < set->count && set->cells[lo] == cell ? lo : -1;
}

/* Counts at most `cap` groups of one user; `counted` is room for all of them. */
static void groups_user(const users_job *job, int64_t u, group *counted) {
    uint64_t *key = job->sorted + job->start[u];
    int64_t n = job->start[u + 1] - job->start[u], groups = 0;
    sort_keys(key, n);
    /* Each run of equal keys is a group of j - i rows; its cell is the pair (key, rows), with rows
     * capped at t_max. */
    for (int64_t i = 0; i < n;) {
        int64_t j = i;
        while (j < n && key[j] == key[i]) j++;
        int64_t at = place(job->set, (int64_t)key[i] * job->t_max + FDP_MIN(j - i, job->t_max) - 1);
        if (at >= 0) counted[groups++] = (group){key[i], at};
        i = j;
    }
    /* Keys ascend, and so do places: of equal tie numbers the smaller key is first. */
    if (groups > job->cap) {
        for (int64_t g = 0; g < groups; g++) counted[g].hash = fdp_tie(job->user_hash[u], counted[g].hash);
        qsort(counted, (size_t)groups, sizeof *counted, by_hash);
        groups = job->cap;
    }
    for (int64_t g = 0; g < groups; g++) add_one(job->out + counted[g].place);
}

/* Users of one thread, with room for the groups of the largest user so far. */
static void groups_work(fdp_team *team, int number, void *ctx) {
    users_job *job = ctx;
    group *counted = NULL;
    int64_t room = 0;
    (void)team, (void)number;
    for (int64_t from; (from = USERS_AT_ONCE * fdp_team_next(&job->next)) < job->users;)
        for (int64_t u = from; u < FDP_MIN(from + USERS_AT_ONCE, job->users); u++) {
            const int64_t n = job->start[u + 1] - job->start[u];
            if (n > room) {
                free(counted);
                room = n * 2;
                counted = malloc(sizeof *counted * (size_t)room);
                if (counted == NULL) {
                    room = 0;
                    atomic_store(&job->status, FDP_ERR_MEMORY);
                    continue;
                }
            }
            groups_user(job, u, counted);
        }
    free(counted);
}

int fdp_groups(int64_t users, const int64_t *start, uint64_t *sorted, const uint64_t *user_hash,
               const fdp_cellset *set, int64_t t_max, int64_t cap, int threads, int64_t *out) {
    if (threads < 1 || t_max < 1 || cap < 1) return FDP_ERR_ARGUMENT;
    users_job job = {.users = users,
                     .start = start,
                     .sorted = sorted,
                     .user_hash = user_hash,
                     .set = set,
                     .t_max = t_max,
                     .cap = cap,
                     .out = out};
    fdp_team_run(threads, groups_work, &job);
    return atomic_load(&job.status);
}
