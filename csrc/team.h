/* A team of threads: made when a job first needs them, kept for the jobs that follow, joined when the team is
 * freed. Work must be divided by the data, never by the number of threads: then no result depends on it.
 *
 * A job in STEPS (fdp_team_steps, fdp_team_each). A step has numbered pieces, and ends when all of them are
 * done, not when all threads have come: a thread that lost its processor, or has not woken yet, delays nobody
 * unless it holds a piece. A thread takes the pieces of its own share first, the same ones whenever a step of
 * that size comes again, so that it finds in its caches what it left there; then what is in nobody's share;
 * then what is left of the shares of others. Whoever ends a step prepares the next one.
 *
 * A job of MEMBERS (fdp_team_do) calls fn(team, number, ctx) on up to `threads` threads, number 0 being the
 * caller's own. Inside, a loop is shared with fdp_team_next or FDP_TEAM_SHARE on a counter of its own, and
 * phases are separated by fdp_team_wait, which waits for all. For jobs of few long phases.
 *
 * Either has fewer threads where the system gives fewer, and only the caller's where the team is at work for
 * somebody else. How many follows from the size of the job (fdp_team_worth).
 *
 * Members that wait spin, then give way to whoever wants the processor, and after FDP_TEAM_SPIN nanoseconds
 * sleep: an idle team costs nothing, and a busy machine is not kept busier. (OpenMP's pool spins on.)
 *
 * Fork. A child has a copy of the team but none of its threads. Every job begins by comparing the process
 * with the one that made the threads; in a child the team starts afresh and makes threads of its own when it
 * needs them. (OpenMP's pool hangs.) Members block all signals: those are for the threads of the program. */
#ifndef FDP_TEAM_H
#define FDP_TEAM_H

#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
#if defined(__linux__)
#include <linux/futex.h>
#include <sys/syscall.h>
#endif

#define FDP_TEAM_MAX 256
#define FDP_TEAM_SPIN 200000 /* nanoseconds: a member stays awake between two calls of a fit */
#define FDP_TEAM_CELLS 32768 /* cells of work, some 0.1 ms, that are worth one more thread */

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
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
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
    syscall(SYS_futex, &bell->rung, FUTEX_WAKE_PRIVATE, wake, NULL, NULL, 0);
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

/* The next index of a shared loop; stop when it is >= n. */
static inline int64_t fdp_team_next(atomic_llong *counter) {
    return atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

/* Shared loops. OWN of FDP_TEAM_PARTS of the indices belong to a thread, the same ones whenever a loop of the
 * same length comes again: it finds in its caches what it left there. The rest goes to whoever is free, so
 * that a thread half as fast as the others does not keep them waiting. `turn` counts from 0 on; the loop ends
 * where the index is >= n. */
#define FDP_TEAM_OWN 2
#define FDP_TEAM_PARTS 4

static inline int64_t fdp_team_owned(const fdp_team *team, int64_t n) {
    return n * FDP_TEAM_OWN / FDP_TEAM_PARTS / team->threads;
}

/* A thread's own indices are a block: neighbours in the list are neighbours in memory. */
static inline int64_t fdp_team_block(const fdp_team *team, int number, int64_t own, int64_t turn,
                                     atomic_llong *counter) {
    return turn < own ? number * own + turn : team->threads * own + fdp_team_next(counter);
}

/* A thread's own indices are spread evenly: lists begin with what takes longest. */
static inline int64_t fdp_team_spread(const fdp_team *team, int number, int64_t own, int64_t turn,
                                      atomic_llong *counter) {
    return turn < own ? number + turn * team->threads : team->threads * own + fdp_team_next(counter);
}

#define FDP_TEAM_LOOP(index, team, number, counter, i, n) \
    for (int64_t turn_ = 0, n_ = (n), own_ = fdp_team_owned(team, n_), i; \
         (i = index(team, number, own_, turn_++, counter)) < n_;)

/* Wait for all; what any thread wrote before is seen by every thread after. */
static inline void fdp_team_wait(fdp_team *team) {
    const int width = team->threads;
    if (width == 1) return;
    const uint64_t phase = atomic_load_explicit(&team->phase.value, memory_order_acquire);
    if (atomic_fetch_add_explicit(&team->waiting, 1, memory_order_acq_rel) == width - 1) {
        atomic_store_explicit(&team->waiting, 0, memory_order_relaxed);
        fdp_bell_ring(&team->phase, phase + 1, INT_MAX);
    } else {
        fdp_bell_wait(&team->phase, phase, NULL, NULL, 0);
    }
}

/* Counters of shared loops, one loop a phase: phase p counts with turn p % 3. The counter of the phase after
 * it was last used two phases ago, which all have left: it is set back meanwhile. */
typedef struct {
    struct {
        atomic_llong next;
        char apart[56];
    } turn[3];
} fdp_team_turns;

static inline void fdp_team_turns_make(fdp_team_turns *turns) {
    for (int i = 0; i < 3; i++) atomic_init(&turns->turn[i].next, 0);
}

/* EACH i in [0, n), shared by the team; expects `team` and `number` of the member's function. */
#define FDP_TEAM_SHARE(turns, phase, i, n) \
    FDP_TEAM_LOOP(fdp_team_spread, team, number, &(turns)->turn[(phase) % 3].next, i, n)

/* The end of a phase: all wait for all. */
static inline void fdp_team_turn(fdp_team *team, int number, fdp_team_turns *turns, int64_t *phase) {
    if (number == 0) atomic_store(&turns->turn[(*phase + 1) % 3].next, 0);
    fdp_team_wait(team);
    *phase += 1;
}

/* The threads that a job over so many cells is worth. */
static inline int fdp_team_worth(const fdp_team *team, int64_t cells) {
    const int64_t worth = 1 + cells / FDP_TEAM_CELLS;
    return !team ? 1 : worth < team->most ? (int)worth : team->most;
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

static void *fdp_team_enter(void *argument) {
    fdp_team_member *member = argument;
    fdp_team *team = member->team;
    for (uint64_t now = member->seen;;) {
        now = fdp_bell_wait(&team->now, now, fdp_team_steal, team, member->number);
        if (atomic_load_explicit(&team->step[now % 2].width, memory_order_acquire) < 0) return NULL;
        fdp_team_work(team, member->number, now, 0);
    }
}

/* A team for jobs of up to `threads` threads; *team is the caller's, as large as sizeof says. Returns 0 where
 * there is no memory. */
static inline int fdp_team_make(fdp_team *team, int threads) {
    team->most = threads < 1 ? 1 : threads > FDP_TEAM_MAX ? FDP_TEAM_MAX : threads;
    team->made = 1;
    team->process = 0;
    atomic_init(&team->user, 0);
    team->member = calloc((size_t)team->most, sizeof *team->member);
    return team->member != NULL;
}

/* Only its owner may end it, and not while a job is under way. In a forked child there is nobody to wait
 * for. */
static inline void fdp_team_end(fdp_team *team) {
    if (team->process == getpid()) {
        fdp_team_begin(team, -1, 0, 0, 0, INT_MAX);
        for (int i = 1; i < team->made; i++) pthread_join(team->member[i].handle, NULL);
    }
    free(team->member);
}

/* Makes threads until there are as many, or as many as the system gives. */
static inline void fdp_team_grow(fdp_team *team, int threads) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (; team->made < threads; team->made++) {
        fdp_team_member *member = team->member + team->made;
        *member =
            (fdp_team_member){.team = team, .number = team->made, .seen = atomic_load(&team->now.value)};
        if (pthread_create(&member->handle, NULL, fdp_team_enter, member) != 0) break;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* Takes the team for one job: 0 where somebody else of this process has it. */
static inline int fdp_team_take(fdp_team *team) {
    const pid_t process = getpid();
    int user = atomic_load(&team->user);
    if (user == process || !atomic_compare_exchange_strong(&team->user, &user, process)) return 0;
    if (team->process != process) { /* the first job, or the first one after a fork */
        team->made = 1;
        team->process = process;
        atomic_init(&team->waiting, 0);
        for (int i = 0; i < team->most; i++) atomic_init(&team->member[i].own.word, 0);
        atomic_init(&team->rest.word, 0);
        fdp_bell_make(&team->phase);
        fdp_bell_make(&team->now);
        atomic_init(&team->step[0].width, 0);
    }
    return 1;
}

/* Has the job done that was put into the team, and lets the team go. */
static inline void fdp_team_lead(fdp_team *team) {
    for (;;) {
        const uint64_t now = atomic_load(&team->now.value);
        const int width = atomic_load_explicit(&team->step[now % 2].width, memory_order_acquire);
        if (atomic_load(&team->now.value) != now) continue; /* that may have been the width of a later step */
        if (width == 0) break;
        fdp_team_work(team, 0, now, 0);
        fdp_bell_wait(&team->now, now, fdp_team_steal, team, 0);
    }
    atomic_store(&team->user, 0);
}

/* Takes the team and makes what threads the job lacks; 0 where the caller works alone. */
static inline int fdp_team_gather(fdp_team *team, int threads) {
    if (team && threads > team->most) threads = team->most;
    if (!team || threads <= 1 || !fdp_team_take(team)) return 0;
    if (team->made < threads) fdp_team_grow(team, threads);
    team->threads = threads < team->made ? threads : team->made;
    if (team->threads == 1) atomic_store(&team->user, 0);
    return team->threads > 1;
}

static inline void fdp_team_do(fdp_team *team, int threads, fdp_team_fn fn, void *ctx) {
    if (fdp_team_gather(team, threads)) {
        team->fn = fn;
        team->ctx = ctx;
        fdp_team_begin(team, team->threads, 0, 0, 0, INT_MAX);
        fdp_team_lead(team);
        return;
    }
    fdp_team alone;
    alone.threads = 1;
    fn(&alone, 0, ctx);
}

/* A job in steps: plan says what they are, piece does their pieces; deal: FDP_TEAM_BLOCK ... */
static inline void fdp_team_steps(fdp_team *team, int threads, int deal, fdp_team_plan plan,
                                  fdp_team_piece piece, void *ctx) {
    int64_t kind = 0, pieces;
    if (fdp_team_gather(team, threads)) {
        team->plan = plan;
        team->piece = piece;
        team->ctx = ctx;
        fdp_team_proceed(team, team->threads, deal, 0);
        fdp_team_lead(team);
        return;
    }
    while ((pieces = plan(ctx, &kind)) > 0)
        for (int64_t i = 0; i < pieces; i++) piece(ctx, kind, i);
}

/* A job of one step. */
static inline void fdp_team_each(fdp_team *team, int threads, int deal, int64_t pieces, fdp_team_piece piece,
                                 void *ctx) {
    if (pieces > 1 && fdp_team_gather(team, threads)) {
        team->plan = NULL;
        team->piece = piece;
        team->ctx = ctx;
        fdp_team_begin(team, team->threads, deal, pieces, 0, INT_MAX);
        fdp_team_lead(team);
        return;
    }
    for (int64_t i = 0; i < pieces; i++) piece(ctx, 0, i);
}

/* One job by a team of its own, for callers that have no more than one. */
static inline void fdp_team_run(int threads, fdp_team_fn fn, void *ctx) {
    fdp_team team;
    if (threads <= 1 || !fdp_team_make(&team, threads)) {
        fdp_team_do(NULL, 1, fn, ctx);
        return;
    }
    fdp_team_do(&team, threads, fn, ctx);
    fdp_team_end(&team);
}

#endif
