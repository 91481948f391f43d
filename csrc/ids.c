#include "ids.h"

/* splitmix64: a bijection of the counter, so that the stream needs no state. */
static inline uint64_t mix(uint64_t x) {
    x += 0x9e3779b97f4a7c15ull;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

int fdp_ids_group(const uint32_t *key, int64_t n, int64_t keys, uint64_t seed, uint32_t *order,
                  int64_t *start) {
    if (n < 0 || keys < 1 || n > (int64_t)UINT32_MAX) return FDP_ERR_ARGUMENT;
    for (int64_t g = 0; g <= keys; g++) start[g] = 0;
    for (int64_t i = 0; i < n; i++) {
        if (key[i] >= (uint64_t)keys) return FDP_ERR_ARGUMENT;
        start[key[i] + 1]++;
    }
    for (int64_t g = 0; g < keys; g++) start[g + 1] += start[g];
    /* start[g] serves as the cursor of group g while filling and ends as the start of g + 1. */
    for (int64_t i = 0; i < n; i++) order[start[key[i]]++] = (uint32_t)i;
    for (int64_t g = keys; g > 0; g--) start[g] = start[g - 1];
    start[0] = 0;
    uint64_t base = mix(seed);
    for (int64_t g = 0; g < keys; g++) {
        uint32_t *at = order + start[g];
        for (int64_t i = start[g + 1] - start[g] - 1; i > 0; i--) {
            uint64_t r = mix(base + (uint64_t)(start[g] + i));
            /* Multiply-high maps 32 random bits to 0..i with a bias under (i + 1) / 2^32; no one's privacy
             * rests on it. */
            int64_t j = (int64_t)(((r >> 32) * (uint64_t)(i + 1)) >> 32);
            uint32_t t = at[i];
            at[i] = at[j];
            at[j] = t;
        }
    }
    return FDP_OK;
}

int fdp_ids_units(const int64_t *indptr, const int64_t *counts, const uint32_t *cells, const int64_t *taken,
                  int64_t users, int64_t units, uint32_t *user, uint32_t *cell) {
    int64_t n = 0;
    for (int64_t i = 0; i < users; i++) {
        for (int64_t e = indptr[taken[i]]; e < indptr[taken[i] + 1]; e++) {
            if (counts[e] < 0 || counts[e] > units - n) return FDP_ERR_ARGUMENT;
            for (int64_t k = 0; k < counts[e]; k++, n++) {
                user[n] = (uint32_t)i;
                cell[n] = cells[e];
            }
        }
    }
    return n == units ? FDP_OK : FDP_ERR_ARGUMENT;
}

int fdp_ids_deal(const uint32_t *row_order, const int64_t *row_start, const uint32_t *unit_order,
                 const int64_t *unit_start, int64_t keys, const uint32_t *row, const uint32_t *unit,
                 const uint32_t *user, uint32_t *owner, uint32_t *rest_row, uint32_t *rest_unit,
                 int64_t *rest) {
    int64_t left_rows = 0, left_units = 0;
    for (int64_t g = 0; g < keys; g++) {
        const uint32_t *r = row_order + row_start[g], *u = unit_order + unit_start[g];
        int64_t rows = row_start[g + 1] - row_start[g], units = unit_start[g + 1] - unit_start[g];
        int64_t pairs = FDP_MIN(rows, units);
        for (int64_t i = 0; i < pairs; i++) owner[row ? row[r[i]] : r[i]] = user[unit ? unit[u[i]] : u[i]];
        for (int64_t i = pairs; i < rows; i++) rest_row[left_rows++] = row ? row[r[i]] : r[i];
        for (int64_t i = pairs; i < units; i++) rest_unit[left_units++] = unit ? unit[u[i]] : u[i];
    }
    rest[0] = left_rows;
    rest[1] = left_units;
    return FDP_OK;
}
