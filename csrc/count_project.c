/* Projections of int64 tables, one axis at a time, at memory speed; independent ones on several threads. */
#include "count.h"

#include <stdlib.h>
#include <string.h>

#define CELLS_A_THREAD (1 << 15) /* read by each, at least: 20 us */
#define SLAB (1 << 14)           /* cells of a table that a thread reads for all steps: they stay in L2 */

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

/* Rows of n cells, `stride` cells from one to the next, added to `out`; four at once spare it three loads. */
FDP_CLONES static void add_rows(int64_t rows, int64_t n, int64_t stride, const int64_t *restrict in,
                                int64_t *restrict out) {
    int64_t m = 0;
    for (; m + 4 <= rows; m += 4, in += 4 * stride)
        for (int64_t i = 0; i < n; i++)
            out[i] += (in[i] + in[stride + i]) + (in[2 * stride + i] + in[3 * stride + i]);
    for (; m < rows; m++, in += stride)
        for (int64_t i = 0; i < n; i++) out[i] += in[i];
}

/* Cells of the table that a step reads. */
static int64_t cells_of(const fdp_projections *p, int32_t step) {
    return p->outer[step] * p->middle[step] * p->inner[step];
}

/* Part `part` of a step: of the outer axis, or of the inner one where that is too short. */
static void project(const fdp_projections *p, int32_t step, int64_t part) {
    const int64_t middle = p->middle[step], inner = p->inner[step], slabs = 1 + cells_of(p, step) / SLAB;
    const int by_outer = inner == 1 || 2 * p->outer[step] >= slabs;
    const int64_t parts = FDP_MIN(slabs, FDP_MAX(1, by_outer ? p->outer[step] : inner));
    if (part >= parts) return;
    /* The part as a range of the outer axis, or of the inner one; the other axis is whole. */
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
        memset(out, 0, sizeof *out * (size_t)n);
        add_rows(middle, n, inner, in, out);
    }
}

/* Part `part` of the steps first .. end - 1, which read the same table. */
typedef struct {
    int32_t first, end;
    int64_t part;
} project_unit;

/* All levels. The tables that a level reads are made by the levels before it. */
typedef struct {
    int levels, level;
    const fdp_projections *steps;
    project_unit *units;
    int64_t *ends; /* [1 + levels] units before a level, and before its end */
} project_job;

/* One unit: the same slab of a table for all steps that read it, while it is in the cache. */
static void project_piece(void *ctx, int64_t level, int64_t i) {
    const project_job *job = ctx;
    const project_unit *unit = job->units + job->ends[level] + i;
    for (int32_t s = unit->first; s < unit->end; s++) project(job->steps, s, unit->part);
}

/* The next level that has units. */
static int64_t project_plan(void *ctx, int64_t *level) {
    project_job *job = ctx;
    while (++job->level < job->levels)
        if (job->ends[job->level] < job->ends[job->level + 1]) break;
    *level = job->level;
    return job->level < job->levels ? job->ends[job->level + 1] - job->ends[job->level] : 0;
}

int fdp_project(const fdp_projections *steps, fdp_team *team) {
    int64_t cells = 0, units = 0;
    for (int32_t s = 0; s < steps->first[steps->levels]; s++) units += 1 + cells_of(steps, s) / SLAB;
    project_job job = {.levels = steps->levels, .level = -1, .steps = steps};
    job.units = malloc(sizeof *job.units * (size_t)(units + 1));
    job.ends = malloc(sizeof *job.ends * (size_t)(steps->levels + 1));
    const int ready = job.units && job.ends;
    units = 0;
    if (ready) job.ends[0] = 0;
    /* Units of each level: consecutive steps that read the same table are taken together. */
    for (int l = 0; ready && l < steps->levels; l++) {
        for (int32_t s = steps->first[l], end; s < steps->first[l + 1]; s = end) {
            for (end = s; end < steps->first[l + 1] && steps->in[end] == steps->in[s]; end++)
                cells += cells_of(steps, end);
            for (int64_t part = 0; part <= cells_of(steps, s) / SLAB; part++)
                job.units[units++] = (project_unit){s, end, part};
        }
        job.ends[l + 1] = units;
    }
    if (ready)
        fdp_team_steps(team, (int)FDP_MIN(FDP_TEAM_MAX, 1 + cells / CELLS_A_THREAD), FDP_TEAM_SPREAD,
                       project_plan, project_piece, &job);
    free(job.units);
    free(job.ends);
    return ready ? FDP_OK : FDP_ERR_MEMORY;
}
