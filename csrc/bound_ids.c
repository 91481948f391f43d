/* Dense numbers for user ids.
 *
 * 64-bit ids are compared exactly. Strings are compared by a 128-bit hash under a secret key drawn for each
 * read: two users fall together with probability below users^2 / 2^129 (1e8 users: 2e-23), whoever chose the
 * ids; then and only then would removing one change the other's weight. The public hash of an id's value,
 * which only steers choices within that user, may collide freely.
 *
 * Open addressing with linear probes. A slot is (32 bits of the hash, number + 1), so that a probe rarely has
 * to look at the keys; slots are prefetched a batch ahead, since with millions of users each is a cache
 * miss. */
#include "bound.h"

#include <stdlib.h>
#include <string.h>

struct fdp_ids {
    int words;
    uint64_t secret;
    int64_t count, room;
    uint64_t mask, *slot, *key, *hash;
};

#define AHEAD 32
#define PUBLIC_KEY 0x66617374647075ULL
#define MAX_USERS 0xfffffffeLL

int fdp_ids_new(int words, uint64_t secret, fdp_ids **out) {
    if (words != 1 && words != 2) return FDP_ERR_ARGUMENT;
    fdp_ids *ids = calloc(1, sizeof *ids);
    *out = ids;
    if (ids == NULL) return FDP_ERR_MEMORY;
    ids->words = words;
    ids->secret = secret;
    ids->mask = 1023;
    ids->slot = calloc(ids->mask + 1, sizeof *ids->slot);
    return ids->slot ? FDP_OK : FDP_ERR_MEMORY;
}

void fdp_ids_free(fdp_ids *ids) {
    if (ids == NULL) return;
    free(ids->slot);
    free(ids->key);
    free(ids->hash);
    free(ids);
}

int64_t fdp_ids_count(const fdp_ids *ids) {
    return ids->count;
}

const uint64_t *fdp_ids_hash(const fdp_ids *ids) {
    return ids->hash;
}

static inline uint64_t spread(const fdp_ids *ids, const uint64_t *key) {
    return ids->words == 1 ? fdp_mix(key[0] ^ ids->secret) : key[0];
}

static int append(fdp_ids *ids, const uint64_t *key, uint64_t hash) {
    if (ids->count >= MAX_USERS) return FDP_ERR_OVERFLOW;
    if (ids->count == ids->room) {
        int64_t room = ids->room ? ids->room + ids->room / 2 : 1024;
        uint64_t *k = realloc(ids->key, sizeof *k * (size_t)(room * ids->words));
        if (k == NULL) return FDP_ERR_MEMORY;
        ids->key = k;
        uint64_t *h = realloc(ids->hash, sizeof *h * (size_t)room);
        if (h == NULL) return FDP_ERR_MEMORY;
        ids->hash = h;
        ids->room = room;
    }
    for (int w = 0; w < ids->words; w++) ids->key[ids->count * ids->words + w] = key ? key[w] : 0;
    ids->hash[ids->count++] = hash;
    return FDP_OK;
}

static int grow(fdp_ids *ids) {
    uint64_t mask = ids->mask * 2 + 1, *old = ids->slot, *slot = calloc(mask + 1, sizeof *slot);
    if (slot == NULL) return FDP_ERR_MEMORY;
    for (uint64_t i = 0; i <= ids->mask; i++) {
        if (old[i] == 0) continue;
        int64_t number = (int64_t)(uint32_t)old[i] - 1;
        uint64_t p = spread(ids, ids->key + number * ids->words) & mask;
        while (slot[p]) p = (p + 1) & mask;
        slot[p] = old[i];
    }
    free(old);
    ids->slot = slot;
    ids->mask = mask;
    return FDP_OK;
}

int fdp_ids_add(fdp_ids *ids, int64_t n, const uint64_t *key, const uint64_t *hash, const uint8_t *valid,
                uint32_t *number) {
    int words = ids->words, status;
    for (int64_t first = 0; first < n; first += AHEAD) {
        int64_t last = FDP_MIN(n, first + AHEAD);
        uint64_t h[AHEAD];
        /* At most 2/3 full. Nulls have no slot but are counted, which only grows the table earlier. */
        while ((uint64_t)(ids->count + AHEAD) * 3 > ids->mask * 2)
            if ((status = grow(ids)) != FDP_OK) return status;
        for (int64_t i = first; i < last; i++) {
            h[i - first] = spread(ids, key + i * words);
            __builtin_prefetch(&ids->slot[h[i - first] & ids->mask]);
        }
        for (int64_t i = first; i < last; i++) {
            if (valid != NULL && !valid[i]) {
                number[i] = (uint32_t)ids->count;
                if ((status = append(ids, NULL, 0)) != FDP_OK) return status;
                continue;
            }
            const uint64_t *k = key + i * words;
            uint64_t tag = h[i - first] >> 32 << 32, p = h[i - first] & ids->mask, s;
            int64_t who = -1;
            for (; (s = ids->slot[p]) != 0; p = (p + 1) & ids->mask) {
                if ((s ^ tag) >> 32) continue;
                const uint64_t *other = ids->key + ((int64_t)(uint32_t)s - 1) * words;
                if (other[0] == k[0] && (words == 1 || other[1] == k[1])) {
                    who = (int64_t)(uint32_t)s - 1;
                    break;
                }
            }
            if (who < 0) {
                who = ids->count;
                if ((status = append(ids, k, hash[i])) != FDP_OK) return status;
                ids->slot[p] = tag | (uint64_t)(who + 1);
            }
            number[i] = (uint32_t)who;
        }
    }
    return FDP_OK;
}

FDP_CLONES static void hash_words(int64_t n, const uint64_t *restrict id, uint64_t *restrict hash) {
    for (int64_t i = 0; i < n; i++) hash[i] = fdp_mix2(PUBLIC_KEY, id[i]);
}

int fdp_ids_hash_words(int64_t n, const uint64_t *id, uint64_t *hash) {
    hash_words(n, id, hash);
    return FDP_OK;
}

#define ROTATE(x, b) (((x) << (b)) | ((x) >> (64 - (b))))
#define ROUND \
    do { \
        v0 += v1, v1 = ROTATE(v1, 13), v1 ^= v0, v0 = ROTATE(v0, 32); \
        v2 += v3, v3 = ROTATE(v3, 16), v3 ^= v2; \
        v0 += v3, v3 = ROTATE(v3, 21), v3 ^= v0; \
        v2 += v1, v1 = ROTATE(v1, 17), v1 ^= v2, v2 = ROTATE(v2, 32); \
    } while (0)

static inline uint64_t little_endian(const uint8_t *p) {
    uint64_t m;
    memcpy(&m, p, 8);
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    m = __builtin_bswap64(m);
#endif
    return m;
}

int fdp_ids_hash_strings(int64_t n, const int64_t *offset, const uint8_t *data, const uint64_t secret[2],
                         uint64_t *key, uint64_t *hash) {
    for (int64_t i = 0; i < n; i++) {
        const uint8_t *p = data + offset[i];
        uint64_t length = (uint64_t)(offset[i + 1] - offset[i]);
        uint64_t v0 = secret[0] ^ 0x736f6d6570736575ULL, v1 = secret[1] ^ 0x646f72616e646f6dULL ^ 0xee;
        uint64_t v2 = secret[0] ^ 0x6c7967656e657261ULL, v3 = secret[1] ^ 0x7465646279746573ULL;
        uint64_t open = fdp_mix2(PUBLIC_KEY, length), m;
        uint64_t whole = length / 8;
        for (uint64_t j = 0; j <= whole; j++) {
            if (j < whole) {
                m = little_endian(p + 8 * j);
            } else {
                m = length << 56;
                for (uint64_t b = 0; b < length % 8; b++) m |= (uint64_t)p[8 * j + b] << (8 * b);
            }
            v3 ^= m;
            ROUND;
            v0 ^= m;
            open = fdp_mix((open + 0x9e3779b97f4a7c15ULL) ^ m);
        }
        v2 ^= 0xee;
        ROUND;
        ROUND;
        ROUND;
        key[2 * i] = v0 ^ v1 ^ v2 ^ v3;
        v1 ^= 0xdd;
        ROUND;
        ROUND;
        ROUND;
        key[2 * i + 1] = v0 ^ v1 ^ v2 ^ v3;
        hash[i] = open;
    }
    return FDP_OK;
}
