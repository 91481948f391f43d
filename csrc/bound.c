/* Rows of one user together. */
#include "bound.h"

#include <stdlib.h>
#include <string.h>

/* A count that wraps around to 0 has overflowed. */
int fdp_rows_per_user(int64_t rows, const uint32_t *user, uint32_t *count) {
    for (int64_t i = 0; i < rows; i++)
        if (++count[user[i]] == 0) return FDP_ERR_OVERFLOW;
    return FDP_OK;
}

int fdp_group(int64_t rows, const uint32_t *user, int64_t users, const uint32_t *count, const uint64_t *value,
              int64_t *start, uint64_t *sorted) {
    /* start[u + 1] serves as the place of user u's next row, so that it ends as the start of user u + 1. */
    int64_t place = 0;
    start[0] = 0;
    for (int64_t u = 0; u < users; u++) {
        start[u + 1] = place;
        place += count[u];
    }
    if (place != rows) return FDP_ERR_ARGUMENT;
    for (int64_t i = 0; i < rows; i++) {
        /* With millions of users every start is a cache miss: fetch the one of 16 rows ahead. */
        if (i + 16 < rows) __builtin_prefetch(&start[user[i + 16] + 1], 1);
        sorted[start[user[i] + 1]++] = value ? value[i] : (uint64_t)i;
    }
    return FDP_OK;
}

/* One function for each width of codes, so that the compiler can vectorise each loop. */
#define HASH(TYPE) \
    for (int64_t i = 0; i < rows; i++) hash[i] = fdp_mix2(hash[i], ((const TYPE *)column)[i])

FDP_CLONES static void hash8(int64_t rows, const void *column, uint64_t *restrict hash) {
    HASH(uint8_t);
}
FDP_CLONES static void hash16(int64_t rows, const void *column, uint64_t *restrict hash) {
    HASH(uint16_t);
}
FDP_CLONES static void hash32(int64_t rows, const void *column, uint64_t *restrict hash) {
    HASH(uint32_t);
}

int fdp_hash_column(int64_t rows, const void *column, int width, uint64_t *hash) {
    if (width == 1)
        hash8(rows, column, hash);
    else if (width == 2)
        hash16(rows, column, hash);
    else if (width == 4)
        hash32(rows, column, hash);
    else
        return FDP_ERR_ARGUMENT;
    return FDP_OK;
}
