/* Preloaded by test_failures.py: lets the n-th allocation made by fastdp's own compiled code fail, and no
 * other, and counts what that code has not given back.
 *
 * Whose allocation it is, is told by the address it returns to: that of a library whose path holds a given
 * text. So the kernels that are tested are those that are shipped, without a hook in them. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/random.h>

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void __libc_free(void *);

static struct {
    uintptr_t from, to;
} library[64];
static int libraries;
static long countdown, failures, live, spare_threads = -1;
static const char *wanted;
static int no_random;

static int note(struct dl_phdr_info *info, size_t size, void *data) {
    (void)size, (void)data;
    if (!info->dlpi_name || !strstr(info->dlpi_name, wanted) || libraries == 64) return 0;
    uintptr_t from = UINTPTR_MAX, to = 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type != PT_LOAD) continue;
        const uintptr_t at = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
        if (at < from) from = at;
        if (at + info->dlpi_phdr[i].p_memsz > to) to = at + info->dlpi_phdr[i].p_memsz;
    }
    library[libraries].from = from;
    library[libraries++].to = to;
    return 0;
}

/* The n-th allocation from now on by a library with `path` in its name fails; n = 0: none does. Returns the
 * libraries. */
int failing_arm(const char *path, long n) {
    libraries = 0;
    wanted = path;
    dl_iterate_phdr(note, NULL);
    __atomic_store_n(&failures, 0, __ATOMIC_SEQ_CST);
    __atomic_store_n(&countdown, n, __ATOMIC_SEQ_CST);
    return libraries;
}

/* How many allocations have failed since then. */
long failing_count(void) {
    return __atomic_load_n(&failures, __ATOMIC_SEQ_CST);
}

/* Allocations by those libraries less what they have given back, since the process began. */
long failing_live(void) {
    return __atomic_load_n(&live, __ATOMIC_SEQ_CST);
}

/* Only so many threads can still be made; -1: as many as you like. */
void failing_threads(long n) {
    spare_threads = n;
}

/* Whether the operating system has no random bits left. */
void failing_random(int none) {
    no_random = none;
}

static int ours(uintptr_t caller) {
    for (int i = 0; i < libraries; i++)
        if (caller >= library[i].from && caller < library[i].to) return 1;
    return 0;
}

static int fails(uintptr_t caller) {
    if (__atomic_load_n(&countdown, __ATOMIC_SEQ_CST) <= 0 || !ours(caller)) return 0;
    if (__atomic_sub_fetch(&countdown, 1, __ATOMIC_SEQ_CST) != 0) return 0;
    __atomic_add_fetch(&failures, 1, __ATOMIC_SEQ_CST);
    errno = ENOMEM;
    return 1;
}

static void *noted(void *made, uintptr_t caller) {
    if (made && ours(caller)) __atomic_add_fetch(&live, 1, __ATOMIC_SEQ_CST);
    return made;
}

#define CALLER ((uintptr_t)__builtin_return_address(0))

void *malloc(size_t size) {
    return fails(CALLER) ? NULL : noted(__libc_malloc(size), CALLER);
}

void *calloc(size_t n, size_t size) {
    return fails(CALLER) ? NULL : noted(__libc_calloc(n, size), CALLER);
}

void *realloc(void *old, size_t size) {
    if (fails(CALLER)) return NULL;
    void *made = __libc_realloc(old, size);
    return old ? made : noted(made, CALLER);
}

void free(void *old) {
    if (old && ours(CALLER)) __atomic_sub_fetch(&live, 1, __ATOMIC_SEQ_CST);
    __libc_free(old);
}

ssize_t getrandom(void *out, size_t size, unsigned flags) {
    ssize_t (*real)(void *, size_t, unsigned) =
        (ssize_t (*)(void *, size_t, unsigned))dlsym(RTLD_NEXT, "getrandom");
    if (!no_random) return real(out, size, flags);
    errno = ENOSYS;
    return -1;
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *),
                   void *argument) {
    int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *) =
        (int (*)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *))dlsym(RTLD_NEXT,
                                                                                       "pthread_create");
    if (spare_threads == 0) return EAGAIN;
    if (spare_threads > 0) spare_threads--;
    return real(thread, attributes, start, argument);
}
