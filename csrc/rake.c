/* See rake.h. */
#include "rake.h"

#include <math.h>

#define NOTHING 1e-300 /* rows added to a divisor, so that it is never 0 */

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

FDP_CLONES
static void do_rows(const fdp_rake_step *s, int64_t from, int64_t to, double *sums) {
    for (int64_t i = from; i < to; i++) {
        double *u = s->cells + i * s->cols;
        if (s->by) scale_row(&s->multiply, s->by, i, s->cols, u);
        if (sums) fdp_view_add(&s->project, i, 0, s->cols, u, sums);
    }
}

/* Adds up the lanes of entries [from, to), leaves them at 0 and applies the rule; returns the squares. */
FDP_CLONES
static double conclude(const fdp_rake_step *s, int64_t from, int64_t to, double *work) {
    const int64_t lanes = s->disjoint ? 1 : s->lanes;
    double squares = 0;
    for (int64_t k = from; k < to; k++) {
        double now = 0;
        for (int64_t l = 0; l < lanes; l++) {
            now += work[l * s->size + k];
            work[l * s->size + k] = 0;
        }
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
    fdp_team_turns turns;
} run_job;

static void run_some(fdp_team *team, int number, void *ctx) {
    run_job *job = ctx;
    int64_t phase = 0;
    for (int64_t i = 0; i < job->n; i++) {
        const fdp_rake_step *s = job->steps + i;
        const int adds = s->rule != FDP_RAKE_MULTIPLY;
        FDP_TEAM_SHARE(&job->turns, phase, l, s->lanes) {
            double *sums = adds ? job->work + (s->disjoint ? 0 : l * s->size) : NULL;
            do_rows(s, s->rows * l / s->lanes, s->rows * (l + 1) / s->lanes, sums);
        }
        fdp_team_turn(team, number, &job->turns, &phase);
        if (!adds) continue;
        FDP_TEAM_SHARE(&job->turns, phase, piece, (s->size + FDP_RAKE_PIECE - 1) / FDP_RAKE_PIECE) {
            const int64_t k = piece * FDP_RAKE_PIECE;
            const double squares = conclude(s, k, FDP_MIN(k + FDP_RAKE_PIECE, s->size), job->work);
            if (s->rule == FDP_RAKE_TARGET) job->squares[s->sum_at + piece] = squares;
        }
        fdp_team_turn(team, number, &job->turns, &phase);
    }
}

int fdp_rake_run(int64_t n, const fdp_rake_step *steps, fdp_team *team, double *work, double *squares) {
    run_job job = {n, steps, work, squares};
    int64_t most = 0;
    fdp_team_turns_make(&job.turns);
    for (int64_t i = 0; i < n; i++) {
        if (steps[i].lanes < 1 || steps[i].rows < 0 || steps[i].cols < 1) return FDP_ERR_ARGUMENT;
        most = FDP_MAX(most, steps[i].rows * steps[i].cols);
    }
    fdp_team_do(team, fdp_team_worth(team, most), run_some, &job);
    return FDP_OK;
}
