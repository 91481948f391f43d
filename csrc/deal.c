/* Nested urns over rows in lexicographic order: rows that agree in the first m features lie together. */
#include "deal.h"
#include "sample_random.h"
#include "team.h"

#include <stdlib.h>
#include <string.h>

#define TRIES 8 /* earlier rows that are looked at before a feature less is copied */

typedef struct {
    const fdp_deal_plan *plan;
    uint32_t *owner;
    int64_t *equal;
    atomic_llong next;
    atomic_int status;
} deal_job;

/* One chunk. order: row of each place in lexicographic order; class_of[f * n + place]: the class of places
 * that agree in features 0..f, which begins at class_start[f * (n + 1) + class]; next: the next unused place
 * at or after this one (a forest with path halving), n: none; mine: places of the user at work. */
typedef struct {
    int64_t n;
    uint32_t *order, *spare, *class_of, *class_start, *next, *mine, *tally;
    stream random;
} chunk;

static inline uint32_t unused(uint32_t *next, uint32_t place) {
    while (next[place] != place) {
        next[place] = next[next[place]];
        place = next[place];
    }
    return place;
}

/* A random unused place of first .. last - 1; n where there is none. */
static inline uint32_t pick(chunk *c, uint32_t first, uint32_t last) {
    uint32_t place = unused(c->next, first + (uint32_t)below(next64(&c->random), last - first));
    if (place >= last) place = unused(c->next, first);
    return place < last ? place : (uint32_t)c->n;
}

/* Sorts the chunk's rows by their features, the first one first; rows that agree in all stay in order. */
static void sort_rows(const fdp_deal_plan *plan, int64_t base, chunk *c) {
    for (int64_t i = 0; i < c->n; i++) c->order[i] = (uint32_t)i;
    for (int64_t f = plan->features; f-- > 0;) {
        const uint32_t *code = plan->codes + f * plan->rows + base;
        memset(c->tally, 0, sizeof *c->tally * ((size_t)plan->size[f] + 1));
        for (int64_t i = 0; i < c->n; i++) c->tally[code[i] + 1]++;
        for (uint32_t v = 0; v < plan->size[f]; v++) c->tally[v + 1] += c->tally[v];
        for (int64_t i = 0; i < c->n; i++) c->spare[c->tally[code[c->order[i]]]++] = c->order[i];
        uint32_t *swap = c->order;
        c->order = c->spare;
        c->spare = swap;
    }
}

static void find_classes(const fdp_deal_plan *plan, int64_t base, chunk *c) {
    memset(c->spare, 0, sizeof *c->spare * (size_t)c->n); /* 1: differs from the place before */
    for (int64_t f = 0; f < plan->features; f++) {
        const uint32_t *code = plan->codes + f * plan->rows + base;
        uint32_t *class_of = c->class_of + f * c->n, *class_start = c->class_start + f * (c->n + 1);
        uint32_t class = 0;
        for (int64_t i = 0; i < c->n; i++) {
            if (i > 0 && code[c->order[i]] != code[c->order[i - 1]]) c->spare[i] = 1;
            if (i == 0 || c->spare[i]) class_start[class++] = (uint32_t)i;
            class_of[i] = class - 1;
        }
        class_start[class] = (uint32_t)c->n;
    }
}

static uint32_t next_place(const fdp_deal_plan *plan, chunk *c, uint32_t k, const double *alpha) {
    int64_t m = 0;
    if (k > 0) {
        const double u = unit(next64(&c->random));
        while (m < plan->features && u * (k + alpha[m]) < k) m++;
    }
    for (; m > 0; m--)
        for (int tries = 0; tries < TRIES; tries++) {
            const uint32_t parent = c->mine[below(next64(&c->random), k)];
            const uint32_t class = c->class_of[(m - 1) * c->n + parent];
            const uint32_t *start = c->class_start + (m - 1) * (c->n + 1) + class;
            const uint32_t place = pick(c, start[0], start[1]);
            if (place < c->n) return place;
        }
    return pick(c, 0, (uint32_t)c->n);
}

static void count_equal(const fdp_deal_plan *plan, int64_t base, chunk *c, uint32_t k, int64_t *equal) {
    for (int64_t f = 0; f < plan->features; f++) {
        const uint32_t *code = plan->codes + f * plan->rows + base;
        uint64_t pairs = 0;
        for (uint32_t i = 0; i < k; i++) pairs += c->tally[code[c->order[c->mine[i]]]]++;
        for (uint32_t i = 0; i < k; i++) c->tally[code[c->order[c->mine[i]]]] = 0;
        const int64_t share = (int64_t)(((u128)pairs << 21) / ((uint64_t)k * (k - 1)));
        __atomic_fetch_add(equal + f, share, __ATOMIC_RELAXED);
    }
}

static void deal_chunk(deal_job *job, int64_t number, chunk *c) {
    const fdp_deal_plan *plan = job->plan;
    const int64_t base = plan->row_start[number];
    uint32_t most = 0;
    c->random.state = stream_key(plan->seed, (uint64_t)number, 0, ORDER);
    sort_rows(plan, base, c);
    find_classes(plan, base, c);
    for (int64_t f = 0; f < plan->features; f++) most = FDP_MAX(most, plan->size[f]);
    memset(c->tally, 0, sizeof *c->tally * ((size_t)most + 1));
    for (int64_t i = 0; i <= c->n; i++) c->next[i] = (uint32_t)i;
    for (int64_t u = plan->user_start[number]; u < plan->user_start[number + 1]; u++) {
        const int64_t group = plan->group[u];
        for (uint32_t k = 0; k < plan->wanted[u]; k++) {
            const uint32_t place = next_place(plan, c, k, plan->alpha + group * plan->features);
            c->next[place] = place + 1;
            c->mine[k] = place;
            job->owner[base + c->order[place]] = (uint32_t)u;
        }
        if (job->equal != NULL && plan->wanted[u] > 1)
            count_equal(plan, base, c, plan->wanted[u], job->equal + group * plan->features);
    }
}

/* The rows wanted by the users of a chunk are its rows, and their groups exist. */
static int fits(const fdp_deal_plan *plan, int64_t number) {
    int64_t wanted = 0;
    for (int64_t u = plan->user_start[number]; u < plan->user_start[number + 1]; u++) {
        if (plan->group[u] >= plan->groups) return 0;
        wanted += plan->wanted[u];
    }
    return wanted == plan->row_start[number + 1] - plan->row_start[number] && wanted < UINT32_MAX;
}

static void deal_work(fdp_team *team, int member, void *ctx) {
    deal_job *job = ctx;
    const fdp_deal_plan *plan = job->plan;
    size_t values = 1;
    (void)team, (void)member;
    for (int64_t f = 0; f < plan->features; f++) values = FDP_MAX(values, (size_t)plan->size[f]);
    for (int64_t number; (number = fdp_team_next(&job->next)) < plan->chunks;) {
        const int64_t n = plan->row_start[number + 1] - plan->row_start[number];
        if (!fits(plan, number)) {
            atomic_store(&job->status, FDP_ERR_ARGUMENT);
            continue;
        }
        const size_t rows = (size_t)n, levels = (size_t)plan->features;
        uint32_t *room = malloc(sizeof *room * (4 * rows + 1 + levels * (2 * rows + 1) + values + 1));
        if (room == NULL) {
            atomic_store(&job->status, FDP_ERR_MEMORY);
            continue;
        }
        chunk c = {.n = n, .order = room, .spare = room + rows, .mine = room + 2 * rows};
        c.next = room + 3 * rows;
        c.class_of = c.next + rows + 1;
        c.class_start = c.class_of + levels * rows;
        c.tally = c.class_start + levels * (rows + 1);
        deal_chunk(job, number, &c);
        free(room);
    }
}

int fdp_deal(const fdp_deal_plan *plan, int threads, uint32_t *owner, int64_t *equal) {
    if (threads < 1 || plan->chunks < 0 || plan->features < 0) return FDP_ERR_ARGUMENT;
    deal_job job = {.plan = plan, .owner = owner, .equal = equal};
    fdp_team_run(threads, deal_work, &job);
    return atomic_load(&job.status);
}
