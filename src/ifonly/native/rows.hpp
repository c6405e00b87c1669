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

/** One row with very many classes. */
struct CrowdRow {
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
    double *logits;    // (N, K), written from first to last
    double *top, *mass; // (N) the largest logit of a rival, Σ e^{z − top}
    double *mean;      // (N, D) Σ e^{z − top} a_j
};

struct Rows {
    void (*solve_free)(const FreeRows &);
    void (*roots)(i64 B, const double *alpha, const double *beta, double *t);
    void (*solve_crowd)(const CrowdRow &);
    void (*sum_up)(const Pass &);
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
