/* Jobs in steps on a team, some of whose members never come (csrc/team.h): every piece must be done once, by
 * those who are there, and no step may begin before the one before it has ended. Exit code 0 where that holds.
 * Argument: threads that the team believes to have. */
#include <stdio.h>
#include <string.h>

#include "team.h"

enum { STEPS = 24, PIECES = 500, JOBS = 150 };

typedef struct {
    unsigned seed;
    int64_t at, count, pieces[STEPS];
    atomic_int done[STEPS][PIECES];
} job;

static unsigned next_random(unsigned *state) {
    return (*state = *state * 1103515245u + 12345u) >> 16;
}

static void require(int holds, const char *what) {
    if (holds) return;
    fprintf(stderr, "%s\n", what);
    exit(1);
}

static void check_step(const job *j, int64_t step) {
    for (int64_t i = 0; i < j->pieces[step]; i++)
        require(atomic_load(&j->done[step][i]) == 1, "a piece was left out, or done twice");
}

static int64_t plan(void *ctx, int64_t *kind) {
    job *j = ctx;
    if (j->at >= 0) check_step(j, j->at);
    *kind = ++j->at;
    return j->at < j->count ? j->pieces[j->at] : 0;
}

/* Pieces take different times; a few sleep, so that others come to the end of their share, or fall asleep. */
static void piece(void *ctx, int64_t kind, int64_t i) {
    job *j = ctx;
    unsigned state = j->seed + (unsigned)(kind * 7919 + i);
    require(kind == j->at, "a piece was done outside its step");
    atomic_fetch_add(&j->done[kind][i], 1);
    const unsigned long long time = next_random(&state) % 200 == 0 ? 300000 : 0;
    const struct timespec nap = {0, (long)time};
    if (time) nanosleep(&nap, NULL);
}

static void member(fdp_team *team, int number, void *ctx) {
    atomic_int *came = ctx;
    (void)number;
    atomic_fetch_add(came, 1);
    fdp_team_wait(team);
    require(atomic_load(came) == team->threads, "a member did not wait for all");
    fdp_team_wait(team);
}

int main(int argc, char **argv) {
    static fdp_team team;
    static job j;
    const int believed = argc > 1 ? atoi(argv[1]) : 4, real = believed < 3 ? believed : 3;
    unsigned state = 1;
    atomic_int came = 0;
    require(fdp_team_make(&team, believed), "no memory");
    fdp_team_do(&team, real, member, &came); /* makes the threads there will be */
    require(came == real && team.made == real, "the system gives no threads");
    for (int k = 0; k < JOBS; k++) {
        memset(&j, 0, sizeof j);
        j.seed = state;
        j.at = -1;
        j.count = 1 + next_random(&state) % STEPS;
        for (int i = 0; i < STEPS; i++) {
            const unsigned most[] = {1, 3, 40, PIECES};
            j.pieces[i] = 1 + next_random(&state) % most[next_random(&state) % 4];
        }
        const int width = 2 + (int)(next_random(&state) % (unsigned)(believed - 1));
        team.made = believed; /* members from `real` on never come */
        fdp_team_steps(&team, width, k % 2, plan, piece, &j);
        require(j.at == j.count, "the job ended early");
        memset(&j, 0, sizeof j);
        j.pieces[0] = PIECES;
        fdp_team_each(&team, width, k % 2, PIECES, piece, &j);
        check_step(&j, 0);
        team.made = real;
        came = 0;
        fdp_team_do(&team, real, member, &came); /* jobs of both kinds take turns */
    }
    fdp_team_end(&team);
    return 0;
}
