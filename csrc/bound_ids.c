/* Dense numbers for user ids.
 *
 * 64-bit ids are compared exactly. Strings are compared by a 128-bit hash under a secret key drawn for each
 * read: two users fall together with probability below users^2 / 2^129 (1e8 users: 2e-23), whoever chose the
 * ids; then and only then would removing one change the other's weight. The public hash of an id's value,
 * which only steers choices within that user, may collide freely.
 *
 * Open addressing with linear probes. A slot is (32 bits of the hash, place + 1), so that a probe rarely has
 * to look at the keys; slots are prefetched some ids ahead, since with millions of users each is a cache
 * miss.
 *
 * Threads enter the ids of their batches in any order (fdp_ids_find). Ids are divided by bits of their hash
 * into parts, each with a table and a lock of its own. An entry holds the position of the first row of its id
 * that was seen so far. The batches are then settled in order (fdp_ids_settle): a row that is still the first
 * one of its id gives it the next number. So numbers go by first rows, for any threads. Entries never move,
 * and one that was settled is not written to any more: settling and finding may go on at the same time. */
#include "bound.h"

#include "threads.h"
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define PARTS 64    /* where there are several threads; more of them than threads, so that few have to wait */
#define PIECE 32768 /* rows whose parts are found together; their places in it fit 16 bits */
#define AHEAD 32
#define CHUNK 4096 /* entries that a part takes at a time */
#define PUBLIC_KEY 0x66617374647075ULL
#define ALWAYS_INLINE inline __attribute__((always_inline))
#define MAX_USERS 0xfffffffeLL
#define MANY 16384          /* users from which on keys are fetched ahead: they leave the nearest cache */
#define NOBODY (1ULL << 63) /* in the position of a row without an id */

typedef struct {
    pthread_mutex_t lock;
    uint32_t next, left; /* place of the next entry; how many the part still has */
    uint64_t used, mask, *slot;
    char apart[64];
} ids_part;

/* An entry: the words of the key; a position, or once it is settled a number, which is less than any position
 * (of an entry that nobody has, the last position); of a string also the public hash. */
typedef _Atomic uint64_t ids_word;

struct fdp_ids {
    int words, parts;
    int straight; /* whether every number is its entry's place */
    uint64_t secret;
    int64_t count;
    atomic_uint chunks, turn;
    ids_word **chunk; /* [2^32 / CHUNK] */
    ids_part part[PARTS];
};

/* Empty tables of 128 slots each; one thread needs one part only. */
int fdp_ids_new(int words, uint64_t secret, int threads, fdp_ids **out) {
    *out = NULL;
    if (words != 1 && words != 2) return FDP_ERR_ARGUMENT;
    fdp_ids *ids = calloc(1, sizeof *ids);
    if (ids == NULL) return FDP_ERR_MEMORY;
    ids->words = words;
    ids->secret = secret;
    ids->straight = 1;
    ids->chunk = calloc((1ULL << 32) / CHUNK, sizeof *ids->chunk);
    int ready = ids->chunk != NULL;
    for (const int parts = threads > 1 ? PARTS : 1; ready && ids->parts < parts; ids->parts++) {
        ids_part *part = ids->part + ids->parts;
        part->mask = 127;
        part->slot = calloc(part->mask + 1, sizeof *part->slot);
        ready = part->slot != NULL && pthread_mutex_init(&part->lock, NULL) == 0;
        if (!ready) free(part->slot);
    }
    if (ready) {
        *out = ids;
        return FDP_OK;
    }
    fdp_ids_free(ids);
    return FDP_ERR_MEMORY;
}

void fdp_ids_free(fdp_ids *ids) {
    if (ids == NULL) return;
    for (int p = 0; p < ids->parts; p++) {
        pthread_mutex_destroy(&ids->part[p].lock);
        free(ids->part[p].slot);
    }
    for (unsigned c = 0; c < atomic_load(&ids->chunks) && c < (1ULL << 32) / CHUNK; c++) free(ids->chunk[c]);
    free(ids->chunk);
    free(ids);
}

int64_t fdp_ids_count(const fdp_ids *ids) {
    return ids->count;
}

/* The hash of a key, of which the first word is enough. */
static inline uint64_t spread(const fdp_ids *ids, int words, uint64_t key) {
    return words == 1 ? fdp_mix(key ^ ids->secret) : key;
}

/* The entry at a place: chunk and position in it. */
static inline ids_word *entry(const fdp_ids *ids, int words, uint32_t place) {
    return ids->chunk[place / CHUNK] + (size_t)(place % CHUNK) * 2 * (size_t)words;
}

/* Rows that may be the first ones of their ids. */
typedef struct {
    uint32_t *row;
    int64_t n, room;
} ids_fresh;

/* Adds a row to the list, which doubles when it is full. */
static inline int note(ids_fresh *fresh, int64_t row) {
    if (fresh->n == fresh->room) {
        const int64_t room = FDP_MAX(1024, 2 * fresh->room);
        uint32_t *more = realloc(fresh->row, sizeof *more * (size_t)room);
        if (more == NULL) return FDP_ERR_MEMORY;
        fresh->row = more;
        fresh->room = room;
    }
    fresh->row[fresh->n++] = (uint32_t)row;
    return FDP_OK;
}

/* Relaxed: a lock or the caller puts whatever has to be seen before. */
static inline uint64_t word(const ids_word *at) {
    return atomic_load_explicit(at, memory_order_relaxed);
}

static inline void put(ids_word *at, uint64_t value) {
    atomic_store_explicit(at, value, memory_order_relaxed);
}

/* The place of the part's next entry. */
static int take_place(fdp_ids *ids, ids_part *part, uint32_t *place) {
    if (part->left == 0) {
        const unsigned c = atomic_fetch_add(&ids->chunks, 1);
        if (c >= (1ULL << 32) / CHUNK - 1) return FDP_ERR_OVERFLOW;
        ids->chunk[c] = malloc(sizeof(ids_word) * CHUNK * 2 * (size_t)ids->words);
        if (ids->chunk[c] == NULL) return FDP_ERR_MEMORY;
        for (int i = 0; i < CHUNK; i++)
            put(ids->chunk[c] + (size_t)i * 2 * (size_t)ids->words + ids->words, NOBODY - 1);
        part->next = c * CHUNK;
        part->left = CHUNK;
    }
    part->left--;
    *place = part->next++;
    return FDP_OK;
}

/* Twice the slots. Entries stay where they are; their slots are found again by their hash. */
static int grow(const fdp_ids *ids, ids_part *part) {
    uint64_t mask = part->mask * 2 + 1, *old = part->slot, *slot = calloc(mask + 1, sizeof *slot);
    if (slot == NULL) return FDP_ERR_MEMORY;
    for (uint64_t i = 0; i <= part->mask; i++) {
        if (old[i] == 0) continue;
        uint64_t p = spread(ids, ids->words, word(entry(ids, ids->words, (uint32_t)old[i] - 1))) & mask;
        while (slot[p]) p = (p + 1) & mask;
        slot[p] = old[i];
    }
    free(old);
    part->slot = slot;
    part->mask = mask;
    return FDP_OK;
}

/* The public hash of a string of a batch. */
static inline uint64_t string_hash(const fdp_ids_batch *batch, int64_t row) {
    if (batch->data == NULL) return batch->hash[row];
    const int64_t from = batch->offset[row];
    return fdp_sha64(batch->data + from, (size_t)(batch->offset[row + 1] - from));
}

/* The place of an id, or of nobody's where key is NULL; *first: whether the row at this position is the first
 * one of its id so far. Slots are at most 2/3 full. */
static ALWAYS_INLINE int place_of(fdp_ids *ids, int words, ids_part *part, uint64_t h, const uint64_t *key,
                                  const fdp_ids_batch *batch, int64_t row, uint64_t position, int *first) {
    uint32_t *place = batch->place + row;
    /* Look for the id from its slot on. Another tag, or another key with the same tag, is passed over. */
    const uint64_t tag = h >> 32 << 32;
    uint64_t at = h & part->mask, s;
    for (; key && (s = part->slot[at]) != 0; at = (at + 1) & part->mask) {
        if ((s ^ tag) >> 32) continue;
        ids_word *other = entry(ids, words, (uint32_t)s - 1);
        if (word(other) != key[0] || (words == 2 && word(other + 1) != key[1])) continue;
        *place = (uint32_t)s - 1;
        *first = position < word(other + words);
        if (*first) put(other + words, position);
        return FDP_OK;
    }
    /* Not found: a new entry. A row without an id gets one that no slot leads to. */
    const int status = take_place(ids, part, place);
    if (status != FDP_OK) return status;
    ids_word *own = entry(ids, words, *place);
    for (int w = 0; w < words; w++) put(own + w, key ? key[w] : 0);
    put(own + words, key ? position : position | NOBODY);
    if (words == 2) put(own + 3, key ? string_hash(batch, row) : 0);
    *first = 1;
    if (!key) return FDP_OK;
    part->slot[at] = tag | (uint64_t)(*place + 1);
    return (++part->used + 1) * 3 > part->mask * 2 ? grow(ids, part) : FDP_OK;
}

/* Rows of a batch from one on, divided by the parts of their ids. */
typedef struct {
    int32_t n, start[PARTS + 1];
    uint16_t row[PIECE];  /* those of one part together, in order */
    uint8_t first[PIECE]; /* the row's part; later whether it is the first row of its id */
} ids_piece;

/* Finds n ids of a batch in their part: those of the piece's rows, or, where there is one part, all from row
 * `from` on. Keys are fetched ahead where they are many. */
static ALWAYS_INLINE int find_places(fdp_ids *ids, int words, int alone, ids_part *part, uint64_t position,
                                     const fdp_ids_batch *batch, int64_t from, int32_t n, const uint16_t *row,
                                     ids_piece *piece, ids_fresh *fresh) {
    const uint64_t *key = batch->key + from * words;
    const uint8_t *valid = batch->valid ? batch->valid + from : NULL;
    const int many = part->used * (uint64_t)ids->parts > MANY;
#define ROW(j) (alone ? (j) : (int32_t)row[j])
    for (int32_t begin = 0; begin < n; begin += AHEAD) {
        const int32_t end = FDP_MIN(n, begin + AHEAD);
        uint64_t h[AHEAD], s;
        for (int32_t j = begin; j < end; j++) {
            h[j - begin] = spread(ids, words, key[(int64_t)ROW(j) * words]);
            __builtin_prefetch(&part->slot[h[j - begin] & part->mask]);
        }
        for (int32_t j = begin; many && j < end; j++)
            if ((s = part->slot[h[j - begin] & part->mask]) != 0)
                __builtin_prefetch(entry(ids, words, (uint32_t)s - 1));
        for (int32_t j = begin; j < end; j++) {
            const int32_t i = ROW(j);
            const uint64_t *own = valid && !valid[i] ? NULL : key + (int64_t)i * words;
            int first = 0, status = place_of(ids, words, part, h[j - begin], own, batch, from + i,
                                             position + (uint64_t)(from + i), &first);
            if (alone && first && status == FDP_OK) status = note(fresh, from + i);
            if (status != FDP_OK) return status;
            if (!alone) piece->first[i] = (uint8_t)first;
        }
    }
#undef ROW
    return FDP_OK;
}

/* A counting sort of the piece's rows by part, the top bits of the hash. */
static ALWAYS_INLINE void divide(const fdp_ids *ids, int words, const uint64_t *key, ids_piece *piece) {
    int32_t at[PARTS + 1] = {0};
    for (int32_t i = 0; i < piece->n; i++) {
        piece->first[i] = (uint8_t)(spread(ids, words, key[(int64_t)i * words]) / (UINT64_MAX / PARTS + 1));
        at[piece->first[i] + 1]++;
    }
    for (int p = 0; p < PARTS; p++) at[p + 1] += at[p];
    memcpy(piece->start, at, sizeof at);
    for (int32_t i = 0; i < piece->n; i++) piece->row[at[piece->first[i]]++] = (uint16_t)i;
}

/* Each part that has rows in the piece, in turn; those that other threads are at come last. */
static ALWAYS_INLINE int find_piece(fdp_ids *ids, int words, uint64_t position, const fdp_ids_batch *batch,
                                    int64_t from, ids_piece *piece) {
    int status = FDP_OK, left = 0, p = (int)(atomic_fetch_add(&ids->turn, 1) * 5 % PARTS);
    uint8_t wanted[PARTS];
    for (int q = 0; q < PARTS; q++) left += wanted[q] = piece->start[q + 1] > piece->start[q];
    for (int turn = 0; left > 0; turn++, p = (p + 1) % PARTS) {
        ids_part *part = ids->part + p;
        if (!wanted[p] || (turn < PARTS && pthread_mutex_trylock(&part->lock) != 0)) continue;
        if (turn >= PARTS) pthread_mutex_lock(&part->lock);
        const int32_t begin = piece->start[p], n = piece->start[p + 1] - begin;
        if (status == FDP_OK)
            status =
                find_places(ids, words, 0, part, position, batch, from, n, piece->row + begin, piece, NULL);
        pthread_mutex_unlock(&part->lock);
        wanted[p] = 0;
        left--;
    }
    return status;
}

/* One part: all rows in turn under its lock. Several: piece by piece, each divided by parts. */
static ALWAYS_INLINE int find(fdp_ids *ids, int words, uint64_t position, const fdp_ids_batch *batch,
                              ids_fresh *fresh) {
    int status = FDP_OK;
    if (ids->parts == 1) {
        pthread_mutex_lock(&ids->part->lock);
        for (int64_t from = 0; from < batch->n && status == FDP_OK; from += PIECE)
            status = find_places(ids, words, 1, ids->part, position, batch, from,
                                 (int32_t)FDP_MIN(PIECE, batch->n - from), NULL, NULL, fresh);
        pthread_mutex_unlock(&ids->part->lock);
        return status;
    }
    ids_piece *piece = malloc(sizeof *piece);
    if (piece == NULL) return FDP_ERR_MEMORY;
    for (int64_t from = 0; from < batch->n && status == FDP_OK; from += PIECE) {
        piece->n = (int32_t)FDP_MIN(PIECE, batch->n - from);
        divide(ids, words, batch->key + from * words, piece);
        status = find_piece(ids, words, position, batch, from, piece);
        for (int32_t i = 0; i < piece->n && status == FDP_OK; i++)
            if (piece->first[i]) status = note(fresh, from + i);
    }
    free(piece);
    return status;
}

int fdp_ids_find(fdp_ids *ids, uint64_t position, const fdp_ids_batch *batch, uint32_t **fresh,
                 int64_t *found) {
    ids_fresh rows = {0};
    *fresh = NULL;
    *found = 0;
    if (batch->n < 0 || position < 1ULL << 32 || position >= NOBODY - (uint64_t)batch->n)
        return FDP_ERR_ARGUMENT;
    const int status =
        ids->words == 1 ? find(ids, 1, position, batch, &rows) : find(ids, 2, position, batch, &rows);
    if (status != FDP_OK) {
        free(rows.row);
        return status;
    }
    *fresh = rows.row;
    *found = rows.n;
    return FDP_OK;
}

/* A row whose position is still the one in its entry is the first of its id, and gives it the next
 * number. The number replaces the position; being smaller than any position, no later row undercuts it. */
int fdp_ids_settle(fdp_ids *ids, uint64_t position, const uint32_t *place, int64_t n, const uint32_t *fresh) {
    for (int64_t j = 0; j < n; j++) {
        if (j + AHEAD < n) __builtin_prefetch(entry(ids, ids->words, place[fresh[j + AHEAD]]));
        ids_word *own = entry(ids, ids->words, place[fresh[j]]) + ids->words;
        const uint64_t first = word(own);
        if ((first & ~NOBODY) != position + fresh[j]) continue;
        if (ids->count >= MAX_USERS) return FDP_ERR_OVERFLOW;
        ids->straight &= place[fresh[j]] == (uint64_t)ids->count;
        put(own, (uint64_t)ids->count++ | (first & NOBODY));
    }
    return FDP_OK;
}

#define NUMBERS 65536

typedef struct {
    const fdp_ids *ids;
    int64_t n;
    uint32_t *place;
    int is_signed;
    uint64_t *hash;
} number_job;

/* The entry's number for each place of one piece. */
static void number_some(void *ctx, int64_t kind, int64_t piece) {
    const number_job *job = ctx;
    (void)kind;
    for (int64_t i = piece * NUMBERS, end = FDP_MIN(job->n, i + NUMBERS); i < end; i++)
        job->place[i] = (uint32_t)word(entry(job->ids, job->ids->words, job->place[i]) + job->ids->words);
}

int fdp_ids_number(const fdp_ids *ids, int64_t n, uint32_t *place, fdp_team *team) {
    number_job job = {.ids = ids, .n = n, .place = place};
    if (!ids->straight)
        fdp_team_each(team, fdp_team_worth(team, n), FDP_TEAM_BLOCK, (n + NUMBERS - 1) / NUMBERS, number_some,
                      &job);
    return FDP_OK;
}

/* The public hash of every settled entry of a chunk; an unused one holds a position. */
static void hash_chunk(void *ctx, int64_t kind, int64_t c) {
    const number_job *job = ctx;
    const int words = job->ids->words;
    (void)kind;
    for (uint32_t i = 0; i < CHUNK; i++) {
        const ids_word *own = entry(job->ids, words, (uint32_t)c * CHUNK + i);
        const uint64_t number = word(own + words);
        if ((number & ~NOBODY) >= (uint64_t)job->ids->count) continue;
        if (number & NOBODY)
            job->hash[number & ~NOBODY] = 0;
        else
            job->hash[number] = words == 1 ? fdp_sha64_word(word(own), job->is_signed) : word(own + 3);
    }
}

int fdp_ids_hashes(const fdp_ids *ids, int is_signed, uint64_t *hash, fdp_team *team) {
    number_job job = {.ids = ids, .is_signed = is_signed, .hash = hash};
    fdp_team_each(team, fdp_team_worth(team, ids->count), FDP_TEAM_BLOCK, (int64_t)atomic_load(&ids->chunks),
                  hash_chunk, &job);
    return FDP_OK;
}

FDP_CLONES static void hash_words(int64_t n, const uint64_t *restrict id, uint64_t *restrict hash) {
    for (int64_t i = 0; i < n; i++) hash[i] = fdp_mix2(PUBLIC_KEY, id[i]);
}

int fdp_ids_hash_words(int64_t n, const uint64_t *id, uint64_t *hash) {
    hash_words(n, id, hash);
    return FDP_OK;
}

int fdp_ids_value_hashes(int64_t n, const uint64_t *word, int is_signed, const int64_t *offset,
                         const uint8_t *data, uint64_t *hash) {
    for (int64_t i = 0; i < n; i++)
        hash[i] = word != NULL ? fdp_sha64_word(word[i], is_signed)
                               : fdp_sha64(data + offset[i], (size_t)(offset[i + 1] - offset[i]));
    return FDP_OK;
}

/* SipHash (Aumasson and Bernstein 2012) with one round for each word and three at the end, 128 bits of
 * output. The four words of state are v0 to v3. */
#define ROTATE(x, b) (((x) << (b)) | ((x) >> (64 - (b))))
#define ROUND \
    do { \
        v0 += v1, v1 = ROTATE(v1, 13), v1 ^= v0, v0 = ROTATE(v0, 32); \
        v2 += v3, v3 = ROTATE(v3, 16), v3 ^= v2; \
        v0 += v3, v3 = ROTATE(v3, 21), v3 ^= v0; \
        v2 += v1, v1 = ROTATE(v1, 17), v1 ^= v2, v2 = ROTATE(v2, 32); \
    } while (0)

/* Eight bytes as a word, the first one lowest, on any processor. */
static inline uint64_t little_endian(const uint8_t *p) {
    uint64_t m;
    memcpy(&m, p, 8);
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    m = __builtin_bswap64(m);
#endif
    return m;
}

int fdp_ids_hash_strings(int64_t n, const int64_t *offset, const uint8_t *data, const uint64_t secret[2],
                         uint64_t *key) {
    for (int64_t i = 0; i < n; i++) {
        const uint8_t *p = data + offset[i];
        uint64_t length = (uint64_t)(offset[i + 1] - offset[i]);
        uint64_t v0 = secret[0] ^ 0x736f6d6570736575ULL, v1 = secret[1] ^ 0x646f72616e646f6dULL ^ 0xee;
        uint64_t v2 = secret[0] ^ 0x6c7967656e657261ULL, v3 = secret[1] ^ 0x7465646279746573ULL;
        uint64_t m;
        /* Words of eight bytes; the last one holds the bytes that remain and the length in its top byte. */
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
        }
        /* Three rounds for the first half of the output, three more for the second. */
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
    }
    return FDP_OK;
}
