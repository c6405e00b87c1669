// The entries of the row loops: one table of functions for each set of instructions that they were compiled for.
#pragma once

namespace ifonly {

using i64 = long long;

/** Free rows with the same target. */
struct FreeRows {
    i64 B;
    int n;                 // rivals
    const double *G;       // (n, n) Ḡ
    const double *margins; // (B, n)
    const double *lam;     // (B), without goals
    const double *goals;   // (B, 4) `engines.windows.Window`, or null
    double tol;            // 0: to the last digit
    int max_iter, pairs;
    double *q, *p;    // (B, n)
    double *numbers;  // (5, B): λ, p_k, E, ‖∇E‖, qᵀḠq
    i64 *n_iter;      // (B)
    bool *done;       // (B)
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
    void (*solve_free)(const FreeRows &);
    void (*roots)(i64 B, const double *alpha, const double *beta, double *t);
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
