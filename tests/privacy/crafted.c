/* The sampler's own source with crafted words in place of the stream's, so that tests reach what a random
 * stream hardly ever does; and with the wiping of memory and the system's randomness watched. */
#include <errno.h>
#include <string.h>
#include <sys/random.h>
#include <sys/types.h>

static ssize_t crafted_getrandom(void *out, size_t bytes, unsigned flags);
#define getrandom crafted_getrandom
#include "../../csrc/noise_chacha.c"
#undef getrandom

/* What was wiped: how many calls, the sizes of the last 64, and the first 32 bytes before it. */
static int wipes;
static size_t wiped_bytes[64];
static unsigned char wiped_head[64][32];

static void watched_wipe(void *memory, size_t bytes) {
    int at = __atomic_fetch_add(&wipes, 1, __ATOMIC_SEQ_CST) & 63;
    wiped_bytes[at] = bytes;
    memcpy(wiped_head[at], memory, bytes < 32 ? bytes : 32);
    fdp_wipe(memory, bytes);
}
#define fdp_wipe watched_wipe
#include "../../csrc/noise.c"
#undef fdp_wipe

/* Answers of getrandom, one a call: bytes to hand out, or minus the errno of a failure. */
static const int *answers;
static int asked;

static ssize_t crafted_getrandom(void *out, size_t bytes, unsigned flags) {
    (void)flags;
    int answer = answers[asked++];
    if (answer < 0) {
        errno = -answer;
        return -1;
    }
    if ((size_t)answer > bytes) answer = (int)bytes;
    memset(out, asked, (size_t)answer);
    return answer;
}

int crafted_key(const int *script, unsigned char key[32], int *calls) {
    answers = script;
    asked = 0;
    memset(key, 0, 32);
    int code = fdp_random_key((uint32_t *)key);
    *calls = asked;
    return code;
}

static fdp_stream stream_of(const uint64_t *words) {
    fdp_stream stream;
    memset(&stream, 0, sizeof stream);
    memcpy(stream.words, words, sizeof stream.words);
    return stream;
}

/* The verdict, and how many words it took. */
int crafted_accept(const uint64_t *words, uint64_t z64, int strip, uint64_t u_hi, int *used) {
    fdp_stream stream = stream_of(words);
    lazy_uniform u = {u_hi, 0, 0};
    int verdict = accept(&stream, z64, strip, &u);
    *used = (int)stream.used;
    return verdict;
}

int64_t crafted_draw(int laplace, double scale, const uint64_t *words, int *used) {
    fdp_stream stream = stream_of(words);
    int64_t drawn = (laplace ? draw_laplace : draw_gaussian)(&stream, split_scale(scale));
    *used = (int)stream.used;
    return drawn;
}

/* The number of wipes of one call, with sizes and contents of each. kind: 0 Gaussian, 1 Laplace, 2 bytes. */
int crafted_wipes(int kind, const uint32_t *key, int n, int threads, size_t *sizes, unsigned char *heads,
                  size_t *whole) {
    static int64_t out[1 << 20];
    double scale = 3.0;
    wipes = 0;
    if (kind == 2)
        fdp_noise_bytes(key, n, (uint8_t *)out);
    else
        (kind ? fdp_noise_laplace : fdp_noise_gaussian)(&scale, 0, n, key, threads, out);
    memcpy(sizes, wiped_bytes, sizeof wiped_bytes);
    memcpy(heads, wiped_head, sizeof wiped_head);
    *whole = sizeof(fdp_stream);
    return wipes;
}

/* How many places of the stack below this frame hold two words of the key, or of the stream, one behind
 * the other after a call. kind: 0 Gaussian, 1 Laplace, 2 bytes. */
__attribute__((noinline)) static int left_behind(const uint32_t *key, const uint32_t *words, int count) {
    const volatile unsigned char *top = __builtin_frame_address(0);
    int places = 0;
    for (const volatile unsigned char *at = top - 6000; at < top - 8; at++) {
        uint32_t pair[2];
        for (int i = 0; i < 8; i++) ((unsigned char *)pair)[i] = at[i];
        for (int k = 0; k + 1 < 8; k++) places += pair[0] == key[k] && pair[1] == key[k + 1];
        for (int k = 0; k + 1 < count; k++) places += pair[0] == words[k] && pair[1] == words[k + 1];
    }
    return places;
}

/* Takes away what earlier calls of the test have left there. */
__attribute__((noinline)) static void blank(void) {
    volatile unsigned char below[8000];
    for (int i = 0; i < 8000; i++) below[i] = 0;
}

int crafted_left_behind(int kind, const uint32_t *key, const uint32_t *words, int count) {
    static int64_t out[256];
    double scale = 3.0;
    blank();
    if (kind == 2)
        fdp_noise_bytes(key, 2048, (uint8_t *)out);
    else
        (kind ? fdp_noise_laplace : fdp_noise_gaussian)(&scale, 0, 40, key, 1, out);
    return left_behind(key, words, count);
}

/* Whether memory is zero after it was wiped, and its neighbours are not. */
int crafted_wipe(int bytes) {
    unsigned char memory[256];
    memset(memory, 7, sizeof memory);
    fdp_wipe(memory + 8, (size_t)bytes);
    for (int i = 0; i < 256; i++)
        if ((memory[i] == 0) != (i >= 8 && i < 8 + bytes)) return 0;
    return 1;
}
