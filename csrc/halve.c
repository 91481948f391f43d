/* Balanced halving: see halve.h. */
#include "halve.h"

#define MOST_PAIRS (1ll << 29)
#define MOST_ITEMS (1 << 12)
#define MOST_WEIGHT (1ll << 20)

int fdp_halve(int64_t pairs, int columns, int items, const int64_t *order, const uint32_t *codes,
              const int32_t *start, const int32_t *column, const uint64_t *stride, const uint64_t *size,
              const int64_t *offset, const int64_t *weight, const uint8_t *bits, int sweeps, int32_t *counts,
              int64_t *cells, int64_t *kept) {
    if (pairs < 0 || pairs >= MOST_PAIRS || items > MOST_ITEMS) return FDP_ERR_ARGUMENT;
    for (int j = 0; j < items; j++)
        if (weight[j] < 0 || weight[j] > MOST_WEIGHT || size[j] == 0) return FDP_ERR_ARGUMENT;
    for (int sweep = 0; sweep <= sweeps; sweep++) {
        for (int64_t i = 0; i < pairs; i++) {
            const uint32_t *first = codes + order[2 * i] * columns;
            const uint32_t *second = codes + order[2 * i + 1] * columns;
            const int32_t side = sweep == 0 ? 0 : kept[i] == order[2 * i] ? 1 : -1;
            int64_t excess = 0; /* of the first row's cells over the second's, without this pair */
            int apart = 0;
            for (int j = 0; j < items; j++) {
                uint64_t a = 0, b = 0;
                for (int32_t k = start[j]; k < start[j + 1]; k++) {
                    a += first[column[k]] * stride[k];
                    b += second[column[k]] * stride[k];
                }
                if (a >= size[j]) a %= size[j]; /* most items fit: no division */
                if (b >= size[j]) b %= size[j];
                if (a == b) continue;
                int64_t *both = cells + 2 * apart++;
                both[0] = offset[j] + (int64_t)a, both[1] = offset[j] + (int64_t)b;
                excess += weight[j] * ((int64_t)counts[both[0]] - counts[both[1]] - 2 * side);
            }
            int32_t now = excess < 0 ? 1 : excess > 0 ? -1 : side;
            if (now == 0) now = bits[i] ? 1 : -1;
            kept[i] = order[2 * i + (now < 0)];
            const int32_t change = now - side;
            for (int j = 0; j < apart && change; j++) {
                counts[cells[2 * j]] += change;
                counts[cells[2 * j + 1]] -= change;
            }
        }
    }
    return FDP_OK;
}
