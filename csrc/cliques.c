/* Marginals of many cliques: see cliques.h. */
#include "cliques.h"
#include "team.h"

#include <stdlib.h>
#include <string.h>

#define MAX_DIMS 64

/* Sum of a run, in four chains so that additions need not wait for each other. */
FDP_CLONES static double sum_run(int64_t n, const double *restrict in) {
    double a = 0, b = 0, c = 0, d = 0;
    int64_t i = 0;
    for (; i + 4 <= n; i += 4) a += in[i], b += in[i + 1], c += in[i + 2], d += in[i + 3];
    for (; i < n; i++) a += in[i];
    return (a + b) + (c + d);
}

/* out += in. */
FDP_CLONES static void add_run(int64_t n, const double *restrict in, double *restrict out) {
    for (int64_t i = 0; i < n; i++) out[i] += in[i];
}

/* out += w * in. */
FDP_CLONES static void add_scaled(int64_t n, double w, const double *restrict in, double *restrict out) {
    for (int64_t i = 0; i < n; i++) out[i] += w * in[i];
}

/* Divides each run of `row` cells by its sum: conditional probabilities of the last axes. */
static void normalise(int64_t cells, int64_t row, double *out) {
    for (int64_t at = 0; at + row <= cells; at += row) {
        const double sum = sum_run(row, out + at);
        const double by = sum > 0 ? 1 / sum : 0;
        for (int64_t i = 0; i < row; i++) out[at + i] *= by;
    }
}

/* One sum step: an odometer over all axes but the last, whose codes are one run of the input. */
static void sum_table(const fdp_sum_step *s) {
    int64_t code[MAX_DIMS] = {0};
    const int last = s->dims - 1;
    const double *in = s->in;
    memset(s->out, 0, sizeof *s->out * (size_t)s->cells);
    if (s->dims == 0) {
        s->out[0] = in[0];
    } else {
        const int64_t n = s->n[last], stride = s->stride[last];
        int64_t to = 0;
        for (;;) {
            /* The last axis is summed over, kept in place, or kept with a stride. */
            if (stride == 0)
                s->out[to] += sum_run(n, in);
            else if (stride == 1)
                add_run(n, in, s->out + to);
            else
                for (int64_t i = 0; i < n; i++) s->out[to + i * stride] += in[i];
            in += n;
            /* The next run: one step on the axis before, with a carry to earlier ones. */
            int axis = last - 1;
            for (; axis >= 0; axis--) {
                to += s->stride[axis];
                if (++code[axis] < s->n[axis]) break;
                to -= s->stride[axis] * s->n[axis];
                code[axis] = 0;
            }
            if (axis < 0) break;
        }
    }
    if (s->row > 0) normalise(s->cells, s->row, s->out);
}

/* One carry step: each entry of a line, times its row of the step, added where the view says. */
static void carry(const fdp_carry_step *s) {
    memset(s->out, 0, sizeof *s->out * (size_t)(s->lines * s->cells));
    for (int64_t a = 0; a < s->lines; a++) {
        const double *from = s->from + (s->line ? s->line[a] : a * s->rows);
        double *out = s->out + a * s->cells;
        for (int64_t r = 0; r < s->rows; r++) {
            const double w = from[s->place ? s->place[r] : r], *step = s->step + r * s->row;
            if (w == 0) continue;
            double *to = out + fdp_view_base(&s->view, r);
            if (s->view.kind == FDP_VIEW_CELL)
                add_scaled(s->row, w, step, to);
            else
                for (int64_t o = 0; o < s->row; o++) to[s->view.map[o]] += w * step[o];
        }
    }
}

typedef struct {
    int64_t sums_len;
    const fdp_sum_step *sums;
    int levels;
    const int64_t *first;
    const fdp_carry_step *carries;
    atomic_llong *next; /* one for the sums, one a level */
} cliques_job;

/* Of every thread: sums from a common counter, then a level of carries after the other. All wait before a
 * level, since it reads what the one before has written. */
static void cliques_work(fdp_team *team, int number, void *ctx) {
    cliques_job *job = ctx;
    (void)number;
    for (int64_t i; (i = fdp_team_next(&job->next[0])) < job->sums_len;) sum_table(&job->sums[i]);
    for (int l = 0; l < job->levels; l++) {
        fdp_team_wait(team);
        for (int64_t i; (i = job->first[l] + fdp_team_next(&job->next[l + 1])) < job->first[l + 1];)
            carry(&job->carries[i]);
    }
}

int fdp_cliques(int64_t sums_len, const fdp_sum_step *sums, int levels, const int64_t *first,
                const fdp_carry_step *carries, int threads) {
    for (int64_t i = 0; i < sums_len; i++)
        if (sums[i].dims < 0 || sums[i].dims > MAX_DIMS) return FDP_ERR_ARGUMENT;
    atomic_llong *next = malloc(sizeof *next * (size_t)(levels + 1));
    if (next == NULL) return FDP_ERR_MEMORY;
    for (int l = 0; l <= levels; l++) atomic_init(&next[l], 0);
    cliques_job job = {sums_len, sums, levels, first, carries, next};
    fdp_team_run(threads, cliques_work, &job);
    free(next);
    return FDP_OK;
}
