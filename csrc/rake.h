/* Raking along a junction tree: one tour as a list of steps (estimate/dual/raking.py makes it).
 *
 * A step works on one table of rows x cols cells: every cell is multiplied by the ratio that an earlier step
 * left for it, and the products are added up onto a marginal. What is done with the sums is the step's rule:
 * at a TARGET they become the ratios that bring the marginal there, at a SEPARATOR the ratios that bring the
 * neighbour's table up to date. A target that has the cells of the table itself, in their order (WHOLE), is
 * reached at once: no sums, and no ratios are left. Views (view.h) say which entry of a marginal a cell
 * belongs to.
 *
 * Rows are split into lanes that depend on sizes alone; a lane adds up by itself what its rows reach (its
 * span), spans are added in order. So no result depends on the number of threads. */
#ifndef FDP_RAKE_H
#define FDP_RAKE_H

#include "fdp.h"
#include "team.h"
#include "view.h"

enum { FDP_RAKE_MULTIPLY = 0, FDP_RAKE_TARGET = 1, FDP_RAKE_SEPARATOR = 2, FDP_RAKE_WHOLE = 3 };

#define FDP_RAKE_PIECE 2048 /* entries of a marginal that a thread takes at a time */

typedef struct {
    double *cells; /* [rows * cols], in rows of the data, >= 0 */
    int64_t rows, cols;
    fdp_view multiply;
    const double *by; /* ratios of `multiply`, or NULL: nothing is multiplied in */
    int32_t rule;
    fdp_view project;
    int64_t size;          /* of the marginal, 0 where there are no sums */
    int64_t lanes;         /* lane l holds rows [rows * l / lanes, rows * (l + 1) / lanes) */
    const fdp_span *spans; /* [lanes] */
    double *goal;          /* [size] the target's table, or the separator as it was, which becomes the sums */
    double least;          /* added to target and sum before their ratio is taken, in rows */
    double weight;         /* 1 / standard error of the target */
    double *ratio;         /* [size] out */
    int64_t sum_at; /* squares of a target go to squares[sum_at ..), one per piece of FDP_RAKE_PIECE, or
                              per lane of WHOLE, which has no view, spans and ratio */
} fdp_rake_step;

/* All steps in order. work: room for the spans of any one step. squares: of ((target - sum) * weight),
 * by piece. Ratios of target / 0 rows are finite: 1e-300 rows are added. */
int fdp_rake_run(int64_t n, const fdp_rake_step *steps, fdp_team *team, double *work, double *squares);

#endif
