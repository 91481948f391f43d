/* Belief propagation on a directed junction tree.
 *
 * A NODE is a table [separator cells J | residual cells B]. A HOSTED table is a marginal over part of a node's (or
 * of another hosted table's) attributes; separators and measured marginals are hosted tables. Everything the
 * optimiser sees lives in one vector of P numbers: potentials in, marginals out. Hosted tables and the nodes' own
 * potentials (dense, or sparse: only some cells) are segments of it.
 *
 * Upward:   block[j, :] = own + sum of hosted potentials (broadcast); E = exp(block - rowmax);
 *           the separator's potential grows by rowmax[j] + log(rowsum[j]).
 * Downward: table[j, :] = E[j, :] * m_separator[j] / rowsum[j]; then every hosted marginal by projection.
 *
 * One exp per cell. E stays in place and becomes the table, so a node is written twice and read twice a pass.
 * Rows are split into LANES fixed by the plan, not by the threads; sums across lanes are added in lane order, so
 * results do not depend on the number of threads. */
#ifndef FDP_INFER_H
#define FDP_INFER_H

#include "fdp.h"

#define FDP_MAX_DIMS 24

enum { FDP_OWN_NONE = 0, FDP_OWN_DENSE = 1, FDP_OWN_SPARSE = 2 };

/* How a hosted table lies inside a block of its host: for host row j it starts at base[j] (0 if base is NULL), and
 * walks over the block's nd merged dimensions n[] with strides ts[] (0: broadcast or summed). ts of the last
 * dimension is 0 or 1. */
typedef struct {
    int64_t at;          /* offset of the hosted table in the vector */
    int64_t size;        /* its cells */
    const int32_t *base; /* [J] or NULL */
    int32_t nd;
    int32_t shared; /* several lanes write the same cells: use lane buffers */
    int64_t n[FDP_MAX_DIMS];
    int64_t ts[FDP_MAX_DIMS];
} fdp_link;

typedef struct {
    int64_t rows;      /* J */
    int64_t cells;     /* B, cells of one row */
    int64_t table;     /* offset of the node's table among all tables */
    int64_t row_at;    /* offset of its row sums */
    int64_t separator; /* offset of its separator in the vector, -1 for a root */
    int32_t own;       /* FDP_OWN_* */
    int32_t lanes;
    int64_t own_at;          /* offset of its own potentials in the vector */
    const int64_t *own_row;  /* sparse: [J + 1] */
    const int32_t *own_cell; /* sparse: cell within the row */
    const int64_t *lane_at;  /* [lanes + 1] first row of each lane */
    int64_t n_links;
    const fdp_link *links;
    int64_t lane_buffer; /* doubles one lane needs for its shared links */
    int64_t buffer_at;   /* where its lanes' buffers begin */
} fdp_node;

/* A hosted table inside a larger hosted table: one "row" that is the whole host. */
typedef struct {
    int64_t host_at;
    fdp_link link;
} fdp_fold;

/* A table that a node hosts directly, with the folds of the tables inside it (upward order): independent of others. */
typedef struct {
    int64_t at, size;
    int64_t first_fold, n_folds;
} fdp_nest;

/* Nodes of one depth: they need nothing of each other, so all their lanes run side by side. */
typedef struct {
    int64_t first_node, n_nodes; /* nodes are numbered by depth */
    int64_t first_nest, n_nests; /* what they host */
    int64_t first_item, n_items; /* (node, lane) pairs */
    int64_t first_link, n_links; /* (node, link) pairs */
    int32_t large;               /* worth starting threads for */
} fdp_stage;

typedef struct {
    int64_t size;   /* P */
    int64_t shared; /* the first so many take messages or host tables; own potentials behind them do not */
    int32_t large;  /* worth a team of threads */
    int64_t n_stages;
    const fdp_stage *stages; /* root first */
    const fdp_node *nodes;
    const fdp_nest *nests;
    const fdp_fold *folds;
    const int64_t *item_node, *item_lane;
    const int64_t *link_node, *link_number;
} fdp_tree;

/* Marginals of the tree at potentials theta, scaled to `total`.
 * IN: theta[P]. WORK: up[P], rowsum and message[sum of J each], buffer (doubles: all lane buffers of a stage).
 * OUT: tables (all nodes), m[P], log_z (sum over components of the log partition function).
 * Before a table is overwritten, average = (1 - weight) average + weight table (nothing where weight is 0): the
 * optimiser's running average costs no pass of its own. FDP_ERR_IMPOSSIBLE where no cell of a component is possible. */
int fdp_infer_f64(const fdp_tree *tree, const double *theta, double total, int threads, double *up, double *rowsum,
                  double *message, double *buffer, double weight, double *tables, double *average, double *m,
                  double *log_z);
/* The same with float32 tables; sums stay float64. WORK: up32[P] besides. */
int fdp_infer_f32(const fdp_tree *tree, const double *theta, double total, int threads, double *up, float *up32,
                  double *rowsum, double *message, double *buffer, double weight, float *tables, float *average,
                  double *m, double *log_z);

/* The optimiser's passes over residuals d = m - t, one read of each array per pass.
 * step:   out = theta - w (a dx + b dz), a step against the gradient at a mixture of x and z.
 * arrive: out = m - t; *distance = sum of (theta_new - theta) (out - dz) / 2, *curvature = sum of w (out - dz)^2 / 2.
 * blend:  d = a new + (1 - a) d; *loss = sum of w d^2 / 2 of the result (a = 0: only the loss).
 * average: y = a x + (1 - a) y. */
int fdp_step(int64_t n, double a, const double *dx, double b, const double *dz, const double *w, const double *theta,
             int threads, double *out);
int fdp_arrive(int64_t n, const double *m, const double *t, const double *dz, const double *w, const double *theta_new,
               const double *theta, int threads, double *out, double *distance, double *curvature);
int fdp_blend(int64_t n, double a, const double *new, const double *w, int threads, double *d, double *loss);
int fdp_average_f64(int64_t n, double a, const double *x, int threads, double *y);
int fdp_average_f32(int64_t n, double a, const float *x, int threads, float *y);

#endif
