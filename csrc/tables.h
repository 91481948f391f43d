/* Whole tables of float64 by a team of threads: copies, products, sums. Blocks depend on sizes alone and are
 * added up in order, so no result depends on the number of threads. */
#ifndef FDP_TABLES_H
#define FDP_TABLES_H

#include "fdp.h"
#include "team.h"

#define FDP_TABLES_AXES 64
#define FDP_TABLES_BLOCKS 64 /* of what is added up or compared, at most */

/* Writes to every page of fresh memory, which the system then provides: whole large pages to one thread each,
 * since threads that reach for the same one all clear a page of their own, and all but one throw it away. */
int fdp_tables_touch(int64_t bytes, char *out, fdp_team *team);

/* out, in C order: the table whose axis k has shape[k] entries, stride[k] numbers apart in `in`. */
int fdp_tables_copy(int axes, const int64_t *shape, const int64_t *stride, const double *in, fdp_team *team,
                    double *out);

/* out[rows, cols] = a[rows] times b[cols]. */
int fdp_tables_outer(int64_t rows, int64_t cols, const double *a, const double *b, fdp_team *team,
                     double *out);

/* *most = the largest |x| of n entries; infinity where one of them is no number. */
int fdp_tables_farthest(int64_t n, const double *x, fdp_team *team, double *most);

/* *sum = sum of ((x - y) / sigma)^2 over n entries; sigmas: one for each, or NULL: `sigma` for all. */
int fdp_tables_squares(int64_t n, const double *x, const double *y, const double *sigmas, double sigma,
                       fdp_team *team, double *sum);

/* Sums of a table [rows, cols] by row and by column, and *logs = sum of x log(max(x, least)), 0
 * where least is 0. room: [FDP_TABLES_BLOCKS, cols]. */
int fdp_tables_sums(int64_t rows, int64_t cols, const double *table, double least, fdp_team *team,
                    double *room, double *by_row, double *by_col, double *logs);

#endif
