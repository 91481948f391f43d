/* Projections of int64 tables, one axis at a time, at memory speed. */
#include "count.h"

#include <string.h>

/* The last axis: short contiguous runs. Four at once hide the latency of the additions. */
FDP_CLONES static void sum_runs(int64_t outer, int64_t middle, const int64_t *restrict in, int64_t *restrict out) {
    int64_t o = 0;
    for (; o + 4 <= outer; o += 4, in += 4 * middle) {
        int64_t a = 0, b = 0, c = 0, d = 0;
        for (int64_t m = 0; m < middle; m++) {
            a += in[m];
            b += in[middle + m];
            c += in[2 * middle + m];
            d += in[3 * middle + m];
        }
        out[o] = a, out[o + 1] = b, out[o + 2] = c, out[o + 3] = d;
    }
    for (; o < outer; o++, in += middle) {
        int64_t a = 0;
        for (int64_t m = 0; m < middle; m++) a += in[m];
        out[o] = a;
    }
}

FDP_CLONES static void add_row(int64_t n, const int64_t *restrict in, int64_t *restrict out) {
    for (int64_t i = 0; i < n; i++) out[i] += in[i];
}

int fdp_project(int64_t outer, int64_t middle, int64_t inner, const int64_t *in, int64_t *out) {
    if (inner == 1) {
        sum_runs(outer, middle, in, out);
        return FDP_OK;
    }
    for (int64_t o = 0; o < outer; o++, in += middle * inner, out += inner) {
        if (middle == 0) {
            memset(out, 0, sizeof *out * (size_t)inner);
            continue;
        }
        memcpy(out, in, sizeof *out * (size_t)inner);
        for (int64_t m = 1; m < middle; m++) add_row(inner, in + m * inner, out);
    }
    return FDP_OK;
}
