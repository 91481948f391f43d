/* A team of threads for one call: made, used, joined. Nothing outlives the call, so it is safe across fork, and waiting
 * threads sleep after a short spin, so it stays polite on a busy machine (OpenMP's pool is neither).
 *
 * fdp_team_run calls fn(team, ctx) on up to `threads` threads, on fewer where the system gives fewer. Inside, a loop is
 * shared with fdp_team_next on a counter of its own, and phases are separated by fdp_team_wait. */
#ifndef FDP_TEAM_H
#define FDP_TEAM_H

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>

#define FDP_TEAM_MAX 256
#define FDP_TEAM_SPIN 2000

typedef struct {
    int threads;
    atomic_int waiting;
    atomic_int phase;
    pthread_mutex_t lock;
    pthread_cond_t turn;
} fdp_team;

typedef void (*fdp_team_fn)(fdp_team *team, int number, void *ctx);

typedef struct {
    fdp_team *team;
    fdp_team_fn fn;
    void *ctx;
    int number;
} fdp_team_member;

/* The next index of a shared loop; stop when it is >= n. */
static inline int64_t fdp_team_next(atomic_llong *counter) {
    return atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

/* Wait for all; what any thread wrote before is seen by every thread after. */
static inline void fdp_team_wait(fdp_team *team) {
    if (team->threads == 1) return;
    const int phase = atomic_load_explicit(&team->phase, memory_order_acquire);
    if (atomic_fetch_add_explicit(&team->waiting, 1, memory_order_acq_rel) == team->threads - 1) {
        atomic_store_explicit(&team->waiting, 0, memory_order_relaxed);
        pthread_mutex_lock(&team->lock);
        atomic_store_explicit(&team->phase, phase + 1, memory_order_release);
        pthread_cond_broadcast(&team->turn);
        pthread_mutex_unlock(&team->lock);
        return;
    }
    for (int i = 0; i < FDP_TEAM_SPIN; i++) {
        if (atomic_load_explicit(&team->phase, memory_order_acquire) != phase) return;
#if defined(__x86_64__)
        __builtin_ia32_pause();
#elif defined(__aarch64__)
        __asm__ volatile("yield");
#endif
    }
    pthread_mutex_lock(&team->lock);
    while (atomic_load_explicit(&team->phase, memory_order_acquire) == phase)
        pthread_cond_wait(&team->turn, &team->lock);
    pthread_mutex_unlock(&team->lock);
}

static void *fdp_team_enter(void *argument) {
    fdp_team_member *member = argument;
    pthread_mutex_lock(&member->team->lock); /* until everyone who comes has come */
    pthread_mutex_unlock(&member->team->lock);
    member->fn(member->team, member->number, member->ctx);
    return NULL;
}

static inline void fdp_team_run(int threads, fdp_team_fn fn, void *ctx) {
    fdp_team team = {.threads = 1};
    if (threads <= 1) {
        fn(&team, 0, ctx);
        return;
    }
    threads = threads > FDP_TEAM_MAX ? FDP_TEAM_MAX : threads;
    pthread_t handle[FDP_TEAM_MAX];
    fdp_team_member member[FDP_TEAM_MAX];
    pthread_mutex_init(&team.lock, NULL);
    pthread_cond_init(&team.turn, NULL);
    pthread_mutex_lock(&team.lock);
    for (int i = 1; i < threads; i++) {
        member[i] = (fdp_team_member){&team, fn, ctx, i};
        if (pthread_create(&handle[i], NULL, fdp_team_enter, &member[i]) != 0) break;
        team.threads = i + 1;
    }
    pthread_mutex_unlock(&team.lock);
    fn(&team, 0, ctx);
    for (int i = 1; i < team.threads; i++) pthread_join(handle[i], NULL);
    pthread_cond_destroy(&team.turn);
    pthread_mutex_destroy(&team.lock);
}

#endif
