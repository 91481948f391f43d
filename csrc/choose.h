/* Choosing whole users from a pool, such that counts of users and of their rows come out as wanted. */
#ifndef FDP_CHOOSE_H
#define FDP_CHOOSE_H

#include "fdp.h"

/* A table of rows. With code c(row) in column c: a row is in cell one(row) * width + other(row); where other
 * < 0, in cell one(row); where one < 0 too, in cell 0. */
typedef struct {
    int64_t one, other, width;
} fdp_row_table;

/* A user is in one cell of each of `facts` tables, facts_of[t * users + u], and each of its rows,
 * row_start[u] .. row_start[u + 1) - 1, in one cell of each of `columns` tables, of_rows[c], by its codes,
 * codes[column * rows + row]. Cells of all tables are numbered together: those of table t are first[t] ..
 * first[t + 1) - 1, facts before columns.
 *
 * A row counts as 1; in the last `steps` tables of rows, as step[u] of its user.
 *
 * The sum over cells of weight * (count - target)^2 is a table's error; the choice lowers the sum of all
 * errors. Users should be sorted by their numbers of rows: three in four exchanges are with neighbours in
 * that order, which hardly change the number of rows.
 *
 * The pool is divided into `parts`, user u being in part u mod parts. Each part is chosen from by itself,
 * with the part of the targets that its chosen users are of all, and weights that are as many times as
 * large: the sum over parts of these errors is no less than the error of the whole (Cauchy and Schwarz). */
typedef struct {
    int64_t users, rows, facts, columns, steps, parts;
    const uint32_t *facts_of, *codes;
    const fdp_row_table *of_rows;
    const double *step;
    const int64_t *row_start, *first;
    const double *target, *weight;
    int64_t sweeps;
    double least; /* a sweep that lowers the error by less than this for each cell is the last */
    uint64_t seed;
} fdp_choice_plan;

/* chosen[u]: 1 for users of the choice, before and after; their number stays the same. In a sweep each
 * chosen user is taken out once, and the best of it and of FDP_OFFERS others is put in; the second best of them is
 * kept, and is one of the others when the next of its neighbours is taken out. error: [facts +
 * columns], of the tables at the end; NULL: not worked out. Depends on its arguments alone, not on the number of threads. A
 * thread needs 4 bytes for each cell that a user of its part, or a row of these, is in, and 24 for each
 * cell of the tables. */
#define FDP_OFFERS 4
int fdp_choose(const fdp_choice_plan *plan, int threads, uint8_t *chosen, double *error);

/* Adds weight[u] to the count of the cell of each row of each user u in each of `tables` tables: those of table t are
 * count[first[t]] .. count[first[t + 1] - 1]. FDP_ERR_ARGUMENT where a cell is outside its table. */
typedef struct {
    int64_t users, rows, tables;
    const uint32_t *codes;
    const fdp_row_table *of_rows;
    const int64_t *row_start, *first;
    const double *weight;
} fdp_row_counts_plan;
int fdp_row_counts(const fdp_row_counts_plan *plan, double *count);

/* Users of a pool in cells of several tables, and in lines. cell[u * cells + t]: the cell of user u in table t;
 * value[u * lines + l]: how much user u counts in line l. Cells and lines are numbered together, from 0 to
 * factors - 1; line[l]: the number of line l. */
typedef struct {
    int64_t users, cells, lines, factors;
    const uint32_t *cell;
    const double *value;
    const int64_t *line;
    const double *even;
    double most;
} fdp_weigh_plan;

/* The sum of all weights: of user u even[u] times the exponential of the sum of the factors of its cells, and of
 * its lines by how much it counts there, at most `most`. count[factors]: the sums of weights in each cell, and
 * of weights by how much users count in each line. Sums run over users in order, so that no number
 * of threads changes their last bits. */
double fdp_weigh(const fdp_weigh_plan *plan, const double *factor, double *count);

/* out[u] = how many different codes, all below `size`, the rows of user u have. FDP_ERR_ARGUMENT where one
 * is not. */
int fdp_distinct(int64_t users, const int64_t *row_start, const uint32_t *codes, int64_t size, int64_t *out);

/* out[u] = how many pairs of rows of user u have the same code; codes as above. */
int fdp_equal_pairs(int64_t users, const int64_t *row_start, const uint32_t *codes, int64_t size,
                    int64_t *out);

#endif
