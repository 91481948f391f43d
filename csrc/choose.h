/* Choosing whole users from a pool, such that counts of users and of their rows come out as wanted. */
#ifndef FDP_CHOOSE_H
#define FDP_CHOOSE_H

#include "fdp.h"

/* A user is in one cell of each of `facts` tables, facts[t * users + u], and each of its rows, row_start[u] ..
 * row_start[u + 1) - 1, in one cell of each of `columns` tables, codes[c * rows + row]. Cells of all tables are
 * numbered together: those of table t are first[t] .. first[t + 1) - 1, facts before columns.
 *
 * A row counts as 1; in the last `steps` tables of rows, as step[u] of its user.
 *
 * The sum over cells of weight * (count - target)^2 is a table's error; the choice lowers the sum of all errors.
 * Users should be sorted by their numbers of rows: three in four proposals exchange a chosen user for a neighbour
 * in that order, which hardly changes the number of rows. */
typedef struct {
    int64_t users, rows, facts, columns, steps;
    const uint32_t *facts_of, *codes;
    const double *step;
    const int64_t *row_start, *first;
    const double *target, *weight;
    int64_t sweeps;
    uint64_t seed;
} fdp_choice_plan;

/* chosen[u]: 1 for users of the choice, before and after; their number stays the same. In a sweep, each chosen
 * user is offered one exchange on average. It ends early where a sweep changes less than one user in 1024.
 * error: [facts + columns], of the tables at the end. Depends on its arguments alone. */
int fdp_choose(const fdp_choice_plan *plan, uint8_t *chosen, double *error);

#endif
