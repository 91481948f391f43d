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

/* Values of L, in the order of the entries. m: the vector of counts; f: the functionals' values; variance
 * and time as above. */
int fdp_ancestors_fill(const fdp_ancestors_shape *shape, const double *m, const double *f,
                       const double *variance, double time, double total, fdp_team *team, double *values);

/* out[i] = sum over e in first[i] .. first[i + 1] - 1 of values[at ? at[e] : e] * x[column[e]]. */
int fdp_ancestors_product(int64_t rows, const int64_t *first, const int32_t *column, const int64_t *at,
                          const double *values, const double *x, fdp_team *team, double *out);

/* The two loops of L-BFGS around a product with an approximate inverse, by one thread. A pair is a step s[n]
 * of the multipliers and its change y[n] of the slope, `change` + soft * s; the last pair is the newest.
 * Pairs of curvature sy[pairs] <= 0 are left out. First: q loses what the pairs account for, their shares are
 * kept; after the product: way gets it back. */
int fdp_pairs_before(int64_t n, int64_t pairs, const double *const *s, const double *const *change,
                     const double *soft, double *q, double *sy, double *share);
int fdp_pairs_after(int64_t n, int64_t pairs, const double *const *s, const double *const *change,
                    const double *soft, const double *sy, const double *share, double *way);

#endif
