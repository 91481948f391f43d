/* Runs every case of a file of vectors: harness FILE. Prints a line per kernel; exit code 1 where a result
 * differs, 2 where the file cannot be read. */
#include "harness.h"

#include <math.h>
#include <stdio.h>

#include "fdp.h"

static size_t item_size(char type) {
    switch (type) {
    case 'b':
        return 1;
    case 'h':
        return 2;
    case 'w':
    case 'i':
    case 'f':
        return 4;
    default:
        return 8;
    }
}

void *cross_room(const cross_case *c, int k) {
    size_t bytes = (size_t)c->a[k].count * item_size(c->a[k].type);
    void *room = calloc(1, bytes + 64);
    if (!room) exit(2);
    return room;
}

static void complain(cross_case *c, const char *what, int k, int64_t i) {
    if (c->failed++ < 3)
        printf("  %s, %d threads: %s, array %d at %lld\n", c->name, c->threads, what, k, (long long)i);
}

void cross_code(cross_case *c, int code) {
    if (code != FDP_OK) complain(c, "the kernel returned an error", code, 0);
}

static double real_at(const cross_array *a, const void *data, int64_t i) {
    return a->type == 'f' ? ((const float *)data)[i] : ((const double *)data)[i];
}

void cross_same(cross_case *c, int k, const void *made) {
    const cross_array *a = &c->a[k];
    size_t size = item_size(a->type);
    if (a->tolerance == 0) {
        for (int64_t i = 0; i < a->count; i++)
            if (memcmp((const char *)a->data + i * size, (const char *)made + i * size, size)) {
                complain(c, "bits differ", k, i);
                return;
            }
        return;
    }
    double most = 0;
    for (int64_t i = 0; i < a->count; i++) {
        double x = fabs(real_at(a, a->data, i));
        if (isfinite(x) && x > most) most = x;
    }
    for (int64_t i = 0; i < a->count; i++) {
        double wanted = real_at(a, a->data, i), got = real_at(a, made, i);
        if (wanted == got) continue;
        if (!(fabs(wanted - got) <= a->tolerance * most)) {
            complain(c, "a number is off by more than its tolerance", k, i);
            return;
        }
    }
}

static const cross_kernel *find(const char *name) {
    for (const cross_kernel *k = cross_rows; k->name; k++)
        if (!strcmp(k->name, name)) return k;
    for (const cross_kernel *k = cross_model; k->name; k++)
        if (!strcmp(k->name, name)) return k;
    return NULL;
}

static void must_read(void *to, size_t bytes, FILE *file) {
    if (bytes && fread(to, 1, bytes, file) != bytes) {
        fprintf(stderr, "the file of vectors ends early\n");
        exit(2);
    }
}

/* The next case of the file, arrays in memory of their own; 0 at the end. */
static int next_case(FILE *file, char *name, cross_case *c) {
    char head[32];
    int32_t n;
    if (fread(head, 1, sizeof head, file) != sizeof head) return 0;
    memcpy(name, head, sizeof head);
    name[31] = 0;
    must_read(&n, sizeof n, file);
    c->name = name;
    c->n = n;
    c->failed = 0;
    c->a = calloc((size_t)n + 1, sizeof *c->a);
    if (!c->a) exit(2);
    for (int k = 0; k < n; k++) {
        cross_array *a = &c->a[k];
        must_read(&a->type, 1, file);
        must_read(&a->count, sizeof a->count, file);
        must_read(&a->tolerance, sizeof a->tolerance, file);
        size_t bytes = (size_t)a->count * item_size(a->type);
        a->data = calloc(1, bytes + 64);
        if (!a->data) exit(2);
        must_read(a->data, bytes, file);
    }
    return 1;
}

static void release(cross_case *c) {
    for (int k = 0; k < c->n; k++) free(c->a[k].data);
    free(c->a);
}

int main(int argc, char **argv) {
    static const int threads[] = {1, 3};
    char name[32], last[32] = "";
    int cases = 0, failed = 0, all = 0, wrong = 0;
    FILE *file = argc == 2 ? fopen(argv[1], "rb") : NULL;
    if (!file) {
        fprintf(stderr, "usage: harness FILE\n");
        return 2;
    }
    for (;;) {
        long place = ftell(file);
        cross_case c;
        int more = next_case(file, name, &c);
        if (cases && (!more || strcmp(name, last))) {
            printf("%-24s %4d cases %s\n", last, cases, failed ? "DIFFER" : "agree");
            all += cases;
            wrong += failed;
            cases = failed = 0;
        }
        if (!more) break;
        strcpy(last, name);
        cases++;
        const cross_kernel *kernel = find(name);
        int bad = kernel == NULL;
        if (bad) printf("  no kernel is called %s\n", name);
        for (int t = 0; kernel && t < 2; t++) {
            if (t) { /* inputs may have been reordered: read them again */
                release(&c);
                if (fseek(file, place, SEEK_SET) || !next_case(file, name, &c)) return 2;
            }
            c.threads = threads[t];
            if (!fdp_team_make(&c.team, c.threads)) return 2;
            kernel->fn(&c);
            fdp_team_end(&c.team);
            bad |= c.failed > 0;
        }
        failed += bad;
        release(&c);
    }
    fclose(file);
    printf("%d cases on 1 and 3 threads, %d differ\n", all, wrong);
    return wrong > 0 || all == 0;
}
