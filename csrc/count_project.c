/* Projections of int64 tables, one axis at a time, at memory speed; independent ones on several threads. */
#include "count.h"

#include <stdlib.h>
#include <string.h>

#define CELLS_A_THREAD (1 << 15) /* read by each, at least: 25 us */

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

/* Part `part` of `parts` of a step: of the outer axis, or of the inner one where that is longer. */
static void project(const fdp_projections *p, int64_t step, int64_t part, int64_t parts) {
    const int64_t middle = p->middle[step], inner = p->inner[step], by_outer = p->outer[step] >= inner;
    const int64_t first = by_outer ? p->outer[step] * part / parts : 0;
    const int64_t last = by_outer ? p->outer[step] * (part + 1) / parts : p->outer[step];
    const int64_t from = by_outer ? 0 : inner * part / parts;
    const int64_t n = (by_outer ? inner : inner * (part + 1) / parts) - from;
    const int64_t *in = p->in[step] + first * middle * inner + from;
    int64_t *out = p->out[step] + first * inner + from;
    if (inner == 1) {
        sum_runs(last - first, middle, in, out);
        return;
    }
    for (int64_t o = first; o < last; o++, in += middle * inner, out += inner) {
        if (middle == 0) {
            memset(out, 0, sizeof *out * (size_t)n);
            continue;
        }
        memcpy(out, in, sizeof *out * (size_t)n);
        for (int64_t m = 1; m < middle; m++) add_row(n, in + m * inner, out);
    }
}

typedef struct {
    int64_t step, part, parts;
} project_unit;

typedef struct {
    int levels, level;
    const fdp_projections *steps;
    project_unit *units;
    int64_t *ends; /* [1 + levels] units before a level, and before its end */
} project_job;

static void project_piece(void *ctx, int64_t level, int64_t i) {
    const project_job *job = ctx;
    const project_unit *unit = job->units + job->ends[level] + i;
    project(job->steps, unit->step, unit->part, unit->parts);
}

static int64_t project_plan(void *ctx, int64_t *level) {
    project_job *job = ctx;
    while (++job->level < job->levels)
        if (job->ends[job->level] < job->ends[job->level + 1]) break;
    *level = job->level;
    return job->level < job->levels ? job->ends[job->level + 1] - job->ends[job->level] : 0;
}

int fdp_project(const fdp_projections *steps, fdp_team *team) {
    int64_t cells = 0, units = 0;
    const int32_t n = steps->first[steps->levels];
#define CELLS(s) (steps->outer[s] * steps->middle[s] * steps->inner[s])
    for (int32_t s = 0; s < n; s++) units += 1 + CELLS(s) / CELLS_A_THREAD;
    project_job job = {.levels = steps->levels, .level = -1, .steps = steps};
    job.units = malloc(sizeof *job.units * (size_t)(units + 1));
    job.ends = malloc(sizeof *job.ends * (size_t)(steps->levels + 1));
    const int ready = job.units && job.ends;
    units = 0;
    if (ready) job.ends[0] = 0;
    for (int l = 0; ready && l < steps->levels; l++) {
        for (int32_t s = steps->first[l]; s < steps->first[l + 1]; s++) {
            const int64_t longest = FDP_MAX(1, FDP_MAX(steps->outer[s], steps->inner[s]));
            const int64_t parts = FDP_MIN(longest, 1 + CELLS(s) / CELLS_A_THREAD);
            for (int64_t part = 0; part < parts; part++) job.units[units++] = (project_unit){s, part, parts};
            cells += CELLS(s);
        }
        job.ends[l + 1] = units;
    }
#undef CELLS
    if (ready)
        fdp_team_steps(team, (int)FDP_MIN(FDP_TEAM_MAX, 1 + cells / CELLS_A_THREAD), FDP_TEAM_SPREAD,
                       project_plan, project_piece, &job);
    free(job.units);
    free(job.ends);
    return ready ? FDP_OK : FDP_ERR_MEMORY;
}
