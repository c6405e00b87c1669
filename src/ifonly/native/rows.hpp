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

struct Rows {
    void (*solve_free)(const FreeRows &);
    void (*roots)(i64 B, const double *alpha, const double *beta, double *t);
    void (*solve_limited_one)(const LimitedProblem &);
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
