/* Projections of int64 tables, one axis at a time, at memory speed; independent ones on several threads. */
#include "count.h"

#include <stdlib.h>
#include <string.h>

#define CELLS_A_THREAD \
    (1 << 17) /* read by each, at least: 0.1 ms, a few times what it takes to make a thread */

/* The last axis: short contiguous runs. Four at once hide the latency of the additions. */
FDP_CLONES static void sum_runs(int64_t outer, int64_t middle, const int64_t *restrict in,
                                int64_t *restrict out) {
    int64_t o = 0;
    for (; o + 4 <= outer; o += 4, in += 4 * middle) {
        int64_t a = 0, b = 0, c = 0, d = 0;
        for (int64_t m = 0; m < middle; m++) {
            a += in[m];
            b += in[middle + m];
            c += in[2 * middle + m];
            d += in[3 * middle + m];
        }
        out[o] = a, out[o + 1] = b, out[o + 2] = c, out[o + 3] = d;
    }
    for (; o < outer; o++, in += middle) {
        int64_t a = 0;
        for (int64_t m = 0; m < middle; m++) a += in[m];
        out[o] = a;
    }
}

FDP_CLONES static void add_row(int64_t n, const int64_t *restrict in, int64_t *restrict out) {
    for (int64_t i = 0; i < n; i++) out[i] += in[i];
}

static void project(int64_t outer, int64_t middle, int64_t inner, const int64_t *in, int64_t *out) {
    if (inner == 1) {
        sum_runs(outer, middle, in, out);
        return;
    }
    for (int64_t o = 0; o < outer; o++, in += middle * inner, out += inner) {
        if (middle == 0) {
            memset(out, 0, sizeof *out * (size_t)inner);
            continue;
        }
        memcpy(out, in, sizeof *out * (size_t)inner);
        for (int64_t m = 1; m < middle; m++) add_row(inner, in + m * inner, out);
    }
}

typedef struct {
    const fdp_projections *steps;
    atomic_llong *next; /* one a level */
} project_job;

static void project_work(fdp_team *team, int number, void *ctx) {
    project_job *job = ctx;
    const fdp_projections *p = job->steps;
    (void)number;
    for (int l = 0; l < p->levels; l++) {
        for (int64_t s; (s = p->first[l] + fdp_team_next(&job->next[l])) < p->first[l + 1];)
            project(p->outer[s], p->middle[s], p->inner[s], p->in[s], p->out[s]);
        fdp_team_wait(team);
    }
}

int fdp_project(const fdp_projections *steps, fdp_team *team) {
    int64_t cells = 0, widest = 1;
    for (int l = 0; l < steps->levels; l++) {
        widest = FDP_MAX(widest, steps->first[l + 1] - steps->first[l]);
        for (int32_t s = steps->first[l]; s < steps->first[l + 1]; s++)
            cells += steps->outer[s] * steps->middle[s] * steps->inner[s];
    }
    atomic_llong *next = malloc(sizeof *next * (size_t)FDP_MAX(1, steps->levels));
    if (next == NULL) return FDP_ERR_MEMORY;
    for (int l = 0; l < steps->levels; l++) atomic_init(&next[l], 0);
    project_job job = {.steps = steps, .next = next};
    fdp_team_do(team, (int)FDP_MIN(FDP_TEAM_MAX, FDP_MIN(widest, 1 + cells / CELLS_A_THREAD)), project_work,
                &job);
    free(next);
    return FDP_OK;
}
