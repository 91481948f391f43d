/* A team of threads: made when a job first needs them, kept for the jobs that follow, joined when the team is
 * freed (fits and counts leave theirs to the next one: fastdp/_core/team.pyx). Work must be divided by the
 * data, never by the number of threads: then no result depends on it.
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

#include "team_steps.h"

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
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, FDP_TEAM_STACK);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (; team->made < threads; team->made++) {
        fdp_team_member *member = team->member + team->made;
        *member =
            (fdp_team_member){.team = team, .number = team->made, .seen = atomic_load(&team->now.value)};
        if (pthread_create(&member->handle, &attributes, fdp_team_enter, member) != 0) break;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
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
