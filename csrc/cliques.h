/* Marginals of many cliques of a tree of tables in one call: sums over axes, and products that carry a
 * marginal from one separator to the next. All tables are float64. */
#ifndef FDP_CLIQUES_H
#define FDP_CLIQUES_H

#include "fdp.h"
#include "view.h"

/* Sums a table over some of its axes. The table has `dims` axes of n[0] .. n[dims - 1] codes in C order; a
 * cell is added to the place of `out` that is the sum over axes of (code * stride), 0 for an axis that is
 * summed over. out[cells] is overwritten. With `row` > 0 each run of `row` cells of the result is divided by
 * its sum (a run that sums to 0 stays 0). */
typedef struct {
    int dims;
    const int64_t *n;
    const int64_t *stride;
    int64_t cells;
    int64_t row;
    const double *in;
    double *out;
} fdp_sum_step;

/* out[a, e] = sum over the (r, o) that the view leads to entry e of from[a, r] * step[r, o], for `lines`
 * values of a, `rows` of r, `row` of o; out is [lines, cells] and overwritten. With `line` and `place` (both,
 * or both NULL), from[a, r] is from[line[a] + place[r]]. */
typedef struct {
    int64_t lines;
    int64_t rows;
    int64_t row;
    int64_t cells;
    fdp_view view; /* of out[a, :] in step; not FDP_VIEW_ROW */
    const double *from;
    const double *step;
    double *out;
    const int32_t *line;
    const int32_t *place;
} fdp_carry_step;

/* All sums in any order; then the carries, level by level: those of first[l] .. first[l + 1] - 1 read nothing
 * that a carry of the same level or a later one writes. Each step is done by one thread in one order: bits do
 * not depend on `threads`. */
int fdp_cliques(int64_t sums_len, const fdp_sum_step *sums, int levels, const int64_t *first,
                const fdp_carry_step *carries, int threads);

#endif
