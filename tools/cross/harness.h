/* Cases of the kernels, read from a file that tools/cross/vectors.py writes: inputs, then expected
 * outputs. */
#ifndef CROSS_HARNESS_H
#define CROSS_HARNESS_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "team.h"

/* An array of the file. type: b u8, h u16, w u32, i i32, l i64, L u64, f f32, d f64. tolerance, of outputs: 0
 * where every bit must agree, else the largest difference as a share of the largest expected value. */
typedef struct {
    char type;
    int64_t count;
    double tolerance;
    void *data;
} cross_array;

typedef struct {
    const char *name;
    int n;
    cross_array *a;
    int threads;
    fdp_team team;
    int failed;
} cross_case;

typedef void (*cross_fn)(cross_case *c);
typedef struct {
    const char *name;
    cross_fn fn;
} cross_kernel;

extern const cross_kernel cross_rows[], cross_model[]; /* both end with a name of NULL */

/* The return code of a kernel. */
void cross_code(cross_case *c, int code);
/* Compares what a kernel made with the expected array k. */
void cross_same(cross_case *c, int k, const void *made);
/* Zeroed room for output k, freed by cross_same's caller with free(). */
void *cross_room(const cross_case *c, int k);

#define AT(type, k) ((type *)c->a[k].data)
#define MAYBE(type, k) (c->a[k].count ? (type *)c->a[k].data : NULL)
#define COUNT(k) (c->a[k].count)
#define WHOLE(k) (AT(int64_t, k)[0])
#define REAL_AT(k) (AT(double, k)[0])

/* Calls a kernel that fills one output, and compares it. */
#define ONE_OUTPUT(type, k, call) \
    do { \
        type *out = cross_room(c, k); \
        cross_code(c, call); \
        cross_same(c, k, out); \
        free(out); \
    } while (0)

#endif
