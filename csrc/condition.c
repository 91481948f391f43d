/* Conditional rows by dynamic programming over the tree.
 *
 * Upwards, last node first: the message of a node is the probability of all evidence at it and below it, by
 * the cells of those attributes of its separator that are not given. Given attributes fix an index, so the
 * more is given, the smaller is the work. Downwards, rows are drawn attribute by attribute from table times
 * messages.
 *
 * Evidence that agrees in everything a message depends on (given codes of the node's attributes, messages
 * from below) shares the message; rows that agree in everything a draw depends on share its cumulative
 * weights. A node without evidence at or below it has no message. A message of one cell only scales the
 * probability of the evidence and is not passed on. So a hundred thousand rows with the same evidence cost
 * one pass over the tree, and rows that differ cost what they differ in.
 *
 * Messages have their largest entry at 1: their scales are added up in logarithms. A row's draws come from a
 * stream of its own, so no result depends on which rows are worked on together. */
#include "condition.h"
#include "sample_random.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A fused multiply-add would make rows depend on the machine: a seed must give the same rows everywhere. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("fp-contract=off")
#else
#pragma STDC FP_CONTRACT OFF
#endif

typedef struct {
    const double *values; /* of the message at the codes fixed so far */
    int64_t along;        /* its stride along the node's own attribute */
} factor;

/* Everything of one call. Things are pieces of evidence on the way up, rows on the way down. */
typedef struct {
    const fdp_condition_plan *plan;
    const int32_t *hard, *soft;
    int32_t *message; /* [nodes * count] number of the message, 0: none */
    int64_t count;
    int64_t *at; /* where each message begins in `room` */
    int64_t messages, messages_room;
    double *room;
    int64_t used, room_len;
    int32_t *keys; /* [things * key_len] */
    int64_t key_len;
    int32_t *things; /* evidence or rows that have a key */
    int32_t *group;  /* of each thing */
    int32_t *first;  /* the first thing of each group */
    int32_t *order;  /* things, group after group */
    int32_t *ends;
    int32_t *slots;
    int64_t slots_len; /* a power of 2 */
    double *weights;   /* [largest size] */
    factor *factors;
    int64_t *strides; /* [children * attributes] of each child's message by attribute, 0: none */
} work;

/* The code that evidence e gives for attribute a, or -1. */
static int32_t given(const work *w, int64_t e, int32_t a) {
    return w->hard[e * w->plan->attributes + a];
}

/* The row of likelihoods that evidence e gives for attribute a, or -1; a given code wins. */
static int32_t likely(const work *w, int64_t e, int32_t a) {
    return given(w, e, a) >= 0 ? -1 : w->soft[e * w->plan->attributes + a];
}

/* Numbers the n keys without gaps, equal ones alike, in the order of their first occurrence; returns how many
 * differ. */
static int32_t group_keys(work *w, int64_t n) {
    /* A hash table at most half full, with the number of a group in each slot; -1: free. */
    int64_t slots = 16;
    while (slots < 2 * n) slots *= 2;
    memset(w->slots, 0xFF, (size_t)slots * sizeof *w->slots);
    int32_t groups = 0;
    for (int64_t i = 0; i < n; i++) {
        const int32_t *key = w->keys + i * w->key_len;
        uint64_t hash = GOLDEN;
        for (int64_t k = 0; k < w->key_len; k++) hash = mix(hash ^ (uint32_t)key[k]) + GOLDEN;
        uint64_t slot = hash & (uint64_t)(slots - 1);
        /* From its slot on: a free one makes a new group, one of an equal key is its group. */
        for (;;) {
            int32_t g = w->slots[slot];
            if (g < 0) {
                w->slots[slot] = groups;
                w->first[groups] = (int32_t)i;
                w->group[i] = groups++;
                break;
            }
            if (!memcmp(w->keys + w->first[g] * w->key_len, key, (size_t)w->key_len * sizeof *key)) {
                w->group[i] = g;
                break;
            }
            slot = (slot + 1) & (uint64_t)(slots - 1);
        }
    }
    return groups;
}

/* order: the n things, group after group; ends[g]: where group g ends. */
static void sort_groups(work *w, int64_t n, int32_t groups) {
    memset(w->ends, 0, ((size_t)groups + 1) * sizeof *w->ends);
    for (int64_t i = 0; i < n; i++) w->ends[w->group[i] + 1]++;
    for (int32_t g = 0; g < groups; g++) w->ends[g + 1] += w->ends[g];
    for (int64_t i = 0; i < n; i++) w->order[w->ends[w->group[i]]++] = (int32_t)i;
}

/* Room for one more message of `more` cells. */
static int make_room(work *w, int64_t more) {
    if (w->messages + 1 >= w->messages_room) {
        int64_t bigger = 2 * w->messages_room + 64;
        int64_t *at = realloc(w->at, (size_t)bigger * sizeof *at);
        if (!at) return FDP_ERR_MEMORY;
        w->at = at;
        w->messages_room = bigger;
    }
    if (w->used + more > w->room_len) {
        int64_t bigger = FDP_MAX(2 * w->room_len, w->used + more + 1024);
        double *room = realloc(w->room, (size_t)bigger * sizeof *room);
        if (!room) return FDP_ERR_MEMORY;
        w->room = room;
        w->room_len = bigger;
    }
    return FDP_OK;
}

/* Strides of the messages that children send for evidence e, by attribute: C order over the attributes of
 * their separators that are not given. Returns how many send one; their numbers are put into `sent`. */
static int children_of(work *w, const fdp_condition_node *node, int64_t e, int32_t *sent) {
    int32_t attributes = w->plan->attributes;
    int n = 0;
    for (int32_t c = 0; c < node->children_len; c++) {
        const fdp_condition_node *child = w->plan->nodes + node->children[c];
        int32_t m = w->message[(int64_t)node->children[c] * w->count + e];
        if (!m) continue;
        int64_t *stride = w->strides + (int64_t)n * attributes;
        memset(stride, 0, (size_t)attributes * sizeof *stride);
        int64_t step = 1;
        for (int32_t i = child->sep_len; i-- > 0;) {
            int32_t a = child->sep[i];
            if (given(w, e, a) >= 0) continue;
            stride[a] = step;
            step *= w->plan->sizes[a];
        }
        sent[n++] = m;
    }
    return n;
}

/* Table times likelihood times the messages, for all codes of the node's own attribute; returns their sum. */
static double weigh(const double *table, int64_t size, const double *likelihood, const factor *factors, int n,
                    double *out) {
    if (likelihood)
        for (int64_t k = 0; k < size; k++) out[k] = table[k] * likelihood[k];
    else
        memcpy(out, table, (size_t)size * sizeof *out);
    for (int c = 0; c < n; c++) {
        const double *v = factors[c].values;
        int64_t along = factors[c].along;
        if (along == 1)
            for (int64_t k = 0; k < size; k++) out[k] *= v[k];
        else if (along)
            for (int64_t k = 0; k < size; k++) out[k] *= v[k * along];
    }
    double sum = 0;
    for (int64_t k = 0; k < size; k++) sum += out[k];
    for (int c = 0; c < n; c++)
        if (!factors[c].along) sum *= factors[c].values[0];
    return sum;
}

/* The message of a node for evidence e, into `out`; returns its largest entry. */
static double message_of(work *w, const fdp_condition_node *node, int64_t e, int32_t *sent, int64_t *digit,
                         int32_t *axis, double *out, int64_t cells) {
    const fdp_condition_plan *plan = w->plan;
    int32_t a = node->attribute, code = given(w, e, a), soft = likely(w, e, a);
    int64_t size = plan->sizes[a], row = 0;
    const double *likelihood = soft < 0 ? NULL : plan->likelihood[a] + (int64_t)soft * size;
    /* Given attributes of the separator fix the row of the table; the others are axes that are walked. */
    int n = children_of(w, node, e, sent), axes = 0, along = 0;
    for (int32_t i = 0; i < node->sep_len; i++) {
        int32_t fixed = given(w, e, node->sep[i]);
        if (fixed >= 0) {
            row += fixed * node->stride[i];
        } else {
            axis[axes] = i;
            digit[axes++] = 0;
        }
    }
    for (int c = 0; c < n; c++) {
        w->factors[c].values = w->room + w->at[sent[c]];
        w->factors[c].along = w->strides[(int64_t)c * plan->attributes + a];
        along |= w->factors[c].along != 0;
    }
    /* Each cell of the message: the table's row times likelihood times messages from below, over the
     * row's sum. */
    double top = 0;
    for (int64_t i = 0; i < cells; i++) {
        const double *table = node->table + row * size;
        double value;
        if (code >= 0) {
            value = table[code];
            for (int c = 0; c < n; c++) value *= w->factors[c].values[code * w->factors[c].along];
            value *= node->inverse[row];
        } else if (!likelihood && !along) { /* the node's own weights add up to 1 */
            value = node->inverse[row] > 0;
            for (int c = 0; c < n; c++) value *= w->factors[c].values[0];
        } else {
            value = weigh(table, size, likelihood, w->factors, n, w->weights) * node->inverse[row];
        }
        out[i] = value;
        top = FDP_MAX(top, value);
        for (int x = axes; x-- > 0;) { /* the next cell */
            int32_t s = node->sep[axis[x]];
            int64_t step = ++digit[x] < plan->sizes[s] ? 1 : 1 - plan->sizes[s];
            if (step < 0) digit[x] = 0;
            row += step * node->stride[axis[x]];
            for (int c = 0; c < n; c++)
                w->factors[c].values += step * w->strides[(int64_t)c * plan->attributes + s];
            if (step > 0) break;
        }
    }
    return top;
}

/* The messages of node j for all evidence: keys of what they depend on, one message for each key, its
 * scale taken into log_evidence. */
static int send_up(work *w, int32_t j, double *log_evidence, double *posterior, int32_t *sent, int64_t *digit,
                   int32_t *axis) {
    const fdp_condition_plan *plan = w->plan;
    const fdp_condition_node *node = plan->nodes + j;
    int32_t a = node->attribute;
    int64_t n = 0, size = plan->sizes[a];
    w->key_len = node->sep_len + 2 + node->children_len;
    for (int64_t e = 0; e < w->count; e++) {
        int32_t *key = w->keys + n * w->key_len;
        key[0] = given(w, e, a);
        key[1] = likely(w, e, a);
        int some = key[0] >= 0 || key[1] >= 0 || (posterior && j == 0);
        for (int32_t i = 0; i < node->sep_len; i++) key[2 + i] = given(w, e, node->sep[i]);
        for (int32_t c = 0; c < node->children_len; c++) {
            int32_t m = w->message[(int64_t)node->children[c] * w->count + e];
            key[2 + node->sep_len + c] = m;
            some |= m != 0;
        }
        w->message[(int64_t)j * w->count + e] = 0;
        if (some) w->things[n++] = (int32_t)e;
    }
    int32_t groups = group_keys(w, n);
    sort_groups(w, n, groups);
    for (int32_t g = 0, begin = 0; g < groups; g++) {
        int32_t end = w->ends[g];
        int64_t e = w->things[w->first[g]], cells = 1;
        for (int32_t i = 0; i < node->sep_len; i++)
            if (given(w, e, node->sep[i]) < 0) cells *= plan->sizes[node->sep[i]];
        if (make_room(w, cells) != FDP_OK) return FDP_ERR_MEMORY;
        double *out = w->room + w->used;
        double top = message_of(w, node, e, sent, digit, axis, out, cells);
        int32_t number = 0;
        if (top > 0 && cells > 1) {
            for (int64_t i = 0; i < cells; i++) out[i] /= top;
            number = (int32_t)++w->messages;
            w->at[number] = w->used;
            w->used += cells;
        }
        if (posterior && j == 0 && top > 0) { /* what the last cell left behind, or a given code */
            int32_t code = given(w, e, a);
            if (code < 0) {
                int32_t soft = likely(w, e, a);
                const double *likelihood = soft < 0 ? NULL : plan->likelihood[a] + (int64_t)soft * size;
                int children = children_of(w, node, e, sent);
                for (int c = 0; c < children; c++) {
                    w->factors[c].values = w->room + w->at[sent[c]];
                    w->factors[c].along = w->strides[(int64_t)c * plan->attributes + a];
                }
                weigh(node->table, size, likelihood, w->factors, children, w->weights);
            } else {
                memset(w->weights, 0, (size_t)size * sizeof *w->weights);
                w->weights[code] = 1;
            }
            double sum = 0;
            for (int64_t k = 0; k < size; k++) sum += w->weights[k];
            for (int64_t k = 0; k < size; k++) w->weights[k] /= sum;
        }
        /* All evidence of the group gets the message, its scale and the posterior. */
        double scale = top > 0 ? log(top) : -INFINITY;
        for (int32_t i = begin; i < end; i++) {
            int64_t own = w->things[w->order[i]];
            w->message[(int64_t)j * w->count + own] = number;
            log_evidence[own] += scale;
            if (posterior && j == 0 && top > 0)
                memcpy(posterior + own * size, w->weights, (size_t)size * sizeof *posterior);
        }
        begin = end;
    }
    return FDP_OK;
}

/* Codes of node j's attribute for the rows of one group, which agree in all that they depend on. */
static void draw_group(work *w, int32_t j, const int32_t *rows, int32_t n, const int32_t *of_row,
                       const int64_t *number, uint64_t seed, int32_t *codes, int32_t *sent) {
    const fdp_condition_plan *plan = w->plan;
    const fdp_condition_node *node = plan->nodes + j;
    int32_t a = node->attribute;
    int64_t size = plan->sizes[a], row = 0, e = of_row[w->things[rows[0]]];
    int32_t soft = likely(w, e, a);
    const double *likelihood = soft < 0 ? NULL : plan->likelihood[a] + (int64_t)soft * size;
    const int32_t *known = codes + (int64_t)w->things[rows[0]] * plan->attributes;
    for (int32_t i = 0; i < node->sep_len; i++) row += known[node->sep[i]] * node->stride[i];
    int children = children_of(w, node, e, sent);
    for (int c = 0; c < children; c++) {
        const int64_t *stride = w->strides + (int64_t)c * plan->attributes;
        w->factors[c].along = stride[a];
        w->factors[c].values = w->room + w->at[sent[c]];
        for (int32_t i = 0; i < node->sep_len; i++)
            w->factors[c].values += known[node->sep[i]] * stride[node->sep[i]];
    }
    /* Cumulative weights, once for the group. A separator cell that the model never saw has no weights:
     * the attribute's overall ones stand in. */
    double *cum = w->weights;
    double sum = weigh(node->table + row * size, size, likelihood, w->factors, children, cum);
    if (!(sum > 0)) sum = weigh(node->overall, size, likelihood, w->factors, children, cum);
    int64_t last = 0;
    double total = 0;
    for (int64_t k = 0; k < size; k++) {
        if (cum[k] > 0) last = k;
        cum[k] = total += cum[k];
    }
    for (int32_t i = 0; i < n; i++) {
        int64_t r = w->things[rows[i]];
        double x = unit(mix(stream_key(seed, (uint64_t)number[r], (uint64_t)j, VALUES) + GOLDEN)) * total;
        codes[r * plan->attributes + a] = (int32_t)search(cum, last + 1, x);
    }
}

/* Codes of node j's attribute for all rows: given ones are copied, the others are drawn group by group. */
static void draw_node(work *w, int32_t j, int64_t rows, const int32_t *of_row, const int64_t *number,
                      uint64_t seed, const double *log_evidence, int32_t *codes, int32_t *sent) {
    const fdp_condition_plan *plan = w->plan;
    const fdp_condition_node *node = plan->nodes + j;
    int32_t a = node->attribute;
    int64_t n = 0;
    w->key_len = node->sep_len + 1 + node->children_len;
    for (int64_t r = 0; r < rows; r++) {
        int64_t e = of_row[r];
        if (log_evidence[e] == -INFINITY) continue;
        if (given(w, e, a) >= 0) {
            codes[r * plan->attributes + a] = given(w, e, a);
            continue;
        }
        /* All that the code's distribution depends on: its likelihood, its separator, messages from below. */
        int32_t *key = w->keys + n * w->key_len;
        key[0] = likely(w, e, a);
        for (int32_t i = 0; i < node->sep_len; i++) key[1 + i] = codes[r * plan->attributes + node->sep[i]];
        for (int32_t c = 0; c < node->children_len; c++)
            key[1 + node->sep_len + c] = w->message[(int64_t)node->children[c] * w->count + e];
        w->things[n++] = (int32_t)r;
    }
    /* Rows with equal keys have one distribution, which is made once. */
    int32_t groups = group_keys(w, n);
    sort_groups(w, n, groups);
    for (int32_t g = 0, begin = 0; g < groups; g++) {
        draw_group(w, j, w->order + begin, w->ends[g] - begin, of_row, number, seed, codes, sent);
        begin = w->ends[g];
    }
}

int fdp_condition(const fdp_condition_plan *plan, int64_t count, const int32_t *hard, const int32_t *soft,
                  const int64_t *start, const int64_t *number, uint64_t seed, double *log_evidence,
                  int32_t *codes, double *posterior) {
    /* Sizes of the room: as many keys as there are things, as long as the longest. */
    int64_t rows = start[count], things = FDP_MAX(count, codes ? rows : 0), size = 1, key_len = 1;
    int32_t children = 1, attributes = plan->attributes;
    if (things >= INT32_MAX / 4) return FDP_ERR_ARGUMENT;
    for (int32_t a = 0; a < attributes; a++) size = FDP_MAX(size, plan->sizes[a]);
    for (int32_t j = 0; j < plan->nodes_len; j++) {
        const fdp_condition_node *node = plan->nodes + j;
        children = FDP_MAX(children, node->children_len);
        key_len = FDP_MAX(key_len, node->sep_len + 2 + node->children_len);
    }
    work w = {.plan = plan, .hard = hard, .soft = soft, .count = count, .slots_len = 16};
    while (w.slots_len < 2 * things) w.slots_len *= 2;
    int code = FDP_ERR_MEMORY;
    size_t n = (size_t)FDP_MAX(things, 1);
    w.message = calloc((size_t)FDP_MAX(1, plan->nodes_len * count), sizeof *w.message);
    w.keys = malloc(n * (size_t)key_len * sizeof *w.keys);
    w.things = malloc(5 * n * sizeof *w.things + 16);
    w.slots = malloc((size_t)w.slots_len * sizeof *w.slots);
    w.weights = malloc((size_t)size * sizeof *w.weights);
    w.factors = malloc((size_t)children * sizeof *w.factors);
    w.strides = malloc((size_t)children * (size_t)attributes * sizeof *w.strides + 8);
    int32_t *sent = malloc((size_t)children * sizeof *sent);
    int64_t *digit = malloc((size_t)attributes * sizeof *digit + 8);
    int32_t *axis = malloc((size_t)attributes * sizeof *axis + 8);
    int32_t *of_row = malloc((size_t)FDP_MAX(rows, 1) * sizeof *of_row);
    if (!w.message || !w.keys || !w.things || !w.slots || !w.weights || !w.factors || !w.strides || !sent ||
        !digit || !axis || !of_row)
        goto out;
    w.group = w.things + n;
    w.first = w.group + n;
    w.order = w.first + n;
    w.ends = w.order + n;
    code = FDP_OK;
    for (int64_t e = 0; e < count; e++) {
        log_evidence[e] = 0;
        for (int64_t r = start[e]; r < start[e + 1]; r++) of_row[r] = (int32_t)e;
    }
    for (int32_t j = plan->nodes_len; j-- > 0 && code == FDP_OK;)
        code = send_up(&w, j, log_evidence, posterior, sent, digit, axis);
    if (code == FDP_OK && codes)
        for (int32_t j = 0; j < plan->nodes_len; j++)
            draw_node(&w, j, rows, of_row, number, seed, log_evidence, codes, sent);
out:
    free(w.message);
    free(w.at);
    free(w.room);
    free(w.keys);
    free(w.things);
    free(w.slots);
    free(w.weights);
    free(w.factors);
    free(w.strides);
    free(sent);
    free(digit);
    free(axis);
    free(of_row);
    return code;
}
