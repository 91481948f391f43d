/* A sparse approximate inverse of a covariance, from local blocks.
 *
 * A functional counts the rows that lie in a set: one cell of a marginal, or what of a cell is in no finer
 * measured cell. Its ancestors are the measured cells that contain the set: projections of a cell, known
 * with the counts of all of them. With H the covariance of the functionals under a multinomial of `total`
 * rows plus the diagonal variance / time, row i of L solves H on {ancestors of i, i} exactly: it is the last
 * row of the inverse of that block's Cholesky factor. Then L' L is the best approximation of the inverse of
 * H among factors with these entries (Kolotilina and Yeremin 1993), and L H L' has a unit diagonal. */
#ifndef FDP_ANCESTORS_H
#define FDP_ANCESTORS_H

#include "fdp.h"
#include "team.h"

#define FDP_ANCESTORS_MOST 32 /* entries of a row: parts of a cell of 5 attributes, and its rest */

/* Row i has the entries first[i] .. first[i + 1] - 1, itself last. Entry e is functional column[e]; mask[e]
 * says which axes of the row's cell it fixes, 0 for what is left of that cell. place[parts[i] + b - 1] is the
 * position in the vector of the count of the part with mask b. */
typedef struct {
    int64_t rows;
    const int64_t *first;
    const int32_t *column;
    const uint8_t *mask;
    const int64_t *parts;
    const int64_t *place;
} fdp_ancestors_shape;

/* The rows of a shape. The parts of functional i's cell are the entries place[begin[i]] .. place[begin[i] +
 * width[i] - 1] of the vector, of which number[] tells the functional, or -1; functionals from `cells` on are
 * what is left of their cell. column NULL: fills first[rows + 1] alone. */
void fdp_ancestors_rows(int64_t rows, int64_t cells, const int64_t *number, const int64_t *begin,
                        const int64_t *width, const int64_t *place, int64_t *first, int32_t *column,
                        uint8_t *mask);

/* The transpose of compressed rows over as many columns: where its entries lie, and in which rows. */
void fdp_ancestors_turn(int64_t rows, const int64_t *first, const int32_t *column, int64_t *t_first,
                        int64_t *at, int32_t *row);

/* Values of L, in the order of the entries. m: the vector of counts; f: the functionals' values; variance
 * and time as above. */
int fdp_ancestors_fill(const fdp_ancestors_shape *shape, const double *m, const double *f,
                       const double *variance, double time, double total, fdp_team *team, double *values);

/* A matrix in compressed rows: row i has the entries first[i] .. first[i + 1] - 1. */
typedef struct {
    int64_t rows;
    const int64_t *first;
    const int32_t *column;
    const double *values;
} fdp_sparse_rows;

/* out[rows] = the matrix times x; every row is added up in order. */
int fdp_sparse_product(const fdp_sparse_rows *matrix, const double *x, fdp_team *team, double *out);

#define FDP_DIRECTION_PAIRS 32

/* A direction of L-BFGS, way = - (estimate of the inverse Hessian) slope, around the approximate inverse
 * factor' factor; turned: the transpose of the factor. A pair is a step s[n] of the multipliers and its
 * change y[n] of the slope, `change` + soft * s; the last pair is the newest. Pairs with s y <= 0 are left
 * out. room: [pairs + 3, n]; part: [pairs + 1, fdp_direction_chunks(n)]. *descent = slope times way. */
int fdp_direction(const fdp_sparse_rows *factor, const fdp_sparse_rows *turned, int64_t pairs,
                  const double *const *s, const double *const *change, const double *soft,
                  const double *slope, fdp_team *team, double *room, double *part, double *way,
                  double *descent);
int64_t fdp_direction_chunks(int64_t n);

/* slope[n] = target - f + soft (at - pull). sums[3]: slope times way, sum of slope^2 / variance and of
 * (f - target)^2 / variance. */
int fdp_slope(int64_t n, const double *target, const double *variance, const double *f, const double *soft,
              const double *at, const double *pull, const double *way, double *slope, double *sums);

/* One step along a direction: moved[n] = step * way, to[n] = at + moved; changed[k] = before + step * change,
 * which is put into the entries `active` of delta, too. */
int fdp_advance(int64_t n, double step, const double *way, const double *at, double *moved, double *to,
                int64_t k, const double *change, const double *before, const int64_t *active, double *changed,
                double *delta);

#endif
