/* Dense numbers for user ids.
 *
 * 64-bit ids are compared exactly. Strings are compared by a 128-bit hash under a secret key drawn for each
 * read: two users fall together with probability below users^2 / 2^129 (1e8 users: 2e-23), whoever chose the
 * ids; then and only then would removing one change the other's weight. The public hash of an id's value,
 * which only steers choices within that user, may collide freely.
 *
 * Open addressing with linear probes. A slot is (32 bits of the hash, place + 1), so that a probe rarely has
 * to look at the keys; slots are prefetched some ids ahead, since with millions of users each is a cache miss.
 *
 * For several threads, ids are divided by four bits of their hash into parts, each with a table of its own;
 * that costs half as much again. Every part marks the rows of ids that it has not seen, marks are counted in
 * the order of rows, and places are replaced by numbers: numbers go by first rows, for any threads. */
#include "bound.h"

#include <stdlib.h>
#include <string.h>

#include "team.h"

#define PARTS 16
#define PIECE 32768 /* rows whose parts are found together; their places in it fit 16 bits */
#define AHEAD 32
#define PUBLIC_KEY 0x66617374647075ULL
#define MAX_USERS 0xfffffffeLL

typedef struct {
    int64_t count, room;
    uint64_t mask, *slot, *key; /* of an id: its words; its number, where there are several parts */
    char apart[64];
} ids_part;

struct fdp_ids {
    int words, parts;
    uint64_t secret;
    int64_t count, room;
    uint64_t *hash;
    ids_part part[PARTS];
};

int fdp_ids_new(int words, uint64_t secret, int threads, fdp_ids **out) {
    *out = NULL;
    if (words != 1 && words != 2) return FDP_ERR_ARGUMENT;
    fdp_ids *ids = calloc(1, sizeof *ids);
    *out = ids;
    if (ids == NULL) return FDP_ERR_MEMORY;
    ids->words = words;
    ids->parts = threads > 1 ? PARTS : 1;
    ids->secret = secret;
    for (int p = 0; p < ids->parts; p++) {
        ids->part[p].mask = 127;
        ids->part[p].slot = calloc(ids->part[p].mask + 1, sizeof *ids->part[p].slot);
        if (ids->part[p].slot == NULL) return FDP_ERR_MEMORY;
    }
    return FDP_OK;
}

void fdp_ids_free(fdp_ids *ids) {
    if (ids == NULL) return;
    for (int p = 0; p < PARTS; p++) {
        free(ids->part[p].slot);
        free(ids->part[p].key);
    }
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

static inline uint64_t *id_of(const fdp_ids *ids, const ids_part *part, int64_t place) {
    return part->key + place * (ids->words + (ids->parts > 1));
}

static int append(const fdp_ids *ids, ids_part *part, const uint64_t *key) {
    if (part->count >= MAX_USERS) return FDP_ERR_OVERFLOW;
    if (part->count == part->room) {
        int64_t room = part->room ? part->room + part->room / 2 : 64;
        uint64_t *k = realloc(part->key, sizeof *k * (size_t)(room * (ids->words + (ids->parts > 1))));
        if (k == NULL) return FDP_ERR_MEMORY;
        part->key = k;
        part->room = room;
    }
    for (int w = 0; w < ids->words; w++) id_of(ids, part, part->count)[w] = key ? key[w] : 0;
    part->count++;
    return FDP_OK;
}

static int grow(const fdp_ids *ids, ids_part *part) {
    uint64_t mask = part->mask * 2 + 1, *old = part->slot, *slot = calloc(mask + 1, sizeof *slot);
    if (slot == NULL) return FDP_ERR_MEMORY;
    for (uint64_t i = 0; i <= part->mask; i++) {
        if (old[i] == 0) continue;
        uint64_t p = spread(ids, id_of(ids, part, (int64_t)(uint32_t)old[i] - 1)) & mask;
        while (slot[p]) p = (p + 1) & mask;
        slot[p] = old[i];
    }
    free(old);
    part->slot = slot;
    part->mask = mask;
    return FDP_OK;
}

/* The place of an id, or of nobody's where key is NULL, in its part; that of an id not seen before is the
 * last one, and *status says whether there was room for it. Slots are at most 2/3 full. */
static inline __attribute__((always_inline)) int64_t place_of(const fdp_ids *ids, ids_part *part, uint64_t h,
                                                              const uint64_t *key, int *status) {
    const uint64_t tag = h >> 32 << 32;
    uint64_t at = h & part->mask, s;
    for (; key && (s = part->slot[at]) != 0; at = (at + 1) & part->mask) {
        if ((s ^ tag) >> 32) continue;
        const uint64_t *other = id_of(ids, part, (int64_t)(uint32_t)s - 1);
        if (other[0] == key[0] && (ids->words == 1 || other[1] == key[1])) return (int64_t)(uint32_t)s - 1;
    }
    if ((*status = append(ids, part, key)) != FDP_OK) return 0;
    if (key) part->slot[at] = tag | (uint64_t)part->count;
    if ((uint64_t)(part->count + 1) * 3 > part->mask * 2) *status = grow(ids, part);
    return part->count - 1;
}

/* Rows [from, from + n) of a batch, those of one part together, and how many of them are first rows. */
typedef struct {
    const fdp_ids_batch *batch;
    int64_t from, fresh;
    int32_t n, start[PARTS + 1];
    uint16_t *row;   /* [n] by part; in this order, so that no two threads write side by side: */
    uint32_t *place; /* [n] in the part */
    uint8_t *mark;   /* [n] 0, or the part of an id that is seen the first time, + 1 */
} ids_piece;

typedef struct {
    fdp_ids *ids;
    ids_piece *pieces;
    int64_t n;
    atomic_int code;
    fdp_team_turns turns;
} ids_job;

static void divide(const fdp_ids *ids, ids_piece *piece) {
    const uint64_t *key = piece->batch->key + piece->from * ids->words;
    int32_t at[PARTS + 1] = {0};
    for (int32_t i = 0; i < piece->n; i++) {
        piece->mark[i] = (uint8_t)(spread(ids, key + (int64_t)i * ids->words) >> 60);
        at[piece->mark[i] + 1]++;
    }
    for (int p = 0; p < PARTS; p++) at[p + 1] += at[p];
    memcpy(piece->start, at, sizeof at);
    for (int32_t i = 0; i < piece->n; i++) piece->row[at[piece->mark[i]]++] = (uint16_t)i;
}

/* The places in part p of the piece's ids that belong to it. */
static int find_places(const fdp_ids *ids, ids_part *part, int p, const ids_piece *piece) {
    const uint64_t *key = piece->batch->key + piece->from * ids->words;
    const uint8_t *valid = piece->batch->valid ? piece->batch->valid + piece->from : NULL;
    int status = FDP_OK;
    for (int32_t first = piece->start[p]; first < piece->start[p + 1]; first += AHEAD) {
        const int32_t last = FDP_MIN(piece->start[p + 1], first + AHEAD);
        uint64_t h[AHEAD];
        for (int32_t j = first; j < last; j++) {
            h[j - first] = spread(ids, key + (int64_t)piece->row[j] * ids->words);
            __builtin_prefetch(&part->slot[h[j - first] & part->mask]);
        }
        for (int32_t j = first; j < last; j++) {
            const int32_t i = piece->row[j];
            const int64_t before = part->count;
            const uint64_t *own = valid && !valid[i] ? NULL : key + (int64_t)i * ids->words;
            piece->place[j] = (uint32_t)place_of(ids, part, h[j - first], own, &status);
            if (status != FDP_OK) return status;
            piece->mark[j] = part->count > before ? (uint8_t)(p + 1) : 0;
        }
    }
    return FDP_OK;
}

static int make_room(fdp_ids *ids, int64_t count) {
    if (count > MAX_USERS) return FDP_ERR_OVERFLOW;
    if (count <= ids->room) return FDP_OK;
    const int64_t room = FDP_MAX(FDP_MAX(count, 64), ids->room + ids->room / 2);
    uint64_t *hash = realloc(ids->hash, sizeof *hash * (size_t)room);
    if (hash == NULL) return FDP_ERR_MEMORY;
    ids->hash = hash;
    ids->room = room;
    return FDP_OK;
}

/* Room for the hashes of all first rows; piece->fresh becomes the first of their numbers. */
static int count_all(ids_job *job) {
    int64_t count = job->ids->count;
    for (int64_t k = 0; k < job->n; k++) {
        const int64_t fresh = job->pieces[k].fresh;
        job->pieces[k].fresh = count;
        count += fresh;
    }
    const int status = make_room(job->ids, count);
    if (status == FDP_OK) job->ids->count = count;
    return status;
}

/* The next numbers to the first rows, in their order. The batch's room for numbers holds meanwhile where in
 * the piece they stand. */
static void give_numbers(fdp_ids *ids, const ids_piece *piece) {
    const uint64_t *hash = piece->batch->hash + piece->from;
    const uint8_t *valid = piece->batch->valid ? piece->batch->valid + piece->from : NULL;
    uint32_t *first = piece->batch->number + piece->from;
    int64_t next = piece->fresh;
    for (int32_t j = 0; j < piece->n; j++) first[piece->row[j]] = piece->mark[j] ? (uint32_t)j + 1 : 0;
    for (int32_t i = 0; i < piece->n; i++) {
        if (!first[i]) continue;
        const uint32_t j = first[i] - 1;
        ids->hash[next] = valid && !valid[i] ? 0 : hash[i];
        id_of(ids, ids->part + piece->mark[j] - 1, piece->place[j])[ids->words] = (uint64_t)next++;
    }
}

static void replace(const fdp_ids *ids, const ids_piece *piece) {
    uint32_t *number = piece->batch->number + piece->from;
    for (int p = 0; p < PARTS; p++)
        for (int32_t j = piece->start[p]; j < piece->start[p + 1]; j++)
            number[piece->row[j]] = (uint32_t)id_of(ids, ids->part + p, piece->place[j])[ids->words];
}

static void add_some(fdp_team *team, int number, void *ctx) {
    ids_job *job = ctx;
    fdp_ids *ids = job->ids;
    int64_t phase = 0;
#define EACH_PIECE(k) FDP_TEAM_SHARE(&job->turns, phase, k, job->n)
    EACH_PIECE(k) divide(ids, job->pieces + k);
    fdp_team_turn(team, number, &job->turns, &phase);
    FDP_TEAM_SHARE(&job->turns, phase, p, PARTS) {
        int code = FDP_OK;
        for (int64_t k = 0; k < job->n && code == FDP_OK; k++)
            code = find_places(ids, ids->part + p, (int)p, job->pieces + k);
        if (code != FDP_OK) atomic_store(&job->code, code);
    }
    fdp_team_turn(team, number, &job->turns, &phase);
    EACH_PIECE(k) {
        int64_t fresh = 0;
        for (int32_t i = 0; i < job->pieces[k].n; i++) fresh += job->pieces[k].mark[i] != 0;
        job->pieces[k].fresh = fresh;
    }
    fdp_team_turn(team, number, &job->turns, &phase);
    if (number == 0 && atomic_load(&job->code) == FDP_OK) atomic_store(&job->code, count_all(job));
    fdp_team_turn(team, number, &job->turns, &phase);
    if (atomic_load(&job->code) != FDP_OK) return;
    EACH_PIECE(k) give_numbers(ids, job->pieces + k);
    fdp_team_turn(team, number, &job->turns, &phase);
    EACH_PIECE(k) replace(ids, job->pieces + k);
#undef EACH_PIECE
}

/* A batch by one thread: places are numbers. */
static int add_alone(fdp_ids *ids, const fdp_ids_batch *batch) {
    ids_part *part = ids->part;
    int status = FDP_OK;
    for (int64_t first = 0; first < batch->n; first += AHEAD) {
        const int64_t last = FDP_MIN(batch->n, first + AHEAD);
        uint64_t h[AHEAD];
        if ((status = make_room(ids, FDP_MIN(MAX_USERS, ids->count + AHEAD))) != FDP_OK) return status;
        for (int64_t i = first; i < last; i++) {
            h[i - first] = spread(ids, batch->key + i * ids->words);
            __builtin_prefetch(&part->slot[h[i - first] & part->mask]);
        }
        for (int64_t i = first; i < last; i++) {
            const int null = batch->valid && !batch->valid[i];
            const uint64_t *key = null ? NULL : batch->key + i * ids->words;
            batch->number[i] = (uint32_t)place_of(ids, part, h[i - first], key, &status);
            if (status != FDP_OK) return status;
            if (part->count > ids->count) ids->hash[ids->count++] = null ? 0 : batch->hash[i];
        }
    }
    return FDP_OK;
}

int fdp_ids_add(fdp_ids *ids, int64_t n, const fdp_ids_batch *batches, int threads) {
    int status = FDP_OK;
    for (int64_t b = 0; ids->parts == 1 && b < n && status == FDP_OK; b++)
        status = add_alone(ids, batches + b);
    if (ids->parts == 1) return status;
    int64_t rows = 0, pieces = 0;
    for (int64_t b = 0; b < n; b++) {
        rows += batches[b].n;
        pieces += (batches[b].n + PIECE - 1) / PIECE;
    }
    if (rows == 0) return FDP_OK;
    ids_job job = {.ids = ids, .n = pieces};
    job.pieces = malloc(sizeof *job.pieces * (size_t)pieces);
    uint16_t *row = malloc(sizeof *row * (size_t)rows);
    uint32_t *place = malloc(sizeof *place * (size_t)rows);
    uint8_t *mark = malloc((size_t)rows);
    const int ready = job.pieces && row && place && mark;
    int64_t k = 0, at = 0;
    for (int64_t b = 0; ready && b < n; b++)
        for (int64_t from = 0; from < batches[b].n; from += PIECE) {
            const int32_t size = (int32_t)FDP_MIN(PIECE, batches[b].n - from);
            job.pieces[k] = (ids_piece){.batch = batches + b, .from = from, .n = size, .row = row + at};
            job.pieces[k].place = place + at, job.pieces[k++].mark = mark + at;
            at += size;
        }
    fdp_team_turns_make(&job.turns);
    if (ready) fdp_team_run((int)FDP_MIN(FDP_MIN(threads, PARTS), pieces), add_some, &job);
    free(mark);
    free(place);
    free(row);
    free(job.pieces);
    return ready ? atomic_load(&job.code) : FDP_ERR_MEMORY;
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
