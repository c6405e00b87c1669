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
    void (*answer_free)(const FreeTarget &, const FreeRows &);
    void (*project_free)(const FreeTarget &, const FreeRows &, double *z, double *sizes);
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
