/* A team of threads: made when a job first needs them, kept for the jobs that follow, joined when the team is
 * freed.
 *
 * fdp_team_do calls fn(team, number, ctx) on up to `threads` threads, number 0 being the caller's own; on
 * fewer where the system gives fewer, on the caller's alone where the team is at work for somebody else.
 * Inside, a loop is shared with fdp_team_next or FDP_TEAM_LOOP on a counter of its own, and phases are separated by
 * fdp_team_wait. Work must be divided by the data, never by the number of threads: then no result depends on
 * it.
 *
 * Members that wait spin, then give way to whoever wants the processor, and after FDP_TEAM_SPIN nanoseconds
 * sleep: an idle team costs nothing, and a busy machine is not kept busier. (OpenMP's pool spins on.) How
 * many members a job has follows from its size (fdp_team_worth): small jobs do not wait for many.
 *
 * A machine may have fewer processors to give than it shows (other programs, other guests of a virtual
 * machine). Then a phase waits for a thread that is not running, and 16 threads take longer than 8. So a team
 * notes how long members waited for late ones, and gives the next jobs of that kind fewer members, more again
 * after calm ones (fdp_team_learn). Measured on a virtual machine of 16 that gave 9.5: a call of AdaGrid's
 * tree took 15 ms with 16 members where it takes 1.8 on a quiet one.
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
#define FDP_TEAM_SPIN 200000  /* nanoseconds: a member stays awake between two calls of a fit */
#define FDP_TEAM_CELLS 32768  /* cells of work, some 0.1 ms, that are worth one more thread */
#define FDP_TEAM_LATE 500000  /* nanoseconds: who waits longer, waits for a thread that lost its processor */
#define FDP_TEAM_KINDS 16     /* kinds of jobs whose widths are learnt */
#define FDP_TEAM_CALM 8       /* jobs without lateness after which one more thread is tried */

/* A number that grows, and those who wait for it to. */
typedef struct {
    char apart[64]; /* from what others write */
    atomic_uint_least64_t value;
    atomic_int asleep;
    atomic_uint rung; /* changes whenever sleepers are woken */
} fdp_bell;

typedef struct fdp_team fdp_team;
typedef void (*fdp_team_fn)(fdp_team *team, int number, void *ctx);

typedef struct {
    fdp_team *team;
    int number;
    uint64_t seen; /* jobs given out before it came */
    pthread_t handle;
} fdp_team_member;

/* How wide jobs of one kind are. */
typedef struct {
    fdp_team_fn fn;
    int most, calm; /* members; jobs since one was late */
} fdp_team_pace;

struct fdp_team {
    int threads;   /* of the job under way */
    int most;      /* threads a job may have */
    int made;      /* threads there are, the caller's with them */
    pid_t process; /* that made them */
    fdp_team_fn fn;
    void *ctx;
    atomic_int
        user; /* process of whoever has a job done; 0: nobody, another process than ours: nobody either */
    fdp_team_pace pace[FDP_TEAM_KINDS];
    char apart[64];          /* from what a job's members read */
    atomic_int waiting;      /* members that have come to the end of the phase */
    atomic_llong late;       /* nanoseconds that members of the job waited for late ones */
    fdp_bell phase;          /* phases ended */
    fdp_bell job;            /* jobs given out << FDP_TEAM_BITS | width; width 0: go home */
    fdp_team_member *member; /* [most] */
};
#define FDP_TEAM_BITS 16

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

static inline void fdp_bell_ring(fdp_bell *bell, uint64_t value) {
    atomic_store(&bell->value, value);
    if (atomic_load(&bell->asleep) == 0)
        return; /* who goes to sleep later looks at the value after saying so */
    atomic_fetch_add(&bell->rung, 1);
#if defined(__linux__)
    syscall(SYS_futex, &bell->rung, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
#endif
}

static inline int64_t fdp_team_clock(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Waits until the value is another than `old`, and returns it; late: time is added where that takes long. */
static inline uint64_t fdp_bell_wait(fdp_bell *bell, uint64_t old, atomic_llong *late) {
    uint64_t value;
    int64_t until = 0;
    do {
        for (int i = 0; i < 64; i++) {
            if ((value = atomic_load_explicit(&bell->value, memory_order_acquire)) != old) return value;
#if defined(__x86_64__)
            __builtin_ia32_pause();
#elif defined(__aarch64__)
            __asm__ volatile("yield");
#endif
        }
        sched_yield();
        if (until == 0) until = fdp_team_clock() + FDP_TEAM_SPIN;
    } while (fdp_team_clock() < until);
    atomic_fetch_add(&bell->asleep, 1);
    for (;;) {
        const unsigned seen = atomic_load(&bell->rung); /* before the value: a ring since ends the sleep */
        if ((value = atomic_load(&bell->value)) != old) break;
        fdp_bell_sleep(&bell->rung, seen);
    }
    atomic_fetch_sub(&bell->asleep, 1);
    const int64_t waited = late ? fdp_team_clock() - until + FDP_TEAM_SPIN : 0;
    if (waited > FDP_TEAM_LATE) atomic_fetch_add(late, waited);
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

/* Wait for all; what any thread wrote before is seen by every thread after. `late`: see fdp_bell_wait. */
static inline void fdp_team_gather(fdp_team *team, atomic_llong *late) {
    const int width =
        team->threads; /* once counted as waiting, a member may look at nothing of the job any more */
    if (width == 1) return;
    const uint64_t phase = atomic_load_explicit(&team->phase.value, memory_order_acquire);
    if (atomic_fetch_add_explicit(&team->waiting, 1, memory_order_acq_rel) == width - 1) {
        atomic_store_explicit(&team->waiting, 0, memory_order_relaxed);
        fdp_bell_ring(&team->phase, phase + 1);
    } else {
        fdp_bell_wait(&team->phase, phase, late);
    }
}

static inline void fdp_team_wait(fdp_team *team) {
    fdp_team_gather(team, &team->late);
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

static void *fdp_team_enter(void *argument) {
    fdp_team_member *member = argument;
    fdp_team *team = member->team;
    for (uint64_t job = member->seen;;) {
        job = fdp_bell_wait(&team->job, job, NULL);
        const int width = (int)(job & ((1u << FDP_TEAM_BITS) - 1));
        if (width == 0) return NULL;
        if (member->number >= width)
            continue; /* the team may be at its next job already: look at nothing else */
        team->fn(team, member->number, team->ctx);
        fdp_team_gather(team, NULL); /* the caller may be at its next job before this one wakes */
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

/* Gives a job to everybody who is there. */
static inline void fdp_team_call(fdp_team *team, int width) {
    const uint64_t jobs = (atomic_load(&team->job.value) >> FDP_TEAM_BITS) + 1;
    fdp_bell_ring(&team->job, jobs << FDP_TEAM_BITS | (uint64_t)width);
}

/* Only its owner may end it, and not while a job is under way. In a forked child there is nobody to wait
 * for. */
static inline void fdp_team_end(fdp_team *team) {
    if (team->process == getpid()) {
        fdp_team_call(team, 0);
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
            (fdp_team_member){.team = team, .number = team->made, .seen = atomic_load(&team->job.value)};
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
        for (int i = 0; i < FDP_TEAM_KINDS; i++)
            team->pace[i] = (fdp_team_pace){.most = team->most, .calm = FDP_TEAM_CALM};
        fdp_bell_make(&team->phase);
        fdp_bell_make(&team->job);
    }
    return 1;
}

/* The width of jobs of this kind; the last entry is for all that come too late for one of their own. */
static inline fdp_team_pace *fdp_team_pace_of(fdp_team *team, fdp_team_fn fn) {
    int i = 0;
    while (i < FDP_TEAM_KINDS - 1 && team->pace[i].fn && team->pace[i].fn != fn) i++;
    team->pace[i].fn = fn;
    return team->pace + i;
}

/* After a job of so many members and nanoseconds. Late is where its members spent an eighth of the time on
 * waiting for late ones; the second time in a row, an eighth of the members is left out. */
static inline void fdp_team_learn(fdp_team *team, fdp_team_pace *pace, int width, int64_t time) {
    if (width > 1 && 8 * (int64_t)atomic_load(&team->late) / (width - 1) > time) {
        if (pace->calm < FDP_TEAM_CALM / 2) pace->most = width > 2 ? width - 1 - width / 8 : 1;
        pace->calm = 0;
    } else if (++pace->calm >= FDP_TEAM_CALM && pace->most < team->most) {
        pace->most++;
        pace->calm = FDP_TEAM_CALM / 2;
    }
}

static inline void fdp_team_do(fdp_team *team, int threads, fdp_team_fn fn, void *ctx) {
    if (team && threads > team->most) threads = team->most;
    if (team && threads > 1 && fdp_team_take(team)) {
        fdp_team_pace *pace = fdp_team_pace_of(team, fn);
        if (threads > pace->most) threads = pace->most;
        if (team->made < threads) fdp_team_grow(team, threads);
        team->threads = threads < team->made ? threads : team->made;
        team->fn = fn;
        team->ctx = ctx;
        atomic_store(&team->late, 0);
        const int64_t begin = fdp_team_clock();
        if (team->threads > 1) fdp_team_call(team, team->threads);
        fn(team, 0, ctx);
        fdp_team_wait(team);
        fdp_team_learn(team, pace, team->threads, fdp_team_clock() - begin);
        atomic_store(&team->user, 0);
        return;
    }
    fdp_team alone;
    alone.threads = 1;
    fn(&alone, 0, ctx);
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
