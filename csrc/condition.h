/* Rows of a directed tree given evidence about some of their attributes: exact probabilities and draws; see
 * condition.c. */
#ifndef FDP_CONDITION_H
#define FDP_CONDITION_H

#include "fdp.h"

/* p(attribute | sep): table[g * size + k] is the weight (finite, >= 0) of code k in separator cell g. */
typedef struct {
    int32_t attribute;
    int32_t sep_len;
    const int32_t *sep;    /* attributes, drawn before this one */
    const int64_t *stride; /* of each in the separator's cells */
    const double *table;
    const double *inverse; /* [separator cells] 1 / sum over k, 0 where the sum is 0 */
    const double *overall; /* [size] sum over the separator's cells */
    int32_t children_len;
    const int32_t *children; /* nodes whose separators lie in this one's attributes; they come after it */
} fdp_condition_node;

typedef struct {
    int32_t attributes;
    const int64_t *sizes; /* codes of each attribute */
    int32_t nodes_len;
    const fdp_condition_node *nodes;
    const double *const *likelihood; /* of each attribute: rows of its size, numbered by `soft`; or NULL */
} fdp_condition_plan;

/* `count` pieces of evidence, [count * attributes] each: `hard` a code or -1, `soft` a row of the attribute's
 * likelihoods or -1; `hard` wins. Evidence e belongs to rows start[e] .. start[e+1]-1; row i draws from the
 * random stream of its `number`.
 *
 * Fills log_evidence[count] (-inf: impossible). codes [rows * attributes], or NULL: nothing is drawn; rows of
 * impossible evidence are left as they are. posterior [count * size of node 0's attribute], or NULL: the
 * distribution of that attribute, zeros where impossible. The result depends on the arguments alone. */
int fdp_condition(const fdp_condition_plan *plan, int64_t count, const int32_t *hard, const int32_t *soft,
                  const int64_t *start, const int64_t *number, uint64_t seed, double *log_evidence,
                  int32_t *codes, double *posterior);

#endif
