/* Some rows of a product with a sparse matrix (see ancestors.h). */
#ifndef FDP_ANCESTORS_ROWS_H
#define FDP_ANCESTORS_ROWS_H

#include "ancestors.h"

/* out[i] = row i times x for rows from `from` to `to` - 1. Each sum goes from left to right, so no
 * thread changes it. */
static inline void fdp_sparse_some(const fdp_sparse_rows *matrix, int64_t from, int64_t to,
                                   const double *restrict x, double *restrict out) {
    for (int64_t i = from; i < to; i++) {
        double sum = 0;
        for (int64_t e = matrix->first[i]; e < matrix->first[i + 1]; e++)
            sum += matrix->values[e] * x[matrix->column[e]];
        out[i] = sum;
    }
}

#endif
