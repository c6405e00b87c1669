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

struct Rows {
    void (*answer_free)(const FreeTarget &, const FreeRows &);
    void (*project_free)(const FreeTarget &, const FreeRows &, double *z, double *sizes);
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
