/* What team.h is made of: bells that threads wait for, the struct of a team, and how its threads share the
 * pieces of a step. Nothing else includes this. */
#ifndef FDP_TEAM_STEPS_H
#define FDP_TEAM_STEPS_H

#include <limits.h>
#include "threads.h"
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
#if defined(__linux__)
#include <sys/syscall.h>
/* The kernel's numbers, which it never changes: its headers are not everywhere where a compiler is (musl). */
#define FDP_FUTEX_WAIT 128 /* FUTEX_WAIT_PRIVATE */
#define FDP_FUTEX_WAKE 129 /* FUTEX_WAKE_PRIVATE */
#endif

#define FDP_TEAM_MAX 256
#define FDP_TEAM_SPIN 200000     /* nanoseconds: a member stays awake between two calls of a fit */
#define FDP_TEAM_STACK (1 << 21) /* bytes: glibc keeps stacks of ended threads, 40 MB of them, for new ones */
#define FDP_TEAM_CELLS 32768     /* cells of work, some 0.1 ms, that are worth one more thread */

/* A number that grows, and those who wait for it to. */
typedef struct {
    char apart[64]; /* from what others write */
    atomic_uint_least64_t value;
    atomic_int asleep;
    atomic_uint rung; /* changes whenever sleepers are woken */
} fdp_bell;

typedef struct fdp_team fdp_team;
typedef void (*fdp_team_fn)(fdp_team *team, int number, void *ctx);

/* Does piece i of a step of that kind. */
typedef void (*fdp_team_piece)(void *ctx, int64_t kind, int64_t i);

/* Called by one thread when all pieces of a step are done, and at the beginning: says of what kind the next
 * step is and returns its pieces; 0 at the end of the job. */
typedef int64_t (*fdp_team_plan)(void *ctx, int64_t *kind);

/* Which pieces make up a thread's own share of a step: neighbours (in memory, too), or pieces spread evenly
 * over a list that begins with what takes longest. Half of all belong to somebody, nearly all where there are
 * FDP_TEAM_FEW or fewer a thread: taking what is nobody's costs more, as all reach for it. */
enum { FDP_TEAM_BLOCK, FDP_TEAM_SPREAD };
#define FDP_TEAM_FEW 4

/* How many pieces of a share are taken, and in which step: number of the step << FDP_TEAM_TAKEN | pieces. */
typedef struct {
    char apart[120]; /* from what others write */
    atomic_uint_least64_t word;
} fdp_team_share;
#define FDP_TEAM_TAKEN 20

typedef struct {
    fdp_team *team;
    int number;
    uint64_t seen; /* steps before it came */
    pthread_t handle;
    fdp_team_share own;
} fdp_team_member;

/* A step. Whoever reads the numbers looks afterwards whether the step is still under way. */
typedef struct {
    char apart[64];
    atomic_int width;           /* threads; 0: between two jobs, -1: go home */
    atomic_int deal;            /* FDP_TEAM_BLOCK ... */
    atomic_llong grains;        /* what threads take: some pieces at a time; 0: a job of members */
    int64_t each, pieces, kind; /* pieces of a grain, all */
    char apart_too[64];
    atomic_llong done; /* grains, or members */
} fdp_team_step;

struct fdp_team {
    int threads;   /* of the job under way */
    int most;      /* threads a job may have */
    int made;      /* threads there are, the caller's with them */
    pid_t process; /* that made them */
    fdp_team_fn fn;
    fdp_team_plan plan;
    fdp_team_piece piece;
    void *ctx;
    atomic_int
        user; /* process of whoever has a job done; 0: nobody, another process than ours: nobody either */
    char apart[64];          /* from what a job's members read */
    atomic_int waiting;      /* members that have come to the end of the phase */
    fdp_bell phase;          /* phases ended */
    fdp_bell now;            /* number of the step under way */
    fdp_team_step step[2];   /* step n is step[n % 2] */
    fdp_team_share rest;     /* what is in nobody's share */
    fdp_team_member *member; /* [most] */
};

static inline void fdp_bell_make(fdp_bell *bell) {
    atomic_init(&bell->value, 0);
    atomic_init(&bell->asleep, 0);
    atomic_init(&bell->rung, 0);
}

/* Sleeps while *word is `seen`; may wake without a reason. Elsewhere than on Linux: a nap. */
static inline void fdp_bell_sleep(atomic_uint *word, unsigned seen) {
#if defined(__linux__)
    syscall(SYS_futex, word, FDP_FUTEX_WAIT, seen, NULL, NULL, 0);
#else
    const struct timespec nap = {0, 50000};
    if (atomic_load(word) == seen) nanosleep(&nap, NULL);
#endif
}

/* `wake`: so many of those who sleep. */
static inline void fdp_bell_ring(fdp_bell *bell, uint64_t value, int wake) {
    atomic_store(&bell->value, value);
    if (atomic_load(&bell->asleep) == 0)
        return; /* who goes to sleep later looks at the value after saying so */
    atomic_fetch_add(&bell->rung, 1);
#if defined(__linux__)
    syscall(SYS_futex, &bell->rung, FDP_FUTEX_WAKE, wake, NULL, NULL, 0);
#else
    (void)wake;
#endif
}

static inline int64_t fdp_team_clock(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static inline void fdp_team_pause(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Waits until the value is another than `old`, and returns it; meanwhile(who), if given, returns 1 where it
 * found something to do. */
static inline uint64_t fdp_bell_wait(fdp_bell *bell, uint64_t old,
                                     int (*meanwhile)(fdp_team *team, int number, uint64_t now),
                                     fdp_team *team, int number) {
    uint64_t value;
    int64_t until = 0;
    do {
        for (int i = 0; i < 64; i++) {
            if ((value = atomic_load_explicit(&bell->value, memory_order_acquire)) != old) return value;
            fdp_team_pause();
        }
        if (meanwhile && meanwhile(team, number, old)) {
            until = 0;
            continue;
        }
        sched_yield();
        if (until == 0) until = fdp_team_clock() + FDP_TEAM_SPIN;
    } while (until == 0 || fdp_team_clock() < until);
    atomic_fetch_add(&bell->asleep, 1);
    for (;;) {
        const unsigned seen = atomic_load(&bell->rung); /* before the value: a ring since ends the sleep */
        if ((value = atomic_load(&bell->value)) != old) break;
        fdp_bell_sleep(&bell->rung, seen);
    }
    atomic_fetch_sub(&bell->asleep, 1);
    return value;
}

/* Begins a step. */
static inline void fdp_team_begin(fdp_team *team, int width, int deal, int64_t pieces, int64_t kind,
                                  int wake) {
    const uint64_t number = atomic_load(&team->now.value) + 1;
    fdp_team_step *step = team->step + number % 2;
    step->each = 1 + (pieces >> FDP_TEAM_TAKEN);
    step->pieces = pieces;
    step->kind = kind;
    atomic_store_explicit(&step->width, width, memory_order_relaxed);
    atomic_store_explicit(&step->deal, deal, memory_order_relaxed);
    atomic_store_explicit(&step->grains, (pieces + step->each - 1) / step->each, memory_order_relaxed);
    atomic_store_explicit(&step->done, 0, memory_order_relaxed);
    fdp_bell_ring(&team->now, number, wake);
}

/* A step ends: the next one of the job, or the end of it. A step of one piece is done at once. Sleepers are
 * woken where the last step was too small for all, one of them where it was not: he was late. */
static inline void fdp_team_proceed(fdp_team *team, int width, int deal, int64_t grains) {
    int64_t kind = 0, pieces;
    while ((pieces = team->plan ? team->plan(team->ctx, &kind) : 0) == 1) team->piece(team->ctx, kind, 0);
    fdp_team_begin(team, pieces ? width : 0, deal, pieces, kind, pieces && grains >= width ? 1 : INT_MAX);
}

/* Takes the next of `size` grains of a share in step `now`: its number, or -1 where none is left. A word of
 * an earlier step says that none was taken in this one, which then cannot be over. */
static inline int64_t fdp_team_claim(fdp_team *team, fdp_team_share *share, uint64_t now, int64_t size) {
    uint64_t word = atomic_load_explicit(&share->word, memory_order_relaxed);
    for (;;) {
        const uint64_t step = word >> FDP_TEAM_TAKEN;
        const int64_t taken = step == now ? (int64_t)(word & ((1u << FDP_TEAM_TAKEN) - 1)) : 0;
        if (step > now || taken >= size) return -1;
        if (atomic_compare_exchange_weak_explicit(&share->word, &word,
                                                  now << FDP_TEAM_TAKEN | (uint64_t)(taken + 1),
                                                  memory_order_relaxed, memory_order_relaxed))
            return atomic_load_explicit(&team->now.value, memory_order_acquire) == now ? taken : -1;
    }
}

static inline void fdp_team_grain(fdp_team *team, const fdp_team_step *step, int64_t grain) {
    for (int64_t i = grain * step->each; i < step->pieces && i < (grain + 1) * step->each; i++)
        team->piece(team->ctx, step->kind, i);
}

/* A member's part of step `now`. `others`: of what others have not taken of their shares; returns whether
 * anything was done. */
static inline int fdp_team_work(fdp_team *team, int number, uint64_t now, int others) {
    fdp_team_step *step = team->step + now % 2;
    const int width = atomic_load_explicit(&step->width, memory_order_acquire);
    const int deal = atomic_load_explicit(&step->deal, memory_order_acquire);
    const int64_t grains = atomic_load_explicit(&step->grains, memory_order_acquire);
    if (atomic_load_explicit(&team->now.value, memory_order_acquire) != now || number >= width) return 0;
    const int64_t own = grains / width / (grains > FDP_TEAM_FEW * width ? 2 : 1);
    int64_t did = 0, i;
    if (grains == 0 && !others) { /* a job of members, which ends when all of them have come */
        team->fn(team, number, team->ctx);
        if (atomic_fetch_add_explicit(&step->done, 1, memory_order_acq_rel) == width - 1)
            fdp_team_begin(team, 0, 0, 0, 0, INT_MAX);
        return 1;
    }
    for (int k = 0; k < (others ? width : 1); k++) {
        const int whose = (number + k) % width;
        while ((i = fdp_team_claim(team, &team->member[whose].own, now, own)) >= 0) {
            fdp_team_grain(team, step, deal == FDP_TEAM_SPREAD ? whose + i * width : whose * own + i);
            did++;
        }
    }
    while ((i = fdp_team_claim(team, &team->rest, now, grains - own * width)) >= 0) {
        fdp_team_grain(team, step, own * width + i);
        did++;
    }
    if (did && atomic_fetch_add_explicit(&step->done, did, memory_order_acq_rel) == grains - did)
        fdp_team_proceed(team, width, deal, grains);
    return did > 0;
}

static inline int fdp_team_steal(fdp_team *team, int number, uint64_t now) {
    return fdp_team_work(team, number, now, 1);
}

#endif
