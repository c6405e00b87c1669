// The entries of the row loops: one table of functions for each set of instructions that they were compiled for.
#pragma once

namespace ifonly {

using i64 = long long;

/** What free rows with the same target share. */
struct FreeTarget {
    int K, k, R;           // classes, the target's index, rows of the basis: K, or 1 of two classes
    i64 D;
    const double *basis;   // (R, D) the rows that a change is made of
    const double *b;       // (K)
    const double *G;       // (n, n) Ḡ, n = K − 1 rivals
    const double *lengths; // (n) ‖ā_j‖
    const double *columns; // (D) max_j |a_jd|
    const double *shift, *scale;           // (D) of the classifier's scaler, or null
    double gamma, coarse, bias;            // engines.rounding.Rounding
    double logs;                           // problem.goals.in_logs
    double span, norm, terms, swing;       // engines.rounding.Lengths
    double row_norm, offset_norm, offset_size; // model.sizes
};

/** Some rows of a table, and what is wanted of them. */
struct FreeRows {
    i64 rows;           // how many
    const i64 *index;   // (rows) which of the table
    const double *X;    // (N, D) sources, or null where Z is given
    const float *X4;    // … in single precision
    i64 pitch;          // from one source to the next
    const double *Z;    // (N, R) sources in class space, with their sizes: bounds on ‖x̄‖ and on their logits' terms
    const double *sizes; // (2, N)
    const double *wanted; // (N) λ, or with `goal` the logit of 1 − p_k that will do for the user
    bool goal, alone; // … ; whether to solve row after row: a vector of rows rounds otherwise, in the last digit
    double tol; // 0: to the last digit
    int max_iter, pairs;
    double *coef, *proba; // (N, R), (N, K)
    double *lam, *distance, *objective, *grad_norm; // (N); the last is a bound
    i64 N;
    i64 *n_iter;         // (N)
    signed char *status; // (N) `problem.status.Status`, or −1 of a row that is left to the method for one
    double *out;         // (N, D) x, or null
    float *out4;
    i64 out_pitch;
};

/** One row with very many classes. */
struct RoundsRow {
    i64 K, k;              // classes, and the target
    const double *G;       // (K, K) inner products of the classes' rows
    const double *margins; // (K) −∞ for the target
    double size, lam;
    const double *window; // (4) `engines.windows.Window`, or null
    i64 few;              // so many rivals one by one at least, and all with this share of their probability
    double share;
    i64 max_iter;
    bool warm;       // whether `state` holds a d to start from
    double *state;   // (3, K): d = q/λ, u = Ḡd, p
    double *numbers; // (5): λ, p_k, −ln p_k, the number of rounds, and whether they settled
};

/** Sums over the classes `first` to `last`, for some points. */
struct Pass {
    i64 K, D, N, first, last;
    const void *A; // (K, D), rows `apart` numbers from each other
    i64 apart;
    int kind;          // bytes of a number of A
    const double *b;   // (K)
    const double *X;   // (N, D)
    const i64 *outside, *outside_at; // classes that are no rivals, in order: those of point n from outside_at[n] to the next
    double nothing;    // a class whose logit is so far from the largest has no weight
    bool single;       // in single precision: logits too
    i64 changes;       // points, the first, of which X is a change and what is summed up that of weights that are known,
    const float *const *known; // … each (K)
    void *logits;      // (N − changes, K), written from first to last
    double *top, *mass; // (N) the largest logit of a rival, Σ e^{z − top}
    double *mean;      // (N, D) Σ e^{z − top} a_j
};

/** Two classes and nothing but intervals (native/intervals.py). */
struct BoxRows {
    i64 N, D;
    const double *X;                // (N, D)
    const i64 *targets;             // (N): a class, or −1 for the one that is not predicted
    const double *logits, *probs;   // (N): where the rival's margin has to be, and the probability that is asked for
    const double *features;         // (13, D) `intervals.FEATURES`
    const double *intercepts;       // (2)
    double length, offset;          // ‖g‖, and what intercepts and a scaler's shifts add to the terms
    double per_term, per_size;      // rounding of a margin, per unit of the terms in it and of the margin at the source
    double logs;                    // problem.goals.in_logs
    bool hard;                      // scores are to be ahead by a margin, and probabilities do not matter
    double *x;                      // (N, D)
    signed char *ended;             // (N): 0 left to others, 1 invalid, 2 reached, 3 out of reach
    double *numbers;                // (N, BOX_NUMBERS), NaN where there are none
};
/** What is found out about such a row; `intervals.COLUMNS`. */
enum { TARGET, P_TARGET, P_RIVAL, LAM, DISTANCE, OBJECTIVE, GRAD_NORM, COST, BOUND, GAP, MULTIPLIER, BEST, BOX_NUMBERS };

/** What may move, for one source (`multiplier_search.Items`), and what is asked of it; kept by whoever hands it over. */
struct SearchItems {
    i64 n, groups, m;                      // features, groups of options, options
    const double *g, *mu, *step, *anchor;  // (n)
    const bool *at_rest;                   // (n)
    const double *og, *oc;                 // (m)
    const bool *moves;                     // (m)
    const i64 *first;                      // (groups + 1)
    const double *lo, *hi;                 // (n)
    double need;
    i64 cap, room; // how many items may move; how many nodes may be kept
};

/** Several constraints on what may move, Σ_d rows_rd t_d + the chosen options' ≥ needs_r; the first `rivals` of them are one:
 *  ln Σ_j exp(needs_j − what row j gains) ≤ 0, or, with a weight, none: so many times the left-hand side are minimised with the cost. */
struct Constraints {
    i64 count, rivals;
    double weight;
    const double *rows, *options; // (count, n), (count, m)
    const double *needs, *slips;  // (count): and by how much each may be missed by rounding
    const bool *equal;            // (count)
    const double *start;          // (count) multipliers to begin with
};

/** Branch and bound with one multiplier for one source; `begin` is called before anything else. */
struct Search {
    enum State { OPEN, DONE, FULL }; // FULL: there is no room for more nodes
    double cost, w;                  // of the best that is known, infinite where nothing is
    i64 solved, count;               // nodes that were solved, and that there are

    virtual ~Search() = default;
    virtual void begin(const SearchItems &) = 0;
    virtual void give_values(const double *, const i64 *) = 0; // values of features at uneven distances, and where each one's begin
    /** Solve so many nodes, or for so many seconds; DONE where nothing is left that could be better. */
    virtual State expand(double rel_gap, i64 nodes, double seconds) = 0;
    virtual double bound() const = 0;
    virtual void answer(double *t, i64 *choice) const = 0; // (n), (groups)
    virtual void record(double *log) const = 0;            // (count, 6) `multiplier_search.LOG`
    virtual void multipliers(double *) const {}            // (count, constraints), where there are several
};

/** The same for N sources. */
struct SearchRows {
    i64 N;
    SearchItems first; // of the first source; what depends on the source is followed by that of the others
    const double *need, *harder; // (N) and by how much that is more than is asked for
    double gap;
    i64 nodes;
    double *t;       // (N, n)
    i64 *choice;     // (N, groups)
    double *numbers; // (N, 5): cost, w, nodes, bound, and whether the search came to its end
};

/** One problem with limits on features one by one (engines/semismooth.py, `Terms`), or a part of the way to its answer. */
struct LimitedProblem {
    int n;
    i64 D;
    const double *B, *margins, *mu, *lo, *hi; // (n, D), (n), (D) each
    double lam, weight, tol;
    int max_iter, most_now; // iterations in all, and in this call
    bool begin;             // from a start of its own, not from ln q
    double *lq;             // (n + 1) in and out
    double *course;         // (5) in and out: `Course`, then iterations and how it ended
    double *t;              // (D)
    bool *free;             // (D)
    double *s, *classes;    // (n), (3, n + 1): q, ln p, p
    double *slope;          // dlogit/d ln λ, or null
};

/** Rows of a table with the same target and limits on features one by one, from sources to certified answers. */
struct LimitedRows {
    i64 M;
    int K, k; // classes, and the target
    i64 D;
    const double *X;  // (N, D) in the user's units
    const i64 *index; // (M) the rows to solve
    const double *A, *b, *shift, *scale, *sizes; // (K, D), (K), (D) each: the classifier; its scaler, or null; `Model.column_sizes`
    const double *B, *mu, *c, *lo, *hi;          // (K − 1, D) in units of cost; (D) each: μ, a unit's cost, limits
    const i64 *way;                              // (D) bits: only rises, only falls, stays
    const double *squares, *terms_length;        // (K − 1) ‖b_j‖² over what may move; ‖(|a_j| + |a_k|)/c‖
    double per_term, per_size, offset;           // of `CostSpace.rounding`
    double sum_error, row_error, largest_b, mu_length; // `summation_error` of D + 2 and K + 3; max|b|; ‖μ‖
    double logs;                                       // problem.goals.in_logs
    const double *lam, *logits, *probs; // (M) λ, or (where it is null) `needed_logit` and the probability
    double tol;
    int max_iter;
    double *x;           // (N, D)
    double *proba;       // (M, K)
    double *numbers;     // (M, 6): λ, distance, objective, ‖ξ‖, cost, gap
    i64 *n_iter;         // (M)
    signed char *ended;  // (M) 0: left, 1: done, 2: the source is the answer
};

struct Rows {
    void (*answer_free)(const FreeTarget &, const FreeRows &);
    void (*project_free)(const FreeTarget &, const FreeRows &, double *z, double *sizes);
    void (*solve_rounds)(const RoundsRow &);
    int (*solve_few)(i64 n, const double *gram, i64 pitch, const double *margins, double lam, double close, bool begin, double *q);
    void (*project_lean)(const float *A, int R, i64 D, const double *x, double *z);
    void (*combine_lean)(const float *A, int R, i64 D, const double *coef, double *change);
    void (*sum_up)(const Pass &);
    void (*solve_box)(const BoxRows &);
    Search *(*open_search)(i64 n, i64 groups, i64 m);
    Search *(*open_constrained)(const SearchItems &, const Constraints &); // begun, and with memory of its own
    void (*search_rows)(const SearchRows &);
    void (*solve_limited_one)(const LimitedProblem &);
    void (*solve_limited)(const LimitedRows &);
};

namespace baseline {
extern const Rows rows;
}
namespace avx2 {
extern const Rows rows;
}
namespace avx512 {
extern const Rows rows;
}

} // namespace ifonly
