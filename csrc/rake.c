/* See rake.h. */
#include "rake.h"

#include <math.h>
#include <string.h>

#define NOTHING 1e-300 /* rows added to a divisor, so that it is never 0 */

/* Multiplies row i of the table by its ratios: one for the row, one for each cell, or one by a map. */
static inline void scale_row(const fdp_view *view, const double *by, int64_t i, int64_t n, double *u) {
    const double *r = by + fdp_view_base(view, i);
    if (view->kind == FDP_VIEW_ROW) {
        const double f = r[0];
        for (int64_t j = 0; j < n; j++) u[j] *= f;
    } else if (view->kind == FDP_VIEW_CELL) {
        for (int64_t j = 0; j < n; j++) u[j] *= r[j];
    } else {
        for (int64_t j = 0; j < n; j++) u[j] *= r[view->map[j]];
    }
}

/* Rows of one lane: multiplied by the ratios of an earlier step, then added up onto the marginal. */
FDP_CLONES
static void do_rows(const fdp_rake_step *s, int64_t from, int64_t to, double *sums) {
    for (int64_t i = from; i < to; i++) {
        double *u = s->cells + i * s->cols;
        if (s->by) scale_row(&s->multiply, s->by, i, s->cols, u);
        if (sums) fdp_view_add(&s->project, i, 0, s->cols, u, sums);
    }
}

/* Brings n cells to their targets; returns the squares of what they lacked. */
static inline __attribute__((always_inline)) double
reach_row(int64_t n, double least, double weight, const double *restrict goal, double *restrict u) {
    const double below = fmax(least, NOTHING);
    double squares = 0;
#pragma omp simd reduction(+ : squares)
    for (int64_t j = 0; j < n; j++) {
        const double gap = (goal[j] - u[j]) * weight;
        squares += gap * gap;
        u[j] *= (goal[j] + least) / (u[j] + below);
    }
    return squares;
}

/* Rows of one lane whose target has the cells of the table itself. */
FDP_CLONES
static double reach_rows(const fdp_rake_step *s, int64_t from, int64_t to) {
    double squares = 0;
    for (int64_t i = from; i < to; i++) {
        double *u = s->cells + i * s->cols;
        if (s->by) scale_row(&s->multiply, s->by, i, s->cols, u);
        squares += reach_row(s->cols, s->least, s->weight, s->goal + i * s->cols, u);
    }
    return squares;
}

/* Adds up the lanes of entries [from, to) and applies the rule; returns the squares. */
FDP_CLONES
static double conclude(const fdp_rake_step *s, int64_t from, int64_t to, const double *work) {
    double squares = 0, sums[FDP_RAKE_PIECE];
    memset(sums, 0, sizeof sums);
    /* Each lane added up what its rows reach; the parts that lie in [from, to) are added in order of
     * lanes. */
    for (int64_t l = 0; l < s->lanes; l++) {
        const fdp_span *span = s->spans + l;
        const int64_t a = FDP_MAX(span->from, from), b = FDP_MIN(span->from + span->size, to);
        const double *own = work + span->edge - span->from;
        for (int64_t k = a; k < b; k++) sums[k - from] += own[k];
    }
    /* A target leaves the ratio of target to sum. A separator leaves that of new to old, and becomes
     * new. */
    for (int64_t k = from; k < to; k++) {
        const double now = sums[k - from];
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

/* A tour under way. Each step has two halves: rows are multiplied and added up; then the sums become
 * ratios. */
typedef struct {
    int64_t n;
    const fdp_rake_step *steps;
    double *work, *squares;
    int64_t at, concludes; /* the step, and its second half */
} run_job;

/* One lane of the first half, or one piece of entries of the second. */
static void run_piece(void *ctx, int64_t concludes, int64_t i) {
    run_job *job = ctx;
    const fdp_rake_step *s = job->steps + job->at;
    if (concludes) {
        const int64_t k = i * FDP_RAKE_PIECE;
        const double squares = conclude(s, k, FDP_MIN(k + FDP_RAKE_PIECE, s->size), job->work);
        if (s->rule == FDP_RAKE_TARGET) job->squares[s->sum_at + i] = squares;
    } else if (s->rule == FDP_RAKE_WHOLE) {
        job->squares[s->sum_at + i] = reach_rows(s, s->rows * i / s->lanes, s->rows * (i + 1) / s->lanes);
    } else {
        /* The span of the lane holds the entries that its rows reach; shifted, so that entries keep
         * their numbers. */
        double *sums = NULL;
        if (s->rule != FDP_RAKE_MULTIPLY) {
            sums = job->work + s->spans[i].edge;
            memset(sums, 0, (size_t)s->spans[i].size * sizeof *sums);
            sums -= s->spans[i].from;
        }
        do_rows(s, s->rows * i / s->lanes, s->rows * (i + 1) / s->lanes, sums);
    }
}

/* The second half of the step if it has sums, else the first half of the next one. */
static int64_t run_plan(void *ctx, int64_t *concludes) {
    run_job *job = ctx;
    if (job->at >= 0 && !job->concludes && job->steps[job->at].size > 0) {
        job->concludes = *concludes = 1;
        return (job->steps[job->at].size + FDP_RAKE_PIECE - 1) / FDP_RAKE_PIECE;
    }
    job->concludes = *concludes = 0;
    return ++job->at < job->n ? job->steps[job->at].lanes : 0;
}

int fdp_rake_run(int64_t n, const fdp_rake_step *steps, fdp_team *team, double *work, double *squares) {
    run_job job = {n, steps, work, squares, -1, 0};
    int64_t most = 0;
    for (int64_t i = 0; i < n; i++) {
        if (steps[i].lanes < 1 || steps[i].rows < 0 || steps[i].cols < 1) return FDP_ERR_ARGUMENT;
        most = FDP_MAX(most, steps[i].rows * steps[i].cols);
    }
    fdp_team_steps(team, fdp_team_worth(team, most), FDP_TEAM_SPREAD, run_plan, run_piece, &job);
    return FDP_OK;
}
