/* Weights of the users of a pool, and what they count; see choose.h. */
#include "choose.h"

#include <math.h>
#include <string.h>

double fdp_weigh(const fdp_weigh_plan *plan, const double *factor, double *count) {
    const int64_t cells = plan->cells, lines = plan->lines;
    double all = 0.0;
    memset(count, 0, sizeof *count * (size_t)plan->factors);
    for (int64_t u = 0; u < plan->users; u++) {
        /* The logarithm of the user's weight: the sum of the factors of its cells, and those of its lines by
         * its share. */
        const uint32_t *cell = plan->cell + u * cells;
        const double *value = plan->value + u * lines;
        double log_weight = 0.0;
        for (int64_t t = 0; t < cells; t++) log_weight += factor[cell[t]];
        for (int64_t l = 0; l < lines; l++) log_weight += value[l] * factor[plan->line[l]];
        const double weight = plan->even[u] * exp(log_weight < plan->most ? log_weight : plan->most);
        all += weight;
        for (int64_t t = 0; t < cells; t++) count[cell[t]] += weight;
        for (int64_t l = 0; l < lines; l++) count[plan->line[l]] += value[l] * weight;
    }
    return all;
}
