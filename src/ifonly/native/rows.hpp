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

struct Rows {
    void (*solve_free)(const FreeRows &);
    void (*roots)(i64 B, const double *alpha, const double *beta, double *t);
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
