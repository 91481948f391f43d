#include "draw.h"

int fdp_draw_groups(const int64_t *start, int64_t groups, const int64_t *upto, const uint32_t *value,
                    const int64_t *group, const double *uniform, int64_t n, uint32_t *out) {
    for (int64_t i = 0; i < n; i++) {
        if ((uint64_t)group[i] >= (uint64_t)groups) return FDP_ERR_ARGUMENT;
        int64_t low = start[group[i]], size = start[group[i] + 1] - low;
        if (size < 1) return FDP_ERR_ARGUMENT;
        int64_t total = upto[low + size - 1];
        int64_t target = (int64_t)(uniform[i] * (double)total);
        /* The product may round up to the total; the last entry is then meant. */
        target = FDP_MIN(target, total - 1);
        /* First entry above the target; halving without a branch, since no branch could be predicted. */
        while (size > 1) {
            int64_t half = size / 2;
            low += upto[low + half - 1] <= target ? half : 0;
            size -= half;
        }
        out[i] = value[low];
    }
    return FDP_OK;
}
