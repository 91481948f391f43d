/* See rake.h. */
#include "rake.h"

#include <math.h>
#include <string.h>

#define NOTHING 1e-300 /* rows added to a divisor, so that it is never 0 */

static inline void scale_row(const fdp_rake_view *view, const double *by, int64_t i, int64_t n, double *u) {
    const double *r = by + (view->base ? view->base[i] : 0);
    if (view->kind == FDP_VIEW_ROW) {
        const double f = r[0];
        for (int64_t j = 0; j < n; j++) u[j] *= f;
    } else if (view->kind == FDP_VIEW_CELL) {
        for (int64_t j = 0; j < n; j++) u[j] *= r[j];
    } else {
        for (int64_t j = 0; j < n; j++) u[j] *= r[view->map[j]];
    }
}

static inline void add_row(const fdp_rake_view *view, int64_t i, int64_t n, const double *u, double *sums) {
    double *e = sums + (view->base ? view->base[i] : 0);
    if (view->kind == FDP_VIEW_ROW) {
        double sum = 0;
#pragma omp simd reduction(+ : sum)
        for (int64_t j = 0; j < n; j++) sum += u[j];
        e[0] += sum;
    } else if (view->kind == FDP_VIEW_CELL) {
        for (int64_t j = 0; j < n; j++) e[j] += u[j];
    } else {
        for (int64_t j = 0; j < n; j++) e[view->map[j]] += u[j];
    }
}

FDP_CLONES
static void do_rows(const fdp_rake_step *s, int64_t from, int64_t to, double *sums) {
    for (int64_t i = from; i < to; i++) {
        double *u = s->cells + i * s->cols;
        if (s->by) scale_row(&s->multiply, s->by, i, s->cols, u);
        if (sums) add_row(&s->project, i, s->cols, u, sums);
    }
}

/* Adds up the lanes of entries [from, to) and applies the rule; returns the squares. */
FDP_CLONES
static double conclude(const fdp_rake_step *s, int64_t from, int64_t to, const double *work) {
    const int64_t lanes = s->disjoint ? 1 : s->lanes;
    double squares = 0;
    for (int64_t k = from; k < to; k++) {
        double now = 0;
        for (int64_t l = 0; l < lanes; l++) now += work[l * s->size + k];
        if (s->rule == FDP_RAKE_TARGET) {
            const double gap = (s->goal[k] - now) * s->weight;
            squares += gap * gap;
            s->ratio[k] = (s->goal[k] + s->least) / (now + fmax(s->least, NOTHING));
        } else {
            s->ratio[k] = s->goal[k] > 0 ? now / s->goal[k] : 0.0;
            s->goal[k] = now;
        }
    }
    return squares;
}

typedef struct {
    int64_t n;
    const fdp_rake_step *steps;
    double *work, *squares;
    atomic_llong next[3];
} run_job;

/* Phase p counts with next[p % 3]. The counter of the phase after it was last used two phases ago, which all
 * have left: it is set back meanwhile. */
static void end_phase(fdp_team *team, int number, run_job *job, int64_t *phase) {
    if (number == 0) atomic_store(&job->next[(*phase + 1) % 3], 0);
    fdp_team_wait(team);
    *phase += 1;
}

static void run_some(fdp_team *team, int number, void *ctx) {
    run_job *job = ctx;
    int64_t phase = 0;
    for (int64_t i = 0; i < job->n; i++) {
        const fdp_rake_step *s = job->steps + i;
        const int adds = s->rule != FDP_RAKE_MULTIPLY;
        if (adds && s->disjoint && number == 0) memset(job->work, 0, (size_t)s->size * sizeof(double));
        if (adds && s->disjoint) end_phase(team, number, job, &phase);
        for (int64_t l; (l = fdp_team_next(&job->next[phase % 3])) < s->lanes;) {
            double *sums = adds ? job->work + (s->disjoint ? 0 : l * s->size) : NULL;
            if (adds && !s->disjoint) memset(sums, 0, (size_t)s->size * sizeof(double));
            do_rows(s, s->rows * l / s->lanes, s->rows * (l + 1) / s->lanes, sums);
        }
        end_phase(team, number, job, &phase);
        if (!adds) continue;
        for (int64_t k; (k = fdp_team_next(&job->next[phase % 3]) * FDP_RAKE_PIECE) < s->size;) {
            const double squares = conclude(s, k, FDP_MIN(k + FDP_RAKE_PIECE, s->size), job->work);
            if (s->rule == FDP_RAKE_TARGET) job->squares[s->sum_at + k / FDP_RAKE_PIECE] = squares;
        }
        end_phase(team, number, job, &phase);
    }
}

int fdp_rake_run(int64_t n, const fdp_rake_step *steps, fdp_team *team, double *work, double *squares) {
    run_job job = {n, steps, work, squares};
    for (int i = 0; i < 3; i++) atomic_init(&job.next[i], 0);
    for (int64_t i = 0; i < n; i++)
        if (steps[i].lanes < 1 || steps[i].rows < 0 || steps[i].cols < 1) return FDP_ERR_ARGUMENT;
    fdp_team_do(team, team->most, run_some, &job);
    return FDP_OK;
}
